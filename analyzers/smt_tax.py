"""What running with a busy SMT sibling cost by the threads' own counters.

The cost is summed over the threads with at least 30 intervals alone and 30 shared. It is a warning
if the upper estimate matches the lower in sign and the sum is at least 5 % of the window, info from
1 % on. Threads with too few intervals are left out, not estimated.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import count, duration, percent, recordings, thread_name, times

NEEDS = ("counters", "cores")
METRIC: Metric = "running"
KINDS = ("busy_siblings",)

WARNING_PCT = 5.0
INFO_PCT = 1.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The recording in which it cost most, or a conclusion."""
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
    costly = [row for row in rows if 100 * (row["cost"] or 0) >= INFO_PCT * row["dur_ns"]]
    if not costly:
        refused = sum(row["refused"] for row in rows)
        yield (
            clean(
                f"No thread is known to have lost {percent(INFO_PCT)} of the window to a busy SMT "
                f"sibling; {count(refused, 'thread')} had too few intervals."
            )
            if rows
            else not_applicable("No cycles and instructions were counted at switches.")
        )
        return
    row = costly[0]
    share = 100 * row["cost"] / row["dur_ns"]
    yield Finding(
        kind="busy_siblings",
        severity="warning" if share >= WARNING_PCT else "info",
        title=f"Busy SMT siblings cost {duration(row['cost'])} of running time",
        detail=(
            f"{recordings(row['label'], len(costly) - 1)}busy SMT siblings cost "
            f"{count(row['threads'], 'thread')} {duration(row['cost'])} of running time by their "
            f"own counters{times(row['low'], row['high'])}, "
            f"{thread_name(row['thread'], row['tid'], row['process'])} most."
        ),
        advice=(
            "Keep the SMT siblings of these threads' CPUs free: start fewer workers, use E cores "
            "before siblings, or set an ideal processor for each thread (SetThreadIdealProcessor)."
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
        evidence_sql=f"SELECT * FROM smt_tax(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=(
            "SELECT thread, tid, core_type, cpi, instructions_per_s, relative_to_p "
            f"FROM thread_cpi(p_trace_id := {row['trace_id']})"
        ),
    )
