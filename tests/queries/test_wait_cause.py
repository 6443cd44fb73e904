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
            "UPDATE thread_state_other SET reason = ?, right_censored = ? "
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


def _event(con: duckdb.DuckDBPyConnection, ts: int, kind: str, sector: int | None = None) -> None:
    con.execute(
        "INSERT INTO wait_event (trace_id, ts, cpu, seq, utid, kind, device, sector, bytes) "
        "SELECT 1, ?, 0, 0, utid, ?, ?, ?, ? FROM thread WHERE name = 'A'",
        [ts, kind, *((None, None, None) if sector is None else (8 << 20 | 1, sector, 4096))],
    )


# us    990        1,000     9,999     10,000
# A     issue 8 -> waits ..  8 done -> ready
def test_wait_for_a_request_of_the_thread_is_for_the_disk(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "D", "D", "S")
    con.execute("UPDATE wakeup SET in_interrupt = false")
    before = con.execute(CAUSES).fetchall()
    assert {row[0] for row in before} <= {"kernel_lock", "unknown", "thread"}
    _event(con, 990_000, "disk_issue", 8)
    _event(con, 9_999_000, "disk_done", 8)
    # Another request, which is done while the thread runs, explains no wait.
    _event(con, 10_500_000, "disk_issue", 16)
    _event(con, 10_700_000, "disk_done", 16)
    rows = con.execute("SELECT waits, wait_ns FROM wait_cause WHERE cause = 'disk'").fetchall()
    assert rows == [(1, 9 * MS)]
    requests = con.execute(
        "SELECT disk, sector, bytes, issue_ns, done_ns, dur_ns FROM disk_request"
    ).fetchall()
    assert requests == [
        ("8:1", 8, 4096, 990_000, 9_999_000, 9_009_000),
        ("8:1", 16, 4096, 10_500_000, 10_700_000, 200_000),
    ]


def test_wait_after_a_page_fault_is_for_the_page(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "D", "D", "S")
    # Before the first wait by 50 us; before the second by 500 us, too long ago to be its cause.
    _event(con, 950_000, "page_fault")
    _event(con, 10_500_000, "page_fault")
    for issued, done, sector in ((990_000, 9_999_000, 8), (10_990_000, 18_999_000, 16)):
        _event(con, issued, "disk_issue", sector)
        _event(con, done, "disk_done", sector)
    rows = con.execute(f"{CAUSES} WHERE cause <> 'thread' AND cause <> 'unknown'").fetchall()
    assert rows == [("page_fault", 1, 9 * MS, 9 * MS), ("disk", 1, 8 * MS, 8 * MS)]


def test_request_that_is_never_done_explains_no_wait(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "D", "D", "S")
    _event(con, 990_000, "disk_issue", 8)
    # Issued again: the end of the first one was lost.
    _event(con, 10_990_000, "disk_issue", 8)
    assert con.execute("SELECT done_ns, dur_ns FROM disk_request").fetchall() == [(None, None)] * 2
    assert con.execute("SELECT count(*) FROM wait_cause WHERE cause = 'disk'").fetchall() == [(0,)]


def test_section_names_what_was_not_recorded(con: duckdb.DuckDBPyConnection) -> None:
    _reasons(con, "D", "D", "S")
    con.execute("UPDATE wakeup SET in_interrupt = true, effective = true")
    assert "Not recorded: disk requests and page faults." in section(con, "wait_cause")["lead"]
    con.execute("INSERT INTO record_count VALUES (1, 'block:block_rq_issue', 0)")
    assert "Not recorded: page faults." in section(con, "wait_cause")["lead"]


def test_pressure_is_what_grew_between_the_snapshots(con: duckdb.DuckDBPyConnection) -> None:
    short, long = 50 * MS, 40_000 * MS
    for resource, ts, edge, some, full in (
        ("io", 0, "begin", 5 * MS, MS), ("io", short, "end", 15 * MS, None),
        ("memory", 0, "begin", 0, 0), ("memory", long, "end", 4_000 * MS, 400 * MS),
    ):  # fmt: skip
        con.execute(
            "INSERT INTO snapshot_pressure VALUES (1, ?, ?, ?, ?, ?)",
            [ts, edge, resource, some, full],
        )
    con.execute("INSERT INTO snapshot_pressure VALUES (1, 0, 'begin', 'cpu', 1, 1)")
    assert con.execute("SELECT * EXCLUDE trace_id FROM pressure").fetchall() == [
        ("cpu", None, None, None, None, None),
        # Too short for a share, because the kernel adds up every 2 s.
        ("io", short, 10 * MS, None, None, None),
        ("memory", long, 4_000 * MS, 10, 400 * MS, 1),
    ]
