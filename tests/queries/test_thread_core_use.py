"""The use of cores by threads, where the recording leaves open what a core did."""

from __future__ import annotations

from drawn_trace import Cpu, DrawnTrace, Slice, add, drawn_database

YEAR = 365 * 24 * 3600 * 10**9
BUSY = {"online": 2, "busy": 1, "threads": 1}


def test_short_window_in_a_long_unknown_time_is_answered() -> None:
    with drawn_database() as con:
        slices = [Slice("app/a", 0, 0, 2 * YEAR)]
        DrawnTrace(con, slices, [Cpu(0, 0, 0), Cpu(1, 0, 1)], 2 * YEAR)
        con.execute("DELETE FROM core_state")
        add(con, "core_state", trace_id=1, core=0, ts=0, dur=YEAR, **BUSY, unknown=0)
        add(con, "core_state", trace_id=1, core=0, ts=YEAR, dur=YEAR, **BUSY, unknown=1)
        rows = [
            con.execute(
                "SELECT run_ns, alone_ns, unknown_ns FROM thread_core_use("
                f"p_from_ns := {begin}, p_to_ns := {begin + 100})"
            ).fetchall()
            for begin in (YEAR // 2, YEAR - 50, YEAR + YEAR // 2)
        ]
    assert rows == [[(100, 100, 0)], [(100, 50, 50)], [(100, 0, 100)]]
