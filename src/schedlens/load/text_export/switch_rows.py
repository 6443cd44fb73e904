"""SQL from the rows of a text of Windows (`e`) to the base tables.

`e` has the columns of `_decoders.WindowsRows`, times in ns. `base()` is the time of ns 0, `last()`
that of the latest record.
"""

from __future__ import annotations

# Rows of `sw` are switches, rows of `rd` ready records, whichever program printed them. In a table
# of WPA, each row is a switch-in. Who ran afterwards is known if another row begins there, or if
# the table is complete: then nobody but the idle thread is left.
PREPARE = """
CREATE TABLE p AS
  SELECT * FROM e WHERE kind = 'precise'
  QUALIFY ts IS NULL OR row_number() OVER (PARTITION BY cpu, ts, new_tid ORDER BY line) = 1;
CREATE TABLE turn AS
  SELECT
    *,
    lag(new_tid) OVER w AS before_tid,
    lag(next_out_ts) OVER w AS before_out,
    lag(ts) OVER w AS before_ts,
    lag(new_state) OVER w AS before_state,
    lag(new_reason) OVER w AS before_reason,
    lag(new_mode) OVER w AS before_mode,
    lag(new_out_priority) OVER w AS before_priority,
    lead(ts) OVER w AS after_ts,
    lead(old_tid) OVER w AS after_old,
  FROM p WHERE ts IS NOT NULL
  WINDOW w AS (PARTITION BY cpu ORDER BY ts, line);
-- Complete: whoever leaves, other than the idle thread, is the thread of the row before.
CREATE MACRO is_complete() AS (
  SELECT CASE
    WHEN count(old_tid) > 0 THEN
      count(*) FILTER (WHERE before_ts IS NOT NULL AND old_tid > 0 AND old_tid <> before_tid) = 0
    ELSE coalesce(bool_or(new_tid = 0), false)
  END FROM turn);
CREATE TABLE sw AS
  SELECT
    ts, cpu, line, 1 AS rank, old_tid AS prev_tid, new_tid AS next_tid, old_state AS prev_state,
    old_reason AS reason, old_mode AS mode, old_out_priority AS prev_priority,
    priority AS next_priority, ideal, cstate, remaining_quantum,
  FROM e WHERE kind = 'switch'
  UNION ALL
  SELECT
    ts, cpu, line, 1,
    CASE
      WHEN old_tid IS NOT NULL THEN old_tid WHEN before_out = ts THEN before_tid
      WHEN is_complete() THEN 0
    END,
    new_tid,
    CASE WHEN old_tid IS NOT NULL AND old_state IS NOT NULL THEN old_state
      WHEN before_out = ts THEN before_state END,
    CASE WHEN old_tid IS NOT NULL AND old_reason IS NOT NULL THEN old_reason
      WHEN before_out = ts THEN before_reason END,
    CASE WHEN old_tid IS NOT NULL AND old_mode IS NOT NULL THEN old_mode
      WHEN before_out = ts THEN before_mode END,
    CASE WHEN old_tid IS NOT NULL AND old_out_priority IS NOT NULL THEN old_out_priority
      WHEN before_out = ts THEN before_priority END,
    priority, NULL, cstate, remaining_quantum,
  FROM turn
  UNION ALL
  -- The switch-out of a row after which no row begins.
  SELECT
    next_out_ts, cpu, line, 0, new_tid, CASE WHEN is_complete() THEN 0 END, new_state, new_reason,
    new_mode, new_out_priority, NULL, NULL, NULL, NULL,
  FROM turn
  WHERE next_out_ts > ts AND (after_ts IS NULL OR next_out_ts < after_ts)
  UNION ALL
  -- Of a thread that ran when the recording began, only the switch-out is known.
  SELECT
    out.next_out_ts, out.cpu, out.line, 0, new_tid, CASE WHEN is_complete() THEN 0 END, new_state,
    new_reason, new_mode, new_out_priority, NULL, NULL, NULL, NULL,
  FROM p AS out
  WHERE out.ts IS NULL AND NOT EXISTS (
    FROM p AS entered WHERE entered.cpu = out.cpu AND entered.ts = out.next_out_ts);
CREATE TABLE running AS
  SELECT next_tid AS tid, cpu, ts AS since, lead(ts) OVER (PARTITION BY cpu ORDER BY ts, rank, line)
    AS until
  FROM sw;
-- The texts name no CPU for most ready records: it is the one where the waker ran.
CREATE TABLE rd AS
  WITH
    given AS (
      SELECT line, ts, cpu, new_tid AS tid, by_tid, in_dpc FROM e WHERE kind = 'ready'
      UNION ALL
      -- A thread that left its CPU ready has no ready record.
      SELECT line, ready_ts, NULL, new_tid, by_tid, in_dpc FROM p
      WHERE new_tid <> 0 AND ready_ts IS NOT NULL AND ready_ts IS DISTINCT FROM last_out_ts
        AND (ready_ts < ts OR by_tid IS NOT NULL)
    ),
    placed AS (
      SELECT g.*, w.cpu AS waker_cpu, w.until AS waker_until
      FROM (SELECT *, coalesce(nullif(by_tid, 0), -1) AS waker FROM given) AS g
      ASOF LEFT JOIN running AS w ON w.tid = g.waker AND g.ts >= w.since
    )
  SELECT
    r.line, r.ts, r.tid, r.by_tid, r.in_dpc,
    coalesce(r.cpu, CASE WHEN r.waker_until IS NULL OR r.waker_until >= r.ts THEN r.waker_cpu END,
      n.cpu, r.waker_cpu, (SELECT min(cpu) FROM sw)) AS cpu,
    r.cpu IS NOT NULL OR r.waker_cpu IS NOT NULL
      AND (r.waker_until IS NULL OR r.waker_until >= r.ts) AS is_placed,
  FROM placed AS r
  ASOF LEFT JOIN running AS n ON n.tid = r.tid AND r.ts <= n.since;
CREATE TABLE event AS
  SELECT cpu, ts FROM sw UNION ALL SELECT cpu, ts FROM rd;
CREATE MACRO base() AS (SELECT min(ts) FROM event);
CREATE MACRO last() AS (SELECT max(ts) FROM event);
CREATE TABLE number AS SELECT coalesce(max(cpu), 0) + 1 AS cpus FROM event;

-- A thread id is used again: another process, or another start, is another life.
CREATE TABLE seen AS
  SELECT new_tid AS tid, new_pid AS pid, new_process AS process, coalesce(ts, next_out_ts) AS ts
  FROM e WHERE new_tid > 0
  UNION ALL SELECT old_tid, old_pid, old_process, ts FROM e WHERE old_tid > 0 AND ts IS NOT NULL
  UNION ALL SELECT by_tid, by_pid, by_process, coalesce(ready_ts, ts) FROM e WHERE by_tid > 0;
CREATE TABLE life AS
  WITH
    owned AS (
      SELECT tid, pid, min(ts) AS since, arg_max(process, ts) AS process
      FROM seen WHERE pid IS NOT NULL GROUP BY tid, pid
    ),
    begun AS (
      SELECT o.tid, o.pid, o.process, s.ts AS since
      FROM owned AS o JOIN e AS s ON s.kind = 'start' AND s.new_tid = o.tid AND s.new_pid = o.pid
      WHERE s.ts > o.since
    ),
    nameless AS (
      SELECT tid, NULL::BIGINT, max(process), min(ts) FROM seen
      WHERE tid NOT IN (SELECT tid FROM owned) GROUP BY tid
    ),
    whole AS (
      SELECT tid, pid, process, since FROM owned
      UNION ALL FROM begun
      UNION ALL FROM nameless
    )
  SELECT
    *,
    CASE WHEN row_number() OVER w = 1 THEN -9223372036854775807 ELSE since END AS from_ts,
    4294967296::BIGINT + (SELECT cpus FROM number)
      + row_number() OVER (ORDER BY tid, since, pid) - 1 AS utid,
  FROM whole
  WINDOW w AS (PARTITION BY tid ORDER BY since, pid);
CREATE TABLE host AS
  SELECT pid, process, 4294967296::BIGINT + row_number() OVER (ORDER BY pid, process) AS upid
  FROM (SELECT DISTINCT pid, process FROM life WHERE pid IS NOT NULL AND pid <> 0);
CREATE MACRO thread_of(utid, tid, cpu) AS
  CASE WHEN tid = 0 THEN 4294967296::BIGINT + cpu ELSE utid END;
CREATE TABLE switch AS
  SELECT s.*, l.utid AS prev_utid, m.utid AS next_utid
  FROM (SELECT *, coalesce(prev_tid, -1) AS left_tid, coalesce(next_tid, -1) AS entered_tid FROM sw)
    AS s
  ASOF LEFT JOIN life AS l ON l.tid = s.left_tid AND s.ts >= l.from_ts
  ASOF LEFT JOIN life AS m ON m.tid = s.entered_tid AND s.ts >= m.from_ts;
CREATE TABLE woken AS
  SELECT r.*, l.utid, m.utid AS waker_utid
  FROM (SELECT *, coalesce(by_tid, -1) AS waker FROM rd) AS r
  ASOF LEFT JOIN life AS l ON l.tid = r.tid AND r.ts >= l.from_ts
  ASOF LEFT JOIN life AS m ON m.tid = r.waker AND r.ts >= m.from_ts;
CREATE TABLE sequence AS
  SELECT *, row_number() OVER (PARTITION BY cpu ORDER BY ts, place, rank, line) AS seq
  FROM (
    SELECT
      cpu, ts, line, rank, true AS is_switch,
      -- Rows of a table are in no order, lines of the dumper are.
      CASE WHEN (SELECT count(*) FROM p) = 0 THEN line ELSE 1 END AS place,
    FROM sw
    UNION ALL
    SELECT cpu, ts, line, 0, false, CASE WHEN (SELECT count(*) FROM p) = 0 THEN line ELSE 0 END
    FROM rd
  );
"""

TABLES = {
    "cpu": "SELECT DISTINCT cpu, true AS online FROM sw ORDER BY cpu",
    "process": """
      SELECT 4294967296::BIGINT AS upid, 0::BIGINT AS pid, 'Idle' AS name
      UNION ALL SELECT upid, pid, process FROM host
      ORDER BY upid""",
    "thread": """
      WITH
        named AS (
          SELECT new_tid AS tid, arg_max(thread_name, coalesce(ts, next_out_ts)) AS name
          FROM e WHERE thread_name IS NOT NULL GROUP BY new_tid
        ),
        ended AS (
          SELECT l.utid, min(x.ts) AS end_ts
          FROM e AS x
          ASOF JOIN life AS l ON l.tid = x.new_tid AND x.ts >= l.from_ts
          WHERE x.kind = 'end' GROUP BY l.utid
        ),
        started AS (
          SELECT l.utid, min(x.ts) AS start_ts
          FROM e AS x
          ASOF JOIN life AS l ON l.tid = x.new_tid AND x.ts >= l.from_ts
          WHERE x.kind = 'start' GROUP BY l.utid
        )
      SELECT
        4294967296::BIGINT + i.cpu AS utid, 0::BIGINT AS tid, 4294967296::BIGINT AS upid,
        'Idle' AS name, NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, true AS is_idle,
      FROM (SELECT unnest(range((SELECT cpus FROM number))) AS cpu) AS i
      UNION ALL
      SELECT
        l.utid, l.tid, h.upid, n.name,
        CASE WHEN s.start_ts >= base() THEN s.start_ts - base() END,
        CASE WHEN x.end_ts >= base() THEN x.end_ts - base() END, false,
      FROM life AS l
      LEFT JOIN host AS h ON h.pid = l.pid AND h.process IS NOT DISTINCT FROM l.process
      LEFT JOIN named AS n ON n.tid = l.tid
      LEFT JOIN started AS s ON s.utid = l.utid
      LEFT JOIN ended AS x ON x.utid = l.utid
      ORDER BY utid""",
    "context_switch": """
      SELECT
        s.ts - base() AS ts, s.cpu, q.seq, thread_of(s.prev_utid, s.prev_tid, s.cpu) AS prev_utid,
        thread_of(s.next_utid, s.next_tid, s.cpu) AS next_utid, s.prev_state,
        s.reason AS prev_wait_reason, s.mode AS prev_wait_mode, s.prev_priority, s.next_priority,
        s.ideal AS prev_ideal_cpu, s.cstate AS prev_cstate,
        s.remaining_quantum AS prev_remaining_quantum, 'switch' AS source,
      FROM switch AS s
      JOIN sequence AS q
        ON q.is_switch AND q.cpu = s.cpu AND q.ts = s.ts AND q.line = s.line AND q.rank = s.rank
      ORDER BY ts, s.cpu, seq""",
    "wakeup": """
      SELECT
        w.ts - base() AS ts, w.cpu, q.seq, w.utid,
        -- Idle threads differ by CPU, which the texts do not name.
        CASE WHEN w.by_tid > 0 THEN w.waker_utid END AS waker_utid, 'ready' AS kind,
        w.in_dpc AS in_interrupt,
      FROM woken AS w
      JOIN sequence AS q ON NOT q.is_switch AND q.cpu = w.cpu AND q.ts = w.ts AND q.line = w.line
      WHERE w.tid > 0 AND w.ts >= base()
      ORDER BY ts, w.cpu, seq""",
    "loss": """
      -- Threads that the table does not contain may have run.
      SELECT
        cpu, ts - base() AS start_ns, coalesce(until, last()) - base() AS end_ns,
        NULL::BIGINT AS events, 'not_exported' AS signalled_by,
      FROM (
        SELECT cpu, ts, next_tid, lead(ts) OVER (PARTITION BY cpu ORDER BY ts, rank, line) AS until
        FROM sw
      )
      WHERE next_tid IS NULL AND coalesce(until, last()) > ts
      UNION ALL
      SELECT cpu, 0, reliable() - base(), NULL, 'overwritten'
      FROM (SELECT DISTINCT cpu FROM sw) WHERE reliable() > base()
      UNION ALL
      SELECT NULL, NULL, NULL, events_lost(), 'EventsLost' WHERE events_lost() > 0
      ORDER BY ALL""",
    "record_count": """
      SELECT
        CASE kind
          WHEN 'switch' THEN 'CSwitch' WHEN 'ready' THEN 'ReadyThread' WHEN 'start' THEN 'T-Start'
          WHEN 'end' THEN 'T-End' WHEN 'listed' THEN 'T-DCStart, T-DCEnd'
          ELSE 'CPU Usage (Precise)'
        END AS record,
        count(*) AS count,
      FROM e GROUP BY ALL ORDER BY record""",
    "problem": """
      SELECT 'ready records' AS place,
        'the text does not name their CPU, and the thread that made another ready was idle or is '
          || 'not in it: the CPU is assumed to be the one where the thread ran next' AS what,
        count(*) AS count,
      FROM rd WHERE NOT is_placed HAVING count(*) > 0
      UNION ALL
      SELECT 'CPU Usage (Precise)',
        'the table leaves out threads that ran (a filter or a selection): what ran in between is '
          || 'unknown. Export all processes', count(*)
      FROM sw WHERE next_tid IS NULL HAVING count(*) > 0
      UNION ALL SELECT * FROM unread
      ORDER BY ALL""",
}
