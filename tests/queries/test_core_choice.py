"""Threads on P, shared P, and E cores: where they ran, and which cores were idle meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import concluded, yielded

# Core 0 (P) has the CPUs 0 and 1, core 2 (P) the CPUs 2 and 3, core 4 is an E core.
CPUS = [
    Cpu(0, 0, 0, "P", 1), Cpu(1, 0, 1, "P", 1), Cpu(2, 2, 0, "P", 1), Cpu(3, 2, 1, "P", 1),
    Cpu(4, 4, 0, "E", 0),
]  # fmt: skip

# us        0   100  200  300  400  500  600  700  800  900  1000
# cpu 0 P   A A A A A A A A A .  .  .  .  A A A A
# cpu 1 P       B B B B . . . . . . . . .
# cpu 2 P   C C C C C C C C . . . . . . . . . . . .     ends 400
# cpu 3 P   . . . . . . . . . . . . . . . D D . . .     750..850
# cpu 4 E   E E E E E E E E E E E E E E E E E E E E
# Core 0 whole idle 450..650 (200 us), core 2 400..750 and 850..1000.
US = 1000
SLICES = [
    Slice("game/A", 0, 0, 450 * US),
    Slice("game/A", 0, 650 * US, 200 * US),
    Slice("game/B", 1, 100 * US, 200 * US),
    Slice("game/C", 2, 0, 400 * US),
    Slice("other/D", 3, 750 * US, 100 * US),
    Slice("game/E", 4, 0, 1000 * US, end="trace_end"),
]


def _shared(trace: DrawnTrace, name: str, cpu: int, idle: int | None) -> None:
    trace.add(
        "sharing_slice", utid=trace.utid(name), cpu=cpu, ts=100 * US, dur=200 * US,
        any_type_idle_ns=idle, affinity_known=True,
    )  # fmt: skip


def _core(trace: DrawnTrace, core: int, online: int, *spells: tuple[int, int, int, int]) -> None:
    for begin, end, busy, unknown in spells:
        trace.add(
            "core_state", core=core, ts=begin * US, dur=(end - begin) * US, online=online,
            busy=busy, threads=busy, unknown=unknown,
        )  # fmt: skip


@pytest.fixture(scope="module")
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 1000 * US)
        _shared(trace, "game/A", 0, None)
        _shared(trace, "game/B", 1, 150 * US)
        _core(trace, 0, 2, (0, 100, 1, 0), (100, 300, 2, 0), (300, 450, 1, 0), (450, 500, 0, 0),
              (500, 650, 0, 0), (650, 850, 1, 0), (850, 1000, 0, 1))  # fmt: skip
        _core(trace, 2, 2, (0, 400, 1, 0), (400, 750, 0, 0), (750, 850, 1, 0), (850, 1000, 0, 0))
        _core(trace, 4, 1, (0, 1000, 1, 0))
        trace.add("affinity", utid=trace.utid("game/E"), cpus=[0, 1, 2, 3, 4], source="snapshot")
        yield database


def test_idle_times_of_whole_cores(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT core, ts, dur, idle_ns, cpus FROM whole_idle_core").fetchall()
    assert rows == [
        (0, 450 * US, 200 * US, 200 * US, [0, 1]),
        (2, 400 * US, 350 * US, 350 * US, [2, 3]),
        (2, 850 * US, 150 * US, 150 * US, [2, 3]),
    ]


def test_parked_core_is_not_available(con: duckdb.DuckDBPyConnection) -> None:
    con.executemany(
        "INSERT INTO cpu_parking VALUES (1, ?, ?, ?, false, ?)",
        [(None, 2, False, None), (500_000, 2, True, "idle"), (None, 3, True, None),
         (700_000, 2, False, "busy")],
    )  # fmt: skip
    rows = con.execute("SELECT core, ts, dur, idle_ns, cpus FROM whole_idle_core").fetchall()
    assert rows == [
        (0, 450 * US, 200 * US, 200 * US, [0, 1]),
        (2, 400 * US, 100 * US, 350 * US, [2]),
        (2, 700 * US, 50 * US, 350 * US, [2]),
        (2, 850 * US, 150 * US, 150 * US, [2]),
    ]
    spells = con.execute(
        "SELECT ts, dur, state, reason FROM parking_spell WHERE cpu = 2"
    ).fetchall()
    assert spells == [
        (0, 500_000, "unparked", None), (500_000, 200_000, "parked", "idle"),
        (700_000, 300_000, "unparked", "busy"),
    ]  # fmt: skip


def test_unrecorded_parking_is_unknown(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE trace SET source = 'etw'")
    assert con.execute("SELECT DISTINCT state FROM parking_spell").fetchall() == [("unknown",)]
    assert con.execute("FROM whole_idle_core").fetchall() == []


def test_time_on_each_cpu_splits_into_alone_and_shared(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, cpu, core_type, run_ns, alone_ns, shared_ns, sibling_unknown_ns, "
        "switches_in, longest_ns FROM thread_core_use(p_process := 'game')"
    ).fetchall()
    assert rows == [
        ("E", 4, "E", 1000 * US, 1000 * US, 0, 0, 1, 1000 * US),
        ("A", 0, "P", 650 * US, 450 * US, 200 * US, 0, 2, 450 * US),
        ("C", 2, "P", 400 * US, 400 * US, 0, 0, 1, 400 * US),
        ("B", 1, "P", 200 * US, 0, 200 * US, 0, 1, 200 * US),
    ]


def test_unknown_sibling_is_neither_alone_nor_shared(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("UPDATE core_state SET unknown = 1 WHERE core = 2 AND ts < 400000")
    rows = con.execute(
        "SELECT alone_ns, sibling_unknown_ns FROM thread_core_use(p_from_ns := 100000) "
        "WHERE thread = 'C'"
    ).fetchall()
    assert rows == [(0, 300 * US)]


def test_core_choice_lists_core_type_and_idle_cores(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, run_ns, p_alone_ns, p_shared_ns, e_ns, e_beside_idle_p_ns, "
        "e_beside_idle_p_longest_ns, idle_core, idle_core_ns, p_shared_beside_idle_ns "
        "FROM core_choice"
    ).fetchall()
    # Some P core is idle 400..750 and 850..1000; core 2 is idle all that time.
    assert rows == [
        ("E", 1000 * US, 0, 0, 1000 * US, 500 * US, 500 * US, 2, 500 * US, 0),
        ("A", 650 * US, 450 * US, 200 * US, 0, 0, None, None, None, 0),
        ("C", 400 * US, 400 * US, 0, 0, 0, None, None, None, 0),
        ("B", 200 * US, 0, 200 * US, 0, 0, None, None, None, 200 * US),
        ("D", 100 * US, 100 * US, 0, 0, 0, None, None, None, 0),
    ]


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [([4], (0, None)), ([0, 4], (200 * US, 0)), ([0, 3, 4], (500 * US, 2))],
)
def test_only_allowed_cores_count(
    con: duckdb.DuckDBPyConnection, cpus: list[int], expected: tuple[int, int | None]
) -> None:
    con.execute("UPDATE affinity SET cpus = ?", [cpus])
    row = con.execute(
        "SELECT e_beside_idle_p_ns, idle_core FROM core_choice WHERE thread = 'E'"
    ).fetchone()
    assert row == expected


def test_affinity_at_each_moment_counts(con: duckdb.DuckDBPyConnection) -> None:
    # Any CPU up to 600, then 0 and 4: core 2 counts 400..600, core 0 450..650.
    con.execute("INSERT INTO affinity SELECT 1, utid, 600_000, [0, 4], 'event' FROM affinity")
    row = con.execute(
        "SELECT e_ns, e_beside_idle_p_ns, e_beside_idle_p_longest_ns, idle_core, idle_core_ns, "
        "affinity_known FROM core_choice WHERE thread = 'E'"
    ).fetchone()
    assert row == (1000 * US, 250 * US, 250 * US, 0, 200 * US, True)
    # Without the first set, its observed CPUs apply before: only CPU 4.
    con.execute("DELETE FROM affinity WHERE valid_from_ns IS NULL")
    row = con.execute(
        "SELECT e_beside_idle_p_ns, idle_core, affinity_known FROM core_choice WHERE thread = 'E'"
    ).fetchone()
    assert row == (50 * US, 0, False)
    rows = con.execute(
        "SELECT from_ns < 0, to_ns, cpus, is_known, source FROM affinity_spell "
        "WHERE utid = (SELECT utid FROM affinity) ORDER BY from_ns"
    ).fetchall()
    assert rows == [
        (True, 600 * US, [4], False, None),
        (False, 9223372036854775807, [0, 4], True, "event"),
    ]


def test_window_and_longer_idle_time_apply(con: duckdb.DuckDBPyConnection) -> None:
    ask = "SELECT e_ns, e_beside_idle_p_ns FROM core_choice({}) WHERE thread = 'E'"
    assert con.execute(ask.format("p_from_ns := 500000, p_to_ns := 900000")).fetchone() == (
        400 * US,
        300 * US,
    )
    assert con.execute(ask.format("p_min_idle_ns := 300000")).fetchone() == (1000 * US, 350 * US)


def test_finding_names_thread_and_core(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "core_choice")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("critical", 500 * US, 50.0)
    assert "E (" in found.detail
    assert "core 2 longest" in found.detail
    assert len(con.execute(found.evidence_sql).fetchall()) == 1
    con.execute("UPDATE affinity SET cpus = [4]")
    assert concluded(con, "core_choice").conclusion == "clean"
