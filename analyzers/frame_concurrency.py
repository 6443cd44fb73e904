"""How much of the machine the frames use at once, against its cores.

Told for each process that presents if in at least 25 % of its frames more logical CPUs were busy on
average than the machine has cores (then siblings share), or if in at least 50 % of the frames its
own threads used fewer than 2 CPUs on average (then one thread after the other sets the pace).
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import percent

NEEDS = ("frames", "switches", "all_threads")
METRIC: Metric = "running"

FULL_PCT = 25.0
SERIAL_PCT = 50.0
SERIAL_CPUS = 2.0


def judge(scope: Scope) -> Iterable[Finding]:
    """At most one finding a process that presents, or what was checked."""
    asked = scope.call("frame_concurrency", process=scope.process)
    rows = scope.rows(
        f"""
        SELECT
          f.trace_id,
          f.upid,
          f.process,
          trace.label,
          any_value(w.start_ns) AS start_ns,
          any_value(w.end_ns) AS end_ns,
          count(*) AS frames,
          avg(busy) AS busy,
          avg(own_busy) AS own_busy,
          any_value(cores) AS cores,
          any_value(cpus) AS cpus,
          100.0 * count(*) FILTER (WHERE cores > 0 AND cores < cpus AND busy > cores) / count(*)
            AS full_pct,
          100.0 * count(*) FILTER (WHERE own_busy < {SERIAL_CPUS}) / count(*) AS serial_pct,
        FROM ({asked}) AS f
        JOIN trace USING (trace_id)
        JOIN analysis_span AS w USING (trace_id)
        GROUP BY f.trace_id, f.upid, f.process, trace.label
        ORDER BY f.trace_id, f.process, f.upid
        """
    )
    told = False
    for row in rows:
        full, serial = row["full_pct"] >= FULL_PCT, row["serial_pct"] >= SERIAL_PCT
        if not full and not serial:
            continue
        told = True
        words = (
            f"more than its {row['cores']} cores in {percent(row['full_pct'])} of them: siblings "
            "share"
            if full
            else f"its own threads fewer than 2 in {percent(row['serial_pct'])} of them: one "
            "thread after the other sets the pace"
        )
        yield Finding(
            analyzer="frame_concurrency",
            severity="info",
            title=(
                f"{row['frames']} frames of {row['process']} kept {row['busy']:.1f} of "
                f"{row['cpus']} logical CPUs busy on average ({row['own_busy']:.1f} by itself), "
                f"{words} ({row['label']})"
            ),
            trace_id=row["trace_id"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            advice=(
                "Start fewer workers, or move background work out of the frames."
                if full
                else "Shorten the critical path, or split its work: more workers cannot help."
            ),
            evidence_sql=(
                "SELECT frame, dur_ns, stutter, busy, own_busy, ready, p, e, smt FROM "
                f"frame_concurrency(p_trace_id := {row['trace_id']}) WHERE upid = {row['upid']}"
            ),
            counter_evidence_sql=f"FROM concurrency(p_trace_id := {row['trace_id']})",
        )
    if not told:
        yield Finding(
            analyzer="frame_concurrency",
            severity="checked",
            title=(
                "The frames neither fill the cores nor run one thread at a time"
                if rows
                else "No frames are recorded"
            ),
            evidence_sql="FROM frame_concurrency",
        )
