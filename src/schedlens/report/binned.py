"""Figures over time made of columns: kinds of core, priorities, frequencies, threads, frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlens.report.figures import short
from schedlens.report.sections import Answer, Figure, View
from schedlens.report.timeline import Span, brief, capacity, layer, steps_plot

# Frames drawn at most; of more the means of neighbours.
MOST_FRAMES = 8_000
# States of threads in the page; a recording with more has them in the timeline alone.
MOST_STATES = 24_000
THREADS = 16
_PRIORITIES = 6

_KINDS = (
    ("p_alone", "on a P core alone", "@blue", ""),
    ("p_shared", "on a P core with SMT sibling busy", "@teal", "/"),
    ("e", "on an E core", "@green", "."),
    ("other", "core type unknown", "@mid", "x"),
)
_BANDS = (
    ("@blue", ""), ("@orange", "/"), ("@green", "."), ("@purple", "x"), ("@teal", "\\"),
    ("@brown", "-"), ("@mid", "+"),
)  # fmt: skip
_LINES = (("@blue", "solid"), ("@green", "dash"), ("@purple", "dot"), ("@orange", "dashdot"))
# Codes of the states of threads: state, name, letter, colour.
STATES = (
    ("waiting", "waits", "", "@pale"),
    ("unknown", "unknown", "?", "@card"),
    ("runs_p", "runs on a P core", "P", "@blue"),
    ("runs_e", "runs on an E core", "E", "@green"),
    ("runs", "runs, core type unknown", "·", "@dark"),
    ("ready", "ready, without a CPU", "r", "@red"),
)

TimeFigure = tuple[Answer, Figure]


def core_kinds(view: View, span: Span) -> TimeFigure | None:
    """How many threads ran on each kind of core at each moment."""
    call = view.call("core_choice_timeline", trace_id=view.trace_id, process=view.process)
    rows = view.rows(call)
    shown = [kind for kind in _KINDS if any(row[kind[0]] for row in rows)]
    if not shown:
        return None
    starts, found = _tiled(rows, span)
    series = [
        (name, [brief(row[column]) if row else 0 for row in found], colour, pattern, "area")
        for column, name, colour, pattern in shown
    ]
    whose = f"Threads of {short(view.process, 40)}" if view.process else "Threads"
    caption = f"{whose} that ran at each moment, by kind of core (means over columns)."
    plot = steps_plot(span, [layer(starts, span, series)], [], "threads")
    return Answer(call, "core_choice_timeline", (), []), Figure(
        "core_kinds", caption, plot, kind="steps", height=190
    )


def priorities(view: View, span: Span) -> list[TimeFigure]:
    """How many threads of each priority ran, and how many stood ready, at each moment."""
    call = view.call("priority_timeline", trace_id=view.trace_id)
    rows = [row for row in view.rows(call) if row["priority"] is not None]
    if not rows:
        return []
    weight: dict[int, float] = {}
    for row in rows:
        time = row["dur_ns"] * (row["running"] + row["ready"])
        weight[row["priority"]] = weight.get(row["priority"], 0) + time
    kept = sorted(sorted(weight, key=lambda number: -weight[number])[:_PRIORITIES])
    made = []
    for column, words in (("running", "that ran"), ("ready", "that stood ready")):
        series = []
        starts: list[int] = []
        for index, number in enumerate([*kept, None]):
            mine = [
                row
                for row in rows
                if (
                    row["priority"] == number if number is not None else row["priority"] not in kept
                )
            ]
            starts, found = _tiled(_added(mine, column), span)
            values = [brief(row[column]) if row else 0 for row in found]
            if any(values):
                name = "other priorities" if number is None else f"priority {number}"
                colour, pattern = _BANDS[index % len(_BANDS)]
                series.append((name, values, colour, pattern, "area"))
        if series:
            plot = steps_plot(span, [layer(starts, span, series)], [], column)
            figure = Figure(f"{column}_threads",
                f"Threads of all processes {words} at each moment, by priority (means over "
                "columns).",
                plot, kind="steps", height=190,
            )  # fmt: skip
            made.append((Answer(call, "priority_timeline", (), []), figure))
    return made


def frequencies(view: View, span: Span) -> list[TimeFigure]:
    """Mean frequency of the CPUs of each core type, and the cores with work, at each moment."""
    call = view.call("frequency_timeline", trace_id=view.trace_id)
    rows = view.rows(call)
    if not rows:
        return []
    series = []
    starts: list[int] = []
    for index, kind in enumerate(sorted({row["core_type"] for row in rows}, key=str)):
        starts, found = _tiled([row for row in rows if row["core_type"] == kind], span)
        values = [None if row is None else round(row["avg_khz"] / 1e6, 4) for row in found]
        colour, dash = _LINES[index % len(_LINES)]
        series.append((_cores(kind), values, colour, dash, "line"))
    plot = steps_plot(span, [layer(starts, span, series)], [], "GHz") | {"from_zero": False}
    made = [
        (
            Answer(call, "frequency_timeline", (), []),
            Figure(
                "frequencies",
                "Mean frequency of the CPUs of each core type, busy or not, where it is known.",
                plot,
                kind="steps",
                height=200,
            ),
        )
    ]
    busy = view.call("concurrency_timeline", trace_id=view.trace_id, columns=2000)
    load = view.rows(busy)
    if load:
        active = [brief(row["p"] + row["e"] + row["other"]) for row in load]
        band = layer(
            [row["start_ns"] for row in load],
            span,
            [("cores with work", active, "@blue", "", "area")],
        )
        figure = Figure("cores_with_work",
            "Cores with work, of all types.", steps_plot(span, [band], [], "cores"), kind="steps",
            height=130,
        )  # fmt: skip
        made.append((Answer(busy, "concurrency_timeline", (), []), figure))
    return made


def frame_load(view: View, rows: Sequence[dict[str, Any]], span: Span) -> Figure:
    """Busy CPUs during each frame, of the machine and of the process; rows of frame_concurrency."""
    every = -(-len(rows) // MOST_FRAMES)
    groups = [rows[at : at + every] for at in range(0, len(rows), every)]
    series = [
        (
            name,
            [brief(sum(row[column] for row in group) / len(group)) for group in groups],
            colour, dash, "line",
        )
        for column, name, colour, dash in (
            ("busy", "machine", "@blue", "solid"),
            ("own_busy", "the process itself", "@orange", "dash"),
        )
    ]  # fmt: skip
    starts = [group[0]["start_ns"] for group in groups]
    means = "" if every == 1 else f", means of {every} neighbours"
    caption = (
        f"Logical CPUs busy on average during each of {len(rows):,} frames{means}, with what the "
        "machine can run at once."
    )
    plot = steps_plot(span, [layer(starts, span, series)], capacity(view), "CPUs")
    return Figure("frame_load", caption, plot, kind="steps", height=280)


def thread_states(view: View, span: Span) -> TimeFigure | None:
    """What the busiest threads did at each moment: one row a thread."""
    who = view.call("thread_with_process", trace_id=view.trace_id, process=view.process)
    inside = (
        f"trace_id = {view.trace_id} AND ts < {span['end_ns']} AND ts + dur > {span['start_ns']}"
    )
    counted = view.rows(
        f"SELECT count(*) AS n FROM thread_state WHERE {inside} AND utid IN (SELECT utid "
        f"FROM sched_slice WHERE {inside} AND NOT is_idle AND utid IN (SELECT utid FROM ({who})) "
        f"GROUP BY utid ORDER BY sum(dur) DESC, utid LIMIT {THREADS})"
    )[0]["n"]
    if counted > MOST_STATES:
        # The timeline's lanes have the exact shares of any number of states.
        return None
    call = view.call(
        "thread_timeline", trace_id=view.trace_id, process=view.process, threads=THREADS,
        columns=span["dur_ns"],
    )  # fmt: skip
    rows = view.rows(call)
    if not rows:
        return None
    codes = {state: code for code, (state, _, _, _) in enumerate(STATES)}
    threads = {row["utid"]: row for row in rows}
    places = {utid: place for place, utid in enumerate(threads)}
    spent = dict.fromkeys(codes, 0)
    for row in rows:
        spent[row["state"]] += row["dur_ns"]
    plot = {
        "from_ns": span["start_ns"],
        "to_ns": span["end_ns"],
        "threads": [
            {"name": f"{short(row['thread'], 22)} {row['tid']}", "sought": _sought(row)}
            for row in threads.values()
        ],
        "codes": [
            {"name": name, "letter": letter, "color": colour, "dur_ns": spent[state]}
            for state, name, letter, colour in STATES
        ],
        "runs": {
            "row": [places[row["utid"]] for row in rows],
            "start": [row["start_ns"] - span["start_ns"] for row in rows],
            "dur": [row["dur_ns"] for row in rows],
            "code": [codes[row["state"]] for row in rows],
        },
    }
    whose = f" of {short(view.process, 40)}" if view.process else ""
    caption = (
        f"What the {len(threads)} busiest threads{whose} did. Where states are shorter than a "
        "column, they are stacked by their share of it."
    )
    return Answer(call, "thread_timeline", (), []), Figure(
        "thread_states", caption, plot, kind="threads", height=70 + 22 * len(threads)
    )


def _sought(row: dict[str, Any]) -> str:
    return f"{short(row['thread'], 80)} {row['tid']} {short(row['process'] or '', 80)}"


def _cores(kind: str | None) -> str:
    if kind is None:
        return "core type unknown"
    return "all cores" if kind == "U" else f"{kind} cores"


def _added(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """Rows of one column of time added up."""
    total: dict[int, dict[str, Any]] = {}
    for row in rows:
        known = total.get(row["start_ns"])
        if known is None:
            total[row["start_ns"]] = dict(row)
        else:
            known[column] += row[column]
    return list(total.values())


def _tiled(
    rows: list[dict[str, Any]], span: Span, columns: int = 2000
) -> tuple[list[int], list[dict[str, Any] | None]]:
    """The begins of all columns of the window, and the row of each where there is one."""
    width = max(1, -(-span["dur_ns"] // columns))
    known = {row["start_ns"]: row for row in rows}
    starts = list(range(span["start_ns"], span["end_ns"], width))
    return starts, [known.get(start) for start in starts]
