"""The CPUs that each thread may use: one set, as a replay takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def longest(con: duckdb.DuckDBPyConnection, trace_id: int) -> dict[int, list[int]]:
    """Numbers of logical CPUs by thread (utid): the affinity that it had for most of the time that
    its states are known. Programs often set it right after their start."""
    return dict(con.execute(_LONGEST, {"trace_id": trace_id}).fetchall())


_LONGEST = """
WITH
  spell AS (
    SELECT
      utid,
      cpus,
      coalesce(valid_from_ns, -1) AS from_ns,
      lead(from_ns) OVER (PARTITION BY utid ORDER BY from_ns, rowid) AS to_ns,
    FROM affinity
    WHERE trace_id = $trace_id
  ),
  life AS (
    SELECT utid, min(ts) AS from_ns, max(ts + dur) AS to_ns
    FROM thread_state
    WHERE trace_id = $trace_id
    GROUP BY utid
  )
SELECT
  utid,
  arg_max(
    cpus,
    ROW(overlap_ns(spell.from_ns, spell.to_ns, life.from_ns, life.to_ns), spell.from_ns)
  )
FROM spell
JOIN life USING (utid)
GROUP BY utid
ORDER BY utid
"""
