"""Which threads waited for a CPU longer than a fair share of the busy CPUs explains.

The cost is the ready time beyond fair sharing (`fair_share`): while more threads are runnable than
CPUs are online, each must wait for its turn. A thread is reported if it was ready for 1 ms at a
time and the excess is 10 % of its running and ready time; a warning needs 4 ms at a time and an
excess of 25 % and of 1 % of the window; critical needs 16.7 ms (a frame at 60 Hz) and an excess of
10 % of the window while there were CPUs for all runnable threads. Linux shares between groups of
threads (cgroups, autogroups) first: where they were not recorded, only ready time while there were
CPUs for all decides the severity. Ready time that a quota, a rate control or a used-up
deadline runtime explains is left out (throttled_cgroup and real_time judge it), and so is the time
in which the thread's CPU left its idle state (ready_obstacle judges it). Where other
programs were not recorded, what is fair is unknown, and the finding is info. Ready times that lost
records may have cut or joined are left out. The three worst threads are named, those of one name
and process once. In the steps of workloads their own threads are not judged (they wait as planned:
see concurrency and scaling_curve), and of what others wait alongside them the worst is info.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Rank, Scope, Severity, clean
from schedlens.machine import interrupt_thread
from schedlens.output.wording import and_more, count, duration, recordings, thread_name

NEEDS = ("switches",)
METRIC: Metric = "ready"
KINDS = ("long_ready",)

INFO_NS = 1_000_000
WARNING_NS = 4_000_000
CRITICAL_NS = 16_700_000
INFO_PCT, EXCESS_PCT = 10.0, 25.0
WINDOW_PCT, CRITICAL_WINDOW_PCT = 1.0, 10.0
NAMED = 3

_FOREIGN = "t.utid NOT IN (SELECT utid FROM workload_thread)"
# Programs that record: no work waits for them.
_RECORDERS = ("collect", "perf", "trace-cmd", "wpr.exe", "xperf.exe")
# Threads of a pool differ by a number alone.
_ALIKE = (
    ", ".join(f"regexp_replace({name}, '[0-9]+', '', 'g')" for name in ("process", "thread"))
    + ", run.workload IS NOT NULL"
)

# The longest ready time of each thread that no gap on any CPU touches.
_LONGEST = f"""
SELECT utid, max(ready_ns) AS longest_ns
FROM (
  SELECT s.trace_id, s.utid, s.ts - s.ready_ns AS from_ns, s.ts AS to_ns, s.ready_ns
  FROM sched_slice AS s
  JOIN analysis_span AS w USING (trace_id)
  WHERE NOT s.is_idle AND NOT s.left_censored AND s.ready_ns >= {INFO_NS}
    AND s.ts BETWEEN w.start_ns AND w.end_ns
    AND (s.utid, s.ts - s.ready_ns) NOT IN (
      SELECT (utid, ready_ts) FROM ready_slice WHERE throttled
    )
  UNION ALL
  -- Woken and not seen on a CPU again.
  SELECT s.trace_id, s.utid, s.ts, s.ts + s.dur, s.dur
  FROM thread_state AS s
  JOIN analysis_span AS w USING (trace_id)
  WHERE s.state = 'ready' AND s.right_censored AND s.dur >= {INFO_NS}
    AND s.ts < w.end_ns AND s.ts + s.dur > w.start_ns
) AS r
ASOF LEFT JOIN (
  -- Of the losses that begin before a time, the end of the one that ends last.
  SELECT
    trace_id,
    coalesce(start_ns, {-(2**63)}) AS start_ns,
    max(coalesce(end_ns, {2**63 - 1})) OVER (
      PARTITION BY trace_id ORDER BY start_ns NULLS FIRST ROWS UNBOUNDED PRECEDING
    ) AS end_ns,
  FROM loss
) AS lost
  ON lost.trace_id = r.trace_id AND lost.start_ns < r.to_ns
WHERE lost.end_ns IS NULL OR lost.end_ns <= r.from_ns
GROUP BY utid
"""


# By whether Windows scheduled the threads.
_CHANGES = {
    True: "widen its affinity (SetThreadAffinityMask) or raise its priority (SetThreadPriority).",
    False: "widen its affinity (taskset -p), raise its priority (nice, chrt), or raise the "
    "cpu.weight of its cgroup.",
}
_CHANGE_IF_BOUND = (
    "the kernel binds it to CPU {cpu}, so keep those off that CPU (taskset -p, cpuset.cpus)."
)
_CHANGE_OF_INTERRUPT = (
    "give its interrupt more CPUs ({file}) or the thread a higher priority (chrt)."
)


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The threads with the largest excess of ready time, or a conclusion."""
    asked = scope.call("thread_summary", process=scope.process)
    fair = scope.call("fair_share", process=scope.process)
    held = scope.call("ready_obstacle", process=scope.process)
    judged = scope.rows(
        "SELECT t.* EXCLUDE (ready_max_ns), longest_ns AS ready_max_ns, "
        # If nothing shows what is fair, all may be that is spent while there are too few CPUs.
        "greatest(coalesce(f.fair_ready_ns, f.crowded_ready_ns, 0), coalesce(o.throttled_ns, 0)) "
        "+ coalesce(o.idle_exit_ns, 0) + coalesce(d.doubt_ns, 0) AS fair_ns, "
        "coalesce(f.fair_ready_ns, f.crowded_ready_ns, 0) > 0 AS is_crowded, "
        "coalesce(o.throttled_ns, 0) > 0 AS is_throttled, "
        "coalesce(o.idle_exit_ns, 0) > 0 AS is_woken, "
        "t.ready_ns - coalesce(f.crowded_ready_ns, 0) AS uncrowded_ns, "
        "w.start_ns, w.end_ns, w.dur_ns, trace.label, "
        "is_windows_source(trace.source) AS is_windows, "
        "t.cpus = 1 AND t.last_cpu = kernel_bound_cpu(trace.source, t.thread) AS is_bound, "
        # `collect` reads the groups; a recording of perf alone may contain cgroups.
        "is_tracepoint_source(trace.source) "
        "AND trace.trace_id NOT IN (SELECT trace_id FROM machine_setting "
        "WHERE key IN ('autogroup', 'cpu_shares')) "
        "AND trace.trace_id NOT IN (SELECT trace_id FROM thread_cgroup) AS groups_unknown, "
        # No work that is looked at waits for threads next to a workload, or for the recorder.
        f"run.workload IS NOT NULL OR coalesce(t.process IN {_RECORDERS}, FALSE) AS is_aside, "
        "EXISTS (SELECT 1 FROM recorded_kind AS k WHERE k.trace_id = t.trace_id "
        "AND k.kind = 'all_threads' AND NOT k.recorded) AS own_only, "
        "count(*) OVER same - 1 AS others_like_it "
        f"FROM ({asked}) AS t JOIN ({_LONGEST}) USING (utid) "
        f"LEFT JOIN (SELECT utid, fair_ready_ns, crowded_ready_ns FROM ({fair})) AS f "
        "ON f.utid = t.utid "
        f"LEFT JOIN (SELECT utid, throttled_ns, idle_exit_ns FROM ({held})) AS o "
        "ON o.utid = t.utid "
        # Lost records leave open whether an idle CPU was about to take the thread.
        "LEFT JOIN (SELECT utid, sum(dur)::BIGINT AS doubt_ns FROM ready_slice WHERE in_doubt "
        "GROUP BY utid) AS d ON d.utid = t.utid "
        "JOIN analysis_span AS w ON w.trace_id = t.trace_id "
        "JOIN trace ON trace.trace_id = t.trace_id LEFT JOIN run ON run.trace_id = t.trace_id "
        f"WHERE {_FOREIGN} AND 100 * (t.ready_ns - fair_ns) > "
        f"{INFO_PCT} * (t.run_ns + t.ready_ns) "
        f"WINDOW same AS (PARTITION BY {_ALIKE}) "
        f"QUALIFY row_number() OVER (PARTITION BY {_ALIKE} "
        "ORDER BY t.ready_ns - fair_ns DESC, t.trace_id, t.utid) = 1 "
        "ORDER BY t.utid IN (SELECT utid FROM command_thread) DESC, "
        "t.ready_ns - fair_ns DESC, t.trace_id, t.utid"
    )
    worst = [row for row in judged if not row["is_aside"]][:NAMED]
    worst += [row for row in judged if row["is_aside"]][:1]
    for row in worst:
        yield Finding(
            kind="long_ready",
            severity="info" if row["is_aside"] else _severity(row),
            title=f"Thread waited {duration(_excess(row))} beyond its fair share of CPUs",
            detail=(
                f"{recordings(row['label'])}"
                f"{thread_name(row['thread'], row['tid'], row['process'])} was ready for up to "
                f"{duration(row['ready_max_ns'])} at a time before it got a CPU, "
                f"{duration(row['ready_ns'])} {_of_window(row)}{_unfair(row)}."
                f"{_by_groups(row)}"
                f"{and_more(row['others_like_it'])}"
            ),
            advice=(
                "Check what it waited for (`FROM ready_obstacle`) and which threads ran instead "
                f"(`FROM worst_waits`); {_change(row)}"
            ),
            trace_id=row["trace_id"],
            cost_ns=_excess(row),
            cost_pct=100 * _excess(row) / row["dur_ns"] if row["dur_ns"] else None,
            utid=row["utid"],
            about=(row["utid"],),
            cpu=row["last_cpu"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            rank=Rank.SUM,
            evidence_sql=(
                "SELECT ts - ready_ns AS ready_at_ns, ready_ns, cpu, waker_utid, end_reason "
                f"FROM sched_slice WHERE utid = {row['utid']} AND ready_ns >= {INFO_NS} "
                "ORDER BY ready_ns DESC, ts"
            ),
            counter_evidence_sql=(
                "SELECT thread, run_ns, ready_ns, ready_count, ready_p50_ns, ready_p95_ns, "
                f"ready_p99_ns FROM thread_summary WHERE utid = {row['utid']}"
            ),
        )
    if not worst:
        counted = scope.rows(
            "SELECT count(*) AS threads, max(ready_max_ns) AS longest "
            f"FROM ({asked}) AS t WHERE {_FOREIGN}"
        )[0]
        longest = counted["longest"]
        longer = longest is not None and longest >= INFO_NS
        yield clean(
            f"{count(counted['threads'], 'thread')}, "
            + (
                "no ready time beyond a fair share of the CPUs"
                if longer
                else f"no known ready time reaches {duration(INFO_NS)}"
            )
            + (f"; the longest is {duration(longest)}." if longest is not None else ".")
        )


def _change(row: dict[str, Any]) -> str:
    """What to change so that the thread waits less."""
    if row["is_bound"]:
        return _CHANGE_IF_BOUND.format(cpu=row["last_cpu"])
    file = None if row["is_windows"] else interrupt_thread.affinity_file(row["thread"])
    if file is not None:
        return _CHANGE_OF_INTERRUPT.format(file=file)
    return _CHANGES[row["is_windows"]]


def _of_window(row: dict[str, Any]) -> str:
    """A ready time that began before the window is longer than its part in the window."""
    return "of it in the window" if row["ready_max_ns"] > row["ready_ns"] else "in total"


def _excess(row: dict[str, Any]) -> int:
    """Ready time beyond a fair share of the CPUs, or beyond throttling if that is longer."""
    return int(row["ready_ns"] - row["fair_ns"])


def _unfair(row: dict[str, Any]) -> str:
    causes = [
        cause
        for cause, applies in (
            ("fair sharing", row["is_crowded"]),
            ("throttling", row["is_throttled"]),
            ("CPUs that left their idle state", row["is_woken"]),
        )
        if applies
    ]
    if not causes:
        return ""
    explain = "explains" if causes in (["fair sharing"], ["throttling"]) else "explain"
    return f", {duration(_excess(row))} more than {' and '.join(causes)} {explain}"


def _unasked(row: dict[str, Any]) -> int:
    """Excess while CPUs sufficed for all: no rule of sharing asked the thread to wait."""
    return int(min(_excess(row), row["uncrowded_ns"]))


def _by_groups(row: dict[str, Any]) -> str:
    """What groups that were not recorded may explain."""
    open_ns = _excess(row) - _unasked(row)
    if not row["groups_unknown"] or open_ns <= 0:
        return ""
    part = "that" if _unasked(row) <= 0 else f"{duration(open_ns)} of that"
    return f" Sharing between cgroups or autogroups, which were not recorded, may explain {part}."


def _severity(row: dict[str, Any]) -> Severity:
    longest, active = row["ready_max_ns"], row["run_ns"] + row["ready_ns"]
    unasked = _unasked(row)
    sure = unasked if row["groups_unknown"] else _excess(row)
    of_window = 100 * sure / row["dur_ns"] if row["dur_ns"] else 0.0
    unfair = 100 * sure >= EXCESS_PCT * active
    if row["own_only"] or longest < WARNING_NS or of_window < WINDOW_PCT or not unfair:
        return "info"
    if (
        longest >= CRITICAL_NS
        and 100 * unasked >= EXCESS_PCT * active
        and 100 * unasked >= CRITICAL_WINDOW_PCT * row["dur_ns"]
    ):
        return "critical"
    return "warning"
