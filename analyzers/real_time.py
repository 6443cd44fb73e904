"""Whether real-time threads kept others off a CPU, and whether deadline threads ran out of runtime.

A SCHED_FIFO or SCHED_RR thread that ran for 100 ms at a time or for 50 % of the window is info; it
is a warning if other threads were ready for that CPU for at least 1 % of the window while it ran
there, critical from 50 % (by default the kernel stops real-time threads when they took 95 % of a
second: sched_rt_runtime_us). A SCHED_DEADLINE thread that leaves its CPU runnable to a thread of a
lower class has used up its runtime, so its job ends after the deadline: a warning, critical if it
was ready for 1 % of the window after that. Where sched_yield is not recorded such a switch may also
be the yield at the end of a job, and the finding is info. On Linux only: Windows has no such
classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask import unknown_priorities
from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean
from schedlens.output.wording import and_more, count, duration, percent, recordings, thread_name

NEEDS = ("switches", "priorities")
METRIC: Metric = "ready"
KINDS = ("hog", "out_of_runtime")

RAN_PCT = 50.0
RAN_NS = 100_000_000
WARNING_PCT, CRITICAL_PCT = 1.0, 50.0
MISSED_CRITICAL_PCT = 1.0
NAMED = 3

_HOGS = f"""
WITH
  -- A thread may leave its CPU several times at one time of a coarse clock.
  leaving AS (
    SELECT trace_id, cpu, prev_utid AS utid, ts, min(prev_priority) AS priority
    FROM context_switch
    WHERE prev_priority <= 98
    GROUP BY ALL
  ),
  -- A thread may become real-time, or cease to be, while it runs: one end of the slice shows it.
  rt_slice AS (
    SELECT s.trace_id, s.utid, s.cpu, greatest(s.ts, w.start_ns) AS from_ns,
      least(s.ts + s.dur, w.end_ns) AS to_ns
    FROM sched_slice AS s
    JOIN trace ON trace.trace_id = s.trace_id AND is_tracepoint_source(trace.source)
    JOIN analysis_span AS w ON w.trace_id = s.trace_id
    LEFT JOIN leaving AS c
      ON c.trace_id = s.trace_id AND c.cpu = s.cpu AND c.utid = s.utid AND c.ts = s.ts + s.dur
    WHERE NOT s.is_idle AND s.dur > 0 AND least(c.priority, s.priority) BETWEEN 0 AND 98
      AND s.ts < w.end_ns AND s.ts + s.dur > w.start_ns
  ),
  ran AS (
    SELECT trace_id, utid, sum(to_ns - from_ns)::BIGINT AS run_ns,
      max(to_ns - from_ns) AS longest_ns, arg_max(cpu, to_ns - from_ns) AS cpu
    FROM rt_slice
    GROUP BY trace_id, utid
  ),
  hog AS (
    SELECT ran.*
    FROM ran
    JOIN analysis_span AS w USING (trace_id)
    WHERE 100 * run_ns >= {RAN_PCT} * w.dur_ns OR longest_ns >= {RAN_NS}
  ),
  -- Whoever is not seen to be switched in waits for this CPU only if it may use no other.
  pinned AS (
    SELECT trace_id, utid, any_value(cpus[1]) AS cpu
    FROM affinity
    GROUP BY trace_id, utid
    HAVING bool_and(len(cpus) = 1) AND count(DISTINCT cpus[1]) = 1
  ),
  -- What a thread ran on a CPU before each of its slices there. The slices of a CPU do not overlap,
  -- so the difference of two such sums is what it ran in between.
  run_until AS (
    SELECT rt_slice.*, coalesce(sum(to_ns - from_ns) OVER (
      PARTITION BY utid, cpu ORDER BY from_ns
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS before_ns
    FROM rt_slice
    WHERE utid IN (SELECT utid FROM hog)
  ),
  wait AS (
    SELECT r.trace_id, r.utid AS victim, coalesce(r.entered_cpu, pinned.cpu) AS cpu, r.ts, r.dur
    FROM ready_slice AS r
    LEFT JOIN pinned ON pinned.trace_id = r.trace_id AND pinned.utid = r.utid
  ),
  edge AS (
    SELECT used.utid, wait.victim, wait.cpu, wait.trace_id,
      unnest([wait.ts, wait.ts + wait.dur]) AS ts, unnest([-1, 1]) AS sign
    FROM (SELECT DISTINCT trace_id, utid, cpu FROM run_until) AS used
    JOIN wait ON wait.trace_id = used.trace_id AND wait.cpu = used.cpu AND wait.victim <> used.utid
  ),
  held AS (
    SELECT edge.trace_id, edge.utid, victim,
      sum(sign * (before_ns + least(edge.ts, to_ns) - from_ns))::BIGINT AS ns
    FROM edge
    ASOF JOIN run_until AS own
      ON own.utid = edge.utid AND own.cpu = edge.cpu AND edge.ts >= own.from_ns
    GROUP BY ALL
    HAVING ns > 0
  )
SELECT
  hog.*,
  thread.name AS thread,
  thread.tid,
  process.name AS process,
  trace.label,
  w.start_ns,
  w.end_ns,
  w.dur_ns,
  100 * hog.run_ns / w.dur_ns AS run_pct,
  coalesce(sum(held.ns), 0)::BIGINT AS held_ns,
  coalesce(list(held.victim ORDER BY held.ns DESC) FILTER (WHERE held.ns IS NOT NULL), [])
    AS victims
FROM hog
JOIN thread USING (utid)
LEFT JOIN process USING (upid)
JOIN trace ON trace.trace_id = hog.trace_id
JOIN analysis_span AS w ON w.trace_id = hog.trace_id
LEFT JOIN held ON held.utid = hog.utid
GROUP BY ALL
ORDER BY held_ns DESC, run_ns DESC, hog.trace_id, hog.utid
"""

_MISSES = """
WITH
  missed AS (
    SELECT trace_id, prev_utid AS utid, ts, any_value(cpu) AS cpu
    FROM context_switch
    WHERE prev_priority = -1 AND prev_state & 255 = 0 AND next_priority > 0
    GROUP BY ALL
  ),
  yielded AS (
    SELECT trace_id, utid, ts + dur AS ts
    FROM sched_slice
    WHERE end_reason = 'yield'
  )
SELECT
  missed.trace_id,
  missed.utid,
  thread.name AS thread,
  thread.tid,
  process.name AS process,
  trace.label,
  w.start_ns,
  w.end_ns,
  w.dur_ns,
  count(*) AS misses,
  coalesce(sum(clipped_ns(s.ts, s.dur, w.start_ns, w.end_ns))
    FILTER (WHERE s.state = 'ready'), 0)::BIGINT AS ready_ns,
  arg_max(missed.cpu, missed.ts) AS cpu,
  EXISTS (
    SELECT 1 FROM recorded_kind AS k
    WHERE k.trace_id = missed.trace_id AND k.kind = 'yields' AND k.recorded
  ) AS yields_known
FROM missed
JOIN trace ON trace.trace_id = missed.trace_id AND is_tracepoint_source(trace.source)
JOIN analysis_span AS w ON w.trace_id = missed.trace_id
JOIN thread ON thread.utid = missed.utid
LEFT JOIN process USING (upid)
ANTI JOIN yielded
  ON yielded.trace_id = missed.trace_id AND yielded.utid = missed.utid AND yielded.ts = missed.ts
LEFT JOIN thread_state AS s
  ON s.trace_id = missed.trace_id AND s.utid = missed.utid AND s.ts = missed.ts AND s.dur > 0
WHERE missed.ts BETWEEN w.start_ns AND w.end_ns
GROUP BY ALL
ORDER BY misses DESC, missed.trace_id, missed.utid
"""


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The real-time threads that held up most, the deadline threads, or a conclusion."""
    hogs = scope.rows(_HOGS)
    for place, row in enumerate(hogs[:NAMED]):
        yield _hog(row, len(hogs) - NAMED if place == NAMED - 1 else 0)
    misses = scope.rows(_MISSES)
    for place, row in enumerate(misses[:NAMED]):
        yield _missed(row, len(misses) - NAMED if place == NAMED - 1 else 0)
    if not hogs and not misses:
        yield clean(
            f"No real-time thread ran for {duration(RAN_NS)} at a time, and no deadline thread ran "
            f"out of runtime.{unknown_priorities.note(scope)}"
        )


def _hog(row: dict[str, Any], more: int) -> Finding:
    held = 100 * row["held_ns"] / row["dur_ns"]
    severity: Severity = "critical" if held >= CRITICAL_PCT else "warning"
    others = (
        f"; others were ready for {duration(row['held_ns'])} meanwhile" if row["held_ns"] else ""
    )
    name = thread_name(row["thread"], row["tid"], row["process"])
    return Finding(
        kind="hog",
        severity=severity if held >= WARNING_PCT else "info",
        title=(
            f"Real-time thread delayed others by {duration(row['held_ns'])}"
            if row["held_ns"]
            else f"Real-time thread ran {percent(row['run_pct'])} of the window"
        ),
        detail=(
            f"{recordings(row['label'])}real-time thread {name} ran {percent(row['run_pct'])} of "
            f"the window, {duration(row['longest_ns'])} at a time on CPU {row['cpu']}{others}."
            f"{and_more(more)}"
        ),
        advice=(
            "Let the thread block between its work, lower it to SCHED_OTHER (chrt -o -p 0), or "
            "give it a CPU of its own (isolcpus, cpuset.cpus)."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["held_ns"],
        cost_pct=held,
        utid=row["utid"],
        cpu=row["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        about=(row["utid"], *row["victims"]),
        evidence_sql=(
            "SELECT ts, dur, cpu, priority, end_reason FROM sched_slice "
            f"WHERE utid = {row['utid']} ORDER BY dur DESC, ts"
        ),
        counter_evidence_sql=(
            "SELECT utid, entered_cpu, sum(dur)::BIGINT AS ready_ns FROM ready_slice "
            f"WHERE trace_id = {row['trace_id']} GROUP BY ALL ORDER BY ready_ns DESC, utid"
        ),
    )


def _missed(row: dict[str, Any], more: int) -> Finding:
    share = 100 * row["ready_ns"] / row["dur_ns"]
    severity: Severity = "critical" if share >= MISSED_CRITICAL_PCT else "warning"
    name = thread_name(row["thread"], row["tid"], row["process"])
    yields = "" if row["yields_known"] else " (or yielded: not recorded)"
    return Finding(
        kind="out_of_runtime",
        severity=severity if row["yields_known"] else "info",
        title=f"Deadline thread ran out of runtime {count(row['misses'], 'time')}",
        detail=(
            f"{recordings(row['label'])}deadline thread {name} ran out of runtime{yields} "
            f"{count(row['misses'], 'time')} and was then ready for "
            f"{duration(row['ready_ns'])}.{and_more(more)}"
        ),
        advice=(
            "Raise sched_runtime (chrt --sched-runtime) to the longest job, or shorten the jobs: "
            "each job that exceeds its runtime ends after its deadline."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["ready_ns"],
        cost_pct=share,
        utid=row["utid"],
        cpu=row["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["yields_known"] else "range",
        about=(row["utid"],),
        evidence_sql=(
            "SELECT ts, cpu, prev_state, next_utid, next_priority FROM context_switch "
            f"WHERE prev_utid = {row['utid']} AND prev_priority = -1 AND prev_state & 255 = 0 "
            "AND next_priority > 0 ORDER BY ts"
        ),
        counter_evidence_sql=(
            "SELECT ts, dur, end_reason, ready_ns FROM sched_slice "
            f"WHERE utid = {row['utid']} AND end_reason IN ('blocked', 'yield') ORDER BY ts"
        ),
    )
