"""Unknown time is never an obstacle, never idle, and never alone.

A cell is 50 us: `?` is an unknown CPU, `.` an idle one, digits are threads, `r` is ready and `u`
an unknown thread.
"""

from __future__ import annotations

import pytest
from decoders.test_interval_queries import answers, ready, row
from grid_schedule import CELL, Schedule

from schedlens.load import intervals

C = CELL


def unknown(text: str) -> list[bool]:
    """Cells in which a thread is unknown, drawn as `u`."""
    return [cell == "u" for cell in text.replace(" ", "")]


OBSTACLES = "idle_exit_ns, idle_available_ns, parked_available_ns, obstacle_unknown_ns, all_busy_ns"


def test_idle_interval_next_to_lost_time_is_not_busy() -> None:
    # CPU 1 is idle for one cell before lost time, one after it, and one on its own.
    plan = Schedule(
        cpus={0: row("1111 1111 2"), 1: row("3.?? .33. 3")},
        cores={0: 0, 1: 1},
        ready={2: ready("rrrr rrrr .")},
        allowed={2: [(0, frozenset({0, 1}))]},
    )
    with answers(plan) as con:
        rows = con.execute(f"SELECT {OBSTACLES} FROM ready_obstacle").fetchall()
        any_length = con.execute(f"SELECT {OBSTACLES} FROM ready_obstacle(p_min_idle_ns := 0)")
        # The idle time of the cells 1 and 4 may last 100 us; that of cell 7 does not.
        assert rows == [(0, 0, 0, 4 * C, 4 * C)]
        assert any_length.fetchall() == [(0, 3 * C, 0, 2 * C, 3 * C)]


def test_last_millisecond_before_loss_may_be_idle_exit() -> None:
    # Thread 2 is ready for 24 cells (1.2 ms) while CPU 0 is idle; then it is unknown for two cells.
    plan = Schedule(
        cpus={0: row("." * 24 + "..1"), 1: row("1" * 24 + "111")},
        cores={0: 0, 1: 1},
        ready={2: ready("r" * 24 + "...")},
        lost={2: unknown("." * 24 + "uu.")},
        allowed={2: [(0, frozenset({0, 1}))]},
    )
    with answers(plan) as con:
        rows = con.execute(f"SELECT {OBSTACLES} FROM ready_obstacle").fetchall()
        matched = con.execute("SELECT matched_ns FROM ready_obstacle_total").fetchall()
        waits = con.execute("SELECT ready_ns, is_cut, entered_cpu FROM worst_waits").fetchall()
    assert rows == [(0, 4 * C, 0, 20 * C, 0)]
    assert matched == [(4 * C,)]
    assert waits == [(24 * C, True, None)]


def test_ready_period_before_loss_with_all_cpus_busy_is_all_busy() -> None:
    plan = Schedule(
        cpus={0: row("1111 11"), 1: row("3333 33")},
        cores={0: 0, 1: 1},
        ready={2: ready("rrrr ..")},
        lost={2: unknown(".... uu")},
        allowed={2: [(0, frozenset({0, 1}))]},
    )
    with answers(plan) as con:
        rows = con.execute(f"SELECT {OBSTACLES} FROM ready_obstacle").fetchall()
    assert rows == [(0, 0, 0, 0, 4 * C)]


def test_fully_recorded_worst_wait_is_exact() -> None:
    plan = Schedule(
        cpus={0: row("1111 2.. 1111 2")}, cores={0: 0},
        ready={2: ready("..rr ... .rrr .")}, lost={2: unknown(".... ... u... .")},
    )  # fmt: skip
    with answers(plan) as con:
        rows = con.execute("SELECT ready_ts, ready_ns, is_cut FROM worst_waits").fetchall()
    # The second begins where the thread was unknown before.
    assert rows == [(8 * C, 3 * C, True), (2 * C, 2 * C, False)]


def test_unknown_sibling_is_neither_idle_nor_busy() -> None:
    plan = Schedule(
        cpus={0: row("1111 11"), 1: row("..22 ??"), 2: row("...? ..")},
        cores={0: 0, 1: 0, 2: 2},
        allowed={1: [(0, frozenset({0, 1, 2}))], 2: [(0, frozenset({0, 1, 2}))]},
    )
    with answers(plan) as con:
        cores = con.execute(
            "SELECT core, none_ns, one_ns, both_ns, unknown_ns FROM sibling_overlap"
        ).fetchall()
        use = con.execute(
            "SELECT tid, run_ns, alone_ns, shared_ns, unknown_ns FROM thread_core_use ORDER BY tid"
        ).fetchall()
        avoidable = con.execute(
            "SELECT tid, any_type_ns FROM avoidable_sharing(p_min_idle_ns := 0) ORDER BY tid"
        ).fetchall()
    assert cores == [(0, 0, 2 * C, 2 * C, 2 * C)]
    assert use == [(1, 6 * C, 2 * C, 2 * C, 2 * C), (2, 2 * C, 0, 2 * C, 0)]
    assert avoidable == [(1, C), (2, C)]


def test_time_with_busy_sibling_is_shared_despite_unknown_third_cpu() -> None:
    plan = Schedule(cpus={0: row("1111"), 1: row("..22"), 2: row(".?.?")}, cores={0: 0, 1: 0, 2: 0})
    with answers(plan) as con:
        use = con.execute(
            "SELECT tid, run_ns, alone_ns, shared_ns, unknown_ns FROM thread_core_use ORDER BY tid"
        ).fetchall()
    assert use == [(1, 4 * C, C, 2 * C, C), (2, 2 * C, 0, 2 * C, 0)]


def test_unknown_parked_cpu_does_not_serialize_a_chain() -> None:
    slices = 80
    plan = Schedule(
        cpus={
            0: row("1" * slices + "2" * slices + "1" * slices + "2" * slices),
            1: row("?" * 2 * slices + "." * slices + "i" * slices),
        },
        cores={0: 0, 1: 1},
        ready={
            1: ready("." * slices + "r" * slices + "." * slices + "r" * slices),
            2: ready("r" * slices + "." * slices + "r" * slices + "." * slices),
        },
        allowed={1: [(0, frozenset({0, 1}))], 2: [(0, frozenset({0, 1}))]},
        parking={cpu: [(cpu == 1, None) for _ in range(4 * slices)] for cpu in (0, 1)},
        source="etw",
    )
    with answers(plan) as con:
        con.execute("UPDATE sched_slice SET end_reason = 'quantum_end', ready_ns = 4000000")
        intervals.build(con, [1])
        rows = con.execute("SELECT dur, serialized_ns, parked_cpus FROM quantum_end_chain")
        # Parked CPU 1 is idle for 4 ms; before that its state is unknown, then it works.
        assert rows.fetchall() == [(16_000_000, 4_000_000, [1])]


@pytest.mark.parametrize("path", ["false", "true"])
def test_frame_ledger_lists_time_with_unknown_sibling(path: str) -> None:
    plan = Schedule(
        cpus={0: row("1111 1111"), 1: row("..22 ?..?"), 2: row("3333 3333")},
        cores={0: 0, 1: 0, 2: None},
    )
    with answers(plan) as con:
        con.executemany(
            "INSERT INTO frame (trace_id, frame, upid, utid, process, start_ns, dur_ns, dialect) "
            "VALUES (1, ?, 1001, ?, 'odd', ?, ?, 'dxgi')",
            [(0, 1, 0, 5 * C), (1, 1, 5 * C, 3 * C), (2, 3, 0, 8 * C)],
        )
        con.executemany(
            "INSERT INTO frame_path VALUES (1, 1001, ?, 0, ?, ?, ?)",
            [(0, 1, 0, 5 * C), (1, 1, 5 * C, 3 * C), (2, 3, 0, 8 * C)],
        )
        rows = con.execute(
            f"SELECT frame, part, dur FROM frame_ledger(p_path := {path}) ORDER BY frame, part"
        ).fetchall()
    assert rows == [
        (0, "run_p_alone", 2 * C),
        (0, "run_p_shared", 2 * C),
        (0, "run_p_unknown", C),
        (1, "run_p_alone", 2 * C),
        (1, "run_p_unknown", C),
        (2, "run_p_unknown", 8 * C),
    ]


def test_counter_interval_with_an_unknown_sibling_is_not_alone() -> None:
    plan = Schedule(cpus={0: row("1111 1111"), 1: row("..22 ??..")}, cores={0: 0, 1: 0})
    with answers(plan) as con:
        con.executemany(
            "INSERT INTO counter_delta VALUES (1, 0, 1, ?, ?, ?, 'U', 100)",
            [
                (ts * C, 2 * C, counter)
                for ts in (0, 2, 4, 6)
                for counter in ("cycles", "instructions")
            ],
        )
        rows = con.execute("SELECT ts, shared_ns, unknown_ns FROM counter_interval").fetchall()
    assert rows == [(0, 0, 0), (2 * C, 2 * C, 0), (4 * C, 0, 2 * C), (6 * C, 0, 0)]
