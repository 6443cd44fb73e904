"""Whether recording changed what it recorded.

The cost is the typical rate of the batches lost against the same plan without a recorder. A cost
below the spread of the batches of its step is noise. It is told from 2 % (what two runs differ by
without any cause), a warning from 5 %: then absolute times of that step are those of a slower
machine. A step that was faster with the recorder tells of a disturbed baseline, never of a gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, elsewhere, percent

NEEDS = ("baselines",)
METRIC: Metric = "measured"

TOLD_PCT = 2.0
WARNING_PCT = 5.0


def judge(scope: Scope) -> Iterable[Finding]:
    """The step in which recording cost most, or what was checked."""
    rows = scope.rows(
        "SELECT * FROM recorder_cost WHERE cost_pct IS NOT NULL ORDER BY cost_pct DESC, trace_id"
    )
    if not rows:
        yield Finding(
            analyzer="recorder_cost",
            severity="checked",
            title="No step was run without the recorder: what recording costs is unknown",
            evidence_sql="FROM recorder_cost",
        )
        return
    median = sorted(row["cost_pct"] for row in rows)[len(rows) // 2]
    costly = [row for row in rows if row["cost_pct"] >= TOLD_PCT and not _is_noise(row)]
    # A single step above the line among many at 0 is a disturbance of that step.
    if not costly or median < TOLD_PCT:
        spreads = [row["spread_pct"] for row in rows if row["spread_pct"] is not None]
        spread = f" (spread {percent(sorted(spreads)[len(spreads) // 2])})" if spreads else ""
        within = (
            f"is below the noise of the batches{spread}"
            if all(_is_noise(row) or row["cost_pct"] < 0 for row in rows)
            else f"is {percent(max(0.0, median))}, the median"
        )
        yield Finding(
            analyzer="recorder_cost",
            severity="checked",
            title=f"What recording cost {within}, {count(len(rows), 'step')} compared",
            evidence_sql="FROM recorder_cost",
        )
        return
    worst = costly[0]
    yield Finding(
        analyzer="recorder_cost",
        severity="warning" if median >= WARNING_PCT else "info",
        title=(
            f"Recording cost {percent(median)} of the throughput, the median of "
            f"{count(len(rows), 'step')}; most in {worst['step']}: {percent(worst['cost_pct'])}"
            f"{elsewhere(len(costly) - 1)}"
        ),
        trace_id=worst["trace_id"],
        cost_pct=worst["cost_pct"],
        advice=(
            "Compare steps with each other and not with runs outside; record with --light, or "
            "for longer, if the cost must go down."
        ),
        evidence_sql="FROM recorder_cost ORDER BY cost_pct DESC",
    )


def _is_noise(row: dict[str, Any]) -> bool:
    return row["spread_pct"] is not None and abs(row["cost_pct"]) <= row["spread_pct"]
