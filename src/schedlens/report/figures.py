"""Plotly figures as plain dictionaries, drawn so that they can be read without colour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedlens.output.terminal import visible

Plot = dict[str, Any]

_MICROSECONDS = re.compile(r"(?<=\d[ \u00a0])us\b")

# Rows of bars carried for the search for threads; only the first few are shown without one.
MOST_SOUGHT = 240

# Each color has its own hatching, dash and symbol.
COLOURS = ("@blue", "@orange", "@green", "@purple", "@red", "@teal", "@brown", "@pink")
PATTERNS = ("", "/", ".", "x", "\\", "-", "+", "|")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "hexagon")


def short(text: object, length: int = 28) -> str:
    """The text as a label: at most `length` characters, the middle left out; None is `?`."""
    if text is None:
        return "?"
    label = visible(str(text)[: 4 * length]) if len(str(text)) > 4 * length else visible(str(text))
    if len(label) <= length:
        return label
    return f"{label[: length - 8]}…{visible(str(text)[-7:])[-7:]}"


def thread_label(row: dict[str, Any], name: str = "thread", tid: str = "tid") -> str:
    """A thread as a label: its name and number, as findings write them."""
    return f"{short(row.get(name))} ({row.get(tid)})"


def unique(labels: Iterable[str]) -> list[str]:
    """The labels, with a number behind each that came before: an axis merges equal ones."""
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return result


def ms(value: float | None) -> float | None:
    """Nanoseconds as milliseconds; None for None."""
    return None if value is None else value / 1e6


def bar(
    name: str,
    labels: Sequence[object],
    values: Sequence[float | None],
    index: int,
    *,
    unit: str,
    across: bool = True,
    colour: str | None = None,
    detail: Sequence[str] | None = None,
) -> Plot:
    """One trace of bars; `across` lays them along x. `detail` is a line of hover text per bar."""
    value = "x" if across else "y"
    trace: Plot = {
        "type": "bar",
        "name": name,
        "orientation": "h" if across else "v",
        value: list(values),
        "y" if across else "x": list(labels),
        "marker": {
            "color": colour or COLOURS[index % len(COLOURS)],
            "pattern": {
                "shape": PATTERNS[index % len(PATTERNS)],
                "fillmode": "overlay",
                "size": 6,
                "solidity": 0.25,
                "fgcolor": "@card",
            },
            "line": {"color": "@card", "width": 0.5},
        },
        "hovertemplate": f"%{{{'y' if across else 'x'}}}<br>{name}: %{{{value}:,.4~g}} {unit}"
        + ("<br>%{customdata}" if detail else "")
        + "<extra></extra>",
    }
    if detail:
        trace["customdata"] = list(detail)
    return trace


def line(
    name: str,
    x: Sequence[object],
    y: Sequence[float | None],
    index: int,
    *,
    unit: str,
    detail: Sequence[str] | None = None,
) -> Plot:
    """One line with its own colour, dash and symbol."""
    trace: Plot = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": COLOURS[index % len(COLOURS)], "dash": DASHES[index % len(DASHES)]},
        "marker": {"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 7},
        "hovertemplate": f"{name}<br>%{{x}}: %{{y:,.4~g}} {unit}"
        + ("<br>%{customdata}" if detail else "")
        + "<extra></extra>",
    }
    if detail:
        trace["customdata"] = list(detail)
    return trace


def with_interval(
    trace: Plot,
    rows: Sequence[Mapping[str, Any]],
    columns: tuple[str, str, str],
    *,
    size: float = 1.0,
    across: bool = False,
) -> Plot:
    """The trace with whiskers; `columns` are low, middle and high of each row, in `size`."""
    low, middle, high = ([row[name] for row in rows] for name in columns)

    def gaps(upper: list[float | None], lower: list[float | None]) -> list[float]:
        both = zip(upper, lower, strict=True)
        return [0.0 if u is None or v is None else max(0.0, u - v) / size for u, v in both]

    trace["error_x" if across else "error_y"] = {
        "type": "data",
        "symmetric": False,
        "array": gaps(high, middle),
        "arrayminus": gaps(middle, low),
        "width": 3,
        "thickness": 1.5,
        "color": "@mid",
    }
    return trace


def axis(title: str, **more: object) -> Plot:
    """An axis with a title."""
    return {"title": {"text": title}, **more}


def thread_words(row: dict[str, Any], *, before: str = "") -> str:
    """What the search for threads looks at: name, number and process of the thread of a row.

    `before` is a prefix of the column names: `waker_` for `waker_thread` and its siblings.
    """
    parts = (row.get(f"{before}thread"), row.get(f"{before}tid"), row.get(f"{before}process"))
    return " ".join(short(part, 80) for part in parts if part is not None)


def rows_across(
    traces: Sequence[Plot],
    title: str,
    *,
    stacked: bool = True,
    sought: Sequence[str] = (),
    first: int = 0,
    **more: object,
) -> Plot:
    """Bars along x, the first label on top.

    With `sought`, a text for each row, the page shows the first so many rows, or those whose text
    matches the search for threads.
    """
    narrowed = {"sought": list(sought), "first": first} if sought else {}
    return {
        **narrowed,
        "data": list(traces),
        "layout": {
            "barmode": "stack" if stacked else "group",
            "xaxis": axis(title, rangemode="tozero"),
            "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
            **more,
        },
    }


def units(text: str) -> str:
    """The text of a finding with the page's sign for microseconds."""
    return _MICROSECONDS.sub("µs", text)


def row_height(rows: int, *, least: int = 180, each: int = 22, most: int = 640) -> int:
    """Height in CSS pixels of a figure with this many rows of bars."""
    return min(most, max(least, 110 + each * rows))
