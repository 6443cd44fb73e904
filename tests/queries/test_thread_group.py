"""These readings of cgroups: the container, pod and service of each thread, and views by group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from conftest import command
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from fixture_files import fixture
from simulated import simulated_database

from schedlens.ask import catalog
from schedlens.machine import process_groups
from schedlens.simulate import cases

MS = 1_000_000
ID = "3f" * 32
POD = "4aa5a9d0-6d0b-4a8e-9f0e-1c2d3e4f5a6b"
UNDERLINED = POD.replace("-", "_")

# ms    0  1  2  3  4  5  6
# cpu 0 A  A  .  a  A  A  .     A moves from nginx into a container at 5; ready at a
# cpu 1 B  B  B  B  .  .  .     B is in postgres
# cpu 2 C  .  .  .  .  .  .     C was never read
SLICES = [
    Slice("web/A", 0, 0, 2 * MS),
    Slice("web/A", 0, 4 * MS, 2 * MS, ready=MS, wait=MS),
    Slice("db/B", 1, 0, 4 * MS),
    Slice("short/C", 2, 0, MS),
]


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0), Cpu(1, 0, 1), Cpu(2, 2)], 10 * MS)
        a, b = drawn.utid("web/A"), drawn.utid("db/B")
        nginx, docker = "/system.slice/nginx.service", f"/system.slice/docker-{ID}.scope"
        for ts, utid, cgroup in (
            (1, a, nginx), (2 * MS, a, nginx), (5 * MS, a, docker),
            (0, b, "/system.slice/postgres.service"),
        ):  # fmt: skip
            drawn.add("thread_cgroup", ts=ts, utid=utid, tid=1, cgroup=cgroup,
                      source="reading")  # fmt: skip
        drawn.add("sharing_slice", utid=a, cpu=0, ts=0, dur=2 * MS, affinity_known=True)
        drawn.add("sharing_slice", utid=b, cpu=1, ts=0, dur=2 * MS, affinity_known=True)
        drawn.add("ready_slice", utid=a, ts=3 * MS, dur=MS, ready_ts=3 * MS, throttled=True,
                  cgroup_throttled=False, idle_exit=False, unknown_available=False,
                  affinity_known=True)  # fmt: skip
        yield drawn


def group(con: duckdb.DuckDBPyConnection, cgroup: str) -> tuple[object, ...]:
    """Container, runtime, pod and service of a thread in this cgroup."""
    con.execute("UPDATE thread_cgroup SET cgroup = ?", [cgroup])
    (row,) = con.execute(
        "SELECT DISTINCT container, runtime, pod, service FROM thread_group "
        "WHERE cgroup IS NOT NULL"
    ).fetchall()
    return tuple(row)


@pytest.mark.parametrize(
    ("cgroup", "container", "runtime", "pod", "service"),
    [
        (f"/system.slice/docker-{ID}.scope", ID[:12], "docker", None, f"docker-{ID}.scope"),
        (f"/docker/{ID}", ID[:12], "docker", None, None),
        (f"/machine.slice/libpod-{ID}.scope", ID[:12], "podman", None, f"libpod-{ID}.scope"),
        (f"/machine.slice/libpod-{ID}.scope/container", ID[:12], "podman", None,
         f"libpod-{ID}.scope"),
        # podman's monitor is outside of the container.
        (f"/machine.slice/libpod-conmon-{ID}.scope", None, None, None, f"libpod-conmon-{ID}.scope"),
        (f"/kubepods/burstable/pod{POD}/{ID}", ID[:12], "kubernetes", POD, None),
        (f"/kubepods/pod{POD}/{ID}", ID[:12], "kubernetes", POD, None),
        (f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERLINED}.slice/"
         f"cri-containerd-{ID}.scope", ID[:12], "containerd", POD, f"cri-containerd-{ID}.scope"),
        (f"/kubepods.slice/kubepods-pod{UNDERLINED}.slice/crio-{ID}.scope", ID[:12], "cri-o", POD,
         f"crio-{ID}.scope"),
        (f"/kubepods.slice/kubepods-pod{UNDERLINED}.slice", None, None, POD, None),
        (f"/system.slice/containerd.service/kubepods-pod{UNDERLINED}.slice:cri-containerd:{ID}",
         ID[:12], "containerd", POD, "containerd.service"),
        ("/lxc.payload.mail/system.slice/cron.service", "mail", "machine", None, "cron.service"),
        ("/machine.slice/machine-vm1.scope", "vm1", "machine", None, "machine-vm1.scope"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-game.scope", None, None,
         None, "app-game.scope"),
        ("/system.slice/nginx.service", None, None, None, "nginx.service"),
        ("/system.slice/nginx.service/workers", None, None, None, "nginx.service"),
        ("/user.slice", None, None, None, None),
        ("/", None, None, None, None),
    ],
)  # fmt: skip
def test_path_names_container_pod_and_service(
    trace: DrawnTrace,
    cgroup: str,
    container: str | None,
    runtime: str | None,
    pod: str | None,
    service: str | None,
) -> None:
    assert group(trace.con, cgroup) == (container, runtime, pod, service)
    # `collect` finds processes by the same rules, without a database.
    named = [process_groups.name_of(kind, cgroup) for kind in ("container", "pod", "service")]
    assert named == [container, pod, service]


def test_reading_applies_until_the_next_and_unread_threads_have_a_reason(
    trace: DrawnTrace,
) -> None:
    rows = trace.con.execute(
        "SELECT thread.name, nullif(from_ns, -9223372036854775807), service, reason IS NOT NULL "
        "FROM thread_group JOIN thread USING (utid) ORDER BY thread.name, from_ns"
    ).fetchall()
    assert rows == [
        ("A", None, "nginx.service", False), ("A", 5 * MS, f"docker-{ID}.scope", False),
        ("B", None, "postgres.service", False), ("C", None, None, True),
    ]  # fmt: skip


def test_before_a_first_move_the_cgroup_is_unknown(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE thread_cgroup SET source = 'move' WHERE ts = 1")
    rows = trace.con.execute(
        "SELECT nullif(from_ns, -9223372036854775807), to_ns, service, reason FROM thread_group "
        "JOIN thread USING (utid) WHERE thread.name = 'A' ORDER BY from_ns LIMIT 2"
    ).fetchall()
    assert rows == [
        (None, 1, None, "before the first record of its cgroup, which is a move"),
        (1, 5 * MS, "nginx.service", None),
    ]


def test_recording_without_readings_says_so(trace: DrawnTrace) -> None:
    trace.con.execute("DELETE FROM thread_cgroup")
    reasons = trace.con.execute("SELECT DISTINCT cgroup, reason FROM thread_group").fetchall()
    assert reasons == [(None, "the recording has no readings of cgroups: record with collect")]
    assert trace.con.execute("FROM group_summary").fetchall() == []


@pytest.mark.parametrize(
    ("wanted", "threads"),
    [
        ("service:nginx", ["A"]), ("service:nginx.service", ["A"]), ("service:ngin", []),
        ("container:3f3f", ["A"]), (f"container:{ID}", ["A"]), ("container:3f", []),
        ("cgroup:/system.slice", ["A", "B"]), ("cgroup:/system", []), ("cgroup:/", ["A", "B"]),
        ("pod:x", []), ("web", ["A"]), (None, ["A", "B", "C"]),
    ],
)  # fmt: skip
def test_parameter_takes_groups(trace: DrawnTrace, wanted: str | None, threads: list[str]) -> None:
    rows = trace.con.execute(
        "SELECT thread FROM thread_with_process(p_process := $1) ORDER BY thread", [wanted]
    ).fetchall()
    assert [name for (name,) in rows] == threads
    chosen = process_groups.parsed(wanted or "")
    if chosen is not None:
        readings = trace.con.execute(
            "SELECT thread.name, cgroup FROM thread_cgroup JOIN thread USING (utid)"
        ).fetchall()
        assert sorted({name for name, path in readings if chosen.contains(path)}) == threads


def test_time_of_a_thread_that_moves_is_divided(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT name, processes, threads, run_ns / 1e6, ready_ns / 1e6, throttled_ns / 1e6, "
        "shared_ns / 1e6 FROM group_summary(p_by := 'service')"
    ).fetchall()
    assert rows == [
        ("postgres.service", 1, 1, 4, 0, 0, 2), ("nginx.service", 1, 1, 3, 1, 1, 2),
        (f"docker-{ID}.scope", 1, 1, 1, 0, 0, 0), (None, 1, 1, 1, 0, 0, 0),
    ]  # fmt: skip
    ran = trace.con.execute("SELECT sum(run_ns) FROM thread_summary").fetchall()
    assert trace.con.execute("SELECT sum(run_ns) FROM group_summary").fetchall() == ran


def test_summaries_show_the_last_group(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT process, container, service FROM process_summary ORDER BY process"
    ).fetchall()
    assert rows == [
        ("db", None, "postgres.service"), ("short", None, None),
        ("web", ID[:12], f"docker-{ID}.scope"),
    ]  # fmt: skip
    early = trace.con.execute("SELECT service FROM thread_summary(p_to_ns := 4000000) ORDER BY tid")
    assert ("nginx.service",) in early.fetchall()


@pytest.mark.slow
def test_every_query_takes_a_group_like_a_process(tmp_path: Path) -> None:
    case = cases.CASES[1].play(seconds=0.4)
    with simulated_database(tmp_path, [("run", case)]) as con:
        con.execute(
            "INSERT INTO thread_cgroup SELECT t.trace_id, 0, t.utid, t.tid, "
            "'/system.slice/game.service', 'reading' "
            "FROM thread AS t JOIN process AS p USING (upid) WHERE p.name = 'game.exe'"
        )
        asked = [
            query
            for query in catalog.load_all()
            if any(parameter.name == "p_process" for parameter in query.parameters)
        ]
        assert len(asked) > 40
        unequal = []
        for query in asked:
            name = f"{query.full_name}(p_process := ?)"
            by_name = con.execute(f"FROM {name}", ["game.exe"]).fetchall()
            by_group = con.execute(f"FROM {name}", ["service:game"]).fetchall()
            # smt_comparison and the blocks name what they were asked for.
            if str(by_group).replace("service:game", "game.exe") != str(by_name):
                unequal.append(query.full_name)
        assert unequal == []


def test_unknown_group_is_one_line(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = fixture("plain", tmp_path_factory)
    done = command(
        "analyze", str(data), "--process", "service:nginx", "-o", str(tmp_path), check=False
    )
    assert done.returncode == 2
    assert "no group named 'service:nginx'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
