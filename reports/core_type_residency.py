"""Which core types the threads ran on, and how long moves to E cores lasted."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import (
    MOST_SOUGHT,
    Plot,
    bar,
    ms,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Core types"
ORDER = 90
FIGURES = {
    "core_types": "running time by thread and core type",
    "qos": "QoS class of threads over time",
}

_MOST_BARS = 20
_PLACE = {"P": 0, "U": 0, "E": 2, "LP-E": 5}


def section(view: View) -> Section | Nothing:
    """Running time by core type of the threads of the step in view."""
    answer = view.ask_step("core_type_residency", process=view.process)
    types = sorted(
        {row["core_type"] for row in answer.rows if row["core_type"] is not None},
        key=lambda name: (_PLACE.get(name, 7), name),
    )
    if not types:
        return Nothing("the core types of this machine are unknown; `collect` records them")
    if types == ["U"]:
        return Nothing("all cores of this machine are of one type")
    total: dict[int, int] = {}
    for row in answer.rows:
        total[row["utid"]] = total.get(row["utid"], 0) + row["run_ns"]
    chosen = sorted(total, key=lambda utid: -total[utid])[:MOST_SOUGHT]
    shown = min(len(chosen), _MOST_BARS)
    first = {row["utid"]: row for row in answer.rows}
    labels = unique(thread_label(first[utid]) for utid in chosen)
    spent = {(row["utid"], row["core_type"]): row["run_ns"] for row in answer.rows}
    traces = [
        bar(kind, labels, [ms(spent.get((utid, kind))) for utid in chosen],
            _PLACE.get(kind, 3 + index), unit="ms")
        for index, kind in enumerate(types)
    ]  # fmt: skip
    if any(kind is None for _, kind in spent):
        traces.append(
            bar("unknown", labels, [ms(spent.get((utid, None))) for utid in chosen], 3,
                unit="ms", colour="@mid")
        )  # fmt: skip
    caption = f"Running time by core type of the {shown} busiest of {len(total)} threads."
    plot = rows_across(
        traces, "ms running", sought=[thread_words(first[utid]) for utid in chosen],
        first=_MOST_BARS,
    )  # fmt: skip
    moves = view.ask_step("core_type_move", process=view.process)
    qos = view.ask_step("thread_qos", process=view.process)
    over_time = _qos(qos.rows)
    return Section(
        "Long-running and critical threads belong on P cores; short and background work "
        "belongs on E cores. The first table says what kept each thread there; a later one lists "
        "each move from P to E and the time to return.",
        view.step_window(),
        (
            Figure("core_types", caption, plot, height=row_height(shown)),
            *([] if over_time is None else [over_time]),
        ),
        (
            view.ask_step("e_core_cause", process=view.process),
            answer,
            moves,
            view.ask_step("core_type_priority", process=view.process).fold(),
            *([] if over_time is None else [qos.fold()]),
        ),
    )


def _qos(rows: list[dict[str, Any]]) -> Figure | None:
    """Spells of each class along the time of the recording; the busiest threads that ever have
    another class than the default."""
    other = {row["utid"] for row in rows if row["qos_class"] != "high"}
    ran: dict[int, int] = {}
    for row in rows:
        if row["utid"] in other:
            ran[row["utid"]] = ran.get(row["utid"], 0) + row["run_ns"]
    chosen = sorted(ran, key=lambda utid: (-ran[utid], utid))[:_MOST_BARS]
    if not chosen:
        return None
    first = {row["utid"]: row for row in reversed(rows)}
    labels = dict(zip(chosen, unique(thread_label(first[utid]) for utid in chosen), strict=True))
    traces: list[Plot] = []
    for index, name in enumerate(
        sorted({row["qos_class"] for row in rows if row["utid"] in labels})
    ):
        spells = [row for row in rows if row["utid"] in labels and row["qos_class"] == name]
        drawn = bar(
            name,
            [labels[row["utid"]] for row in spells],
            [ms(row["dur_ns"]) for row in spells],
            index,
            unit="ms",
            detail=[f"ran {row['run_ns'] / 1e6:,.3f} ms of it" for row in spells],
        )
        traces.append(drawn | {"base": [ms(row["from_ns"]) for row in spells]})
    caption = (
        f"QoS class over time of the {len(chosen)} busiest of {len(other)} threads that had "
        "another class than the default. Low, eco and utility prefer E cores."
    )
    plot = rows_across(traces, "ms of the recording", stacked=False)
    plot["layout"] |= {
        "barmode": "overlay",
        "yaxis": plot["layout"]["yaxis"]
        | {"categoryorder": "array", "categoryarray": list(labels.values())},
    }
    return Figure("qos", caption, plot, height=row_height(len(chosen)))
