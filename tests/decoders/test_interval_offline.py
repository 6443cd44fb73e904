"""A CPU that goes offline and returns is neither idle nor unknown, and in no denominator.

A cell is 50 us: `x` is offline, `.` idle, digits are threads, `r` is ready.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from decoders.test_interval_queries import answers, ready, row
from grid_schedule import CELL, Schedule

# Core 0 has the CPUs 0 and 1, core 2 the CPUs 2 and 3. CPU 1 runs thread 2, is offline in the cells
# 4..15 and runs thread 2 again; CPU 3 is offline in the cells 8..11. Thread 5 is ready from 2 on
# and may use the CPUs 1 and 3 only.
PLAN = Schedule(
    cpus={
        0: row("1111 1111 1111 1111 1111"),
        1: row("22.. xxxx xxxx xxxx 22.."),
        2: row("3333 .... .... .... ...."),
        3: row("4444 4444 xxxx 4444 .5.."),
    },
    cores={0: 0, 1: 0, 2: 2, 3: 2},
    types={0: "P", 1: "P", 2: "E", 3: "E"},
    ready={5: ready("..rr rrrr rrrr rrrr r...")},
    allowed={
        1: [(0, frozenset({0, 1, 3}))],
        2: [(0, frozenset(range(4)))],
        3: [(0, frozenset(range(4)))],
        4: [(0, frozenset(range(4)))],
        5: [(0, frozenset({1, 3}))],
    },
)
C = CELL


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with answers(PLAN) as found:
        yield found


def test_overlap_counts_only_the_time_with_two_cpus_online(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core, none_ns, one_ns, both_ns, unknown_ns FROM sibling_overlap"
    ).fetchall()
    # Core 0: both busy in 0, 1, 16, 17, one in 2, 3, 18, 19.
    # Core 2: both busy in 0..3, one in 4..7, 12..15 and 17.
    assert rows == [(0, 0, 4 * C, 4 * C, 0), (2, 3 * C, 9 * C, 4 * C, 0)]


def test_offline_time_is_in_no_denominator(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, idle_ns, unknown_ns, offline_ns, busy_pct FROM cpu_time"
    ).fetchall()
    assert rows == [
        (0, 0, 0, 0, 100.0),
        (1, 4 * C, 0, 12 * C, 50.0),
        (2, 16 * C, 0, 0, 20.0),
        (3, 3 * C, 0, 4 * C, 100 * 13 / 16),
    ]
    [(busy, thread)] = con.execute(
        "SELECT busy_pct, thread_ns FROM sibling_overlap_total"
    ).fetchall()
    assert busy == pytest.approx(100 * 41 / 64)
    assert thread == 41 * C


def test_offline_cpu_does_not_keep_a_core_from_being_idle(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core, ts, dur, idle_ns, cpus FROM whole_idle_core(p_min_idle_ns := 0)"
    ).fetchall()
    assert rows == [
        (2, 8 * C, 4 * C, 4 * C, [2]),
        (2, 16 * C, C, C, [2, 3]),
        (2, 18 * C, 2 * C, 2 * C, [2, 3]),
    ]


def test_idle_interval_ends_where_cpu_goes_offline() -> None:
    plan = Schedule(
        cpus={0: row("...."), 1: row(".x..")}, cores={0: 0, 1: 0},
        parking={0: [(True, None)] * 4, 1: [(False, None)] * 4}, source="etw",
    )  # fmt: skip
    with answers(plan) as con:
        rows = con.execute(
            "SELECT ts, dur, idle_ns, cpus FROM whole_idle_core(p_min_idle_ns := 0)"
        ).fetchall()
    # CPU 0 is parked, so the core is usable only while CPU 1 is online.
    assert rows == [(0, C, 4 * C, [1]), (2 * C, 2 * C, 4 * C, [1])]


def test_offline_cpu_is_not_available_to_a_ready_thread(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT tid, ready_ns, idle_available_ns, idle_exit_ns, unknown_ns, all_busy_ns "
        "FROM ready_obstacle(p_min_idle_ns := 0)"
    ).fetchall()
    # CPU 1 is idle in 2 and 3; CPU 3, where it runs at 17, in 16.
    assert rows == [(5, 15 * C, 2 * C, C, 0, 12 * C)]


def test_sharing_is_avoidable_only_with_an_online_cpu() -> None:
    # Threads 1 and 2 share core 0. Of core 2 only CPU 2 is online in 2..5, only CPU 3 after that.
    plan = Schedule(
        cpus={
            0: row("11 1111 1111"),
            1: row("22 2222 2222"),
            2: row("33 .... xxxx"),
            3: row("44 xxxx ...."),
        },
        cores={0: 0, 1: 0, 2: 2, 3: 2},
        allowed={1: [(0, frozenset({0, 3}))], 2: [(0, frozenset({1, 2}))]},
    )
    with answers(plan) as con:
        rows = con.execute(
            "SELECT tid, shared_ns, any_type_ns FROM avoidable_sharing ORDER BY tid"
        ).fetchall()
        total = con.execute("SELECT any_type_ns FROM avoidable_sharing_total").fetchall()
        whatever = con.execute("SELECT any_cpu_ns FROM sharing_by_affinity").fetchall()
    # The core of threads 3 and 4 is shared for two cells, too, without a better place.
    assert rows == [(1, 10 * C, 4 * C), (2, 10 * C, 4 * C), (3, 2 * C, 0), (4, 2 * C, 0)]
    assert total == [(8 * C,)]
    assert whatever == [(8 * C,)]


def test_core_without_online_cpu_is_not_idle() -> None:
    plan = Schedule(
        cpus={0: row("1111"), 1: row("2222"), 2: row(".xx."), 3: row("..x.")},
        cores={0: 0, 1: 0, 2: 2, 3: 2},
        allowed={1: [(0, frozenset(range(4)))], 2: [(0, frozenset(range(4)))]},
    )
    with answers(plan) as con:
        idle = con.execute("SELECT ts, dur FROM whole_idle_core(p_min_idle_ns := 0)").fetchall()
        avoidable = con.execute(
            "SELECT any_type_ns FROM avoidable_sharing_total(p_min_idle_ns := 0)"
        ).fetchall()
    assert idle == [(0, C), (C, C), (3 * C, C)]
    assert avoidable == [(3 * C,)]


def test_capacity_lines_follow_online_cpus(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT ts, dur, p_cores, cores, cpus, cpus_without_core FROM capacity_line"
    ).fetchall()
    assert rows == [
        (0, 4 * C, 1, 2, 4, 0),
        (4 * C, 4 * C, 1, 2, 3, 0),
        (8 * C, 4 * C, 1, 2, 2, 0),
        (12 * C, 4 * C, 1, 2, 3, 0),
        (16 * C, 4 * C, 1, 2, 4, 0),
    ]


def test_capacity_line_drops_core_without_online_cpu() -> None:
    plan = Schedule(cpus={0: row(".x."), 1: row("...")}, cores={0: 0, 1: 1})
    with answers(plan) as con:
        rows = con.execute("SELECT ts, p_cores, cores, cpus FROM capacity_line").fetchall()
    assert rows == [(0, 2, 2, 2), (C, 1, 1, 1), (2 * C, 2, 2, 2)]


def test_runnable_threads_are_compared_with_online_cpus() -> None:
    # Two busy CPUs of two, then one busy of one online and one thread ready: one too many.
    plan = Schedule(
        cpus={0: row("1111"), 1: row("22xx")}, cores={0: 0, 1: 1}, ready={2: ready("..rr")}
    )
    with answers(plan) as con:
        rows = con.execute(
            "SELECT runnable, ns, above_cpus, above_ns FROM runnable_count"
        ).fetchall()
        online = con.execute(
            "SELECT ts, busy, online FROM concurrency_slice ORDER BY ts"
        ).fetchall()
    assert rows == [(2, 4 * C, False, 2 * C)]
    assert online == [(0, 2, 2), (2 * C, 1, 1)]


def test_frame_is_compared_with_its_online_cpus() -> None:
    with answers(PLAN) as drawn:
        drawn.executemany(
            "INSERT INTO frame (trace_id, frame, upid, utid, process, start_ns, dur_ns, dialect) "
            "VALUES (1, ?, 1001, 1, 'odd', ?, ?, 'dxgi')",
            [(0, 0, 4 * C), (1, 4 * C, 4 * C), (2, 8 * C, 6 * C)],
        )
        rows = drawn.execute("SELECT frame, cores, cpus FROM frame_concurrency").fetchall()
    assert rows == [(0, 2, 4), (1, 2, 3), (2, 2, 3)]
