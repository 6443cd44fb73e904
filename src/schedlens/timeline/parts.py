"""SQL that splits the time of CPUs and threads of a recording into parts with one key each."""

from __future__ import annotations

from schedlens.timeline import keys


def sql(kind: str, one: int, start: int, end: int) -> str:
    """SQL of lane, ts, end_ns, and key of every part of a kind of lanes, within the recording."""
    text = {"cpu": _CPU_PARTS, "thread": _THREAD_PARTS, "sibling": _SIBLING_PARTS}[kind].format(
        one=one, start=start, end=end, running=keys.running_sql("place.core_type"),
        obstacle=keys.obstacle_sql("obstacle"),
        ready=keys.READY, new=keys.NEW, unknown=keys.UNKNOWN, shared=keys.SHARED,
    )  # fmt: skip
    return (
        f"SELECT lane, greatest(ts, {start}) AS ts, least(end_ns, {end}) AS end_ns, key "
        f"FROM ({text}) WHERE ts < {end} AND end_ns >= {start}"
    )


_CPU_PARTS = f"""
SELECT cpu AS lane, ts, ts + dur AS end_ns,
  CASE state
    WHEN 'thread' THEN coalesce(utid, {keys.NO_NAME})
    WHEN 'interrupt' THEN {keys.INTERRUPT}
    WHEN 'offline' THEN {keys.OFFLINE}
    ELSE {keys.CPU_UNKNOWN}
  END AS key
FROM cpu_state
WHERE trace_id = {{one}} AND state <> 'idle'
"""

_SIBLING_PARTS = """
SELECT cpu AS lane, ts, ts + dur AS end_ns, 1 AS key
FROM sharing_slice WHERE trace_id = {one} AND dur > 0
"""

_THREAD_PARTS = """
WITH
  place AS (FROM topology(p_trace_id := {one})),
  -- Only the running time of these has to be cut where a sibling begins or ends.
  sharer AS (SELECT DISTINCT utid FROM sharing_slice WHERE trace_id = {one} AND dur > 0),
  run AS NOT MATERIALIZED (
    SELECT utid, ts, ts + dur AS end_ns, cpu FROM thread_state
    WHERE trace_id = {one} AND state = 'running' AND dur > 0
  ),
  ran AS (FROM run SEMI JOIN sharer USING (utid)),
  -- Where the thread or whether its sibling is busy changes; nothing else splits a part.
  edge AS (
    SELECT utid, edge_ns, sum(run) AS run, sum(share) AS share, max(cpu) AS cpu,
      bool_or(run <> 0) AS cut
    FROM (
      SELECT utid, unnest([ts, end_ns]) AS edge_ns, unnest([1, -1]) AS run, 0 AS share,
        unnest([cpu, NULL]) AS cpu
      FROM ran
      UNION ALL
      SELECT utid, unnest([ts, ts + dur]), 0, unnest([1, -1]), NULL
      FROM sharing_slice WHERE trace_id = {one} AND dur > 0
    )
    GROUP BY utid, edge_ns
    HAVING cut OR sum(share) <> 0
  ),
  swept AS (
    SELECT utid, edge_ns AS ts,
      lead(edge_ns) OVER (PARTITION BY utid ORDER BY edge_ns) AS end_ns, sum(run) OVER w AS run,
      sum(share) OVER w AS share, last_value(cpu IGNORE NULLS) OVER w AS cpu
    FROM edge
    WINDOW w AS (PARTITION BY utid ORDER BY edge_ns ROWS UNBOUNDED PRECEDING)
  ),
  lane AS (
    SELECT s.utid, s.ts, s.end_ns,
      {running} + CASE WHEN s.share > 0 THEN {shared} ELSE 0 END AS key
    FROM swept AS s
    LEFT JOIN place ON place.cpu = s.cpu AND s.ts >= place.from_ns AND s.ts < place.to_ns
    WHERE s.run > 0
    UNION ALL
    SELECT s.utid, s.ts, s.end_ns, {running}
    FROM run AS s
    ANTI JOIN sharer ON sharer.utid = s.utid
    LEFT JOIN place ON place.cpu = s.cpu AND s.ts >= place.from_ns AND s.ts < place.to_ns
    UNION ALL
    SELECT utid, ts, ts + dur, {obstacle}
    FROM unordered.ready_obstacle_slice({one}, {start}, {end}, 100000)
    UNION ALL
    -- Periods that no row of ready_slice explains.
    SELECT t.utid, t.ts, t.ts + t.dur, {ready}
    FROM thread_state AS t
    ANTI JOIN (SELECT utid, ready_ts FROM ready_slice WHERE trace_id = {one}) AS r
      ON r.utid = t.utid AND r.ready_ts = t.ts
    WHERE t.trace_id = {one} AND t.state = 'ready'
    UNION ALL
    SELECT t.utid, t.ts, t.ts + t.dur,
      CASE t.state WHEN 'waiting' THEN w.key WHEN 'new' THEN {new} ELSE {unknown} END
    FROM thread_state AS t
    LEFT JOIN tiles.waiting AS w
      ON t.state = 'waiting' AND w.trace_id = {one} AND w.reason IS NOT DISTINCT FROM t.reason
    WHERE t.trace_id = {one} AND t.state NOT IN ('running', 'ready')
  )
SELECT utid AS lane, ts, end_ns, key FROM lane WHERE end_ns > ts
"""
