"""What threads waited for: by wait reasons of Windows, by states and wakers of Linux."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from experiment_session import section
from judged import plain

MS = 1_000_000

# ms      0   10   20   30   40   50
# cpu 0   A . . . A . . . A . . . .     A waits 9 ms, then 8 ms and, to the end, 29 ms
SLICES = [
    Slice("app/A", 0, 0, 1 * MS),
    Slice("app/A", 0, 10 * MS, 1 * MS, wait=9 * MS),
    Slice("app/A", 0, 20 * MS, 1 * MS, ready=1 * MS, wait=8 * MS),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        DrawnTrace(database, SLICES, [Cpu(0, 0)], 50 * MS)
        yield database


def _reasons(con: duckdb.DuckDBPyConnection, *reasons: str) -> None:
    starts = [1, 11, 21]
    for start, reason in zip(starts, reasons, strict=True):
        con.execute(
            "UPDATE thread_state SET reason = ?, right_censored = ? "
            "WHERE state = 'waiting' AND ts = ?",
            [reason, start == 21, start * MS],
        )


CAUSES = "SELECT cause, waits, wait_ns, wait_max_ns FROM wait_cause"


def test_wait_reasons_of_windows_are_causes(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "WrPageIn", "PageIn", "WrPushLock")
    assert con.execute(CAUSES).fetchall() == [
        ("kernel_lock", 1, 29 * MS, None),
        ("page_fault", 2, 17 * MS, 9 * MS),
    ]
    shares = con.execute("SELECT cause, of_wait_pct FROM wait_cause").fetchall()
    assert shares == [("kernel_lock", 100 * 29 / 46), ("page_fault", 100 * 17 / 46)]


def test_uninterruptible_waits_are_io_if_an_interrupt_ends_them(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("DELETE FROM wakeup")
    waker = con.execute("SELECT utid FROM thread WHERE name = 'A'").fetchone()
    assert waker
    for ts, waker_utid, in_interrupt in ((10, waker[0], True), (19, waker[0], False)):
        con.execute(
            "INSERT INTO wakeup (trace_id, ts, cpu, seq, utid, waker_utid, kind, in_interrupt, "
            "effective) VALUES (1, ?, 0, 0, ?, ?, 'waking', ?, true)",
            [ts * MS, waker[0], waker_utid, in_interrupt],
        )
    _reasons(con, "D", "D", "S")
    assert con.execute(CAUSES).fetchall() == [
        # What will end the last wait is not recorded.
        ("unknown", 1, 29 * MS, None),
        ("io", 1, 9 * MS, 9 * MS),
        ("kernel_lock", 1, 8 * MS, 8 * MS),
    ]
    _reasons(con, "S", "S", "S")
    rows = con.execute("SELECT cause, wait_ns FROM wait_cause").fetchall()
    assert rows == [("unknown", 29 * MS), ("interrupt", 9 * MS), ("thread", 8 * MS)]


def test_idle_waker_is_an_interrupt(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "D", "D", "D")
    con.execute(
        "UPDATE wakeup SET effective = true, "
        "waker_utid = (SELECT utid FROM thread WHERE is_idle), in_interrupt = false"
    )
    rows = con.execute("SELECT cause, waits FROM wait_cause WHERE cause = 'io'").fetchall()
    assert rows == [("io", 1)]


def test_window_clips_waits(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "WrPageIn", "PageIn", "WrQueue")
    window = f"p_from_ns := {5 * MS}, p_to_ns := {15 * MS}"
    rows = con.execute(f"SELECT cause, waits, wait_ns FROM wait_cause({window})").fetchall()
    assert rows == [("page_fault", 2, 9 * MS)]


def test_section_sums_page_faults_and_io(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "WrPageIn", "WrIoRing", "WrQueue")
    (figure,) = section(con, "wait_cause")["figures"]
    assert plain(figure["caption"]) == (
        "Waiting time of 1 of 1 threads by cause. All threads together waited 9 ms for page "
        "faults and 8 ms for I/O, as far as recorded."
    )
    drawn = {trace["name"]: trace["x"] for trace in figure["plot"]["data"]}
    assert drawn == {"page faults": [9], "I/O": [8], "work": [29]}
