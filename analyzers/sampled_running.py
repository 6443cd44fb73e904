"""Which threads ran, approximately, in a recording with samples and without context switches.

The busiest thread is reported as info if it has at least 100 samples and at least 1 % of the
samples of all threads: with 100 samples, its running time is known to about 20 %.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import and_more, duration, percent, recordings, thread_name

NEEDS = ("samples",)
METRIC: Metric = "measured"
KINDS = ("approximate_running",)

INFO_SAMPLES = 100
INFO_PCT = 1.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The busiest thread by samples, or a conclusion."""
    asked = scope.call("sampled_running", process=scope.process)
    rows = scope.rows(
        f"SELECT r.*, trace.label, 100.0 * samples / sum(samples) OVER (PARTITION BY trace_id) "
        f"AS samples_pct FROM ({asked}) AS r JOIN trace USING (trace_id) "
        "WHERE trace_id NOT IN (SELECT trace_id FROM context_switch) "
        "ORDER BY samples DESC, trace_id, utid"
    )
    if not rows:
        yield not_applicable("context switches say exactly which threads ran")
        return
    shown = [r for r in rows if r["samples"] >= INFO_SAMPLES and r["samples_pct"] >= INFO_PCT]
    if not shown:
        yield clean(f"no thread has {INFO_SAMPLES} samples")
        return
    row = shown[0]
    if row["running_ns"] is None:
        time = f"in {row['samples']:,} samples"
    else:
        time = f"for about {duration(row['running_ns'])} (± {duration(row['error_ns'])})"
    share = "" if row["cpu_pct"] is None else f", {percent(row['cpu_pct'])} of the time of all CPUs"
    yield Finding(
        kind="approximate_running",
        severity="info",
        title=f"Approximate: the busiest thread has {percent(row['samples_pct'])} of the samples",
        detail=(
            f"{recordings(row['label'])}{thread_name(row['thread'], row['tid'])} ran {time}{share}"
            f", by samples; the recording has no context switches.{and_more(len(shown) - 1)}"
        ),
        advice="Record context switches, too: who waited for whom is in no sample.",
        evidence_sql=f"FROM sampled_running(p_trace_id := {row['trace_id']}) LIMIT 20",
        trace_id=row["trace_id"],
        utid=row["utid"],
        about=(row["utid"],),
    )
