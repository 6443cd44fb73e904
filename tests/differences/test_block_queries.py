"""The blocks of a recording add up to what the queries about the whole window return."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from simulated import simulated_database

from schedlens.simulate import cases

MS = 1_000_000

# ms     0   1   2   3   4   5   6   7   8
# cpu 0  A---A---A   .   B---B   .   .   .
# cpu 1  .   B---B   .   .   .   .   .   .      the sibling of cpu 0
# ready              B1--                       B waits for a CPU from 3 to 4
SLICES = [
    Slice("game/A", 0, 0, 2 * MS),
    Slice("game/B", 1, MS, MS, wait=None),
    Slice("other/B", 0, 4 * MS, MS, ready=MS, wait=None, waker="game/A"),
]


@pytest.fixture(scope="module")
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as con:
        DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 0, 1)], 8 * MS)
        yield con


def test_blocks_tile_the_window(drawn: duckdb.DuckDBPyConnection) -> None:
    rows = drawn.execute("FROM time_block(p_blocks := 3)").fetchall()
    # 8 ms are no multiple of 3 ns: 2 ns are left over.
    assert rows == [
        (1, 0, 0, 2_666_666),
        (1, 1, 2_666_666, 2_666_666),
        (1, 2, 5_333_332, 2_666_666),
    ]
    assert len(drawn.execute("FROM time_block").fetchall()) == 120


def test_window_shorter_than_its_blocks_has_none(drawn: duckdb.DuckDBPyConnection) -> None:
    asked = "FROM time_block(p_from_ns := 0, p_to_ns := 100)"
    assert drawn.execute(asked).fetchall() == []


def test_times_are_in_the_block_in_which_they_pass(drawn: duckdb.DuckDBPyConnection) -> None:
    process = drawn.execute(
        "SELECT process, block, run_ns, ready_ns FROM block_process(p_blocks := 4) ORDER BY ALL"
    ).fetchall()
    assert process == [
        ("game", 0, 3 * MS, 0), ("game", 1, 0, 0), ("game", 2, 0, 0), ("game", 3, 0, 0),
        ("other", 0, 0, 0), ("other", 1, 0, MS), ("other", 2, MS, 0), ("other", 3, 0, 0),
    ]  # fmt: skip
    latency = drawn.execute(
        "SELECT process, block, slices, p50_ns, p95_ns FROM block_wakeup_latency(p_blocks := 4) "
        "WHERE process = 'other'"
    ).fetchall()
    assert latency == [("other", 2, 1, MS, MS)]


# ms     0   1   2   3   4   5   6   7   8
# cpu 0  A---A   .   B---A---A---A---A   .      no wakeups: B may be ready from 0 to 3
def test_without_wakeups_a_waiting_process_may_be_ready() -> None:
    slices = [
        Slice("game/A", 0, 0, MS),
        Slice("other/B", 0, 3 * MS, MS),
        Slice("game/A", 0, 4 * MS, 3 * MS),
    ]
    asked = (
        "SELECT process, block, run_ns, ready_ns, ready_high_ns FROM block_process(p_blocks := 2) "
        "ORDER BY ALL"
    )
    with drawn_database() as con:
        DrawnTrace(con, slices, [Cpu(0, 0)], 8 * MS)
        rows = con.execute(asked).fetchall()
    assert rows == [
        ("game", 0, MS, 0, 3 * MS), ("game", 1, 3 * MS, 0, MS),
        ("other", 0, MS, 0, 3 * MS), ("other", 1, 0, 0, 4 * MS),
    ]  # fmt: skip


# ms        0   1   2   3   4   5   6   7   8
# worker 0    1-----------------5               8 iterations: 2 per ms
# worker 1            3---4                     6 iterations; 600 bytes
# blocks    |       |       |       |       |
def test_work_is_spread_over_the_length_of_its_batch() -> None:
    with drawn_database() as con:
        trace = DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 0, 1)], 8 * MS)
        for worker, start, end, iterations, size in ((0, 1, 5, 8, 0), (1, 3, 4, 6, 600)):
            trace.add(
                "run_sample", worker=worker, start_ns=start * MS, end_ns=end * MS, cpu=worker,
                end_cpu=worker, iterations=iterations, bytes=size,
            )  # fmt: skip
        asked = "SELECT block, round(iterations, 6), round(bytes, 6) FROM block_work(p_blocks := 4)"
        assert con.execute(asked).fetchall() == [(0, 2, 0), (1, 10, 600), (2, 2, 0)]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    plays = [(case.name, case.play(seconds=0.6)) for case in cases.CASES]
    with simulated_database(tmp_path_factory.mktemp("blocks"), plays) as con:
        yield con


# 0.6 s is a multiple of 120 blocks: nothing is left over.
SUMS = [
    (
        "SELECT trace_id, sum(busy_ns) FROM block_concurrency GROUP BY 1",
        "SELECT trace_id, sum(busy * ns) FROM concurrency GROUP BY 1",
    ),
    (
        "SELECT trace_id, sum(both_ns), sum(avoidable_ns) FROM block_sharing GROUP BY 1",
        "SELECT s.trace_id, s.both_ns, a.any_type_ns FROM sibling_overlap_total AS s "
        "JOIN avoidable_sharing_total AS a USING (trace_id)",
    ),
    (
        "SELECT trace_id, process, sum(run_ns), sum(ready_ns) FROM block_process GROUP BY ALL",
        "SELECT trace_id, process, sum(run_ns), sum(ready_ns) FROM process_summary GROUP BY ALL",
    ),
    (
        "SELECT trace_id, process, sum(run_e_ns) FROM block_process GROUP BY ALL",
        "SELECT trace_id, process, coalesce(sum(run_ns) FILTER (WHERE core_type = 'E'), 0) "
        "FROM core_type_residency GROUP BY ALL",
    ),
    (
        "SELECT trace_id, obstacle, sum(ready_ns) FROM block_obstacle "
        "WHERE obstacle IN ('all_busy', 'parked_available') GROUP BY ALL HAVING sum(ready_ns) > 0",
        "SELECT * FROM (SELECT trace_id, unnest(['all_busy', 'parked_available']) AS obstacle, "
        "unnest([all_busy_ns, parked_available_ns]) AS ns FROM ready_obstacle_total) WHERE ns > 0",
    ),
    (
        "SELECT trace_id, process, counter, sum(events) FROM block_counter GROUP BY ALL",
        "SELECT d.trace_id, process, counter, sum(delta) FROM counter_delta AS d "
        "JOIN thread_with_process AS w USING (utid) WHERE dur > 0 GROUP BY ALL",
    ),
    (
        "SELECT trace_id, sum(parked_ns) FROM block_power GROUP BY 1",
        "SELECT trace_id, sum(dur) FILTER (WHERE state <> 'unparked') FROM parking_spell "
        "GROUP BY 1",
    ),
]


@pytest.mark.parametrize(("blocks", "whole"), SUMS)
def test_blocks_add_up_to_the_window(
    simulated: duckdb.DuckDBPyConnection, blocks: str, whole: str
) -> None:
    found, expected = (
        sorted((*row[:-1], int(row[-1] or 0)) for row in simulated.execute(sql).fetchall())
        for sql in (blocks, whole)
    )
    assert found == expected
    assert found != []
