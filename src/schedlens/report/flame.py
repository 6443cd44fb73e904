"""Stacks as an icicle: callers on top, each function as wide as its share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schedlens.report.figures import COLOURS, Plot, short

# Functions with less than this share of the whole are too narrow to see; they are one node of their
# caller.
_LEAST_SHARE = 0.002
# More nodes make the page slow.
_MOST_NODES = 4000
_OTHERS = "(smaller)"
_NO_STACK = "[no stack]"


class _Node:
    """A function below its callers, with its sums: the first one is its width."""

    __slots__ = ("children", "label", "sums")

    def __init__(self, label: str, sums: Sequence[float]) -> None:
        self.label = label
        self.sums = list(sums)
        self.children: dict[str, _Node] = {}

    @property
    def width(self) -> float:
        return self.sums[0]

    def add(self, sums: Sequence[float]) -> None:
        self.sums = [own + more for own, more in zip(self.sums, sums, strict=True)]

    def child(self, label: str) -> _Node:
        found = self.children.get(label)
        if found is None:
            found = self.children[label] = _Node(label, [0.0] * len(self.sums))
        return found


def icicle(rows: Iterable[dict[str, Any]], weight: str, *, unit: str, size: float = 1.0) -> Plot:
    """A figure of rows with `thread`, `folded`, and a column of weights, shown in `size`.

    A row without a stack is a node of its own below its thread.
    """
    shown, parents = _listed(_tree((row, ((row[weight] or 0) / size,)) for row in rows))
    hover = f"%{{label}}<br>%{{value:,.4~g}} {unit}, %{{percentRoot:.1%}}<extra></extra>"
    colours = {"colors": [_colour(short(node.label, 120)) for node in shown]}
    return _plot(shown, parents, colours, hover)


def differential(rows: Sequence[dict[str, Any]], columns: tuple[str, str]) -> Plot | None:
    """A figure of how the shares of two columns of times in ns differ, by stack.

    The width of a function is the mean of its two shares, so that what is in one column only can be
    seen, too. Its color is its share in the first column less that in the second. None if a column
    has no time: it has no shares.
    """
    totals = [sum(row[name] for row in rows) for name in columns]
    if not all(totals):
        return None

    def sums(row: dict[str, Any]) -> tuple[float, ...]:
        one, other = (100 * row[name] / total for name, total in zip(columns, totals, strict=True))
        return (one + other) / 2, one - other, *(row[name] / 1e6 for name in columns)

    shown, parents = _listed(_tree((row, sums(row)) for row in rows))
    changes = [node.sums[1] for node in shown]
    most = max(1.0, *(abs(change) for change in changes))
    marker = {
        "colors": changes,
        "colorscale": [[0, "@blue"], [0.5, "@pale"], [1, "@red"]],
        "cmin": -most,
        "cmax": most,
        "showscale": True,
        "colorbar": {"title": {"text": "points"}, "thickness": 12},
    }
    hover = (
        "%{label}<br>%{customdata[1]:,.4~g} ms in a stutter, %{customdata[2]:,.4~g} ms in another "
        "frame<br>share %{customdata[0]:+.1f} points<extra></extra>"
    )
    plot = _plot(shown, parents, marker, hover)
    plot["data"][0]["customdata"] = [node.sums[1:] for node in shown]
    return plot


def _tree(weighed: Iterable[tuple[dict[str, Any], Sequence[float]]]) -> _Node:
    """The stacks of rows with their sums, below one root; rows without a width are left out."""
    root: _Node | None = None
    for row, sums in weighed:
        if root is None:
            root = _Node("all threads", [0.0] * len(sums))
        if sums[0] <= 0:
            continue
        node = root
        node.add(sums)
        for label in (short(row["thread"], 40), *_functions(row["folded"])):
            node = node.child(label)
            node.add(sums)
    return root or _Node("all threads", [0.0])


def _listed(root: _Node) -> tuple[list[_Node], list[str]]:
    """The nodes to show, callers first, and the place of the caller of each."""
    shown: list[_Node] = []
    parents: list[str] = []
    least = root.width * _LEAST_SHARE
    waiting: list[tuple[_Node, str]] = [(root, "")]
    while waiting and len(shown) < _MOST_NODES:
        node, parent = waiting.pop(0)
        own = str(len(shown))
        shown.append(node)
        parents.append(parent)
        ordered = sorted(node.children.values(), key=lambda child: (-child.width, child.label))
        waiting += [(child, own) for child in ordered if child.width >= least]
        others = _Node(_OTHERS, [0.0] * len(node.sums))
        for child in ordered:
            if child.width < least:
                others.add(child.sums)
        if others.width > least:
            waiting.append((others, own))
    return shown, parents


def _plot(shown: list[_Node], parents: list[str], marker: dict[str, Any], hover: str) -> Plot:
    return {
        "data": [
            {
                "type": "icicle",
                "ids": [str(place) for place in range(len(shown))],
                "labels": [short(node.label, 120) for node in shown],
                "parents": parents,
                "values": [node.width for node in shown],
                "branchvalues": "total",
                "sort": False,
                "tiling": {"orientation": "v"},
                "pathbar": {"visible": True},
                "maxdepth": -1,
                "marker": {**marker, "line": {"color": "@card", "width": 0.5}},
                "hovertemplate": hover,
                "texttemplate": "%{label}",
            }
        ],
        "layout": {"margin": {"l": 0, "r": 0, "t": 26, "b": 0}},
    }


def depth(rows: Iterable[dict[str, Any]]) -> int:
    """Rows of the icicle: the longest stack, its thread, and the root."""
    return 2 + max((len(_functions(row["folded"])) for row in rows), default=0)


def height(rows: Sequence[dict[str, Any]]) -> int:
    """Height in CSS pixels at which each function has a line of text."""
    return min(900, max(240, 60 + 18 * depth(rows)))


def _functions(folded: str | None) -> list[str]:
    return folded.split(";") if folded else [_NO_STACK]


def _colour(label: str) -> str:
    # Neighbors differ, and a function has the same color everywhere.
    return COLOURS[sum(label.encode()) % len(COLOURS)]
