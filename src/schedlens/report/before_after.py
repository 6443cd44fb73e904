"""What changed between two recordings of the same thing: a fault and its fix, or two builds."""

from __future__ import annotations

from typing import Any

from schedlens.output.terminal import visible
from schedlens.output.wording import duration, percent, unbroken
from schedlens.report.figures import short
from schedlens.report.sections import View

MOST_PAIRS = 3
# A smaller change of one recording to another shows nothing.
_SAME_PCT = 3.0
_COUNTED = "stutters"


def pairs(view: View) -> list[dict[str, Any]]:
    """A sentence and its numbers for each pair; the first pairs only."""
    found = []
    for pair in view.kept(view.call("recording_pair")):
        numbers = _frames(view, pair) or _ready(view, pair)
        if not numbers:
            continue
        first, second = short(pair["first"], 60), short(pair["second"], 60)
        found.append(
            {
                "first": first,
                "second": second,
                "better": _better(numbers),
                "line": visible(unbroken(f"{second} against {first}: {_sentence(numbers)}.")),
                "numbers": [
                    [what, *map(unbroken, (text(before), text(after), _change(before, after)))]
                    for what, before, after, text in numbers
                ],
            }
        )
    return found[:MOST_PAIRS]


def _change(before: float, after: float) -> str:
    """`18 % less`; a change to or from 0 has no share."""
    if not before or not after:
        return "no change" if before == after else ""
    change = 100 * (after / before - 1)
    if abs(change) < _SAME_PCT:
        return "no clear change"
    return f"{percent(abs(change))} {'less' if change < 0 else 'more'}"


def _better(numbers: list[Any]) -> str:
    """Whether the second is better by the first number that differs: less is better."""
    for _, before, after, _ in numbers:
        if before == after:
            continue
        if not before or not after or abs(100 * (after / before - 1)) >= _SAME_PCT:
            return "better" if after < before else "worse"
    return "same"


def _sentence(numbers: list[Any]) -> str:
    word = {"better": "better", "worse": "worse", "same": "no clear change"}[_better(numbers)]
    parts = []
    for what, before, after, text in numbers:
        change = _change(before, after)
        behind = f" ({change})" if change and change != "no change" else ""
        now = f"{text(after)} {what}" if what == _COUNTED else f"{what} {text(after)}"
        parts.append(f"{now} instead of {text(before)}{behind}")
    return f"{word}; {', '.join(parts)}"


def _frames(view: View, pair: dict[str, Any]) -> list[Any]:
    """Stutters, mean and 99th percentile of the frames of the same process in both."""
    asked = view.kept(view.call("frame_summary", process=view.process))

    def of(trace_id: int) -> dict[str, Any]:
        return {row["process"]: row for row in asked if row["trace_id"] == trace_id}

    before, after = of(pair["first_trace_id"]), of(pair["second_trace_id"])
    shared = [name for name in before if name in after]
    if not shared:
        return []
    name = max(shared, key=lambda each: (before[each]["frames"], each))
    one, other = before[name], after[name]
    found: list[Any] = [
        (what, one[column], other[column], duration)
        for what, column in (("mean frame", "mean_ns"), ("99 % of frames within", "p99_ns"))
        if one[column] and other[column]
    ]
    if one["stutters"] or other["stutters"]:
        found.insert(0, (_COUNTED, one["stutters"], other["stutters"], lambda n: f"{n:,}"))
    return found


def _ready(view: View, pair: dict[str, Any]) -> list[Any]:
    """Ready time as a share of running time, which does not depend on the length."""
    shares = []
    for trace_id in (pair["first_trace_id"], pair["second_trace_id"]):
        rows = view.kept(view.call("process_summary", trace_id=trace_id))
        run = sum(row["run_ns"] or 0 for row in rows)
        if not run:
            return []
        shares.append(100 * sum(row["ready_ns"] or 0 for row in rows) / run)
    return [("ready time for each second of running time", shares[0], shares[1], _per_second)]


def _per_second(share: float) -> str:
    return duration(share * 1e7)
