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
    __slots__ = ("children", "label", "total")

    def __init__(self, label: str) -> None:
        self.label = label
        self.total = 0.0
        self.children: dict[str, _Node] = {}

    def child(self, label: str) -> _Node:
        found = self.children.get(label)
        if found is None:
            found = self.children[label] = _Node(label)
        return found


def icicle(rows: Iterable[dict[str, Any]], weight: str, *, unit: str, size: float = 1.0) -> Plot:
    """A figure of rows with `thread`, `folded`, and a column of weights, shown in `size`.

    A row without a stack is a node of its own below its thread.
    """
    root = _Node("all threads")
    for row in rows:
        value = (row[weight] or 0) / size
        if value <= 0:
            continue
        node = root
        node.total += value
        for label in (short(row["thread"], 40), *_functions(row["folded"])):
            node = node.child(label)
            node.total += value
    ids: list[str] = []
    labels: list[str] = []
    parents: list[str] = []
    values: list[float] = []
    least = root.total * _LEAST_SHARE
    waiting: list[tuple[_Node, str]] = [(root, "")]
    while waiting and len(ids) < _MOST_NODES:
        node, parent = waiting.pop(0)
        own = str(len(ids))
        ids.append(own)
        labels.append(short(node.label, 120))
        parents.append(parent)
        values.append(node.total)
        shown = sorted(node.children.values(), key=lambda child: (-child.total, child.label))
        wide = [child for child in shown if child.total >= least]
        waiting += [(child, own) for child in wide]
        narrow = sum(child.total for child in shown if child.total < least)
        if narrow > least:
            others = _Node(_OTHERS)
            others.total = narrow
            waiting.append((others, own))
    return {
        "data": [
            {
                "type": "icicle",
                "ids": ids,
                "labels": labels,
                "parents": parents,
                "values": values,
                "branchvalues": "total",
                "sort": False,
                "tiling": {"orientation": "v"},
                "pathbar": {"visible": True},
                "maxdepth": -1,
                "marker": {
                    "colors": [_colour(label) for label in labels],
                    "line": {"color": "@card", "width": 0.5},
                },
                "hovertemplate": (
                    f"%{{label}}<br>%{{value:,.4~g}} {unit}, %{{percentRoot:.1%}}<extra></extra>"
                ),
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
