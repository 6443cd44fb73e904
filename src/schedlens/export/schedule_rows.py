"""The schedule of a recording as rows for `PerfettoPackets`: see docs/perfetto.md.

`trace_processor` derives `sched` and `thread_state` from switches and wakings. The rows are chosen
so that it derives what the tables `sched_slice` and `thread_state` contain.
"""

from __future__ import annotations

import duckdb

from schedlens.load.schema import literal

# `prev_state` of sched_switch from Linux 4.14 on. A bit that no kernel uses means: not known.
STATE_BITS = {
    "R": 0, "S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "Z": 32, "P": 64, "I": 128, "R+": 256,
}  # fmt: skip
UNKNOWN_STATE = 0x200
# Leaving an idle state, as the kernel's event says it.
IDLE_EXIT = 0xFFFFFFFF
# Stands for a priority that is not recorded.
NO_PRIORITY = -1


# The states of each thread with their neighbors, as `prepare` fills it.
_SPELL = "export_spell"


def prepare(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Fills a temporary table that the queries of this recording read."""
    kinds = con.execute(
        "SELECT table_type FROM information_schema.tables "
        "WHERE table_schema = 'main' AND table_name = 'sched_slice'"
    ).fetchall()
    # Slices of length 0 at one time are in the order of the table. A view of a lake has none.
    place = "rowid" if kinds == [("BASE TABLE",)] else "0"
    con.execute(f"""
      CREATE OR REPLACE TEMP TABLE {_SPELL} AS
      WITH empty AS (
        SELECT utid, ts, cpu, 0 AS dur, min({place}) AS place
        FROM sched_slice
        WHERE trace_id = {trace_id} AND dur = 0
        GROUP BY ALL
      )
      SELECT
        utid, ts, dur, state, cpu, reason, waker_utid,
        lag(state) OVER w AS state_before,
        lag(cpu) OVER w AS cpu_before,
        lead(state) OVER w AS state_after,
        lead(cpu) OVER w AS cpu_after,
        lead(reason) OVER w AS reason_after,
      FROM thread_state
      LEFT JOIN empty USING (utid, ts, cpu, dur)
      WHERE trace_id = {trace_id}
      WINDOW w AS (PARTITION BY utid ORDER BY ts, ts + dur, place)""").fetchall()


def release(con: duckdb.DuckDBPyConnection) -> None:
    """Removes the temporary table."""
    con.execute(f"DROP TABLE IF EXISTS {_SPELL}").fetchall()


def schedule(trace_id: int, last_cpu: int) -> str:
    """SQL of all rows in the order of CPU and time.

    Columns: cpu, ts, kind (0 slice, 1 waking, 2 idle state, 3 frequency, 4 order), utid, value
    (priority, target CPU, idle state, kHz), end_state, waker_utid, flag (slice: late, waking: by an
    interrupt), reason, until. A slice is late if its thread left another CPU at the same time, and
    trace_processor would take that switch later.
    """
    bits = " ".join(f"WHEN {literal(letter)} THEN {bit}" for letter, bit in STATE_BITS.items())
    return f"""
    WITH
      spell AS (FROM {_SPELL}),
      -- What follows each slice of a thread.
      after AS (
        SELECT
          utid, ts, dur, cpu, any_value(state_after) AS state, any_value(reason_after) AS reason,
          any_value(CASE WHEN state_before = 'running' THEN cpu_before END) AS cpu_left,
        FROM spell
        WHERE state = 'running'
        GROUP BY ALL
      ),
      late AS (SELECT DISTINCT cpu, ts FROM after WHERE cpu_left > cpu),
      slice AS (
        SELECT
          s.cpu, s.ts, s.ts + s.dur AS until, s.utid, s.priority,
          CASE
            WHEN after.state = 'unknown' THEN {UNKNOWN_STATE}
            ELSE CASE s.end_state {bits} ELSE {UNKNOWN_STATE} END
          END AS end_state,
          -- Reasons of Linux are the letters of its states.
          CASE WHEN after.state = 'waiting' AND length(after.reason) > 1 THEN after.reason END
            AS reason,
          -- Also if that switch is late itself.
          coalesce(
            after.cpu_left > s.cpu OR (after.cpu_left <> s.cpu AND late.ts IS NOT NULL), false
          ) AS is_late,
        FROM perfetto.sched(p_trace_id := {trace_id}) AS s
        LEFT JOIN after USING (utid, ts, dur, cpu)
        LEFT JOIN late ON late.cpu = after.cpu_left AND late.ts = s.ts
      ),
      woken AS (
        SELECT
          utid, ts, any_value(cpu) AS cpu, bool_or(in_interrupt) AS in_interrupt,
          any_value(target_cpu) AS target_cpu,
        FROM wakeup
        WHERE trace_id = {trace_id} AND effective
        GROUP BY utid, ts
      ),
      gap AS (
        SELECT cpu, ts, ts + dur AS until, state
        FROM cpu_state
        WHERE trace_id = {trace_id} AND state IN ('unknown', 'offline')
      ),
      gap_cpu AS (SELECT ts, min(cpu) AS cpu FROM gap WHERE state = 'unknown' GROUP BY ts)
    SELECT
      cpu, ts, 0::INTEGER AS kind, until, utid,
      coalesce(priority, {NO_PRIORITY})::BIGINT AS value, end_state::INTEGER AS end_state,
      0::BIGINT AS waker_utid, is_late::INTEGER AS flag, reason,
    FROM slice
    UNION ALL
    SELECT
      cpu, ts, 0, until, CASE state WHEN 'offline' THEN -2 ELSE -1 END - 2 * cpu, {NO_PRIORITY},
      {STATE_BITS["I"]}, 0, 0, NULL,
    FROM gap
    UNION ALL
    -- A thread of which nothing is known from the start of a gap on: a slice of length 0 there.
    SELECT gap_cpu.cpu, spell.ts, 0, spell.ts, utid, {NO_PRIORITY}, {UNKNOWN_STATE}, 0, 0, NULL
    FROM spell
    JOIN gap_cpu USING (ts)
    WHERE spell.state = 'unknown' AND state_before IN ('waiting', 'ready', 'new')
    UNION ALL
    SELECT
      coalesce(
        CASE WHEN state_before = 'running' THEN cpu_before END, woken.cpu, cpu_before, cpu_after, 0
      ),
      spell.ts, 1, spell.ts, utid, coalesce(woken.target_cpu, cpu_after, 0), 0, waker_utid,
      coalesce(woken.in_interrupt, false)::INTEGER, NULL,
    FROM spell
    LEFT JOIN woken USING (utid, ts)
    WHERE spell.state = 'ready' AND waker_utid IS NOT NULL
    UNION ALL
    SELECT cpu, ts, 2, ts, 0, state, 0, 0, 0, NULL
    FROM cpu_idle WHERE trace_id = {trace_id} AND dur IS NOT NULL
    UNION ALL
    SELECT cpu, ts + dur, 2, ts, 0, {IDLE_EXIT}, 0, 0, 0, NULL
    FROM cpu_idle WHERE trace_id = {trace_id} AND dur IS NOT NULL
    UNION ALL
    SELECT cpu, ts, 3, ts, 0, khz, 0, 0, 0, NULL FROM cpu_frequency WHERE trace_id = {trace_id}
    UNION ALL
    -- Before each moment at which a thread has several events.
    SELECT DISTINCT {last_cpu}, ts - 1, 4, ts - 1, 0, 0, 0, 0, 0, NULL
    FROM spell
    WHERE state_before = 'running'
      AND (state = 'running' AND cpu <> cpu_before OR state = 'ready' AND waker_utid IS NOT NULL)
      AND ts > (SELECT first_ns FROM trace WHERE trace_id = {trace_id})
    ORDER BY cpu, ts, until, kind, utid"""


def other_states() -> str:
    """SQL of the states that follow from no switch and no waking: utid, ts, state (a letter)."""
    return f"""
    SELECT
      utid, ts,
      CASE state
        WHEN 'new' THEN 'Created'
        WHEN 'ready' THEN 'R'
        ELSE CASE WHEN reason IN ('D', 'T') THEN reason ELSE 'S' END
      END AS state,
    FROM {_SPELL}
    WHERE
      (state = 'new' AND state_before IS NULL)
      OR (state = 'waiting' AND (state_before IS NULL OR state_before <> 'running'))
      OR (state = 'ready' AND waker_utid IS NULL
          AND (state_before IS NULL OR state_before <> 'running'))
    ORDER BY ts, utid"""
