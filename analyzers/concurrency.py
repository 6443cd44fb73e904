"""Whether the machine had more runnable threads than CPUs, or too few to use it.

It is a warning if for at least 10 % of the window every online CPU was busy and a thread was ready
(below that, bursts overlap by chance), critical from 50 %; the cost is the ready time in those
moments. It is info if exactly one CPU was busy for at least half of the window: everything else
then waits for one thread. Threads of SCHED_IDLE and of cgroups with cpu.idle do not crowd a
machine, because they take what is left: a CPU that runs one is not busy in this sense, and their
ready time does not count. Steps of workloads are planned and not judged this way (scaling_curve
reports other programs in them); the ready time of steps with more workers than CPUs is stated with
the conclusion, and is no finding.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import between, count, duration, percent, recordings, thread_name

NEEDS = ("switches", "all_threads")
METRIC: Metric = "ready"
KINDS = ("all_cpus_busy", "one_cpu_busy")

WARNING_PCT = 10.0
CRITICAL_PCT = 50.0
SERIAL_PCT = 50.0

# Threads that take what others leave: those of SCHED_IDLE, and of cgroups with cpu.idle, which have
# its weight.
_BACKGROUND = """
SELECT utid FROM scheduling_policy WHERE policy = 'idle'
UNION
SELECT utid FROM sharing_group WHERE list_contains(weights, 3)
"""

_WINDOWED = f"""
SELECT
  c.trace_id,
  c.dur,
  c.busy,
  -- With threads that are left out.
  c.all_busy,
  c.unknown,
  c.ready,
  c.some_left_out,
  w.dur_ns AS window_ns,
  n.cpus
FROM (
  WITH
    background AS MATERIALIZED ({_BACKGROUND}),
    left_out AS MATERIALIZED (
      -- Throttled threads would not run on a free CPU either.
      SELECT trace_id, ts, dur, 0 AS busy, 1 AS ready
      FROM ready_slice
      WHERE throttled OR utid IN (SELECT utid FROM background)
      UNION ALL
      SELECT trace_id, ts, dur, 1, 0
      FROM sched_slice
      WHERE utid IN (SELECT utid FROM background)
    ),
    span AS (
      SELECT trace_id, ts, dur, busy, busy AS all_busy, unknown, ready
      FROM concurrency_slice
      WHERE trace_id IN (SELECT trace_id FROM left_out)
      UNION ALL
      SELECT trace_id, ts, dur, -busy, 0, 0, -ready FROM left_out
    ),
    step AS (
      SELECT
        trace_id,
        ts,
        sum(busy) AS busy,
        sum(all_busy) AS all_busy,
        sum(unknown) AS unknown,
        sum(ready) AS ready
      FROM (
        SELECT trace_id, ts, busy, all_busy, unknown, ready FROM span
        UNION ALL
        SELECT trace_id, ts + dur, -busy, -all_busy, -unknown, -ready FROM span
      )
      GROUP BY trace_id, ts
    ),
    level AS (
      SELECT
        trace_id,
        ts,
        lead(ts) OVER sofar - ts AS dur,
        -- A slice that is left out may contain an interrupt.
        greatest(0, sum(busy) OVER sofar) AS busy,
        sum(all_busy) OVER sofar AS all_busy,
        sum(unknown) OVER sofar AS unknown,
        greatest(0, sum(ready) OVER sofar) AS ready,
      FROM step
      WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts)
    )
  SELECT
    level.trace_id,
    clipped_ns(level.ts, level.dur, start_ns, end_ns) AS dur,
    busy,
    all_busy,
    unknown,
    ready,
    true AS some_left_out,
  FROM level
  JOIN analysis_span AS asked ON asked.trace_id = level.trace_id
  WHERE level.ts < end_ns AND level.ts + level.dur > start_ns
  UNION ALL
  SELECT trace_id, ns, busy, busy, unknown, ready, false
  FROM concurrency_level
  WHERE trace_id NOT IN (SELECT trace_id FROM left_out)
) AS c
JOIN analysis_span AS w ON w.trace_id = c.trace_id
JOIN (
  SELECT trace_id, count(DISTINCT cpu) AS cpus FROM topology WHERE online GROUP BY trace_id
) AS n ON n.trace_id = c.trace_id
"""

# A workload that makes frames is judged as a game is: by them, not by what it gets done.
_BEAT = "(SELECT DISTINCT trace_id FROM frame WHERE dialect = 'mark')"

_BY_TRACE = f"""
SELECT
  trace_id,
  trace.label,
  bool_or(run.workload IS NOT NULL AND beat.trace_id IS NULL) AS is_workload,
  any_value(cpus) AS cpus,
  any_value(window_ns) AS window_ns,
  bool_or(some_left_out) AS some_left_out,
  coalesce(sum(dur) FILTER (WHERE busy >= cpus AND ready > 0), 0)::BIGINT AS crowded_ns,
  coalesce(sum(ready * dur) FILTER (WHERE busy >= cpus), 0)::BIGINT AS crowded_ready_ns,
  coalesce(sum(dur) FILTER (WHERE all_busy = 1 AND unknown = 0), 0)::BIGINT AS serial_ns,
  sum(all_busy * dur)::DOUBLE / nullif(sum(dur), 0) AS mean_busy
FROM ({_WINDOWED})
JOIN trace USING (trace_id)
LEFT JOIN run USING (trace_id)
LEFT JOIN {_BEAT} AS beat USING (trace_id)
GROUP BY trace_id, trace.label
ORDER BY crowded_ready_ns DESC, trace_id
"""


def _all_cpus(cpus: int) -> str:
    return {1: "the only CPU was", 2: "both CPUs were"}.get(cpus, f"all {cpus} CPUs were")


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The most crowded recording, the most serial one, or a conclusion."""
    rows = [row for row in scope.rows(_BY_TRACE) if row["window_ns"]]
    crowded = [
        r
        for r in rows
        if not r["is_workload"] and 100 * r["crowded_ns"] >= WARNING_PCT * r["window_ns"]
    ]
    if crowded:
        row = crowded[0]
        share = 100 * row["crowded_ns"] / row["window_ns"]
        yield Finding(
            kind="all_cpus_busy",
            severity="critical" if share >= CRITICAL_PCT else "warning",
            title=(
                f"Threads waited {duration(row['crowded_ready_ns'])} while "
                f"{_all_cpus(row['cpus'])} busy"
            ),
            detail=(
                f"{recordings(row['label'], len(crowded) - 1)}{_all_cpus(row['cpus'])} busy and "
                f"threads were ready for {percent(share)} of the window; their ready time adds up "
                f"to {duration(row['crowded_ready_ns'])}.{_background(scope, row['trace_id'])}"
            ),
            advice=(
                f"Start no more busy threads than there are CPUs ({row['cpus']}), or run "
                "background work at another time: no placement helps while every CPU is busy."
            ),
            trace_id=row["trace_id"],
            cost_ns=row["crowded_ready_ns"],
            cost_pct=share,
            evidence_sql=(
                "SELECT busy, ready, sum(dur)::BIGINT AS ns FROM "
                f"{f'({_WINDOWED})' if row['some_left_out'] else 'concurrency_slice'} "
                f"WHERE trace_id = {row['trace_id']} GROUP BY ALL ORDER BY ns DESC"
            ),
            counter_evidence_sql=f"FROM concurrency(p_trace_id := {row['trace_id']})",
        )
    serial = [
        r
        for r in rows
        if r["cpus"] > 1
        and not r["is_workload"]
        and 100 * r["serial_ns"] >= SERIAL_PCT * r["window_ns"]
    ]
    if serial:
        row = max(serial, key=lambda r: (r["serial_ns"], -r["trace_id"]))
        share = 100 * row["serial_ns"] / row["window_ns"]
        asked = scope.call("thread_summary", trace_id=row["trace_id"])
        busiest = scope.rows(
            f"SELECT thread, tid, process, run_ns FROM ({asked}) ORDER BY run_ns DESC, utid LIMIT 1"
        )
        named = "".join(
            f"; {thread_name(found['thread'], found['tid'], found['process'])} ran longest, "
            f"{duration(found['run_ns'])}"
            for found in busiest
        )
        yield Finding(
            kind="one_cpu_busy",
            severity="info",
            title=f"Only one CPU was busy for {percent(share)} of the window",
            detail=(
                f"{recordings(row['label'], len(serial) - 1)}exactly one of {row['cpus']} CPUs was "
                f"busy for {percent(share)} of the window{named}."
            ),
            advice=(
                "Split the work of the threads that ran (`FROM thread_summary`) across CPUs: "
                "everything else waited for them."
            ),
            trace_id=row["trace_id"],
            cost_pct=share,
            evidence_sql=f"FROM concurrency(p_trace_id := {row['trace_id']})",
            counter_evidence_sql=(
                "SELECT process, thread, tid, run_ns, run_pct "
                f"FROM thread_summary(p_trace_id := {row['trace_id']}) LIMIT 10"
            ),
        )
    if not crowded and not serial:
        means = [row["mean_busy"] for row in rows]
        yield (
            clean(
                "CPUs were neither crowded nor left to one thread, except as planned (busy CPUs on "
                f"average: {between(f'{min(means):.3g}', f'{max(means):.3g}')})."
                f"{_on_purpose(scope)}"
            )
            if rows
            else not_applicable(
                f"No recording has a window with context switches.{_on_purpose(scope)}"
            )
        )


def _background(scope: Scope, trace_id: int) -> str:
    """That background threads are left out, and what they ran; empty without them."""
    asked = scope.call("thread_summary", trace_id=trace_id)
    row = scope.rows(
        f"SELECT count(*) AS n, sum(run_ns)::BIGINT AS ns FROM ({asked}) WHERE run_ns > 0 "
        f"AND utid IN ({_BACKGROUND})"
    )[0]
    if not row["n"]:
        return ""
    return (
        " Threads of SCHED_IDLE and of cgroups with cpu.idle are left out; they ran "
        f"{duration(row['ns'])}."
    )


_ON_PURPOSE = f"""
SELECT
  run.trace_id,
  run.step,
  run.threads AS workers,
  w.dur_ns AS window_ns,
  -- Workers that are bound have no more CPUs than those of the plan.
  coalesce(nullif(len(list_distinct(run.planned_cpus)), 0), n.cpus) AS cpus,
  sum(clipped_ns(s.ts, s.dur, w.start_ns, w.end_ns))::BIGINT AS ready_ns
FROM run
JOIN analysis_span AS w USING (trace_id)
JOIN (
  SELECT trace_id, count(DISTINCT cpu) AS cpus FROM topology WHERE online GROUP BY trace_id
) AS n USING (trace_id)
JOIN workload_thread AS t ON t.trace_id = run.trace_id AND t.is_worker
JOIN thread_state AS s
  ON s.utid = t.utid AND s.state = 'ready' AND s.ts < w.end_ns AND s.ts + s.dur > w.start_ns
ANTI JOIN {_BEAT} AS beat ON beat.trace_id = run.trace_id
WHERE run.oversubscribed AND w.dur_ns > 0
GROUP BY ALL
HAVING workers > cpus
ORDER BY ready_ns DESC, run.trace_id
"""


def _on_purpose(scope: Scope) -> str:
    """What steps with more workers than CPUs waited, as planned; empty without such steps."""
    rows = scope.rows(_ON_PURPOSE)
    if not rows:
        return ""
    worst = rows[0]
    share = 100 * worst["ready_ns"] / (worst["window_ns"] * worst["workers"])
    return (
        f" {count(len(rows), 'step')} had more workers than CPUs, as planned: in {worst['step']}, "
        f"{worst['workers']} workers on {count(worst['cpus'], 'CPU')} were ready for "
        f"{duration(worst['ready_ns'])} in total, {percent(share)} of their time."
    )
