"""The threads of two recordings side by side."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import (
    MOST_SOUGHT,
    Plot,
    bar,
    row_height,
    rows_across,
    short,
    thread_words,
    unique,
)
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Threads in two recordings"
ORDER = 79
FIGURES = {
    "threads": "ready time by thread in two recordings",
}

_MOST_PAIRS = 3
_MOST_BARS = 16


def section(view: View) -> Section | Nothing:
    """Each pair of recordings of the same thing: the threads with the most ready time."""
    # Of two machines first: the other pairs have sections on what differs within a machine.
    paired = sorted(
        view.rows(view.call("recording_pair")), key=lambda pair: pair["basis"] != "machine"
    )
    if not paired:
        return Nothing("there are no two recordings of the same thing")
    figures: list[Figure] = []
    answers: list[Answer] = []
    for pair in paired[:_MOST_PAIRS]:
        answer = view.ask(
            "thread_comparison", first=pair["first"], second=pair["second"],
            trace_id=pair["second_trace_id"], process=view.process,
        )  # fmt: skip
        if answer.rows:
            answers.append(
                answer.without("first_trace_id", "first", "second_trace_id", "second").fold()
            )
            figures.append(_figure(pair, answer.rows))
    if not answers:
        return Nothing("no thread has any time in both windows")
    more = f" Shows {len(answers)} of {len(paired)} pairs." if len(answers) < len(paired) else ""
    return Section(
        "Ready time is what a thread loses to others. Compare shares if the recordings differ in "
        f"length.{more} For any two recordings: "
        "`FROM thread_comparison(p_first := 'NAME', p_second := 'NAME')`.",
        view.all_windows(),
        tuple(figures),
        tuple(answers),
    )


def _figure(pair: dict[str, Any], rows: list[dict[str, Any]]) -> Figure:
    def ready(row: dict[str, Any]) -> float:
        return max(row["first_ready_ms"] or 0.0, row["second_ready_ms"] or 0.0)

    most = sorted(rows, key=ready, reverse=True)[:MOST_SOUGHT]
    shown = min(len(most), _MOST_BARS)
    labels = unique(short(row["thread"]) for row in most)
    plots: list[Plot] = [
        bar(
            short(pair[side]), labels, [row[f"{side}_ready_ms"] for row in most], index, unit="ms",
            detail=[_share(row[f"{side}_ready_pct"]) for row in most],
        )
        for index, side in enumerate(("first", "second"))
    ]  # fmt: skip
    caption = (
        f"Ready time of the {shown} of {len(rows)} threads with the most of it, in "
        f"{short(pair['first'], 60)} and in {short(pair['second'], 60)}."
    )
    return Figure(
        "threads",
        caption,
        rows_across(
            plots,
            "ms ready",
            stacked=False,
            sought=[thread_words(row) for row in most],
            first=_MOST_BARS,
        ),
        height=row_height(2 * shown),
        item=short(pair["second"], 60),
    )


def _share(percent: float | None) -> str:
    return "" if percent is None else f"{percent:.1f} % of its running and ready time"
