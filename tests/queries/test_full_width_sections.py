"""The demo's pools of 23 and 11 workers are compared by the sections that use all workers.

What the queries say is also computed here, from the records of switches and wakeups alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import duckdb
import pytest
from simulated import simulated_database

from schedlens.ask import judging
from schedlens.ask.findings import Scope
from schedlens.simulate import cases

pytestmark = pytest.mark.slow

# KTHREAD_STATE
WAITING = 5
FAULTY, FIXED = 1, 2
WORKERS = {FAULTY: 23, FIXED: 11}


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The case of the demo as the demo plays it."""
    (case,) = (case for case in cases.CASES if case.name == "critical_path")
    played = [("faulty", case.play()), ("fixed", case.play(fixed=True))]
    with simulated_database(tmp_path_factory.mktemp("demo"), played) as database:
        yield database


def sections(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[tuple[int, int]]:
    """Length and number of workers of each stretch in which a worker ran or was ready."""
    workers = "(SELECT utid FROM thread WHERE regexp_matches(name, '^Worker [0-9]+$'))"
    # At equal times a thread leaves, becomes ready, and enters, in this order. At 0 each thread
    # starts, and waits at once.
    events = con.execute(
        "SELECT ts, 0, prev_utid, prev_state FROM context_switch "
        f"WHERE prev_utid IN {workers} AND trace_id = $1 AND ts > 0 UNION ALL "
        "SELECT ts, 1, utid, 0 FROM wakeup "
        f"WHERE utid IN {workers} AND trace_id = $1 AND ts > 0 UNION ALL "
        "SELECT ts, 2, next_utid, 0 FROM context_switch "
        f"WHERE next_utid IN {workers} AND trace_id = $1 AND ts > 0 ORDER BY ALL",
        [trace_id],
    ).fetchall()
    by_time: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for ts, *event in events:
        by_time[ts].append((event[0], event[1], event[2]))
    runnable: set[int] = set()
    ran: set[int] = set()
    began, found = 0, []
    for ts, at_once in by_time.items():
        if not runnable:
            began, ran = ts, set()
        for kind, utid, state in at_once:
            if kind == 0 and state == WAITING:
                runnable.discard(utid)
            elif kind != 0:
                runnable.add(utid)
            if kind == 2:
                ran.add(utid)
        if not runnable and ts > began:
            found.append((ts - began, len(ran)))
    if runnable:
        (end,) = con.execute(
            "SELECT duration_ns FROM trace WHERE trace_id = $1", [trace_id]
        ).fetchall()[0]
        found.append((end - began, len(ran)))
    return found


def mean(lengths: list[int]) -> int:
    return round(sum(lengths) / len(lengths))


@pytest.mark.parametrize(
    ("trace_id", "all_ns", "full", "full_ns"),
    [(FAULTY, 2_090_037, 260, 10_330_008), (FIXED, 1_744_540, 306, 8_602_870)],
)
def test_sections_of_all_workers_are_counted_apart(
    con: duckdb.DuckDBPyConnection, trace_id: int, all_ns: int, full: int, full_ns: int
) -> None:
    found = con.execute(
        "SELECT threads, sections, section_mean_ns, full_sections, full_section_mean_ns "
        f"FROM worker_pool(p_trace_id := {trace_id}) WHERE pool = 'Worker #'"
    ).fetchall()
    own = sections(con, trace_id)
    whole = [length for length, workers in own if workers == WORKERS[trace_id]]
    computed = (WORKERS[trace_id], len(own), mean([s[0] for s in own]), len(whole), mean(whole))
    assert found == [computed]
    assert computed[2:] == (all_ns, full, full_ns)
    # All others are the runs of the thread that only looks like a worker: 30 us.
    assert {workers for _, workers in own} == {1, WORKERS[trace_id]}


def test_finding_compares_sections_of_all_workers(con: duckdb.DuckDBPyConnection) -> None:
    found = judging.judge_all(Scope(con), only=["oversubscription"]).findings
    (pool,) = (one for one in found if "23 workers" in one.title)
    detail = pool.detail.replace("\xa0", " ")
    assert pool.severity == "warning"
    assert (
        "with 11 threads (fixed) their sections with all workers take 8.6 ms instead of 10.3 ms"
        in detail
    )
    assert "1.74" not in detail
    assert "2.09" not in detail
