"""SQL from the tables of trace_processor (`e_...`) to the base tables.

`base` is the time of ns 0, `last` that of the latest record of the schedule; both are macros. Ids:
`utid` n of the engine becomes n + the CPUs, since each CPU has an idle thread of its own.
"""

from __future__ import annotations

# Prepares views that several tables use. The first event of each CPU, of any kind, begins its
# stream: what happened there before is unknown.
PREPARE = """
CREATE TEMP TABLE event AS
  SELECT cpu, ts FROM e_sched
  UNION ALL SELECT cpu, ts + dur FROM e_sched WHERE dur >= 0
  UNION ALL SELECT cpu, ts FROM e_switch
  UNION ALL SELECT cpu, ts FROM e_waking
  UNION ALL SELECT cpu, ts FROM e_counter;
CREATE TEMP TABLE stream AS
  SELECT cpu, min(ts) AS first_ts, max(ts) AS last_ts FROM event WHERE cpu IS NOT NULL GROUP BY cpu;
CREATE MACRO base() AS (SELECT min(first_ts) FROM stream);
CREATE MACRO last() AS (SELECT max(last_ts) FROM stream);
CREATE TEMP TABLE number AS
  SELECT greatest(
    coalesce((SELECT max(cpu) FROM stream), 0), coalesce((SELECT max(cpu) FROM e_cpu), 0)
  ) + 1 AS cpus;
CREATE MACRO own(utid) AS
  4294967296::BIGINT + utid + (SELECT cpus FROM number);
-- Thread 0 of the engine stands for the idle threads of all CPUs.
CREATE MACRO thread_of(utid, cpu) AS
  CASE WHEN utid = 0 THEN 4294967296::BIGINT + cpu ELSE own(utid) END;

CREATE TEMP TABLE slice AS
  SELECT
    *,
    row_number() OVER (PARTITION BY cpu, ts ORDER BY id) AS nth,
    lag(utid) OVER w AS left_utid,
    lag(end_state) OVER w AS left_state,
    lag(priority) OVER w AS left_priority,
    lag(ts) OVER w AS left_ts,
    lag(dur) OVER w AS left_dur,
  FROM e_sched
  WINDOW w AS (PARTITION BY cpu ORDER BY ts, id);
CREATE TEMP TABLE switch AS
  WITH
    raw AS (
      SELECT *, row_number() OVER (PARTITION BY cpu, ts ORDER BY id) AS nth FROM e_switch
    )
  SELECT
    s.*,
    s.left_dur >= 0 AND s.left_ts + s.left_dur = s.ts AS touches,
    coalesce(
      raw.utid, CASE WHEN s.left_dur >= 0 AND s.left_ts + s.left_dur = s.ts THEN s.left_utid END
    ) AS prev_utid,
    raw.id AS raw_id,
  FROM slice AS s
  LEFT JOIN raw ON raw.cpu = s.cpu AND raw.ts = s.ts AND raw.nth = s.nth;
-- Records by the thread that they name: ids are reused, so the life that had begun last.
CREATE TEMP TABLE named AS
  SELECT w.*, t.utid AS named_utid
  FROM (SELECT *, coalesce(ts, 0) AS at FROM e_waking WHERE tid IS NOT NULL) AS w
  ASOF LEFT JOIN (
    SELECT tid, utid, coalesce(start_ts, 0) AS since FROM e_thread
  ) AS t ON t.tid = w.tid AND w.at >= t.since;
CREATE TEMP TABLE waking AS
  SELECT
    ts, cpu, 0 AS kind_rank, id, named_utid AS utid, utid AS waker_utid, target_cpu,
    replace(name, 'sched_', '') AS kind, common_flags & 24 <> 0 AS in_interrupt,
  FROM named
  WHERE name <> 'sched_migrate_task' AND named_utid IS NOT NULL
  UNION ALL
  -- Without raw events: those by which the engine began a runnable state.
  SELECT
    r.ts, coalesce(r.waker_cpu, 0), 0, r.id, r.utid, r.waker_utid, NULL, 'waking',
    r.irq_context = 1,
  FROM e_ready AS r
  WHERE NOT EXISTS (FROM e_waking WHERE name <> 'sched_migrate_task')
    AND (r.waker_cpu IS NOT NULL OR r.waker_utid <> 0);
CREATE TEMP TABLE sequence AS
  SELECT
    *, row_number() OVER (PARTITION BY cpu ORDER BY ts, kind_rank, id) AS seq
  FROM (
    SELECT cpu, ts, kind_rank, id FROM waking
    UNION ALL SELECT cpu, ts, 1, id FROM named WHERE name = 'sched_migrate_task'
    UNION ALL SELECT cpu, ts, 2, id FROM switch
  );
"""

_STATE = """
  CASE
    WHEN {0} IS NULL THEN NULL
    WHEN {0} IN ('R', 'Ready', 'Standby', 'Stand By', 'DeferredReady', 'Deferred Ready') THEN 0
    WHEN {0} = 'R+' THEN 256
    WHEN {0} IN ('Waiting', 'Initialized', 'Transition') THEN 1
    WHEN {0} = 'Terminated' THEN 16
    WHEN {0}[1] = 'S' THEN 1 WHEN {0}[1] = 'D' THEN 2 WHEN {0}[1] = 'T' THEN 4
    WHEN {0}[1] = 't' THEN 8 WHEN {0}[1] IN ('X', 'x') THEN 16 WHEN {0}[1] = 'Z' THEN 32
    WHEN {0}[1] = 'P' THEN 64 WHEN {0}[1] = 'I' THEN 128
  END"""

TABLES = {
    "cpu": """
      SELECT
        cpu::INTEGER AS cpu, capacity::INTEGER AS capacity, true AS online,
        CASE
          WHEN count(capacity) OVER () = count(*) OVER () THEN
            dense_rank() OVER (ORDER BY capacity) - 1
          WHEN max(cluster_id) OVER () > 0 THEN cluster_id
        END::INTEGER AS efficiency_class,
      FROM (
        SELECT cpu, any_value(capacity) AS capacity, any_value(cluster_id) AS cluster_id
        FROM (SELECT cpu, capacity, cluster_id FROM e_cpu
              UNION ALL SELECT cpu, NULL, NULL FROM stream)
        GROUP BY cpu
      )
      ORDER BY cpu""",
    "process": """
      SELECT
        4294967296::BIGINT + upid AS upid, pid, name,
        CASE WHEN start_ts >= base() THEN start_ts - base() END AS start_ns,
        CASE WHEN end_ts >= base() THEN end_ts - base() END AS end_ns,
      FROM e_process ORDER BY upid""",
    "thread": """
      SELECT
        4294967296::BIGINT + i.cpu AS utid, 0::BIGINT AS tid, NULL::BIGINT AS upid,
        'swapper/' || i.cpu AS name, NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns,
        true AS is_idle,
      FROM (SELECT unnest(range((SELECT cpus FROM number))) AS cpu) AS i
      UNION ALL
      SELECT
        own(utid), tid, 4294967296::BIGINT + upid, name,
        CASE WHEN start_ts >= base() THEN start_ts - base() END,
        CASE WHEN end_ts >= base() THEN end_ts - base() END, false,
      FROM e_thread WHERE utid <> 0
      ORDER BY 1""",
    "context_switch": f"""
      SELECT
        s.ts - base() AS ts, s.cpu::INTEGER AS cpu, q.seq,
        thread_of(s.prev_utid, s.cpu) AS prev_utid, thread_of(s.utid, s.cpu) AS next_utid,
        CASE
          WHEN s.touches AND s.prev_utid = s.left_utid THEN {_STATE.format("s.left_state")}
          WHEN f.prev_state IS NULL THEN NULL
          WHEN f.prev_state & 63 <> 0 THEN f.prev_state & 63
          WHEN f.prev_state & 192 <> 0 THEN 128
          WHEN f.prev_state <> 0 THEN 256
          ELSE 0
        END::INTEGER AS prev_state,
        CASE
          WHEN s.touches AND s.prev_utid = s.left_utid THEN s.left_priority ELSE f.prev_prio
        END::INTEGER AS prev_priority,
        s.priority::INTEGER AS next_priority, 'switch' AS source,
      FROM switch AS s
      JOIN sequence AS q ON q.cpu = s.cpu AND q.id = s.id AND q.kind_rank = 2
      LEFT JOIN e_first AS f ON f.id = s.raw_id
      ORDER BY ts, cpu, seq""",
    "wakeup": """
      SELECT
        w.ts - base() AS ts, w.cpu::INTEGER AS cpu, q.seq, thread_of(w.utid, w.cpu) AS utid,
        thread_of(w.waker_utid, w.cpu) AS waker_utid,
        CASE WHEN kind = 'waking' THEN target_cpu END::INTEGER AS prev_cpu,
        target_cpu::INTEGER AS target_cpu, kind, in_interrupt,
      FROM waking AS w
      JOIN sequence AS q ON q.cpu = w.cpu AND q.id = w.id AND q.kind_rank = 0
      WHERE w.utid <> 0
      ORDER BY ts, cpu, seq""",
    "migration": """
      SELECT
        n.ts - base() AS ts, n.cpu::INTEGER AS cpu, q.seq, own(named_utid) AS utid,
        orig_cpu::INTEGER AS orig_cpu, dest_cpu::INTEGER AS dest_cpu,
      FROM named AS n
      JOIN sequence AS q ON q.cpu = n.cpu AND q.id = n.id AND q.kind_rank = 1
      WHERE name = 'sched_migrate_task' AND named_utid <> 0 AND dest_cpu IS NOT NULL
      ORDER BY ts, cpu, seq""",
    # A leader moves with the threads of its process that exist then.
    "thread_cgroup": """
      WITH
        moved AS (
          SELECT c.id, c.ts, c.path, t.utid, t.upid, t.tid
          FROM (SELECT * FROM e_cgroup WHERE hierarchy = 0 AND path IS NOT NULL) AS c
          ASOF JOIN (
            SELECT tid, utid, upid, coalesce(start_ts, 0) AS since FROM e_thread
          ) AS t ON t.tid = c.tid AND c.ts >= t.since
          WHERE t.utid <> 0
        )
      SELECT m.ts - base() AS ts, own(m.utid) AS utid, m.tid, m.path AS cgroup, 'move' AS source
      FROM moved AS m
      UNION ALL
      SELECT m.ts - base(), own(t.utid), t.tid, m.path, 'move'
      FROM moved AS m
      JOIN e_process AS p ON p.upid = m.upid AND p.pid = m.tid
      JOIN e_thread AS t ON t.upid = m.upid AND t.utid <> m.utid
      WHERE coalesce(t.start_ts, 0) <= m.ts AND coalesce(t.end_ts, m.ts) >= m.ts
      ORDER BY ts, utid, cgroup""",
    "interrupt_slice": """
      SELECT
        ts - base() AS ts, cpu::INTEGER AS cpu, row_number() OVER (PARTITION BY cpu ORDER BY ts, id)
          AS seq,
        CASE WHEN dur >= 0 THEN dur END AS dur,
        CASE type WHEN 'cpu_irq' THEN 'irq' ELSE 'softirq' END AS kind,
        regexp_replace(name, '^IRQ \\((.*)\\)$', '\\1') AS name,
      FROM e_irq WHERE cpu IS NOT NULL AND ts BETWEEN base() AND last()
      ORDER BY ts, cpu, seq""",
    "cpu_idle": """
      SELECT ts - base() AS ts, cpu::INTEGER AS cpu, next - ts AS dur, value::INTEGER AS state
      FROM (
        SELECT *, lead(ts) OVER (PARTITION BY cpu ORDER BY ts, id) AS next FROM e_counter
        WHERE name = 'cpuidle'
      )
      -- 4294967295: the CPU leaves the state.
      WHERE value < 2147483648 AND value >= 0
      ORDER BY ts, cpu""",
    "cpu_frequency": """
      SELECT ts - base() AS ts, cpu::INTEGER AS cpu, value::BIGINT AS khz
      FROM e_counter WHERE name = 'cpufreq' AND value > 0
      ORDER BY ts, cpu, id""",
    "track_counter": """
      SELECT
        ts - base() AS ts, name, nullif(unit, '') AS unit, cpu::INTEGER AS cpu,
        4294967296::BIGINT + upid AS upid,
        CASE WHEN utid <> 0 THEN own(utid) END AS utid, value,
      FROM e_value
      WHERE ts BETWEEN base() AND last() AND isfinite(value)
      ORDER BY ts, name, cpu, upid, utid, id""",
    "mark": """
      SELECT
        ts - base() AS ts, CASE WHEN dur >= 0 THEN dur END AS dur, name, 'user' AS kind,
      FROM e_slice WHERE ts BETWEEN base() AND last()
      ORDER BY ts, name""",
    "frame": """
      SELECT
        row_number() OVER (PARTITION BY f.upid ORDER BY f.ts, f.dur) AS frame,
        4294967296::BIGINT + f.upid AS upid, p.name AS process, f.ts - base() AS start_ns,
        CASE WHEN f.dur >= 0 THEN f.dur END AS dur_ns,
        CASE WHEN f.dur >= 0 AND present_type NOT LIKE 'Dropped%' THEN f.ts + f.dur - base() END
          AS displayed_ns,
        present_type LIKE 'Dropped%' AS dropped, 'android' AS dialect,
        0::BIGINT AS clock_residual_ns,
      FROM e_frame AS f
      JOIN e_process AS p USING (upid)
      WHERE f.ts BETWEEN base() AND last()
      ORDER BY f.upid, f.ts, f.dur""",
    "loss": """
      SELECT
        cpu::INTEGER AS cpu, 0::BIGINT AS start_ns, first_ts - base() AS end_ns,
        NULL::BIGINT AS events, 'stream_start' AS signalled_by,
      FROM stream WHERE first_ts > base() AND cpu IN (SELECT cpu FROM e_sched)
      UNION ALL
      -- If some buffer lost data, a stream may have ended before the others.
      SELECT cpu, last_ts - base(), last() - base(), NULL, 'stream_end'
      FROM stream
      WHERE last_ts < last() AND cpu IN (SELECT cpu FROM e_sched)
        AND EXISTS (FROM e_stat WHERE severity = 'data_loss' AND (
          name LIKE 'ftrace%' OR name LIKE 'traced_buf%' OR name LIKE 'config_write%'))
      UNION ALL
      -- No record says who ran between two slices.
      SELECT
        cpu, CASE WHEN left_dur >= 0 THEN left_ts + left_dur ELSE left_ts END - base(),
        ts - base(), NULL, 'missing_switch',
      FROM switch
      WHERE prev_utid IS NULL AND left_ts IS NOT NULL
      UNION ALL
      SELECT cpu, first_ts - base(), ts - base(), NULL, 'stream_start'
      FROM switch JOIN stream USING (cpu)
      WHERE prev_utid IS NULL AND left_ts IS NULL AND ts > first_ts
      UNION ALL
      -- Which records of which time is not known.
      SELECT NULL, NULL, NULL, CASE WHEN name LIKE '%delta' THEN value END, name
      FROM e_stat
      WHERE name LIKE 'ftrace_cpu%' AND severity = 'data_loss'
      ORDER BY ALL""",
    "problem": """
      SELECT
        'trace_processor' AS place,
        name || CASE WHEN count(idx) > 0 THEN ' (CPU or buffer '
          || string_agg(idx::VARCHAR, ', ' ORDER BY idx) || ')' ELSE '' END
          || CASE WHEN any_value(description) <> '' THEN ': ' || any_value(description) ELSE '' END
          AS what,
        sum(value)::BIGINT AS count,
      FROM e_stat WHERE severity IN ('error', 'data_loss')
      GROUP BY name
      UNION ALL
      SELECT
        'end_state', 'slices whose end state trace_processor does not know: taken as waits',
        count(*),
      FROM e_sched WHERE end_state IS NULL AND dur >= 0 HAVING count(*) > 0
      UNION ALL
      SELECT
        'sched_wakeup', 'no waker in the recording: trace_processor keeps none for states of a '
          'generic kernel', count(*),
      FROM e_sched
      WHERE NOT EXISTS (FROM e_waking) AND NOT EXISTS (FROM e_ready)
        AND NOT EXISTS (FROM e_switch)
      HAVING count(*) > 0
      ORDER BY ALL""",
    "record_count": """
      SELECT record, count(*) AS count
      FROM (SELECT name AS record FROM e_waking UNION ALL SELECT 'sched_switch' FROM e_sched
            UNION ALL SELECT name FROM e_counter)
      GROUP BY record ORDER BY record""",
}
# Tables without rows that were not recorded, and not: recorded without rows.
ABSENT_IF_EMPTY = (
    "wakeup", "migration", "thread_cgroup", "interrupt_slice", "cpu_idle", "cpu_frequency",
    "track_counter", "mark", "frame",
)  # fmt: skip
