"""Workers and other threads: who disturbed the step, for how long, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, add, drawn_database
from judged import outcome, plain
from stored_states import store

from schedlens.ask import judging
from schedlens.ask.findings import Finding, Scope

MS = 1_000_000
CPUS = [Cpu(0, 0), Cpu(1, 1), Cpu(2, 2)]

# ms     0    10   20   30   40   50   60   70   80   90   100
# cpu 0  W0 W0 W0 W0 W0  X   W0 W0 W0 W0 W0 W0 W0 W0 W0        X from 40 to 45
# cpu 1  W1 W1 W1 W1 W1 W1 W1 W1 W1 W1 W1 W1 W1 W1 M  Y  W1    M of the workload at 90, Y at 92
# cpu 2  X  X  X                                               no worker there
SLICES = [
    Slice("work/W0", 0, 0, 40 * MS, end="preempted"),
    Slice("other/X", 0, 40 * MS, 5 * MS, ready=2 * MS),
    Slice("work/W0", 0, 45 * MS, 55 * MS, ready=5 * MS, wait=0),
    Slice("work/W1", 1, 0, 90 * MS, end="preempted"),
    Slice("work/M", 1, 90 * MS, 2 * MS, ready=20 * MS),
    Slice("other/Y", 1, 92 * MS, MS, ready=18 * MS),
    Slice("work/W1", 1, 93 * MS, 7 * MS, ready=3 * MS, wait=0),
    Slice("other/X", 2, 0, 30 * MS),
]


def _draw(
    con: duckdb.DuckDBPyConnection, trace_id: int = 1, *, threads: int = 2, **run: object
) -> DrawnTrace:
    trace = DrawnTrace(con, SLICES, CPUS, 100 * MS, trace_id=trace_id)
    _add_run(trace, trace_id, threads=threads, **run)
    return trace


def _add_run(trace: DrawnTrace, trace_id: int = 1, *, threads: int = 2, **run: object) -> None:
    trace.add("run", **{"step": f"step-{trace_id}", "workload": "sha256", "placement": "default",
              "placements": ["default"], "threads": threads, "repeat": trace_id, "status": "ok",
              "recorded": True, "oversubscribed": False} | run)  # fmt: skip
    for worker in range(2):
        trace.add("run_worker", worker=worker, utid=trace.utid(f"work/W{worker}"), tid=worker,
                  start_ns=0, end_ns=100 * MS, cpu_time_ns=96 * MS, iterations=960,
                  bytes=0)  # fmt: skip


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def _judge(con: duckdb.DuckDBPyConnection, name: str) -> list[Finding]:
    return judging.judge_all(Scope(con), only=[name]).findings


def test_lists_other_threads_on_worker_cpus(con: duckdb.DuckDBPyConnection) -> None:
    trace = _draw(con)
    rows = con.execute(
        "SELECT cpus, other_ns, other_pct, other_threads, other_process, other_thread, "
        "other_utid, longest_ns, steal_pct, stalled_pct, is_disturbed FROM step_disturbance"
    ).fetchall()
    # 6 ms of 2 CPUs in 100 ms; X on CPU 2 disturbs no worker, and M belongs to the workload.
    assert rows == [
        (2, 6 * MS, 3.0, 2, "other", "X", trace.utid("other/X"), 5 * MS, None, None, True)
    ]
    narrow = con.execute(
        f"SELECT other_ns, other_pct, is_disturbed FROM step_disturbance(p_from_ns := {50 * MS}, "
        f"p_to_ns := {100 * MS})"
    ).fetchall()
    assert narrow == [(MS, 1.0, False)]


def test_busy_sibling_of_a_worker_is_a_disturbance() -> None:
    # CPU 2 is the sibling of CPU 0; Z runs there for 1.9 and for 2 of 100 ms. CPU 1 has no sibling.
    for busy_ns, expected in ((1_900_000, False), (2 * MS, True)):
        slices = [
            Slice("work/W0", 0, 0, 100 * MS),
            Slice("work/W1", 1, 0, 100 * MS),
            Slice("other/Z", 2, 10 * MS, busy_ns),
        ]
        with drawn_database() as con:
            trace = DrawnTrace(con, slices, [Cpu(0, 0), Cpu(1, 1), Cpu(2, 0)], 100 * MS)
            _add_run(trace)
            rows = con.execute(
                "SELECT cpus, other_ns, sibling_ns, sibling_pct, is_disturbed FROM step_disturbance"
            ).fetchall()
        assert rows == [(2, 0, busy_ns, pytest.approx(busy_ns / MS), expected)]


def test_without_siblings_there_is_no_time_of_a_sibling(con: duckdb.DuckDBPyConnection) -> None:
    _draw(con)
    rows = con.execute("SELECT sibling_ns, sibling_pct FROM step_disturbance").fetchall()
    assert rows == [(None, None)]


def test_missing_work_despite_running_is_reported(con: duckdb.DuckDBPyConnection) -> None:
    _draw(con)
    # 960 iterations in 100 ms, of which 96 ms on a CPU; batches at 20 000 per second mean 1920.
    for worker in range(2):
        add(con, "run_sample", trace_id=1, worker=worker, start_ns=0, end_ns=MS, cpu=worker,
            end_cpu=worker, iterations=20, bytes=0)  # fmt: skip
    stalled = con.execute("SELECT stalled_pct FROM step_disturbance").fetchone()
    assert stalled == pytest.approx((50.0,))
    assert "stalled_steps" in [f.kind for f in _judge(con, "scaling_curve")]


def test_disturbed_repeats_are_excluded_from_the_curve(con: duckdb.DuckDBPyConnection) -> None:
    for trace_id in (1, 2, 3):
        _draw(con, trace_id)
    store(con)
    con.execute(f"UPDATE run_worker SET iterations = 1000 WHERE trace_id = 3;"
                f"DELETE FROM cpu_state WHERE trace_id = 3 AND utid IN ({3 << 32 | 2}, "
                f"(SELECT utid FROM thread WHERE trace_id = 3 AND name = 'X'))")  # fmt: skip
    rows = con.execute(
        "SELECT repeats, left_out, is_disturbed, per_s FROM scaling_curve"
    ).fetchall()
    assert rows == [(1, 2, False, 20_000.0)]
    con.execute("UPDATE run SET threads = 1 WHERE trace_id = 3")
    rows = con.execute(
        "SELECT threads, repeats, left_out, is_disturbed FROM scaling_curve ORDER BY threads"
    ).fetchall()
    assert rows == [(1, 1, 0, False), (2, 2, 0, True)]


def test_disturbing_thread_is_named_with_its_time(con: duckdb.DuckDBPyConnection) -> None:
    trace = _draw(con)
    found = [f for f in _judge(con, "scaling_curve") if f.trace_id == 1]
    assert [(f.severity, f.cost_ns, f.cost_pct, f.utid) for f in found] == [
        ("info", 6 * MS, 3.0, trace.utid("other/X"))
    ]
    assert found[0].kind == "disturbed_step"
    assert plain(found[0].detail) == (
        "In step-1, other programs ran for 6 ms (3 %) on the workers' CPUs; "
        f"X ({trace.tid('other/X')}) of other ran longest, 5 ms."
    )


def test_own_threads_of_a_workload_are_not_judged_one_by_one(
    con: duckdb.DuckDBPyConnection,
) -> None:
    _draw(con)
    _draw(con, 2)
    # M of the workload was ready for 20 ms; Y for 18 ms meanwhile, in both steps. In these
    # 18 ms W0, W1, M, and Y share 3 CPUs: a fair share costs each a quarter of them.
    fair = 18 * MS // 4
    found = _judge(con, "thread_summary")
    assert [(f.severity, f.cost_ns) for f in found] == [("info", 18 * MS - fair)]
    assert found[0].detail.startswith("In drawn-1, ")
    assert found[0].detail.endswith("There is 1 more like it.")
    con.execute("DELETE FROM run_worker; DELETE FROM run")
    # All threads are known to share as one group.
    con.execute("INSERT INTO machine_setting SELECT trace_id, 'autogroup', '0' FROM trace")
    found = _judge(con, "thread_summary")
    # W0 was ready for 5 ms, 0.5 ms beyond its share.
    assert [(f.severity, f.cost_ns) for f in found] == [
        ("warning", 20 * MS - fair), ("warning", 18 * MS - fair),
    ]  # fmt: skip


def test_planned_oversubscription_is_no_finding(con: duckdb.DuckDBPyConnection) -> None:
    # Two of the four workers never ran.
    _draw(con, 1, threads=4, oversubscribed=True)
    _draw(con, 2, threads=4, oversubscribed=True)
    assert _judge(con, "concurrency") == []
    # W0 is ready for 5 ms and W1 for 3: 8 of 400 ms; the waits of M and others are not theirs.
    assert plain(outcome(con, "concurrency").reason).endswith(
        " 2 steps had more workers than CPUs, as planned: in step-1, 4 workers on 3 CPUs were "
        "ready for 8 ms in total, 2 % of their time."
    )


def test_lists_workload_threads(con: duckdb.DuckDBPyConnection) -> None:
    trace = _draw(con)
    rows = con.execute("SELECT utid, is_worker, is_oversubscribed FROM workload_thread").fetchall()
    assert sorted(rows) == sorted(
        (trace.utid(f"work/{name}"), name != "M", False) for name in ("W0", "W1", "M")
    )
