"""Scheduling faults created, recorded, and found on the machine that runs the tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from collect_command import collect
from conftest import command, needs_tracing
from new_cgroup import new_cgroup

pytestmark = pytest.mark.alone

Finding = dict[str, Any]
PROGRAM = Path(__file__).parents[1] / "support" / "linux_faults.py"


def lines(text: str) -> list[dict[str, Any]]:
    """One JSON object per line."""
    return [json.loads(line) for line in text.splitlines()]


def asked(folder: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    return lines(command("schedlens", "sql", "--json", str(folder), sql).stdout)


def found(folder: Path, analyzer: str, *asked: str) -> list[Finding]:
    """Records with these arguments and returns the findings of one analyzer."""
    needs_tracing()
    done = collect("-o", str(folder), *asked)
    assert done.returncode == 0, done.stderr
    output = command(
        "analyze", str(folder), "--only", analyzer, "--no-report", "--json", check=False
    )
    assert output.returncode in (0, 1), output.stderr
    findings: list[Finding] = json.loads(output.stdout)["findings"]
    return [finding for finding in findings if finding["analyzer"] == analyzer]


# Two threads on one CPU, each spinning until the other has had its turn: only the clock moves them.
def test_spinning_hand_off_is_a_chain(workload: str, tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("only one CPU: no other could be idle")
    rows = found(
        tmp_path / "s", "quantum_end_chain", "--workload", "spin_handoff", "--cpus", "0,0",
        "--how", "spin", "--threads", "2", "--seconds", "1",
    )  # fmt: skip
    # If no other CPU was idle meanwhile, the chain is not reported.
    assert {row["kind"] for row in rows} <= {"serialized", "no_other_cpu_allowed"}
    rows = asked(
        tmp_path / "s",
        "SELECT hand_offs, len(utids) AS threads, slice_ns FROM quantum_end_chain "
        "ORDER BY hand_offs DESC LIMIT 1",
    )
    (chain,) = rows
    # A second of slices of a few ms each; other programs may split it.
    assert chain["hand_offs"] >= 3
    assert 2 <= chain["threads"] <= 8


def test_reports_more_busy_programs_than_cpus(tmp_path: Path) -> None:
    (first, *_) = found(tmp_path / "s", "concurrency", "--", sys.executable, str(PROGRAM), "crowd")
    assert first["severity"] in ("warning", "critical")
    assert first["kind"] == "all_cpus_busy"
    # Three programs for each CPU: two of them are ready at any time, over most of the window.
    assert first["cost_pct"] >= 30.0


# The same programs with SCHED_IDLE, which take only what nobody else wants.
def test_programs_in_the_background_are_no_crowd(tmp_path: Path) -> None:
    script = (
        "import os, sys; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); "
        "os.execv(sys.executable, sys.argv[1:])"
    )
    rows = found(
        tmp_path / "s", "concurrency", "--", sys.executable, "-c", script, sys.executable,
        str(PROGRAM), "crowd",
    )  # fmt: skip
    # Other programs may crowd the machine, with less ready time than these six.
    (others,) = asked(
        tmp_path / "s",
        "SELECT sum(ready_ns)::BIGINT AS ns FROM thread_summary "
        "WHERE thread IS DISTINCT FROM 'crowd'",
    )
    assert all(row["cost_ns"] <= others["ns"] for row in rows if row["kind"] == "all_cpus_busy")
    known = asked(
        tmp_path / "s",
        "SELECT policy, weight, fair_ready_ns FROM fair_share "
        "LEFT JOIN scheduling_policy USING (utid) WHERE thread = 'crowd'",
    )
    assert len(known) == 3 * (os.cpu_count() or 1)
    assert {(row["policy"], row["weight"]) for row in known} == {("idle", 3)}


def test_starved_program_is_named(tmp_path: Path) -> None:
    said = tmp_path / "said"
    script = f"{sys.executable} {PROGRAM} hog > {said}"
    rows = found(tmp_path / "s", "thread_summary", "--", "sh", "-c", script)
    clocks = [line.split() for line in said.read_text().splitlines()]
    ((passed_ns, ran_ns),) = [
        (int(passed), int(ran)) for name, passed, ran in clocks if name == "starved"
    ]
    (row,) = asked(
        tmp_path / "s",
        "SELECT run_ns, ready_ns, unknown_ns FROM thread_summary WHERE thread = 'starved'",
    )
    # By its own clocks it was ready whenever it did not run. It starts and ends outside the step.
    margin_ns = 50_000_000
    assert ran_ns - 2_000_000 <= row["run_ns"] <= ran_ns + margin_ns
    assert row["ready_ns"] + row["unknown_ns"] >= passed_ns - ran_ns - 2_000_000
    # The weight of nice 19 is 15, that of nice -15 is 29154: its share is a thousandth. Where the
    # hogs are late because of others, it runs until they come.
    if passed_ns - ran_ns < 5 * ran_ns:
        pytest.skip(f"other programs delayed the hogs: it ran {ran_ns / passed_ns:.0%}")
    # A hog lacks half of what the other CPUs had left, and a finding needs a tenth of its time. On
    # a machine whose other CPUs are taken by other sessions, its wait is fair.
    (idle,) = asked(
        tmp_path / "s",
        "SELECT coalesce(max(idle_ns / step_ns), 0) AS share FROM steal "
        f"WHERE cpu <> {min(os.sched_getaffinity(0))}",
    )
    if idle["share"] < 0.4:
        pytest.skip(f"other programs had the other CPUs: idle {idle['share']:.0%}")
    assert any("starved" in row["detail"] or "hog" in row["detail"] for row in rows), rows


def test_reports_more_hand_off_pairs_than_cpus(workload: str, tmp_path: Path) -> None:
    threads = str(8 * len(os.sched_getaffinity(0)))
    (first, *_) = found(
        tmp_path / "s", "concurrency", "--", workload, "run", "queue", "--threads", threads,
        "--depth", "64", "--seconds", "1",
    )  # fmt: skip
    assert first["severity"] in ("warning", "critical")
    assert first["kind"] == "all_cpus_busy"
    assert first["cost_pct"] >= 30.0
    (row,) = asked(
        tmp_path / "s",
        "SELECT count(*) AS threads, sum(run_ns)::BIGINT AS run_ns, "
        "sum(ready_ns)::BIGINT AS ready_ns FROM thread_summary WHERE thread LIKE 'queue-%'",
    )
    assert row["threads"] == int(threads)
    # Four pairs per CPU: while one thread runs, several others could.
    assert row["ready_ns"] >= row["run_ns"]


def stolen() -> int:
    """Time that the host has taken from all CPUs so far, in ns."""
    words = Path("/proc/stat").read_text(encoding="ascii").split()
    return int(words[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_nice_thread_with_its_fair_share_is_not_reported(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("only one CPU: threads bound to one CPU are omitted")
    said = tmp_path / "said"
    script = f"{sys.executable} {PROGRAM} background > {said}"
    stolen_ns = -stolen()
    rows = found(tmp_path / "s", "priority_order", "--", "sh", "-c", script)
    stolen_ns += stolen()
    # Nice 5 runs although nice 0 is ready: its weight, 335 against 1024, entitles it to.
    assert not [row for row in rows if "background" in row["detail"] or "urgent" in row["detail"]]
    (row,) = asked(
        tmp_path / "s",
        "SELECT sum(run_ns)::BIGINT AS all_ns, "
        "sum(higher_ready_ns) FILTER (WHERE priority = 125)::BIGINT AS ready_ns, "
        "(SELECT max(weight) FROM fair_share WHERE thread = 'background') AS weight "
        "FROM background_running WHERE thread = 'background'",
    )
    # Its own clock: all that it ran, from its fork to what it printed.
    clock_ns = int(said.read_text().split()[1])
    # The host takes the CPU away within a slice, and the thread's clock then stands still.
    assert 0.95 * clock_ns - 2_000_000 <= row["all_ns"]
    assert row["all_ns"] <= 1.05 * clock_ns + 2_000_000 + stolen_ns
    assert row["weight"] == 335
    # Only real-time threads preempt it, and they ran briefly.
    assert row["ready_ns"] <= 0.05 * row["all_ns"]


def cgroup(
    quota_us: int, period_us: int, name: str | None = None
) -> contextlib.AbstractContextManager[Path]:
    """A cgroup with a CPU quota; skips if none can be created."""
    return new_cgroup(
        name,
        v1={"cpu.cfs_period_us": period_us, "cpu.cfs_quota_us": quota_us},
        v2={"cpu.max": f"{quota_us} {period_us}"},
    )


def quota_folder() -> Path:
    """Where a test may create a cgroup; skips if it may not."""
    with cgroup(5_000, 100_000) as folder:
        return folder.with_name(f"{folder.name}-step")


def throttled_ns(folder: Path) -> int:
    """Counters of the system now."""
    for line in (folder / "cpu.stat").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(" ")
        if key in ("throttled_time", "throttled_usec"):
            return int(value) * (1000 if key.endswith("usec") else 1)
    raise AssertionError("the system counts no throttling")


# 5 ms of each 100 ms for two busy processes: they are throttled for the rest.
def test_throttled_cgroup_is_found(tmp_path: Path) -> None:
    needs_tracing()
    with cgroup(5_000, 100_000) as folder, contextlib.ExitStack() as stack:
        for _ in range(2):
            words = [sys.executable, str(PROGRAM), "limited", str(folder)]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        before = throttled_ns(folder)
        rows = found(tmp_path / "s", "throttled_cgroup", "--seconds", "1.5")
        most = throttled_ns(folder) - before
        name = folder.name
    (finding,) = rows
    assert finding["severity"] == "critical"
    assert finding["kind"] == "quota"
    assert f"/{name} throttled its threads for" in finding["detail"]
    (row,) = asked(
        tmp_path / "s",
        "SELECT quota_cpus, used_cpus, step_ns, throttled_ns, throttled_periods, threads, "
        f"ready_ns, ready_throttled_ns FROM throttled_cgroup WHERE cgroup LIKE '%/{name}'",
    )
    assert row["quota_cpus"] == pytest.approx(0.05)
    # Version 1 may count the time in another hierarchy, without this cgroup. A CPU takes a slice of
    # the quota at a time, so a period may grant a little more.
    assert row["used_cpus"] is None or row["used_cpus"] <= 0.2
    assert row["threads"] == 2
    # All periods of 100 ms including the edges; the system's counter is the upper bound.
    periods = row["step_ns"] / 100_000_000
    assert 0.6 * periods <= row["throttled_periods"] <= periods + 2
    assert 0.5 * row["step_ns"] <= row["throttled_ns"] <= most
    # The trace shows two threads ready for most of the step, from their first records on. These
    # come late if other programs occupy the CPUs.
    assert row["step_ns"] <= row["ready_ns"] <= 2 * row["step_ns"]
    assert row["ready_throttled_ns"] <= row["ready_ns"]
    assert finding["cost_ns"] == (row["ready_throttled_ns"] or row["throttled_ns"])
    (idle,) = asked(
        tmp_path / "s",
        "SELECT min(idle_ns / step_ns) AS share FROM steal",
    )
    if idle["share"] >= 0.5:
        # If every CPU is busy too, that is the reason.
        assert row["ready_throttled_ns"] >= 0.7 * row["step_ns"]


# The cgroup is created, entered, and in one case removed between the two snapshots.
@pytest.mark.parametrize("fault", ["quota", "quota-gone"])
def test_quota_of_cgroup_entered_during_the_step_is_found(fault: str, tmp_path: Path) -> None:
    needs_tracing()
    group = quota_folder()
    folder = tmp_path / "s"
    try:
        done = collect("-o", str(folder), "--", sys.executable, str(PROGRAM), fault, str(group))
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()
    assert done.returncode == 0, done.stderr
    output = command("analyze", str(folder), "--no-report", "--json", check=False)
    assert output.returncode in (0, 1), output.stderr
    (row,) = asked(
        folder,
        "SELECT quota_cpus, step_ns, is_complete, throttled_ns, throttled_periods, threads "
        f"FROM throttled_cgroup WHERE cgroup LIKE '%/{group.name}'",
    )
    assert row["quota_cpus"] == pytest.approx(0.05)
    assert row["is_complete"] == (fault == "quota")
    assert row["threads"] == 2
    assert row["throttled_periods"] >= 5
    assert 0.3 * row["step_ns"] <= row["throttled_ns"] <= 2.2 * row["step_ns"]
    serious = [
        finding
        for finding in json.loads(output.stdout)["findings"]
        if finding["severity"] in ("critical", "warning")
    ]
    (quota,) = [finding for finding in serious if finding["analyzer"] == "throttled_cgroup"]
    # If other programs have a quota too, the title may name theirs.
    assert quota["severity"] == "critical"
    assert quota["kind"] == "quota"
    # An idle CPU does not help a thread whose quota is used up.
    others = [
        finding["detail"]
        for finding in serious
        if finding["analyzer"] in ("ready_obstacle", "quantum_end_chain")
    ]
    assert not [title for title in others if "limited" in title]


# Two threads may use only CPU 1, and nothing runs on CPU 0.
def test_starvation_by_affinity_is_found(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or shutil.which("taskset") is None:
        pytest.skip("needs two CPUs and taskset")
    spinner = f"{sys.executable} -c 'import time; t = time.time() + 4\nwhile time.time() < t: pass'"
    script = f"taskset -c {cpus[1]} {spinner} & taskset -c {cpus[1]} {spinner} & wait"
    findings = found(tmp_path / "s", "ready_obstacle", "--", "sh", "-c", script)
    (idle,) = asked(
        tmp_path / "s",
        f"SELECT idle_ns / step_ns AS share FROM steal WHERE cpu = {cpus[0]}",
    )
    (row,) = asked(
        tmp_path / "s",
        "SELECT count(*) AS threads, sum(ready_ns)::BIGINT AS ready_ns FROM thread_summary "
        "JOIN affinity USING (utid) WHERE source = 'reading' "
        f"AND affinity.cpus = [{cpus[1]}] AND ready_ns > 1000000000",
    )
    # Each waits while the other runs.
    assert row["threads"] == 2
    if idle["share"] < 0.5:
        pytest.skip(f"other programs kept CPU {cpus[0]} busy: it was idle {idle['share']:.0%}")
    (finding,) = [finding for finding in findings if finding["kind"] == "affinity_wait"]
    assert finding["severity"] == "critical"
    (waited,) = asked(
        tmp_path / "s",
        "SELECT sum(outside_idle_ns)::BIGINT AS ns FROM affinity_wait "
        "JOIN affinity USING (utid) WHERE source = 'reading' "
        f"AND affinity.cpus = [{cpus[1]}] AND ready_ns > 1e9",
    )
    assert 0.4 * row["ready_ns"] <= waited["ns"] <= row["ready_ns"]
    assert finding["cost_ns"] >= waited["ns"]


def schedstat_ns(pid: int) -> int:
    """The CPU time of a process by the kernel's own clock."""
    text = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii")
    return int(text.split()[0])


# A busy process in a cgroup named like a service, and one in a cgroup named like a container's.
def test_services_and_containers_have_the_time_of_their_processes(tmp_path: Path) -> None:
    needs_tracing()
    container = f"{os.getpid():012x}" + "5e" * 26
    names = (f"schedlens-test-{os.getpid()}.service", f"docker-{container}.scope")
    with contextlib.ExitStack() as stack:
        pids = []
        for name in names:
            folder = stack.enter_context(cgroup(100_000, 100_000, name))
            words = [sys.executable, str(PROGRAM), "limited", str(folder)]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            pids.append(process.pid)
        before = [schedstat_ns(pid) for pid in pids]
        found(tmp_path / "s", "concurrency", "--seconds", "1")
        most = [schedstat_ns(pid) - ns for pid, ns in zip(pids, before, strict=True)]

    session = tmp_path / "s"
    service = asked(session, f"FROM group_summary(p_by := 'service') WHERE name = '{names[0]}'")
    inside = asked(
        session, f"FROM group_summary(p_by := 'container') WHERE name = '{container[:12]}'"
    )
    for (row,), limit in zip((service, inside), most, strict=True):
        assert (row["processes"], row["threads"]) == (1, 1)
        # The window is shorter than the time between the two readings of the test.
        assert 200_000_000 <= row["run_ns"] <= limit
    (thread,) = asked(
        session,
        f"SELECT pid, thread, container, run_ns FROM thread_summary(p_process := "
        f"'container:{container[:12]}')",
    )
    assert thread == {
        "pid": pids[1], "thread": "limited", "container": container[:12],
        "run_ns": inside[0]["run_ns"],
    }  # fmt: skip
