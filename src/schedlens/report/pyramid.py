"""The lanes of a recording as packed Arrow streams: every slice of a range, or shares by column."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

TABLE = "report_lanes"
# Keys of thread lanes: name, group, core type. Wait reasons follow from FIRST_REASON.
STATES = {
    0: ("running", "running", None),
    1: ("running on a P core", "running", "P"),
    2: ("running on an E core", "running", "E"),
    3: ("running on an LP-E core", "running", "LP-E"),
    4: ("running with a busy sibling", "running", None),
    10: ("ready: all CPUs busy", "ready", None),
    11: ("ready: an idle CPU was available", "ready", None),
    12: ("ready: only a parked CPU was idle", "ready", None),
    13: ("ready: its CPU left the idle state", "ready", None),
    14: ("ready: throttled", "ready", None),
    15: ("ready: obstacle unknown", "ready", None),
    90: ("unknown", "unknown", None),
}
FIRST_REASON = 20
_OBSTACLES = (
    "CASE obstacle WHEN 'all_busy' THEN 10 WHEN 'idle_available' THEN 11 "
    "WHEN 'parked_available' THEN 12 WHEN 'idle_exit' THEN 13 WHEN 'throttled' THEN 14 ELSE 15 END"
)
_CORE = "CASE core_type WHEN 'P' THEN 1 WHEN 'E' THEN 2 WHEN 'LP-E' THEN 3 ELSE 0 END"


@dataclass(frozen=True)
class Stream:
    """A packed stream of one kind of lanes over a range."""

    kind: str
    shape: str
    from_ns: int
    to_ns: int
    data: str

    def payload(self) -> dict[str, Any]:
        """The stream as the page reads it."""
        return {
            "kind": self.kind, "shape": self.shape, "from_ns": self.from_ns, "to_ns": self.to_ns,
            "data": self.data,
        }  # fmt: skip


def fill(con: duckdb.DuckDBPyConnection, trace_id: int, reasons: list[str], span: Any) -> None:
    """Fills the temporary table with the slices of every kind of lane of a recording."""
    start, end = span
    numbers = ", ".join("?" for _ in reasons)
    reason = f"list_position([{numbers}], coalesce(reason, 'no reason recorded'))"
    con.execute(
        f"""
CREATE OR REPLACE TEMP TABLE {TABLE} AS
WITH place AS (
  SELECT cpu, any_value({_CORE}) AS code FROM topology({trace_id}) GROUP BY cpu
),
-- Only the running time of these has to be cut where a sibling begins or ends.
sharer AS (SELECT DISTINCT utid FROM sharing_slice WHERE trace_id = {trace_id} AND dur > 0),
edge AS (
  SELECT t.utid, unnest([t.ts, t.ts + t.dur]) AS ns, unnest([1, -1]) AS runs, 0 AS shares,
    unnest([coalesce(place.code, 0), NULL]) AS code
  FROM thread_state AS t LEFT JOIN place ON place.cpu = t.cpu
  WHERE t.trace_id = {trace_id} AND t.state = 'running' AND t.dur > 0
    AND t.utid IN (FROM sharer)
  UNION ALL
  SELECT utid, unnest([ts, ts + dur]), 0, unnest([1, -1]), NULL
  FROM sharing_slice WHERE trace_id = {trace_id} AND dur > 0
),
level AS (
  SELECT utid, ns, sum(runs) AS runs, sum(shares) AS shares, max(code) AS code
  FROM edge GROUP BY utid, ns
),
running AS (
  SELECT utid, ns, lead(ns) OVER along AS end_ns, sum(runs) OVER along AS runs,
    sum(shares) OVER along AS shares, last_value(code IGNORE NULLS) OVER along AS code
  FROM level
  WINDOW along AS (PARTITION BY utid ORDER BY ns)
),
pair AS (
  SELECT unnest([cpu, other_cpu]) AS cpu, ts, dur FROM sibling_slice
  WHERE trace_id = {trace_id} AND dur > 0
),
pair_run AS (
  SELECT cpu, ts, ts + dur AS end_ns, sum((ts > coalesce(before_ns, ts - 1))::INTEGER)
    OVER (PARTITION BY cpu ORDER BY ts) AS run
  FROM (
    SELECT cpu, ts, max(dur) AS dur, max(max(ts + dur)) OVER (
      PARTITION BY cpu ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before_ns
    FROM pair GROUP BY cpu, ts
  )
),
every AS (
  SELECT 'cpu' AS kind, cpu::BIGINT AS lane, ts AS start_ns, dur AS dur_ns,
    CASE state WHEN 'thread' THEN coalesce(utid, -4) WHEN 'interrupt' THEN -2
      WHEN 'offline' THEN -3 ELSE -1 END AS key
  FROM cpu_state WHERE trace_id = {trace_id} AND state <> 'idle' AND dur > 0
  UNION ALL
  SELECT 'thread', utid, ns, end_ns - ns, CASE WHEN shares > 0 THEN 4 ELSE code END
  FROM running WHERE runs > 0 AND end_ns > ns
  UNION ALL
  SELECT 'thread', t.utid, t.ts, t.dur, coalesce(place.code, 0)
  FROM thread_state AS t LEFT JOIN place ON place.cpu = t.cpu
  WHERE t.trace_id = {trace_id} AND t.state = 'running' AND t.dur > 0
    AND t.utid NOT IN (FROM sharer)
  UNION ALL
  SELECT 'thread', utid, ts, dur, {_OBSTACLES}
  FROM unordered.ready_obstacle_slice(
    p_trace_id := {trace_id}, p_from_ns := {start}, p_to_ns := {end}
  )
  UNION ALL
  SELECT 'thread', utid, ts, dur,
    CASE state WHEN 'waiting' THEN {FIRST_REASON} - 1 + {reason} ELSE 90 END
  FROM thread_state
  WHERE trace_id = {trace_id} AND state NOT IN ('running', 'ready') AND dur > 0
  UNION ALL
  SELECT 'sibling', cpu, min(ts), max(end_ns) - min(ts), 1 FROM pair_run GROUP BY cpu, run
  UNION ALL
  SELECT 'parked', cpu, ts, dur, CASE state WHEN 'parked' THEN 1 ELSE 2 END
  FROM parking_spell(p_trace_id := {trace_id})
  WHERE state IN ('parked', 'soft_parked') AND dur > 0
)
SELECT kind, lane, greatest(start_ns, {start})::BIGINT AS start_ns,
  (least(start_ns + dur_ns, {end}) - greatest(start_ns, {start}))::BIGINT AS dur_ns,
  key::BIGINT AS key
FROM every
WHERE start_ns < {end} AND start_ns + dur_ns > {start}
""",
        reasons,
    )


def wait_reasons(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[str]:
    """The reasons of waiting in a recording, the longest in sum first."""
    rows = con.execute(
        "SELECT coalesce(reason, 'no reason recorded') AS reason FROM thread_state "
        f"WHERE trace_id = {trace_id} AND state = 'waiting' GROUP BY 1 ORDER BY sum(dur) DESC, 1"
    ).fetchall()
    return [row[0] for row in rows]


def slices(
    con: duckdb.DuckDBPyConnection, kind: str, start: int, end: int, *, table: str = TABLE
) -> Stream:
    """Every slice of a kind of lanes that overlaps the range, whole."""
    found = con.sql(
        f"SELECT * EXCLUDE (kind) FROM {table} WHERE kind = '{kind}' "
        f"AND start_ns < {end} AND start_ns + dur_ns > {start} ORDER BY lane, start_ns"
    ).to_arrow_table()
    return Stream(kind, "slices", start, end, packed(found, {"shape": "slices"}))


def shares(con: duckdb.DuckDBPyConnection, kind: str, start: int, end: int, columns: int) -> Stream:
    """The time of each key in each column of a kind of lanes, exact to the ns."""
    width = max(1, -(-(end - start) // columns))
    found = con.sql(
        f"""
WITH part AS NOT MATERIALIZED (
  SELECT lane, key, start_ns - {start} AS begin_ns, start_ns + dur_ns - {start} AS end_ns,
    begin_ns // {width} AS first, (end_ns - 1) // {width} AS last
  FROM {TABLE} WHERE kind = '{kind}'
),
-- Most are in one column: a list of columns for each of them would take most of the time.
piece AS (
  SELECT lane, key, begin_ns, end_ns, first AS col FROM part WHERE first = last
  UNION ALL
  SELECT lane, key, begin_ns, end_ns, unnest(range(first, last + 1)) FROM part WHERE first < last
)
SELECT lane, col::INTEGER AS "column", key,
  sum(least(end_ns, (col + 1) * {width}) - greatest(begin_ns, col * {width}))::BIGINT AS ns
FROM piece GROUP BY lane, col, key ORDER BY lane, col, key
"""
    ).to_arrow_table()
    metadata = {"shape": "shares", "column_ns": str(width), "start_ns": str(start)}
    return Stream(kind, "shares", start, end, packed(found, metadata))


def packed(table: pa.Table, metadata: dict[str, str]) -> str:
    """An uncompressed Arrow stream, deflated, in base64."""
    sink = pa.BufferOutputStream()
    named = table.replace_schema_metadata(metadata).combine_chunks()
    with pa.ipc.new_stream(sink, named.schema) as writer:
        writer.write_table(named)
    return base64.b64encode(zlib.compress(sink.getvalue().to_pybytes(), 6)).decode()
