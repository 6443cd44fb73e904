"""What a recording contains: its CPUs, processes, threads, gaps, counters, and findings."""

from __future__ import annotations

from typing import Any

from schedlens.timeline import keys
from schedlens.timeline.lanes import FRAME_LANE, GUEST_LANE
from schedlens.timeline.prepared import Timelines

_COUNTERS = "SELECT DISTINCT counter FROM counter_delta WHERE trace_id = $one ORDER BY counter"

# The page draws each of them over the lanes. Losses that touch are one, and of millions the longest
# are drawn: the lanes show the time of the others as unknown.
_MOST_GAPS = 5_000
_GAPS = """
WITH
  placed AS (
    SELECT
      cpu,
      CASE WHEN cpu IS NULL THEN start_ns ELSE coalesce(start_ns, first_ns) END AS start_ns,
      CASE WHEN cpu IS NULL THEN end_ns ELSE coalesce(end_ns, duration_ns) END AS end_ns,
    FROM loss
    JOIN trace USING (trace_id)
    WHERE trace_id = $one
  ),
  numbered AS (
    SELECT
      cpu,
      start_ns,
      end_ns,
      coalesce(start_ns > max(end_ns) OVER (
        PARTITION BY cpu ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ), true) AS begins,
    FROM placed
    WHERE start_ns IS NOT NULL AND end_ns > start_ns
  ),
  island AS (
    SELECT
      *,
      count(CASE WHEN begins THEN 1 END) OVER (
        PARTITION BY cpu ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING
      ) AS number,
    FROM numbered
  ),
  merged AS (
    SELECT cpu, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM island
    GROUP BY cpu, number
    ORDER BY max(end_ns) - min(start_ns) DESC, min(start_ns), cpu
    LIMIT $most
  )
FROM merged
ORDER BY start_ns, cpu
"""


def overview(timelines: Timelines, trace_id: int) -> dict[str, Any]:
    """Everything that the page needs before it asks for lanes, as JSON values.

    Raises `UnknownNameError` for a recording that does not exist.
    """
    start, end = timelines.of(trace_id)
    summed = timelines.sums_sql("thread", trace_id, start, end)
    one = {"one": trace_id}

    def rows(sql: str) -> list[dict[str, Any]]:
        return table(timelines, sql, one if "$one" in sql else {})

    def has(name: str, condition: str = "true") -> bool:
        # Planning a question takes longer than this, and most recordings have no frames or guests.
        return bool(rows(f"SELECT 1 FROM {name} WHERE trace_id = $one AND {condition} LIMIT 1"))

    waiting = rows("SELECT key, reason FROM tiles.waiting WHERE trace_id = $one ORDER BY key")
    counters = rows(
        "SELECT row_number() OVER (ORDER BY counter, cpu) AS id, counter || ' of CPU ' || cpu "
        "AS name, 'per s' AS unit, cpu, 'counter' AS kind "
        "FROM (SELECT DISTINCT counter, cpu FROM counter_delta WHERE trace_id = $one) ORDER BY id"
    )
    counters += rows(
        "SELECT DISTINCT cpu AS id, 'frequency of CPU ' || cpu AS name, 'MHz' AS unit, cpu, "
        "'frequency' AS kind FROM cpu_frequency WHERE trace_id = $one ORDER BY cpu"
    )
    has_parking = has("cpu_parking")
    if has_parking:
        counters.append(
            {"id": 0, "name": "parked CPUs", "unit": "CPUs", "cpu": None, "kind": "parked_count"}
        )
    return {
        "trace_id": trace_id,
        "recordings": rows(
            "SELECT trace_id, label AS name, least(coalesce(first_ns, 0), 0) AS start_ns, "
            "coalesce(duration_ns, 0) AS end_ns FROM trace ORDER BY trace_id"
        ),
        "start_ns": start,
        "end_ns": end,
        "cpus": rows(
            "SELECT cpu, package, llc, core, core_type, smt_index FROM "
            "(SELECT *, row_number() OVER (PARTITION BY cpu ORDER BY valid_from_ns NULLS FIRST) "
            "AS place FROM cpu WHERE trace_id = $one) WHERE place = 1 "
            "UNION ALL BY NAME SELECT DISTINCT cpu FROM cpu_state WHERE trace_id = $one "
            "AND cpu NOT IN (SELECT cpu FROM cpu WHERE trace_id = $one) ORDER BY cpu"
        ),
        "processes": rows("SELECT upid, pid, name FROM process WHERE trace_id = $one ORDER BY 1"),
        "threads": rows(
            "SELECT t.utid, t.tid, t.name, t.upid, coalesce(p.running_ns, 0) AS running_ns, "
            "coalesce(p.ready_ns, 0) AS ready_ns, f.cost_ns FROM thread AS t LEFT JOIN ("
            "SELECT lane, sum(ns) FILTER (WHERE key < $ready)::BIGINT AS running_ns, "
            "sum(ns) FILTER (WHERE key BETWEEN $ready AND $ready + 9)::BIGINT AS ready_ns "
            f"FROM ({summed}) GROUP BY lane) AS p ON p.lane = t.utid "
            "LEFT JOIN (SELECT utid, sum(cost_ns)::BIGINT AS cost_ns FROM finding "
            "WHERE trace_id = $one GROUP BY utid) AS f ON f.utid = t.utid "
            "WHERE t.trace_id = $one AND NOT t.is_idle ORDER BY t.utid".replace(
                "$ready", str(keys.READY)
            )
        ),
        "states": keys.states([(row["key"], row["reason"]) for row in waiting]),
        "gaps": table(timelines, _GAPS, {**one, "most": _MOST_GAPS}),
        "counters": counters,
        "findings": rows(
            "SELECT finding_id AS id, kind, title, trace_id, utid, cpu, start_ns, end_ns "
            "FROM finding WHERE trace_id = $one OR trace_id IS NULL ORDER BY finding_id"
        ),
        "counter_names": [row["counter"] for row in rows(_COUNTERS)],
        # The lanes of frames, by the process that presents them.
        "frames": rows(
            f"SELECT DISTINCT id, name FROM (SELECT {FRAME_LANE} AS id, process AS name "
            f"FROM frame_time(p_trace_id := $one, p_from_ns := {start}, p_to_ns := {end}) "
            "WHERE dur_ns > 0) ORDER BY id"
        )
        if has("frame")
        else [],
        # The lanes of the CPUs of guests, with the host's thread that is the CPU.
        "guests": rows(
            f"SELECT DISTINCT {GUEST_LANE} AS id, coalesce(guest, 'guest') || ' CPU ' || guest_cpu "
            "AS name, host_utid AS utid FROM guest_slice($one) ORDER BY id"
        )
        if has("guest_cpu")
        else [],
        "has_marks": has("mark", "kind <> 'frame'"),
        "has_parking": has_parking,
        "has_samples": has("sample"),
        "has_stacks": has("stack"),
    }


def table(timelines: Timelines, sql: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a statement, as dicts."""
    cursor = timelines.con.execute(sql, given)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
