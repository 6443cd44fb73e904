"""What running beside a busy sibling cost by the threads' own counters.

Summed are the threads with at least 30 intervals alone and 30 shared. It is a warning if the upper
estimate matches the lower in sign and the sum is at least 5 % of the window, told from 1 % on.
Threads with too few intervals are refused, not estimated.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, elsewhere, percent, thread_name

NEEDS = ("counters", "cores")
METRIC: Metric = "running"

WARNING_PCT = 5.0
TOLD_PCT = 1.0


def judge(scope: Scope) -> Iterable[Finding]:
    """The recording in which it cost most, or what was checked."""
    asked = scope.call("smt_tax", process=scope.process)
    rows = scope.rows(
        f"""
        SELECT
          t.trace_id,
          trace.label,
          any_value(w.start_ns) AS start_ns,
          any_value(w.end_ns) AS end_ns,
          any_value(w.dur_ns) AS dur_ns,
          count(*) FILTER (WHERE tax_ns > 0 AND tax_low_ns > 0) AS threads,
          count(*) FILTER (WHERE refused IS NOT NULL) AS refused,
          sum(tax_ns) FILTER (WHERE tax_low_ns > 0)::BIGINT AS cost,
          sum(tax_low_ns) FILTER (WHERE tax_low_ns > 0)::BIGINT AS low,
          sum(tax_high_ns) FILTER (WHERE tax_low_ns > 0)::BIGINT AS high,
          arg_max(t.utid, (t.tax_ns, -t.utid)) AS utid,
          arg_max(t.thread, (t.tax_ns, -t.utid)) AS thread,
          arg_max(t.tid, (t.tax_ns, -t.utid)) AS tid,
          arg_max(t.process, (t.tax_ns, -t.utid)) AS process,
        FROM ({asked}) AS t
        JOIN trace USING (trace_id)
        JOIN analysis_span AS w USING (trace_id)
        GROUP BY t.trace_id, trace.label
        ORDER BY cost DESC NULLS LAST, t.trace_id
        """
    )
    costly = [row for row in rows if 100 * (row["cost"] or 0) >= TOLD_PCT * row["dur_ns"]]
    if not costly:
        refused = sum(row["refused"] for row in rows)
        yield Finding(
            analyzer="smt_tax",
            severity="checked",
            title=(
                "No cycles and instructions at switches: what a busy sibling costs is not known"
                if not rows
                else f"No thread is known to have lost {percent(TOLD_PCT)} of the window beside a "
                f"busy sibling; {count(refused, 'thread')} with too few intervals"
            ),
            evidence_sql="FROM smt_tax",
        )
        return
    row = costly[0]
    share = 100 * row["cost"] / row["dur_ns"]
    yield Finding(
        analyzer="smt_tax",
        severity="warning" if share >= WARNING_PCT else "info",
        title=(
            f"Busy siblings cost {count(row['threads'], 'thread')} {duration(row['cost'])} of "
            f"running time by their own counters ({duration(row['low'])} to "
            f"{duration(row['high'])}), "
            f"{thread_name(row['thread'], row['tid'], row['process'])} most ({row['label']})"
            f"{elsewhere(len(costly) - 1)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["cost"],
        cost_pct=share,
        utid=row["utid"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="range",
        cost_low_ns=row["low"],
        cost_high_ns=row["high"],
        advice=(
            "Keep the siblings of these threads' cores free: fewer workers, E cores before "
            "siblings, an ideal processor for each."
        ),
        evidence_sql=f"SELECT * FROM smt_tax(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=(
            "SELECT thread, tid, core_type, cpi, instructions_per_s, relative_to_p "
            f"FROM thread_cpi(p_trace_id := {row['trace_id']})"
        ),
    )
