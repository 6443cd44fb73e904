"""Threads that wait for their own CPU while another one is idle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database, judge_ready
from judged import judged, outcome, plain

MS = 1_000_000

# ms      0    10   20   30   40
# cpu 1   AAAAABBBBBAAAAABBBBB      CPU 0 is idle; both may use only CPU 1
SLICES = [
    Slice("game/A", 1, 0, 10 * MS, end="preempted"),
    Slice("game/B", 1, 10 * MS, 10 * MS, ready=10 * MS, wait=0, end="preempted"),
    Slice("game/A", 1, 20 * MS, 10 * MS, ready=10 * MS, wait=0, end="preempted"),
    Slice("game/B", 1, 30 * MS, 10 * MS, ready=10 * MS, wait=0, end="trace_end"),
]


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as con:
        drawn = DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 1)], 40 * MS)
        # B is woken while A runs.
        drawn.add("wakeup", ts=0, cpu=0, seq=0, utid=drawn.utid("game/B"), kind="waking",
                  effective=True)  # fmt: skip
        for name, begins in (("game/A", (10,)), ("game/B", (0, 20))):
            utid = drawn.utid(name)
            drawn.add("affinity", utid=utid, cpus=[1], source="reading")
            for ts in begins:
                # In the last 2 ms of each wait CPU 0 is busy.
                for at, ms, idle in ((0, 8, 40 * MS), (8, 2, None)):
                    drawn.add("ready_slice", utid=utid, ts=(ts + at) * MS, dur=ms * MS,
                              ready_ts=ts * MS, entered_cpu=1, throttled=False,
                              cgroup_throttled=False, idle_exit=False, unknown_available=False,
                              affinity_known=True, outside_idle_ns=idle)  # fmt: skip
        yield drawn


def test_counts_ready_time_with_idle_cpu_outside_affinity(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT thread, cpus, ready_ns, outside_idle_ns FROM affinity_wait"
    ).fetchall()
    assert rows == [("B", [1], 20 * MS, 16 * MS), ("A", [1], 10 * MS, 8 * MS)]
    rows = trace.con.execute(
        "SELECT thread, outside_idle_ns FROM affinity_wait(p_from_ns := 0, p_to_ns := 5000000)"
    ).fetchall()
    assert rows == [("B", 5 * MS)]


def test_affinity_that_starves_threads_is_critical(trace: DrawnTrace) -> None:
    (found,) = judged(trace.con, "ready_obstacle")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("critical", 24 * MS, 60.0)
    assert found.kind == "affinity_wait"
    assert plain(found.title) == "Affinity kept threads waiting 24 ms while CPUs were idle"
    assert "affinity kept 2 threads waiting 24 ms while another CPU was idle; B (" in (
        plain(found.detail)
    )
    assert "was ready for 16 ms and may run only on CPU 1 (set before the recording)." in (
        plain(found.detail)
    )


def test_the_thread_that_set_the_affinity_is_named(trace: DrawnTrace) -> None:
    setter, bound = trace.utid("game/A"), trace.utid("game/B")
    trace.add("affinity_change", ts=3 * MS, cpu=0, utid=bound, cpus=[1], setter_utid=setter)
    (found,) = judged(trace.con, "ready_obstacle")
    (tid,) = trace.con.execute("SELECT tid FROM thread WHERE utid = ?", [setter]).fetchall()[0]
    assert f"may run only on CPU 1 (set by A ({tid}) of game at 3 ms)." in plain(found.detail)


@pytest.mark.parametrize(
    "change",
    [
        # Per-CPU threads of the kernel are bound by design.
        "UPDATE thread SET name = 'kworker/1:2'",
        # No thread was outside.
        "UPDATE ready_slice SET outside_idle_ns = 50000",
    ],
)
def test_affinity_by_design_and_short_idle_times_are_not_reported(
    change: str, trace: DrawnTrace
) -> None:
    trace.con.execute(change)
    judge_ready(trace.con)
    assert outcome(trace.con, "ready_obstacle").conclusion == "clean"


def test_program_that_names_a_thread_like_the_kernel_is_reported(trace: DrawnTrace) -> None:
    # The kernel would have bound them to CPU 2.
    trace.con.execute("UPDATE thread SET name = 'pool/2' WHERE NOT is_idle")
    rows = trace.con.execute("SELECT thread, cpus FROM affinity_wait").fetchall()
    assert rows == [("pool/2", [1]), ("pool/2", [1])]


def test_workload_pinned_by_its_plan_is_not_reported(trace: DrawnTrace) -> None:
    for number, name in enumerate(("game/A", "game/B")):
        trace.add("run_worker", worker=number, utid=trace.utid(name), tid=number, cpu=1,
                  start_ns=0, end_ns=40 * MS, cpu_time_ns=1, iterations=1, bytes=0)  # fmt: skip
    assert outcome(trace.con, "ready_obstacle").conclusion == "clean"
