"""Whether recording changed what it recorded.

The cost is the typical rate of the batches lost against the same plan without a recorder. A cost
below the spread of the batches of its step is noise. It is info from 2 % (what two runs differ by
without any cause), a warning from 5 %: then absolute times of that step are those of a slower
machine. A step that was faster with the recorder shows a disturbed baseline, never a gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import count, percent

NEEDS = ("baselines",)
METRIC: Metric = "measured"
KINDS = ("recorder_overhead",)

INFO_PCT = 2.0
WARNING_PCT = 5.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The step in which recording cost most, or a conclusion."""
    rows = scope.rows(
        "SELECT * FROM recorder_cost WHERE cost_pct IS NOT NULL ORDER BY cost_pct DESC, trace_id"
    )
    if not rows:
        yield not_applicable("No step was run without the recorder.")
        return
    median = sorted(row["cost_pct"] for row in rows)[len(rows) // 2]
    costly = [row for row in rows if row["cost_pct"] >= INFO_PCT and not _is_noise(row)]
    # A single step above the line among many at 0 is a disturbance of that step.
    if not costly or median < INFO_PCT:
        spreads = [row["spread_pct"] for row in rows if row["spread_pct"] is not None]
        spread = f" (spread {percent(sorted(spreads)[len(spreads) // 2])})" if spreads else ""
        within = (
            f"is below the noise of the batches{spread}"
            if all(_is_noise(row) or row["cost_pct"] < 0 for row in rows)
            else f"is {percent(max(0.0, median))}, the median"
        )
        yield clean(f"The cost of recording {within}; {count(len(rows), 'step')} compared.")
        return
    worst = costly[0]
    more = f", and {count(len(costly) - 1, 'other step')}" if len(costly) > 1 else ""
    yield Finding(
        kind="recorder_overhead",
        severity="warning" if median >= WARNING_PCT else "info",
        title=f"Recording cost {percent(median)} of the throughput",
        detail=(
            f"Recording cost {percent(median)} of the throughput, the median of "
            f"{count(len(rows), 'step')}; {worst['step']} lost most, "
            f"{percent(worst['cost_pct'])}{more}."
        ),
        advice=(
            "Record with `--light`, or for longer, and compare steps only with steps that were "
            "recorded the same way."
        ),
        trace_id=worst["trace_id"],
        cost_pct=worst["cost_pct"],
        cost_of="of the throughput",
        evidence_sql="FROM recorder_cost ORDER BY cost_pct DESC",
    )


def _is_noise(row: dict[str, Any]) -> bool:
    return row["spread_pct"] is not None and abs(row["cost_pct"]) <= row["spread_pct"]
