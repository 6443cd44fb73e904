"""CPUs of unknown core count in machine totals but in no share of a core."""

from __future__ import annotations

from decoders.test_interval_queries import answers, row
from grid_schedule import CELL, Schedule

C = CELL
# Core 0 is known; the core of CPUs 2 and 3 is not.
PLAN = Schedule(
    cpus={
        0: row("1111 1111 .."),
        1: row("..22 .... .."),
        2: row("3333 33.. .i"),
        3: row("4444 ??xx .."),
    },
    cores={0: 0, 1: 0, 2: None, 3: None},
)


def test_cpus_of_unknown_core_count_in_machine_totals() -> None:
    with answers(PLAN) as con:
        rows = con.execute(
            "SELECT cores, both_ns, shared_thread_ns, thread_ns, busy_pct, shared_of_thread_pct, "
            "cpus_without_core FROM sibling_overlap_total"
        ).fetchall()
        cores = con.execute("SELECT core, one_ns, both_ns FROM sibling_overlap").fetchall()
    # Threads: 10 cells on core 0, 6 on CPU 2, 4 on CPU 3. Known: 20, 10, 6.
    assert cores == [(0, 6 * C, 2 * C)]
    assert rows == [(1, 2 * C, 4 * C, 20 * C, 100 * 21 / 36, 20.0, 2)]


def test_core_that_becomes_known_counts_once() -> None:
    with answers(PLAN) as con:
        con.execute(
            "INSERT INTO cpu (trace_id, cpu, core, core_type, online, valid_from_ns) "
            f"VALUES (1, 2, 2, 'U', true, {3 * C})"
        )
        con.execute("DELETE FROM cpu WHERE cpu = 3")
        from_start = con.execute(
            "SELECT cpus_without_core, thread_ns FROM sibling_overlap_total"
        ).fetchall()
        # CPU 3 is missing from the table of CPUs.
        lines = con.execute("SELECT ts, cores, cpus, cpus_without_core FROM capacity_line")
        assert lines.fetchall() == [
            (0, 1, 4, 2), (3 * C, 2, 4, 1), (6 * C, 2, 3, 0), (8 * C, 2, 4, 1),
        ]  # fmt: skip
    # The intervals were built before CPU 2 had a core: only its time without one is added.
    assert from_start == [(2, (10 + 3 + 4) * C)]


def test_thread_on_cpu_of_unknown_core_is_not_alone() -> None:
    with answers(PLAN) as con:
        rows = con.execute(
            "SELECT tid, run_ns, alone_ns, shared_ns, unknown_ns FROM thread_core_use ORDER BY tid"
        ).fetchall()
    assert rows == [
        (1, 8 * C, 6 * C, 2 * C, 0),
        (2, 2 * C, 0, 2 * C, 0),
        (3, 6 * C, 0, 0, 6 * C),
        (4, 4 * C, 0, 0, 4 * C),
    ]


def test_core_shares_state_how_many_cpus_they_omit() -> None:
    with answers(PLAN) as con:
        rows = con.execute("SELECT cores_busy_pct, cpus_without_core FROM reported_vs_real")
        assert rows.fetchall() == [(80.0, 2)]
