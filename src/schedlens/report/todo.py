"""What to do first: the fixes that gain most, as replays of the recordings predict them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlens.output.terminal import visible
from schedlens.output.wording import count, percent, unbroken
from schedlens.report.figures import short
from schedlens.report.sections import View

MOST = 5
# What gains without frames are of, and the sign of a gain.
_WORK = {"throughput": ("throughput", 1), "responses": ("95th percentile of responses", -1)}

# The changes whose predicted figure is better even at the worse end of its interval, or that remove
# stutters; with the first finding that advises each.
_SQL = """
SELECT
  g.trace_id,
  t.label,
  g.process,
  g.change,
  g.unit,
  g.recorded,
  g.predicted,
  g.low,
  g.high,
  g.gain_pct,
  s.recorded AS stutters,
  s.predicted AS fixed_stutters,
  (
    SELECT min(finding_id) FROM finding AS f WHERE f.trace_id = g.trace_id AND f.fix = g.change
  ) AS finding_id
FROM predicted_gain AS g
JOIN trace AS t ON t.trace_id = g.trace_id
LEFT JOIN predicted_gain AS s
  ON s.trace_id = g.trace_id AND s.change = g.change AND s.figure = 'stutters'
WHERE
  (g.unit, g.figure) IN (('frames', 'mean'), ('throughput', 'throughput'), ('responses', 'p95'))
  AND (
    (g.unit <> 'throughput' AND g.high < g.recorded)
    OR (g.unit = 'throughput' AND g.low > g.recorded)
    OR (g.predicted <= g.recorded AND s.predicted < s.recorded)
  )
ORDER BY g.gain_pct DESC, g.trace_id, g.change
"""


def rows(view: View) -> list[dict[str, Any]]:
    """The changes that gain most; each with its finding, if one advises it alone."""
    return [
        {
            "recording": short(row["label"], 60),
            "change": visible(row["change"]),
            "process": visible(row["process"] or ""),
            "unit": row["unit"],
            "before": row["recorded"],
            "after": row["predicted"],
            "low": row["low"],
            "high": row["high"],
            "gain_pct": row["gain_pct"],
            "stutters": row["stutters"],
            "fixed_stutters": row["fixed_stutters"],
            "finding": row["finding_id"],
        }
        for row in view.rows(_SQL)[:MOST]
    ]


def gain(found: Mapping[str, Any]) -> str | None:
    """`Predicted with 'parking=off': frames 36.1 to 16.6 ms (15.9 to 17.4)`; None if unknown."""
    before, after = found["frame_ns"], found["fixed_frame_ns"]
    if before is None or after is None:
        return _work_gain(found)
    change = 100 * (1 - after / before)
    size = (
        "no shorter"
        if abs(change) < 0.05
        else f"{percent(abs(change))} {'shorter' if change > 0 else 'longer'}"
    )
    return unbroken(
        f"Predicted with '{found['fix']}': mean frame {before / 1e6:.2f} to {after / 1e6:.2f} ms "
        f"({found['fixed_low_ns'] / 1e6:.2f} to {found['fixed_high_ns'] / 1e6:.2f}), {size}."
    )


def _work_gain(found: Mapping[str, Any]) -> str | None:
    """`Predicted with 'quota /web=none': throughput +88 % (+75 % to +101 %)`."""
    if found["gain_of"] not in _WORK or found["gain_pct"] is None:
        return None
    name, sign = _WORK[found["gain_of"]]
    value, one, other = (sign * found[f"gain{end}_pct"] for end in ("", "_low", "_high"))
    low, high = sorted((one, other))
    return unbroken(
        f"Predicted with '{found['fix']}': {name} {value:+.0f} % ({low:+.0f} % to {high:+.0f} %)."
    )


def unpredicted(facts: Mapping[str, Any]) -> list[str]:
    """Why gains of recordings with frames are unknown, a line for each reason."""
    labels = {row["trace_id"]: row["label"] for row in facts["traces"]}
    reasons: dict[str, list[str]] = {}
    for row in facts["what_if"]["replays"]:
        if row["cannot_tell"] and row["process"] is not None:
            names = reasons.setdefault(row["cannot_tell"], [])
            if labels[row["trace_id"]] not in names:
                names.append(labels[row["trace_id"]])
    return [
        f"No gain is predicted for {names[0]}"
        + (f" and {count(len(names) - 1, 'other recording')}" if len(names) > 1 else "")
        + f": {why}. Its findings are ordered by what they cost."
        for why, names in reasons.items()
    ]
