"""Bars of threads, each stacked from the parts of its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlens.report.figures import (
    Plot,
    bar,
    ms,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)

# Threads shown before the reader searches for others.
FIRST = 20

Part = tuple[str, str, str, int]
"""Column in ns, its name, and the colour and the pattern of its bars."""


def stacked(
    rows: Sequence[dict[str, Any]], labels: Sequence[str], parts: Sequence[Part]
) -> list[Plot]:
    """A trace in ms for each part that some row has."""
    return [
        bar(name, labels, [ms(row.get(column)) for row in rows], index, unit="ms", colour=colour)
        for column, name, colour, index in parts
        if any(row.get(column) for row in rows)
    ]


def by_thread(
    rows: Sequence[dict[str, Any]], parts: Sequence[Part], title: str
) -> tuple[Plot, int, int]:
    """Bars of threads, found by the page's search; how many are shown at first; the height."""
    shown = min(len(rows), FIRST)
    plot = rows_across(
        stacked(rows, unique(thread_label(row) for row in rows), parts),
        title,
        sought=[thread_words(row) for row in rows],
        first=FIRST,
    )
    return plot, shown, row_height(shown)
