"""How much the SMT siblings of a core were busy together.

Sharing alone is not harm: it is info from 10 % of the time in which cores were busy (below that it
hardly moves a total), and judged as harm only where it could have been avoided (avoidable_sharing)
or where a second thread costs (scaling_curve). Steps of a workload share cores as planned, and are
not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import count, duration, percent, recordings

NEEDS = ("switches", "all_threads", "cores")
METRIC: Metric = "running"
KINDS = ("siblings_busy_together",)

INFO_PCT = 10.0

_SHARED = """
SELECT
  t.*,
  trace.label,
  w.start_ns,
  w.end_ns,
  run.workload IS NOT NULL AND t.trace_id NOT IN (
    SELECT trace_id FROM frame WHERE dialect = 'mark'
  ) AS is_planned
FROM ({asked}) AS t
JOIN analysis_span AS w USING (trace_id)
JOIN trace USING (trace_id)
LEFT JOIN run USING (trace_id)
WHERE cores > 0
ORDER BY shared_of_busy_pct DESC NULLS LAST, trace_id
"""


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The recording whose cores were shared most, or a conclusion."""
    rows = scope.rows(_SHARED.format(asked=scope.call("sibling_overlap_total")))
    every = [row for row in rows if (row["shared_of_busy_pct"] or 0) >= INFO_PCT]
    shared = [row for row in every if not row["is_planned"]]
    if not shared:
        planned = f", except as planned in {count(len(every), 'step')}" if every else ""
        yield (
            clean(
                f"In {count(len(rows), 'recording')} no cores were shared for "
                f"{percent(INFO_PCT)} of their busy time{planned}."
            )
            if rows
            else not_applicable("No core is known to have two logical CPUs online.")
        )
        return
    row = shared[0]
    share = row["shared_of_busy_pct"]
    yield Finding(
        kind="siblings_busy_together",
        severity="info",
        title=f"SMT siblings were busy together for {duration(row['both_ns'])}",
        detail=(
            f"{recordings(row['label'], len(shared) - 1)}more than one SMT sibling was busy for "
            f"{percent(share)} of the time in which cores were busy, {duration(row['both_ns'])} of "
            "core time."
        ),
        advice=(
            "Check which threads share (`FROM sibling_pair`), whether whole cores were idle "
            "(`FROM avoidable_sharing`), and what a second thread adds (`FROM smt_yield`)."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["both_ns"],
        cost_pct=share,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        cost_of="of the time in which cores were busy",
        evidence_sql=f"FROM sibling_overlap(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM sibling_overlap_total(p_trace_id := {row['trace_id']})",
    )
