"""SQL that splits the time of CPUs and threads of a recording into parts with one key each.

Parts are read from the tables of the analysis. `tiles.thread_part` has only those that no table
has: the running time of threads that shared a core, cut where a sibling begins or ends, and ready
periods that no row of `ready_slice` explains.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlens.timeline import keys

KINDS = ("cpu", "thread", "sibling")
COLUMNS = "lane, ts, end_ns, key"

# Tables with about a row for each part.
_COUNTED = (
    "cpu_state WHERE state <> 'idle'", "thread_state WHERE state <> 'ready'",
    "ready_slice WHERE dur > 0", "sharing_slice WHERE dur > 0",
)  # fmt: skip


def sql(
    kind: str, one: int, span: tuple[int, int], reasons: Sequence[str | None], near: str = ""
) -> str:
    """SQL of lane, ts, end_ns, and key of every part of a kind of lanes, within the recording.

    `reasons` are why threads wait, in order of their keys. `near` is a condition on ts and dur, as
    they are in the tables of the analysis.
    """
    start, end = span
    names = {
        "one": one,
        "also": f" AND {near}" if near else "",
        "waiting": keys.waiting_sql("reason", reasons),
    }
    text = " UNION ALL ".join(source.format(**names) for source in _SOURCES[kind])
    # least and greatest take far longer.
    return (
        f"SELECT lane, CASE WHEN ts < {start} THEN {start} ELSE ts END AS ts, "
        f"CASE WHEN end_ns > {end} THEN {end} ELSE end_ns END AS end_ns, key "
        f"FROM ({text}) WHERE ts < {end} AND end_ns >= {start}"
    )


def count_sql(one: int, start: int, end: int) -> str:
    """SQL of about how many parts begin in a range, which takes far less than to read them."""
    counts = (
        f"(SELECT count(*) FROM {rows} AND trace_id = {one} AND ts >= {start} AND ts < {end})"
        for rows in _COUNTED
    )
    return f"SELECT {' + '.join(counts)} AS n"


_CPU = f"""
SELECT cpu::BIGINT AS lane, ts, ts + dur AS end_ns,
  CASE state
    WHEN 'thread' THEN coalesce(utid, {keys.NO_NAME})
    WHEN 'interrupt' THEN {keys.INTERRUPT}
    WHEN 'offline' THEN {keys.OFFLINE}
    ELSE {keys.CPU_UNKNOWN}
  END AS key
FROM cpu_state
WHERE trace_id = {{one}} AND state <> 'idle'{{also}}
"""

_SIBLING = """
SELECT cpu::BIGINT AS lane, ts, ts + dur AS end_ns, 1::BIGINT AS key
FROM sharing_slice WHERE trace_id = {one} AND dur > 0{also}
"""

_ALONE = f"""
SELECT s.utid AS lane, s.ts, s.ts + s.dur AS end_ns,
  ({keys.running_sql("place.core_type")})::BIGINT AS key
FROM (
  FROM thread_state
  WHERE trace_id = {{one}} AND state = 'running' AND dur > 0{{also}}
    AND utid NOT IN (SELECT utid FROM tiles.sharer WHERE trace_id = {{one}})
) AS s
LEFT JOIN topology(p_trace_id := {{one}}) AS place
  ON place.cpu = s.cpu AND s.ts >= place.from_ns AND s.ts < place.to_ns
"""

_KEPT = """
SELECT lane, ts, ts + dur, key FROM tiles.thread_part WHERE trace_id = {one}{also}
"""

_READY = f"""
SELECT utid, ts, ts + dur, ({keys.obstacle_sql("obstacle")})::BIGINT
FROM ready_slice WHERE trace_id = {{one}} AND dur > 0{{also}}
"""

_REST = f"""
SELECT utid, ts, ts + dur,
  CASE state WHEN 'waiting' THEN waiting WHEN 'new' THEN {keys.NEW} ELSE {keys.UNKNOWN} END
FROM (
  SELECT *, {{waiting}} AS waiting
  FROM thread_state
  WHERE trace_id = {{one}} AND state NOT IN ('running', 'ready') AND dur > 0{{also}}
)
"""

_SOURCES = {"cpu": (_CPU,), "thread": (_ALONE, _KEPT, _READY, _REST), "sibling": (_SIBLING,)}

# Where a thread or whether its sibling is busy changes; nothing else splits its running time.
_SHARED_RUNNING = """
INSERT INTO tiles.thread_part
WITH
  place AS (FROM topology(p_trace_id := {one})),
  ran AS NOT MATERIALIZED (
    SELECT utid, ts, ts + dur AS end_ns, cpu
    FROM thread_state
    WHERE trace_id = {one} AND state = 'running' AND dur > 0
      AND utid IN (SELECT utid FROM tiles.sharer WHERE trace_id = {one})
  ),
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
  )
SELECT {one}, s.utid, s.ts, s.end_ns - s.ts,
  {running} + CASE WHEN s.share > 0 THEN {shared} ELSE 0 END AS key
FROM swept AS s
LEFT JOIN place ON place.cpu = s.cpu AND s.ts >= place.from_ns AND s.ts < place.to_ns
WHERE s.run > 0 AND s.end_ns > s.ts
"""


# A recording that was analyzed has none. The sums show which threads to look at.
_UNEXPLAINED = """
INSERT INTO tiles.thread_part
WITH
  period AS NOT MATERIALIZED (
    SELECT trace_id, utid, ts, dur FROM thread_state
    WHERE trace_id = {one} AND state = 'ready' AND dur > 0
  ),
  explained AS NOT MATERIALIZED (
    SELECT utid, ready_ts, dur FROM ready_slice WHERE trace_id = {one}
  ),
  suspect AS MATERIALIZED (
    SELECT utid
    FROM (SELECT utid, sum(dur) AS ns FROM period GROUP BY utid) AS whole
    LEFT JOIN (SELECT utid, sum(dur) AS ns FROM explained GROUP BY utid) AS known USING (utid)
    WHERE known.ns IS DISTINCT FROM whole.ns
  )
SELECT period.*, {ready}
FROM period
ANTI JOIN (FROM explained WHERE utid IN (FROM suspect)) AS known
  ON known.utid = period.utid AND known.ready_ts = period.ts
WHERE period.utid IN (FROM suspect)
"""


def fill(one: int) -> tuple[str, ...]:
    """Statements that fill `tiles.sharer` and `tiles.thread_part` of a recording."""
    running = keys.running_sql("place.core_type")
    return (
        "INSERT INTO tiles.sharer SELECT DISTINCT trace_id, utid FROM sharing_slice "
        f"WHERE trace_id = {one} AND dur > 0",
        _SHARED_RUNNING.format(one=one, running=running, shared=keys.SHARED),
        _UNEXPLAINED.format(one=one, ready=keys.READY),
    )
