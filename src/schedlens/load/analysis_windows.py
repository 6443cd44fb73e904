"""The window that shares of each recording refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def fill(con: duckdb.DuckDBPyConnection, window: tuple[int | None, int | None]) -> None:
    """The default window of each recording, or the requested one, limited to the recording.

    A scrubbed recording has the window of the analysis that it was exported from.
    """
    if window != (None, None):
        con.execute("DELETE FROM analysis_window")
    con.execute(
        """
        INSERT INTO analysis_window
        WITH workers AS (
          SELECT trace_id, max(start_ns) AS start_ns, min(end_ns) AS end_ns
          FROM run_worker GROUP BY trace_id HAVING max(start_ns) < min(end_ns)
        )
        SELECT
          trace_id,
          greatest(first_ns, coalesce($from_ns, workers.start_ns, run.start_ns, first_ns)),
          least(duration_ns, coalesce($to_ns, workers.end_ns, run.end_ns, duration_ns)),
          CASE
            WHEN $from_ns IS NOT NULL OR $to_ns IS NOT NULL THEN 'asked'
            WHEN workers.start_ns IS NOT NULL THEN 'workers'
            WHEN run.start_ns IS NOT NULL THEN 'step'
            ELSE 'trace'
          END
        FROM trace
        LEFT JOIN workers USING (trace_id)
        LEFT JOIN run USING (trace_id)
        WHERE trace_id NOT IN (SELECT trace_id FROM analysis_window)
        """,
        {"from_ns": window[0], "to_ns": window[1]},
    )
