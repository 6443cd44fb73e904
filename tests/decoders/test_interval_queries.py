"""Questions about simultaneous events: drawn timelines, exact answers.

A cell is 50 us. Letters are threads by number: 1 and 3 belong to `odd`, 2 and 4 to `even`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import duckdb
import pytest
from grid_schedule import CELL, Schedule, database, fill

from schedlens.load import intervals


def row(text: str) -> list[int | str]:
    """Cells from a drawn line: digits are threads."""
    return [int(cell) if cell.isdigit() else cell for cell in text.replace(" ", "")]


def ready(text: str) -> list[bool]:
    """Cells in which a thread is ready, drawn as `r`."""
    return [cell == "r" for cell in text.replace(" ", "")]


@contextmanager
def answers(plan: Schedule) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the schedule, the intervals, and the queries."""
    with database() as con:
        fill(con, plan)
        intervals.build(con, [1])
        yield con


# Core 0 is CPUs 0 and 1, core 2 is CPUs 2 and 3, core 4 is CPU 4 alone.
OVERLAP = Schedule(
    cpus={
        0: row("1111 1111 ...."),
        1: row("..22 33ii ...."),
        2: row(".... 4444 ...."),
        3: row(".... ??.. xxxx"),
        4: row("3333 .... ...."),
    },
    cores={0: 0, 1: 0, 2: 2, 3: 2, 4: 4},
    types={4: "E"},
    allowed={thread: [(0, frozenset(range(5)))] for thread in (1, 2, 3, 4)},
)


def test_core_counts_known_time_with_two_online_cpus() -> None:
    with answers(OVERLAP) as con:
        found = con.execute(
            "SELECT core, none_ns, one_ns, both_ns, unknown_ns, thread_ns, shared_thread_ns, "
            "none_pct, shared_of_busy_pct FROM sibling_overlap"
        ).fetchall()
    c = CELL
    assert found == [
        (0, 4 * c, 2 * c, 6 * c, 0, 12 * c, 10 * c, pytest.approx(100 / 3), 75.0),
        (2, 4 * c, 2 * c, 0, 2 * c, 2 * c, 0, pytest.approx(200 / 3), 0.0),
    ]


def test_machine_uses_mean_over_cores_and_ratio_of_sums() -> None:
    with answers(OVERLAP) as con:
        [found] = con.execute(
            "SELECT cores, none_pct, one_pct, both_pct, shared_of_busy_pct, shared_of_thread_pct, "
            "thread_ns FROM sibling_overlap_total"
        ).fetchall()
    # Thread time: 12 cells on core 0, 2 known ones on core 2, 4 on core 4.
    assert found == (
        2,
        pytest.approx((100 / 3 + 200 / 3) / 2),
        pytest.approx((100 / 6 + 100 / 3) / 2),
        25.0,
        60.0,
        pytest.approx(100 * 10 / 18),
        18 * CELL,
    )


def test_window_clips_every_share() -> None:
    with answers(OVERLAP) as con:
        ask = f"(p_from_ns := {3 * CELL}, p_to_ns := {5 * CELL})"
        found = con.execute(f"SELECT both_ns FROM sibling_overlap{ask} WHERE core = 0").fetchall()
        pairs = con.execute(f"SELECT tid, other_tid, ns FROM sibling_pair{ask}").fetchall()
    assert found == [(2 * CELL,)]
    assert pairs == [(1, 2, CELL), (1, 3, CELL)]


def test_pairs_and_processes_share_the_same_time() -> None:
    with answers(OVERLAP) as con:
        pairs = con.execute("SELECT tid, other_tid, ns FROM sibling_pair ORDER BY 2").fetchall()
        processes = con.execute(
            "SELECT process, with_itself_ns, with_others_ns, others_ns "
            "FROM sibling_overlap_process ORDER BY 1"
        ).fetchall()
        threads = con.execute(
            "SELECT tid, run_ns, shared_ns FROM sibling_overlap_thread ORDER BY tid"
        ).fetchall()
    c = CELL
    assert pairs == [(1, 2, 2 * c), (1, 3, 2 * c), (1, None, 2 * c)]
    assert processes == [("even", 0, 2 * c, 4 * c), ("odd", 2 * c, 4 * c, 0)]
    assert threads == [
        (1, 8 * c, 6 * c), (2, 2 * c, 2 * c), (3, 6 * c, 2 * c), (4, 4 * c, 0),
    ]  # fmt: skip


# Threads 1 and 2 share core 0 throughout; core 2 is idle for 1 cell, then for 4; core 4 (E)
# for the last 6. Two sharers and two idle cores: one of the two at most can leave core 0.
AVOIDABLE = Schedule(
    cpus={
        0: row("1111 1111 11"),
        1: row("2222 2222 22"),
        2: row("3.33 3... .3"),
        3: row(".... .... .."),
        4: row("4444 .... .."),
    },
    cores={0: 0, 1: 0, 2: 2, 3: 2, 4: 4},
    types={0: "P", 1: "P", 2: "P", 3: "P", 4: "E"},
    allowed={
        1: [(0, frozenset({0, 1, 2, 3}))],
        2: [(0, frozenset({0, 1}))],
        3: [(0, frozenset(range(5)))],
        4: [(0, frozenset({4}))],
    },
)


@pytest.mark.parametrize(("least", "same"), [(0, 5), (100_000, 4), (200_001, 0)])
def test_avoidable_sharing_counts_long_idle_times_of_allowed_cores(least: int, same: int) -> None:
    with answers(AVOIDABLE) as con:
        found = con.execute(
            f"SELECT tid, shared_ns, same_type_ns, any_type_ns, affinity_known "
            f"FROM avoidable_sharing(p_min_idle_ns := {least}) ORDER BY tid"
        ).fetchall()
        [total] = con.execute(
            f"SELECT same_type_ns, any_type_ns, threads_sum_ns, most_at_once "
            f"FROM avoidable_sharing_total(p_min_idle_ns := {least})"
        ).fetchall()
    c = CELL
    assert found == [(1, 10 * c, same * c, same * c, True), (2, 10 * c, 0, 0, True)]
    built = least in (0, 100_000)
    expected = (same * c, same * c, same * c, 1) if built else (None, None, 0, None)
    assert total == expected


def test_cores_of_unknown_types_are_not_of_the_same() -> None:
    with answers(replace(AVOIDABLE, types=dict.fromkeys(range(5)))) as con:
        types = con.execute("SELECT DISTINCT core_type FROM topology").fetchall()
        found = con.execute(
            "SELECT tid, same_type_ns, any_type_ns FROM avoidable_sharing ORDER BY tid"
        ).fetchall()
        totals = con.execute(
            "SELECT same_type_ns, any_type_ns FROM avoidable_sharing_total"
        ).fetchall()
        # Where no thread shared a core, no core of any type could have helped.
        con.execute("UPDATE sharing_slice SET dur = least(dur, 9 * ? - ts)", [CELL])
        unshared = con.execute(
            f"SELECT shared_ns, same_type_ns FROM avoidable_sharing_total(p_from_ns := {9 * CELL})"
        ).fetchall()
    assert types == [(None,)]
    assert unshared == [(0, 0)]
    assert found == [(1, None, 4 * CELL), (2, None, 0)]
    assert totals == [(None, 4 * CELL)]


# Thread 2 is ready from cell 2; CPU 1 is idle for 1 cell, then for 3; it runs on CPU 0 at cell 30,
# and its last 20 cells are within 1 ms of that, but CPU 0 is idle in the last one only.
READY = Schedule(
    cpus={
        0: row("1" * 29 + "." + "2" * 5),
        1: row("3333 . 3333 ..." + "3" * 23),
    },
    cores={0: 0, 1: 1},
    ready={2: ready(".." + "r" * 28 + "." * 5)},
    allowed={2: [(0, frozenset({0, 1}))]},
)


def test_ready_time_gets_the_first_reason_that_applies() -> None:
    with answers(READY) as con:
        names = "ready_ns, idle_exit_ns, idle_available_ns, all_busy_ns"
        [found] = con.execute(f"SELECT {names} FROM ready_obstacle").fetchall()
        [any_length] = con.execute(
            f"SELECT {names}, matched_ns FROM ready_obstacle_total(p_min_idle_ns := 0)"
        ).fetchall()
    c = CELL
    assert found == (28 * c, c, 3 * c, 24 * c)
    assert any_length == (28 * c, c, 4 * c, 23 * c, 4 * c)


def test_worst_wait_names_the_thread_that_ran_instead() -> None:
    with answers(READY) as con:
        found = con.execute(
            "SELECT place, tid, ready_ts, ready_ns, entered_cpu, instead_tid, instead_ns, others, "
            "all_busy_ns FROM worst_waits"
        ).fetchall()
    c = CELL
    assert found == [(1, 2, 2 * c, 28 * c, 0, 1, 27 * c, 1, 24 * c)]


def test_concurrency_histogram_sums_to_busy_cpus() -> None:
    with answers(OVERLAP) as con:
        found = con.execute("SELECT busy, ns, p, e, other, smt FROM concurrency").fetchall()
        alone = con.execute(
            "SELECT running, ns FROM concurrency_process(p_process := 'odd')"
        ).fetchall()
    c = CELL
    assert found == [
        (0, 4 * c, 0, 0, 0, 0),
        (2, 2 * c, 1, 1, 0, 0),
        (3, 6 * c, pytest.approx(10 / 6), pytest.approx(2 / 6), 0, 1),
    ]
    assert alone == [(1, 2 * c), (2, 6 * c)]


# CPU 0: 1 2 1 2, each 4 ms, always switched at the quantum end; the other one is ready.
# CPU 1, allowed to thread 2 only, is idle in the last 8 ms, CPU 2 throughout.
def test_chain_is_serialized_while_an_allowed_cpu_is_idle() -> None:
    slices = 80
    plan = Schedule(
        cpus={
            0: row("1" * slices + "2" * slices + "1" * slices + "2" * slices),
            1: row("3" * 2 * slices + "." * 2 * slices),
            2: row("." * 4 * slices),
        },
        cores={0: 0, 1: 1, 2: 2},
        ready={
            1: ready("." * slices + "r" * slices + "." * slices + "r" * slices),
            2: ready("r" * slices + "." * slices + "r" * slices + "." * slices),
        },
        allowed={1: [(0, frozenset({0}))], 2: [(0, frozenset({0, 1}))], 3: [(0, frozenset({1}))]},
    )
    with database() as con:
        fill(con, plan)
        con.execute(
            "UPDATE sched_slice SET end_reason = 'quantum_end_or_yield', ready_ns = 4000000"
        )
        intervals.build(con, [1])
        found = con.execute(
            "SELECT cpu, ts, dur, hand_offs, slice_ns, threads, serialized_ns, idle_elsewhere_ns, "
            "allowed_cpus, pair_only, yield_possible, affinity_known FROM quantum_end_chain"
        ).fetchall()
    ms = 1_000_000
    assert found == [
        (0, 0, 16 * ms, 3, 4 * ms, ["t1", "t2"], 4 * ms, 16 * ms, [0, 1], True, True, True)
    ]
