"""A program marked these requests: how many per second, and how long they took."""

from __future__ import annotations

from drawn_trace import Cpu, DrawnTrace, drawn_database

MS = 1_000_000


def test_requests_have_rate_and_quantiles() -> None:
    with drawn_database() as con:
        trace = DrawnTrace(con, [], [Cpu(0, 0)], 2000 * MS)
        con.execute(
            f"INSERT INTO mark SELECT 1, n * {MS}, n * 100, 'request', 'user' FROM range(1, 1001) "
            "AS each(n)"
        )
        trace.add("mark", ts=5 * MS, dur=0, name="loaded", kind="user")
        rows = con.execute("SELECT * EXCLUDE (trace_id, kind) FROM mark_summary").fetchall()
        # 10 requests lie beyond the 99th percentile, only one beyond the next.
        assert rows == [
            ("request", 1000, 500.0, 50_050.0, 50_000, 99_000, None, 100_000),
            ("loaded", 1, 0.5, None, None, None, None, None),
        ]
        window = f"p_from_ns := {999 * MS}, p_to_ns := {1999 * MS}"
        rows = con.execute(
            f"SELECT name, marks, per_s, mean_ns, p50_ns, longest_ns FROM mark_summary({window})"
        ).fetchall()
        assert rows == [("request", 2, 2.0, 99_950.0, None, 100_000)]
