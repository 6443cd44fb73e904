"""What the comment of a column claims about its values on a recording with loss."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedlens.ask.catalog import Query

_RANGE = re.compile(r"\(from (\w+) to (\w+)\)$")
_PLAIN = {
    "(exact)": "exact",
    "(time)": "time",
    "(at least)": "at_least",
    "(at most)": "at_most",
    "(at least; unknown_ns more at most)": "unknown",
    "(bound)": "bound",
    "(no bounds)": "none",
}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Mark:
    """A claim: its kind, and for a range the columns of its bounds."""

    kind: str
    low: str = ""
    high: str = ""

    @property
    def claims(self) -> bool:
        """Whether it claims anything that can be wrong."""
        return self.kind in ("exact", "at_least", "at_most", "unknown", "range")

    def interval(self, row: Row, column: str) -> tuple[float, float] | None:
        """The least and the greatest true value that the row allows; None: no claim."""
        value = row[column]
        infinite = float("inf")
        if self.kind == "range":
            low, high = row[self.low], row[self.high]
            if low is None and high is None:
                return None
            return -infinite if low is None else low, infinite if high is None else high
        if value is None:
            return None
        if self.kind == "exact":
            return value, value
        if self.kind == "at_least":
            return value, infinite
        if self.kind == "at_most":
            return -infinite, value
        unknown = row["unknown_ns"]
        return value, infinite if unknown is None else value + unknown


def parse(text: str) -> Mark | None:
    """The mark at the end of a comment; None if it has none."""
    text = text.strip()
    for ending, kind in _PLAIN.items():
        if text.endswith(ending):
            return Mark(kind)
    found = _RANGE.search(text)
    return Mark("range", found[1], found[2]) if found else None


def of(query: Query) -> dict[str, Mark]:
    """The marks of a query's columns."""
    found = {column: parse(text) for column, text in query.columns}
    return {column: mark for column, mark in found.items() if mark is not None}
