"""Affinities, policies and cgroups that change between the two snapshots of a step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import processors
import pytest
from collect_command import collect, read
from conftest import command, needs_tracing

from schedlens.load import session_context, session_file, store
from schedlens.load.recording import Recording
from schedlens.record.linux import snapshot
from schedlens.record.linux.watch import Watch

pytestmark = pytest.mark.alone

SLEEPER = "import sys; print('ready', flush=True); sys.stdin.read()"


def sleeper() -> subprocess.Popen[str]:
    """A process that waits until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def rows_of(pid: int, found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in found["threads"] if row["pid"] == pid]


def test_changed_affinity_applies_only_after_the_change() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("only one CPU: no affinity can be narrower")
    with sleeper() as process:
        begin = snapshot.take("begin")
        watch = Watch(begin)
        with watch:
            time.sleep(1.5)
            before_ns = time.monotonic_ns()
            os.sched_setaffinity(process.pid, {cpus[1]})
            after_ns = time.monotonic_ns()
            time.sleep(3)
        (row,) = rows_of(process.pid, watch.found())
        assert process.stdin is not None
        process.stdin.close()
    assert row["cpus_allowed"] == [cpus[1]]
    assert row["since_mono_ns"] < after_ns
    assert row["mono_ns"] > before_ns
    # All threads in turn: a second or two on a busy machine with a few hundred of them.
    assert row["mono_ns"] - row["since_mono_ns"] < 2_500_000_000


def test_new_process_is_read_with_its_affinity() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    begin = snapshot.take("begin")
    watch = Watch(begin)
    with watch, sleeper() as process:
        os.sched_setaffinity(process.pid, {cpus[0]})
        time.sleep(1)
        assert process.stdin is not None
        process.stdin.close()
    rows = rows_of(process.pid, watch.found())
    assert rows[0]["since_mono_ns"] is None
    assert rows[-1]["cpus_allowed"] == [cpus[0]]


def test_changed_policy_is_read() -> None:
    with sleeper() as process:
        begin = snapshot.take("begin")
        with Watch(begin) as watch:
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        (row,) = rows_of(process.pid, watch.found())
        assert process.stdin is not None
        process.stdin.close()
    assert row["policy"] == "idle"
    (before,) = [known for known in begin["threads"] if known["tid"] == process.pid]
    assert before["policy"] == "other"
    # The affinity of the thread did not change.
    assert row["cpus_allowed"] == before["cpus_allowed"]


# A command ends before all threads had their turn, and only its first 25 ms are missing.
def test_command_that_sets_its_own_affinity_and_policy_is_read(tmp_path: Path) -> None:
    needs_tracing()
    cpu = max(os.sched_getaffinity(0))
    script = (
        "import os, time; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); "
        f"os.sched_setaffinity(0, {{{cpu}}}); "
        "[None for _ in iter(lambda: time.process_time() < 0.2, False)]"
    )
    done = collect("-o", str(tmp_path / "s"), "--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    command("analyze", str(tmp_path / "s"), "--no-report", check=False)
    with store.open_database(tmp_path / "s") as con:
        [(utid, policy)] = con.execute(
            "SELECT utid, policy FROM thread JOIN scheduling_policy USING (utid) WHERE tid = "
            "(SELECT value::BIGINT FROM machine_setting WHERE key = 'command_pid')"
        ).fetchall()
        spells = con.execute(
            "SELECT cpus FROM affinity_spell WHERE utid = ? ORDER BY from_ns", [utid]
        ).fetchall()
    assert policy == "idle"
    assert spells[-1] == ([cpu],)


def test_autogroup_of_new_process_is_read_again() -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel has no autogroups")
    watch = Watch(snapshot.take("begin"))
    with watch:
        # A session of its own, so that nothing else is in its autogroup.
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        try:
            time.sleep(0.1)
            Path(f"/proc/{process.pid}/autogroup").write_text("5", encoding="ascii")
            time.sleep(1)
        finally:
            process.kill()
            process.wait()
    assert watch.found()["autogroups"][str(process.pid)].endswith(" nice 5")


def reading(mono_ns: int, cpus: list[int], since: int | None) -> dict[str, Any]:
    return {"pid": 7, "tid": 7, "mono_ns": mono_ns, "since_mono_ns": since, "cpus_allowed": cpus,
            "cgroup": "/"}  # fmt: skip


@pytest.mark.parametrize(
    ("readings", "wanted"),
    [
        # Between two readings, only the CPUs in both are certain.
        ([reading(50, [1], 40)], [(None, [0, 1]), (40, [1])]),
        ([reading(50, [0, 1, 2], 40)], [(None, [0, 1]), (50, [0, 1, 2])]),
        ([reading(50, [1, 2], 40)], [(None, [0, 1]), (40, [1]), (50, [1, 2])]),
        ([reading(50, [2], 40)], [(None, [0, 1]), (50, [2])]),
        ([reading(50, [0, 1], 40)], [(None, [0, 1])]),
    ],
)
def test_affinity_between_two_readings_is_their_intersection(
    readings: list[dict[str, Any]], wanted: list[tuple[int | None, list[int]]]
) -> None:
    thread = {"pid": 7, "tid": 7, "cpus_allowed": [0, 1], "cgroup": "/"}
    last = {**thread, "cpus_allowed": readings[-1]["cpus_allowed"]}
    recording = Recording(
        "r",
        None,
        edges={
            "begin": {"mono_ns": 10, "threads": [thread], "cpus": [], "cgroups": []},
            "end": {"mono_ns": 90, "threads": [last], "cpus": [], "cgroups": []},
        },
        watch={"threads": readings, "cgroups": []},
    )
    rows = list(session_context._affinity(recording))
    assert [(row["valid_from_ns"], row["cpus"]) for row in rows] == wanted


def test_policies_are_one_row_per_change() -> None:
    thread = {"pid": 7, "tid": 7, "cpus_allowed": [0], "cgroup": "/"}
    recording = Recording(
        "r",
        None,
        edges={
            # Sessions of older versions have no policies.
            "begin": {"mono_ns": 10, "threads": [thread], "cpus": [], "cgroups": []},
            "end": {"mono_ns": 90, "threads": [{**thread, "policy": "idle"}]},
        },
        watch={
            "threads": [
                {**thread, "mono_ns": 20, "since_mono_ns": 10, "policy": "other"},
                {**thread, "mono_ns": 30, "since_mono_ns": 20, "policy": "other"},
                {**thread, "mono_ns": 40, "since_mono_ns": 30, "policy": "idle"},
            ],
            "cgroups": [],
        },
    )
    assert session_context._thread_policies(recording) == [
        {"ts": 20, "tid": 7, "policy": "other"},
        {"ts": 40, "tid": 7, "policy": "idle"},
    ]


def test_snapshots_record_which_cpus_are_online_and_all_cgroups() -> None:
    taken = snapshot.take("begin")
    text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii")
    from schedlens.machine import cpu_list

    assert taken["online"] == cpu_list.parse(text.strip())
    assert "/" in [row["cgroup"] for row in taken["cgroups"]]
    assert all(row["mono_ns"] <= taken["mono_ns"] for row in taken["threads"])


def test_cpu_that_goes_offline_in_the_step_is_recorded(tmp_path: Path) -> None:
    needs_tracing()
    switch = Path("/sys/devices/system/cpu/cpu1/online")
    if not os.access(switch, os.W_OK) or not Path("/sys/kernel/tracing/events/cpuhp").is_dir():
        pytest.skip("no CPU can be taken offline here")
    script = f"echo 0 > {switch}; sleep 0.2; echo 1 > {switch}; sleep 0.1; echo 0 > {switch}"
    with processors.taken_offline(switch):
        done = collect("-o", str(tmp_path / "s"), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    (step,) = (tmp_path / "s").glob("*/step.json")
    edges = [read(step.parent / f"{edge}.json")["online"] for edge in ("begin", "end")]
    assert edges[0] == [*edges[1][:1], 1, *edges[1][1:]]
    text = subprocess.run(
        ["perf", "script", "-F", "event", "-i", str(step.parent / "perf.data")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "cpuhp:cpuhp_enter" in text
    assert "cpuhp:cpuhp_exit" in text
    recording = Recording(
        "r",
        None,
        topology=session_file.read(tmp_path / "s/session.json").topology,
        edges={edge: read(step.parent / f"{edge}.json") for edge in ("begin", "end")},
    )
    rows = [row for row in session_context._cpus(recording) if row["cpu"] == 1]
    end_ns = read(step.parent / "end.json")["mono_ns"]
    assert [(row["online"], row["valid_from_ns"]) for row in rows] == [
        (True, None),
        (False, end_ns),
    ]


def test_cgroup_created_in_the_step_counts_from_zero() -> None:
    def row(name: str, throttled: int, **more: object) -> dict[str, Any]:
        return {"cgroup": name, "usage_ns": throttled, "throttled_ns": throttled,
                "nr_throttled": 1, "quota_ns": None, "period_ns": None, **more}  # fmt: skip

    edges = {
        "begin": {"mono_ns": 10, "online": [0], "threads": [], "cpus": [],
                  "cgroups": [row("/", 5)]},
        "end": {"mono_ns": 90, "online": [0], "threads": [], "cpus": [],
                "cgroups": [row("/", 6), row("/new", 7)]},
    }  # fmt: skip
    watch = {
        "threads": [],
        "cgroups": [row("/", 6, mono_ns=80, ended=False), row("/gone", 8, mono_ns=70, ended=True)],
    }
    rows = session_context._cgroups_between(Recording("r", None, edges=edges, watch=watch))
    assert [(r["cgroup"], r["edge"], r["ts"], r["throttled_ns"]) for r in rows] == [
        ("/gone", "last", 70, 8),
        ("/gone", "begin", 10, 0),
        ("/new", "begin", 10, 0),
    ]
    # A session of an older version lists cgroups with threads alone.
    del edges["begin"]["online"]
    assert session_context._cgroups_between(Recording("r", None, edges=edges)) == []
