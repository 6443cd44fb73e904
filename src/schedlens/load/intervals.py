"""Computes the interval tables: the decoders read derived rows and return finished rows.

`build` fills the tables of `queries/schema/sweeps.sql` from the base and derived tables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow

from schedlens import _decoders
from schedlens.load.row_groups import RowGroups
from schedlens.load.second_writer import SecondWriter

if TYPE_CHECKING:
    import duckdb

MIN_IDLE_NS = 100_000
"""The shortest idle interval that counts, the default of every `p_min_idle_ns`."""

# Length of a tick if the recording lacks HZ, as in the state machine.
_TICK_NS = 1_000_000
# KWAIT_REASON of a thread that its job's CPU rate control throttles.
_RATE_CONTROL = _decoders.KWAIT_REASON.index("WrCpuRateControl")
_BATCH = 1 << 17
# Row groups to insert at once, so that DuckDB's threads can share them.
_INSERT_ROW_GROUPS = 4

_TABLES = (
    "core_state",
    "sibling_slice",
    "sharing_slice",
    "avoidable_match",
    "ready_slice",
    "ready_match",
    "concurrency_slice",
    "quantum_chain",
)

_STREAMS = {
    "cpu": """
SELECT
  cpu,
  core,
  CASE WHEN core_type IS NOT NULL THEN dense_rank() OVER (ORDER BY core_type) END::INTEGER
    AS type_id,
  CASE
    WHEN core_type IN ('P', 'U') THEN 0
    WHEN core_type IN ('E', 'LP-E') THEN 1
    ELSE 2
  END::TINYINT AS band,
  online,
  valid_from_ns
FROM (
  SELECT cpu, core, core_type, online, valid_from_ns, rowid AS place
  FROM cpu
  WHERE trace_id = $trace_id
  UNION ALL
  SELECT DISTINCT cpu, NULL, NULL, NULL, NULL, NULL
  FROM cpu_state
  WHERE trace_id = $trace_id AND cpu NOT IN (SELECT cpu FROM cpu WHERE trace_id = $trace_id)
)
ORDER BY cpu, valid_from_ns NULLS FIRST, place
""",
    # Of two masks with the same start, a requested one wins, then one that is fixed by design, then
    # the later record. The same as in affinity_spell.
    "affinity": """
SELECT utid, valid_from_ns, unnest(cpus)::INTEGER AS cpu
FROM (
  SELECT utid, valid_from_ns, cpus
  FROM affinity
  WHERE trace_id = $trace_id
  QUALIFY row_number() OVER (
    PARTITION BY utid, valid_from_ns
    ORDER BY
      list_position(
        ['event', 'pin', 'kernel_thread', 'reading', 'snapshot', 'rundown'], source
      ),
      rowid DESC
  ) = 1
)
""",
    "seen": """
SELECT DISTINCT utid, cpu
FROM sched_slice
WHERE trace_id = $trace_id AND NOT is_idle
ORDER BY utid, cpu
""",
    # Of two records at one time the later one in the recording decides.
    "parking": """
SELECT ts, cpu, parked, soft_parked
FROM cpu_parking
WHERE trace_id = $trace_id
ORDER BY ts NULLS FIRST, rowid
""",
    # Of a cgroup that ended before it was read, nothing shows whether its quota was used up.
    "throttled": """
SELECT
  thread.utid,
  bool_or(
    thread.utid IN (
      SELECT utid
      FROM thread_cgroup
      WHERE trace_id = $trace_id
        AND cgroup NOT IN (
          SELECT cgroup
          FROM snapshot_cgroup
          WHERE trace_id = $trace_id AND edge IN ('end', 'last') AND cgroup IS NOT NULL
        )
    )
  ) AS unread
FROM (
  SELECT utid, cgroup FROM thread_cgroup WHERE trace_id = $trace_id
  UNION
  SELECT utid, cgroup FROM snapshot_thread WHERE trace_id = $trace_id
) AS thread
JOIN (
  SELECT cgroup
  FROM snapshot_cgroup
  WHERE trace_id = $trace_id
  GROUP BY cgroup
  HAVING max(throttled_ns) FILTER (WHERE edge IN ('end', 'last'))
    > min(throttled_ns) FILTER (WHERE edge = 'begin')
  UNION
  -- The throttling of these is unknown: their threads may have been throttled.
  SELECT cgroup
  FROM thread_cgroup
  WHERE trace_id = $trace_id
    AND cgroup NOT IN (
      SELECT cgroup FROM snapshot_cgroup WHERE trace_id = $trace_id AND edge IN ('end', 'last')
    )
) AS throttled
  ON thread.cgroup = throttled.cgroup OR starts_with(thread.cgroup, throttled.cgroup || '/')
WHERE thread.utid IS NOT NULL
GROUP BY thread.utid
ORDER BY thread.utid
""",
    # They may have been long enough to count. Two lookups: one join on either edge would compare
    # each pair of a CPU.
    "short_idle": f"""
SELECT ts, dur
FROM {{place}}.state
WHERE state = 2 AND dur < {MIN_IDLE_NS}
  AND (
    (cpu, ts + dur) IN (SELECT (cpu, ts) FROM {{place}}.unknown)
    OR (cpu, ts) IN (SELECT (cpu, ts + dur) FROM {{place}}.unknown)
  )
ORDER BY ts
""",
    "not_running": "SELECT ts, dur, cpu, state, utid FROM {place}.state WHERE state IN (2, 3, 4)",
    "slices": """
SELECT ts, dur, cpu, utid, ready_from_ns, ended FROM {place}.state WHERE ended IS NOT NULL
""",
    "cpu_state": """
SELECT ts, dur, cpu, state, utid FROM {place}.state WHERE dur > 0 OR state <> 0
""",
    "ready": "FROM {place}.ready",
}

# Rows that the large inputs look up. There are few, so that a join needs no memory for all slices.
_LOOKED_UP = {
    "contended": """
SELECT DISTINCT cpu
FROM sched_slice
WHERE trace_id = $trace_id
  AND end_reason IN ('quantum_end', 'quantum_end_or_yield', 'preempted')
""",
    "cut_ready": """
SELECT utid, ts, dur, left_censored
FROM thread_state_other
WHERE trace_id = $trace_id
  AND (left_censored OR right_censored)
  AND state = 'ready'
  AND dur > 0
""",
    "lost": """
SELECT utid, ts, bool_or(state = 'unknown') AS is_unknown
FROM thread_state
WHERE trace_id = $trace_id AND dur > 0
  -- A single damaged record takes no time: only the thread's next slice shows it.
  AND (state = 'unknown' OR state = 'running' AND left_censored)
GROUP BY utid, ts
""",
    "unknown": """
SELECT cpu, ts, dur
FROM cpu_state_other
WHERE trace_id = $trace_id AND state = 'unknown' AND dur > 0
""",
}

# Inputs with a row per switch or wakeup, in a database that may spill to disk.
_SORTED = {
    # The rows of cpu_state and the slices without a length, with what `slices` needs of a slice on
    # a contended CPU. A thread that was ready before the recording has no ready_ns: take the start
    # of its state.
    "state": """
SELECT
  slice.ts,
  slice.dur,
  slice.cpu,
  0::TINYINT AS state,
  slice.utid,
  coalesce(slice.ts - slice.ready_ns, cut.ts) AS ready_from_ns,
  CASE
    WHEN slice.cpu NOT IN (FROM {place}.contended) THEN NULL
    WHEN slice.end_reason = 'quantum_end' THEN 1
    WHEN slice.end_reason = 'quantum_end_or_yield' THEN 2
    WHEN slice.end_reason = 'preempted' THEN 3
    WHEN slice.end_reason = 'runnable_other' THEN 4
    ELSE 0
  END::TINYINT AS ended
FROM sched_slice AS slice
LEFT JOIN (
  SELECT utid, ts + dur AS end_ns, min(ts) AS ts
  FROM {place}.cut_ready
  WHERE left_censored
  GROUP BY ALL
) AS cut ON cut.utid = slice.utid AND cut.end_ns = slice.ts
WHERE slice.trace_id = $trace_id AND NOT slice.is_idle
UNION ALL
SELECT
  ts,
  dur,
  cpu,
  CASE state WHEN 'interrupt' THEN 1 WHEN 'idle' THEN 2 WHEN 'offline' THEN 4 ELSE 3 END::TINYINT,
  NULL,
  NULL,
  NULL
FROM cpu_state_other
WHERE trace_id = $trace_id
ORDER BY ts, cpu, dur, utid
""",
    # A slice contains the ready time before it, unless that is cut by its end or by a gap.
    #
    # Only a slice that ended runnable can leave a throttled thread. If several slices end at one
    # time, the last is one of length zero; if one of those blocked, the thread blocked.
    "ready": """
SELECT
  state.ts,
  state.dur,
  state.utid,
  state.entered_cpu,
  leaving.cpu AS left_cpu,
  state.cut,
  state.left_censored,
  throttled.utid IS NOT NULL AS rate_controlled,
  state.unseen
FROM (
  SELECT ts - ready_ns AS ts, ready_ns AS dur, utid, cpu AS entered_cpu, dur AS entered_ns,
    false AS cut, false AS left_censored, false AS unseen
  FROM sched_slice
  WHERE trace_id = $trace_id AND ready_ns > 0 AND NOT is_idle AND NOT left_censored
  UNION ALL
  SELECT cut.ts, cut.dur, cut.utid, slice.cpu, slice.dur, lost.utid IS NOT NULL,
    cut.left_censored, slice.utid IS NULL AND coalesce(lost.is_unknown, false)
  FROM {place}.cut_ready AS cut
  LEFT JOIN (
    FROM sched_slice WHERE trace_id = $trace_id AND NOT is_idle AND NOT left_censored
  ) AS slice
    ON slice.utid = cut.utid AND slice.ts = cut.ts + cut.dur
  LEFT JOIN {place}.lost AS lost ON lost.utid = cut.utid AND lost.ts = cut.ts + cut.dur
) AS state
LEFT JOIN (
  SELECT runnable.utid, runnable.cpu, runnable.ts + runnable.dur AS ts, runnable.dur
  FROM sched_slice AS runnable
  ANTI JOIN (
    SELECT utid, ts
    FROM sched_slice
    WHERE trace_id = $trace_id AND dur = 0 AND end_reason IN ('blocked', 'exit', 'unknown')
  ) AS blocked
    ON blocked.utid = runnable.utid AND blocked.ts = runnable.ts + runnable.dur
  WHERE runnable.trace_id = $trace_id
    AND NOT runnable.is_idle
    AND runnable.end_reason IN (
      'throttled_or_moved', 'quantum_end', 'quantum_end_or_yield', 'preempted', 'yield',
      'runnable_other'
    )
    -- On Linux, only this reason says that the idle thread ran next.
    AND (runnable.end_reason = 'throttled_or_moved' OR NOT $by_tick)
) AS leaving ON leaving.utid = state.utid AND leaving.ts = state.ts
LEFT JOIN (
  SELECT DISTINCT prev_utid AS utid, ts
  FROM context_switch
  WHERE trace_id = $trace_id AND (
    prev_wait_reason = $rate_control
    -- Deadline threads run before real-time threads, and those before all others, until their
    -- runtime or share is used up. The threads that stop a CPU have priority 0.
    OR $by_tick AND prev_state & 255 = 0
      AND (prev_priority = -1 AND next_priority > 0
        OR prev_priority BETWEEN 0 AND 98 AND next_priority >= 100)
  )
) AS throttled ON throttled.utid = state.utid AND throttled.ts = state.ts
ORDER BY state.ts, state.utid, state.entered_ns, leaving.dur, state.entered_cpu, leaving.cpu
""",
}

# The first and last rows count if the trace row lacks its ends.
_FACTS = """
SELECT
  coalesce(trace.first_ns, least(0, whole.first_ns), 0) AS first_ns,
  coalesce(trace.duration_ns, whole.end_ns, 0) AS end_ns,
  is_windows_source(trace.source) AS parking_needed,
  NOT is_windows_source(trace.source) AS by_tick,
  (
    SELECT any_value(try_cast(value AS BIGINT))
    FROM machine_setting
    WHERE trace_id = $trace_id AND key = 'hz'
  ) AS hz,
  -- An event that was recorded but never occurred has a count of 0.
  EXISTS (
    FROM record_count
    WHERE trace_id = $trace_id
      AND record IN ('syscalls:sys_enter_sched_yield', 'sched_yield')
  )
  OR EXISTS (FROM sched_yield WHERE trace_id = $trace_id)
  OR EXISTS (FROM sched_slice WHERE trace_id = $trace_id AND end_reason = 'quantum_end')
    AS yields_recorded,
  EXISTS (FROM loss WHERE trace_id = $trace_id AND cpu IS NOT NULL) AS lossy
FROM trace
CROSS JOIN (
  SELECT min(ts) AS first_ns, max(ts + dur) AS end_ns
  FROM cpu_state
  WHERE trace_id = $trace_id
) AS whole
WHERE trace_id = $trace_id
"""


def build(con: duckdb.DuckDBPyConnection, trace_ids: list[int]) -> None:
    """Fills the interval tables for these recordings.

    The tables must exist; rows of these recordings are replaced. Base and derived rows must be
    committed, because separate cursors read them. Raises `ValueError` if an input does not have
    the form that the state machine produces.
    """
    for trace_id in trace_ids:
        # Each recording with any time has rows of this table.
        if con.execute(
            "SELECT 1 FROM concurrency_slice WHERE trace_id = ? LIMIT 1", [trace_id]
        ).fetchone():
            for table in _TABLES:
                con.execute(f"DELETE FROM {table} WHERE trace_id = ?", [trace_id])
        with _workspace(con) as place:
            _compute(con, trace_id, place)


@contextlib.contextmanager
def _workspace(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """An in-memory database for sorted inputs, visible to all cursors, dropped at the end."""
    place = "interval_workspace"
    con.execute(f"ATTACH ':memory:' AS {place}")
    try:
        yield place
    finally:
        con.execute(f"DETACH {place}")


def _compute(con: duckdb.DuckDBPyConnection, trace_id: int, place: str) -> None:
    own = {"trace_id": trace_id}
    found = con.execute(_FACTS, own).fetchall()
    if not found:
        return
    first_ns, end_ns, parking_needed, by_tick, hz, yields_recorded, lossy = found[0]
    facts = {
        "first_ns": first_ns,
        "end_ns": end_ns,
        "parking_needed": parking_needed,
        "by_tick": by_tick,
        "tick_ns": 1_000_000_000 // hz if hz else _TICK_NS,
        "yields_recorded": yields_recorded,
        "lossy": lossy,
    }
    # One after the other: sorts that run at the same time would need memory for all their rows.
    for name, sql in (*_LOOKED_UP.items(), *_SORTED.items()):
        con.execute(
            f"CREATE OR REPLACE TABLE {place}.{name} AS {sql.format(place=place)}",
            _values(sql, own, by_tick=by_tick),
        )
    # A stream blocks its connection, so each one has its own cursor.
    [(named,)] = con.execute("SELECT current_database()").fetchall()
    database = '"' + str(named).replace('"', '""') + '"'
    with contextlib.ExitStack() as open_cursors:
        streams = {}
        for name, sql in _STREAMS.items():
            cursor = open_cursors.enter_context(contextlib.closing(con.cursor()))
            cursor.execute(f"USE {database}")
            text = sql.format(place=place)
            rows = cursor.sql(text, params=_values(text, own, by_tick=by_tick))
            streams[name] = rows.to_arrow_reader(_BATCH)
        _insert(con, _decoders.sweep(trace_id, facts, streams))


def _values(sql: str, own: dict[str, int], *, by_tick: bool) -> dict[str, object]:
    """The parameters that a statement contains."""
    known: dict[str, object] = {**own, "rate_control": _RATE_CONTROL, "by_tick": by_tick}
    return {name: value for name, value in known.items() if f"${name}" in sql}


def _insert(
    con: duckdb.DuckDBPyConnection, outputs: Iterator[tuple[str, pyarrow.RecordBatch]]
) -> None:
    gathered: dict[str, RowGroups] = {}
    with SecondWriter(con, _write) as second:
        for table, batch in outputs:
            groups = gathered.setdefault(table, RowGroups(_INSERT_ROW_GROUPS))
            groups.add(batch)
            if groups.are_due:
                second.insert(table, groups.take_full())
        # One transaction: many small ones would write all rows to the log first.
        con.begin()
        try:
            for table, groups in gathered.items():
                if second.started:
                    second.insert(table, groups.take_all())
                else:
                    _write(con, table, groups.take_all())
        except BaseException:
            con.rollback()
            raise
        con.commit()
        second.commit()


def _write(con: duckdb.DuckDBPyConnection, table: str, batches: list[pyarrow.RecordBatch]) -> None:
    if not batches:
        return
    # A registered view would keep its rows in memory until the transaction ends.
    con.from_arrow(pyarrow.Table.from_batches(batches)).insert_into(table)
