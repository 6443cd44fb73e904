"""Whether frames stuttered, and where the time of the slow ones went.

A stutter is a frame at least 1.5 times as long as the median of the 31 frames around it (or of all,
where that is shorter) and 4 ms longer. The three processes whose stutters cost most are named;
critical from 100 ms in total or from 5 % of the frames, else a warning. A lost present event makes
two frames look like a long one: where records are missing within a stutter, or at an unknown time,
it does not count for the severity, and without any other the finding is info. The extra time is
attributed to the part of the critical path (or, where that is unknown, of the presenting thread)
that grew most from the even frames to the stutters, and to the thread with the largest share of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import (
    Finding,
    Metric,
    Outcome,
    Rank,
    Scope,
    Severity,
    clean,
    not_applicable,
)
from schedlens.load.schema import literal
from schedlens.output.wording import and_more, count, duration, percent, recordings, thread_name

NEEDS = ("frames",)
METRIC: Metric = "frames"
KINDS = ("stutter",)

CRITICAL_NS = 100_000_000
CRITICAL_PCT = 5.0
NAMED = 3
# From this share on, a part is reported as one thread's alone.
ALMOST_ALL = 0.8

# What each part of a frame means, and what to try when it is the one that grew.
_PARTS = {
    "run_p_alone": (
        "running alone on a core",
        "The work itself grew: profile this thread in these frames, or split its work.",
    ),
    "run_p_shared": (
        "running with its SMT sibling busy",
        "Start fewer workers than logical CPUs, or give this thread a core of its own: keep "
        "workers off its SMT sibling (taskset, SetThreadIdealProcessor).",
    ),
    "run_p_unknown": (
        "running on a core whose SMT sibling's state is unknown",
        "Record again without lost events, and describe the machine with --topology FILE.",
    ),
    "run_e": (
        "running on an E core",
        "Raise this thread's priority, keep background work off the P cores (EcoQoS), and start "
        "fewer workers; no hard affinity.",
    ),
    "run_other": (
        "running on a core of unknown type",
        "Describe the machine with --topology FILE.",
    ),
    "interrupt": (
        "interrupted",
        "Find the driver (`FROM interrupt_time`), and move its interrupts to another CPU.",
    ),
    "ready_all_busy": (
        "ready while all allowed CPUs were busy",
        "Raise the priority of this thread, or start fewer threads: `FROM worst_waits` shows which "
        "threads ran instead.",
    ),
    "ready_idle_available": (
        "ready while an allowed CPU was idle",
        "Widen its affinity (taskset -p; on Windows set an ideal processor instead of a mask).",
    ),
    "ready_parked_available": (
        "ready while only parked CPUs were idle",
        "Replace hard affinity by an ideal processor (SetThreadIdealProcessor), and raise the "
        "power plan's minimum of unparked cores (powercfg CPMINCORES).",
    ),
    "ready_idle_exit": (
        "ready while the CPU woke up",
        "Disable the deep idle states (cpupower idle-set, or the power plan).",
    ),
    "ready_throttled": (
        "throttled by a quota or limit",
        "Raise the quota (cpu.max; sched_runtime of a deadline thread).",
    ),
    "ready_unknown": (
        "ready for an unknown reason",
        "Record again with CPU parking and without lost events.",
    ),
    "wait": (
        "waiting",
        "Find what it waits for: the evidence contains the wait reason, `FROM frame_path` the "
        "thread that wakes it.",
    ),
    "new": ("created and not yet runnable", "Create threads before they are needed."),
    "unknown": ("in an unknown state", "Record again without lost events."),
}

# Stutters of each process that no lost present event can have made.
_SURE = """
SELECT f.trace_id, f.upid, f.process, count(*) AS stutters, sum(f.over_ns)::BIGINT AS ns
FROM frame_time AS f
WHERE f.stutter AND (
  f.dialect = 'mark' OR f.dialect LIKE 'presentmon%'
  OR NOT EXISTS (
    SELECT 1
    FROM loss
    WHERE loss.trace_id = f.trace_id
      AND coalesce(loss.start_ns, f.start_ns) < f.start_ns + f.dur_ns
      AND coalesce(loss.end_ns, f.start_ns + 1) > f.start_ns
  )
)
GROUP BY ALL
"""


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The processes whose stutters cost most, or a conclusion."""
    asked = scope.call("frame_summary", process=scope.process)
    rows = scope.rows(
        f"SELECT s.*, trace.label, w.start_ns, w.end_ns, w.dur_ns FROM ({asked}) AS s "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "ORDER BY stutter_ns DESC, trace_id, upid"
    )
    if not rows:
        yield not_applicable(
            "No frames are recorded: no process presents, and no file of frames was given."
        )
        return
    shaky = [row for row in rows if row["stutters"]]
    if not shaky:
        row = rows[0]
        yield clean(
            f"No stutter in {count(row['frames'], 'frame')} of {row['process']}: median "
            f"{duration(row['p50_ns'])}, 99 % within {duration(row['p99_ns'])}."
        )
        return
    sure = {
        (found["trace_id"], found["upid"], found["process"]): (found["stutters"], found["ns"])
        for found in scope.rows(_SURE)
    }
    for place, row in enumerate(shaky[:NAMED]):
        known = sure.get((row["trace_id"], row["upid"], row["process"]), (0, 0))
        yield _finding(scope, row, known, len(shaky) - NAMED if place == NAMED - 1 else 0)


def _severity(row: dict[str, Any], sure: tuple[int, int]) -> Severity:
    stutters, ns = sure
    if not stutters:
        return "info"
    share = 100 * stutters / row["frames"]
    return "critical" if ns >= CRITICAL_NS or share >= CRITICAL_PCT else "warning"


def _finding(scope: Scope, row: dict[str, Any], sure: tuple[int, int], others: int) -> Finding:
    missing = scope.lacks(row["trace_id"], ["switches"])
    cause = None if missing else _cause(scope, row)
    severity = _severity(row, sure)
    detail = (
        f"{recordings(row['label'])}{count(row['stutters'], 'stutter')} in {row['frames']} frames "
        f"of {row['process']} cost {duration(row['stutter_ns'])}"
    )
    advice = (
        "Record the thread that presents, to see where the time went: DXGI events on Windows, the "
        "column tid in a file of frames on Linux."
    )
    if missing:
        advice = "Record context switches too, to see where the time went."
    path = False
    if cause is not None:
        meaning, advice = _PARTS.get(cause["part"], (cause["part"], ""))
        named = thread_name(cause["thread"], cause["tid"])
        several = bool(cause["others"])
        if several:
            named += f" and {count(cause['others'], 'other thread')}"
        verb = "were" if several else "was"
        detail += f"; for {percent(cause['grown_pct'])} of it {named} {verb} {meaning}"
        path = cause["path"]
    who = f"p_trace_id := {row['trace_id']}, p_process := {literal(row['process'])}"
    return Finding(
        kind="stutter",
        severity=severity,
        title=(
            f"{count(row['stutters'], 'stutter')} in {row['frames']} frames cost "
            f"{duration(row['stutter_ns'])}"
        ),
        detail=f"{detail}.{and_more(others)}",
        advice=advice,
        trace_id=row["trace_id"],
        cost_ns=row["stutter_ns"],
        cost_pct=100 * row["stutter_ns"] / row["dur_ns"] if row["dur_ns"] else None,
        utid=cause["utid"] if cause else None,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        rank=Rank.CAUSE if severity == "info" else Rank.SYMPTOM,
        evidence_sql=(
            "SELECT l.frame, l.start_ns, l.frame_ns, thread.name AS thread, thread.tid, l.part, "
            f"l.reason, l.dur {_ledger(scope, row, path)} AS l "
            "JOIN thread USING (utid) WHERE l.stutter "
            "ORDER BY l.frame_ns DESC, l.frame, l.dur DESC, thread.tid"
        ),
        counter_evidence_sql=(
            f"SELECT bound_by, count(*) AS frames, count(*) FILTER (WHERE stutter) AS stutters "
            f"FROM frame_time({who}) GROUP BY bound_by ORDER BY frames DESC"
        ),
    )


def _ledger(scope: Scope, row: dict[str, Any], path: bool) -> str:
    """The question where the time of each frame went, along the critical path or not."""
    return scope.call("frame_ledger", trace_id=row["trace_id"], process=row["process"], path=path)


def _cause(scope: Scope, row: dict[str, Any]) -> dict[str, Any] | None:
    """The part that grew most from the even frames to the stutters, and the thread most of it is.

    `others`: the other threads in it, where it has less than `ALMOST_ALL` of the part.
    """
    for path in (True, False):
        ledger = scope.rows(
            f"""
WITH
  part AS ({_ledger(scope, row, path)}),
  frames AS (
    SELECT
      count(DISTINCT frame) FILTER (WHERE stutter) AS shaky,
      count(DISTINCT frame) FILTER (WHERE NOT stutter) AS even
    FROM part
  ),
  grown AS (
    SELECT
      part,
      utid,
      coalesce(sum(dur) FILTER (WHERE stutter), 0)
      - coalesce(sum(dur) FILTER (WHERE NOT stutter), 0) * any_value(shaky)
        / nullif(any_value(even), 0) AS grown_ns,
    FROM part, frames
    GROUP BY part, utid
  ),
  whole AS (
    SELECT part, sum(grown_ns) AS part_ns, count(*) FILTER (WHERE grown_ns > 0) AS threads
    FROM grown
    GROUP BY part
  )
SELECT
  g.utid,
  part,
  thread.name AS thread,
  thread.tid,
  whole.part_ns,
  CASE WHEN g.grown_ns < {ALMOST_ALL} * whole.part_ns THEN whole.threads - 1 ELSE 0 END AS others,
FROM grown AS g
JOIN whole USING (part)
JOIN thread USING (utid)
WHERE whole.part_ns > 0
ORDER BY whole.part_ns DESC, part, g.grown_ns DESC, g.utid
LIMIT 1
"""
        )
        if ledger:
            found = ledger[0]
            share = 100 * found["part_ns"] / row["stutter_ns"]
            return {**found, "path": path, "grown_pct": min(100.0, share)}
    return None
