"""Exact sums of a range by thread, state, and core type, and the longest waits of a thread."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from schedlens.load.schema import literal
from schedlens.timeline import keys, slices
from schedlens.timeline.inventory import table
from schedlens.timeline.prepared import Timelines


def totals(timelines: Timelines, trace_id: int, start_ns: int, end_ns: int) -> pa.Table:
    """Time of each thread by state within a range, to the ns: the rows of a range's table.

    Raises `UnknownNameError` for a recording that does not exist.
    """
    timelines.of(trace_id)
    waiting = timelines.con.execute(
        "SELECT key, reason FROM tiles.waiting WHERE trace_id = ?", [trace_id]
    ).fetchall()
    summed = timelines.sums_sql("thread", trace_id, start_ns, end_ns)
    # Those that began before the range and end inside or behind it count as slices of it, too.
    before = timelines.parts_sql("thread", trace_id, start_ns, start_ns + 1)
    # As values: DuckDB loads much of pyarrow for a table of Arrow.
    states = ", ".join(
        f"({state['key']}, {literal(state['name'])}, {literal(state['core_type'] or '')})"
        for state in keys.states(waiting)
    )
    return timelines.con.sql(
        f"""
SELECT t.utid, t.name AS thread, p.name AS process, s.name AS state,
  nullif(s.core_type, '') AS core_type, sums.key, sums.ns, sums.slices
FROM (
  SELECT lane, key, sum(ns)::BIGINT AS ns, sum(begins)::BIGINT AS slices
  FROM ({summed} UNION ALL SELECT lane, key, 0, 1 FROM ({before}) WHERE ts < {start_ns})
  GROUP BY lane, key
) AS sums
JOIN thread AS t ON t.utid = sums.lane
LEFT JOIN process AS p ON p.upid = t.upid
LEFT JOIN (VALUES {states}) AS s(key, name, core_type) ON s.key = sums.key
ORDER BY sums.ns DESC, t.utid, sums.key
"""
    ).to_arrow_table()


def worst_waits(
    timelines: Timelines, trace_id: int, utid: int, most: int = 10
) -> list[dict[str, Any]]:
    """The longest periods in which a thread was ready, then those in which it waited.

    `reason` is why: the obstacle that lasted longest, or what it waited for.
    """
    timelines.of(trace_id)
    sql = (
        "SELECT utid, ts AS start_ns, dur AS dur_ns, state, coalesce(reason, '') AS reason "
        f"FROM thread_state WHERE trace_id = {int(trace_id)} AND utid = {int(utid)} "
        "AND state IN ('ready', 'waiting') AND dur > 0 "
        f"QUALIFY row_number() OVER (PARTITION BY state ORDER BY dur DESC, ts) <= {int(most)} "
        "ORDER BY state, dur DESC, ts"
    )
    rows = table(timelines, sql, {})
    for row in rows:
        if row["state"] == "ready":
            end = row["start_ns"] + row["dur_ns"]
            found = slices.obstacles(timelines, trace_id, utid, row["start_ns"], end)
            row["reason"] = found[0]["name"] if found else ""
    return rows
