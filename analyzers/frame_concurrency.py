"""How many CPUs the frames use at once, compared with the machine's cores.

It is info for each process that presents if in at least 25 % of its frames more logical CPUs were
busy on average than the machine has cores (SMT siblings then share), or if in at least 50 % of the
frames its own threads used fewer than 2 CPUs on average (the threads then run one after another),
also if each CPU in an unknown state ran one of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import percent, recordings

NEEDS = ("frames", "switches", "all_threads")
METRIC: Metric = "running"
KINDS = ("more_cpus_than_cores", "one_thread_at_a_time")

FULL_PCT = 25.0
SERIAL_PCT = 50.0
SERIAL_CPUS = 2.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """At most one finding a process that presents, or a conclusion."""
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
          100.0 * count(*) FILTER (WHERE own_busy + unknown < {SERIAL_CPUS}) / count(*)
            AS serial_pct,
        FROM ({asked}) AS f
        JOIN trace USING (trace_id)
        JOIN analysis_span AS w USING (trace_id)
        GROUP BY f.trace_id, f.upid, f.process, trace.label
        ORDER BY f.trace_id, f.process, f.upid
        """
    )
    found = False
    for row in rows:
        full, serial = row["full_pct"] >= FULL_PCT, row["serial_pct"] >= SERIAL_PCT
        if not full and not serial:
            continue
        found = True
        words = (
            f"in {percent(row['full_pct'])} of them more than its {row['cores']} cores, so that "
            "SMT siblings share"
            if full
            else f"in {percent(row['serial_pct'])} of them its own threads used fewer than 2, one "
            "thread after the other"
        )
        yield Finding(
            kind="more_cpus_than_cores" if full else "one_thread_at_a_time",
            severity="info",
            title=(
                f"Frames kept {row['busy']:.1f} CPUs busy on {row['cores']} cores"
                if full
                else f"Frames used only {row['own_busy']:.1f} CPUs on average"
            ),
            detail=(
                f"{recordings(row['label'])}{row['frames']} frames of {row['process']} kept "
                f"{row['busy']:.1f} of {row['cpus']} logical CPUs busy on average "
                f"({row['own_busy']:.1f} by its own threads): {words}."
            ),
            advice=(
                "Start fewer workers than cores, or move background work out of the frames."
                if full
                else "Shorten the critical path (`FROM path_thread`) or split its work: more "
                "workers cannot help."
            ),
            trace_id=row["trace_id"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            evidence_sql=(
                "SELECT frame, dur_ns, stutter, busy, own_busy, ready, p, e, smt FROM "
                f"frame_concurrency(p_trace_id := {row['trace_id']}) WHERE upid = {row['upid']}"
            ),
            counter_evidence_sql=f"FROM concurrency(p_trace_id := {row['trace_id']})",
        )
    if not found:
        yield (
            clean("The frames neither fill the cores nor run one thread at a time.")
            if rows
            else not_applicable("No frames are recorded.")
        )
