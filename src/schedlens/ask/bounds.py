"""The bounds that the columns of the queries state, read from their comments.

The comment of a column with times ends with a mark in parentheses. It says what the value would
be without lost events, given the value in the row:

    (exact)                               it is the value
    (time)                                a position on the time axis, not a duration
    (at least)                            the value or more
    (at most)                             the value or less
    (at least; unknown_ns more at most)   between the value and the value plus unknown_ns
    (from LOW to HIGH)                    between two other columns of the row
    (bound)                               nothing: the column is a bound of others
    (no bounds)                           unknown if events were lost

A value of NULL states nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlens.ask.catalog import Query

if TYPE_CHECKING:
    import duckdb

SLACK = "unknown_ns"
# Bounds closer together than this share of the value are not shown.
SHOWN_FROM = 0.001

_KINDS = {
    "exact": "exact",
    "time": "time",
    "at least": "at_least",
    "at most": "at_most",
    f"at least; {SLACK} more at most": "slack",
    "bound": "bound",
    "no bounds": "none",
}
_MARK = re.compile(r"\s*\(([^()]*)\)$")
_RANGE = re.compile(r"from (\w+) to (\w+)")


@dataclass(frozen=True)
class Bound:
    """What a column states: `kind` is exact, time, at_least, at_most, slack, range, bound or none.

    `low` and `high` name columns of the row: both for a range, `high` for slack, which is added to
    the value.
    """

    kind: str
    low: str | None = None
    high: str | None = None

    @property
    def is_duration(self) -> bool:
        """Whether the column holds a duration or a share that is not itself a bound."""
        return self.kind not in ("time", "bound")

    def limits(self, column: str, row: Mapping[str, Any]) -> tuple[Any, Any]:
        """Lowest and highest possible value of this row's column; None where there is none.

        Both are None where the column states nothing, also for a value of NULL.
        """
        value = row[column]
        if value is None or self.kind in ("time", "bound", "none"):
            return None, None
        if self.kind == "range":
            return row[str(self.low)], row[str(self.high)]
        if self.kind == "slack":
            slack = row.get(str(self.high))
            return value, None if slack is None else value + slack
        return (
            None if self.kind == "at_most" else value,
            None if self.kind == "at_least" else value,
        )


def shown_limits(bound: Bound, column: str, row: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The limits to show alongside a value of a recording with lost events.

    None if the value needs no limits: it is exact, unknown, a position or a bound, or its limits
    differ by at most 0.1 %. (None, None) says that the value has no bounds.
    """
    value = row[column]
    if value is None or bound.kind in ("exact", "time", "bound"):
        return None
    low, high = bound.limits(column, row)
    if low is not None and high is not None and high - low <= SHOWN_FROM * abs(value):
        return None
    return low, high


def lossy_traces(con: duckdb.DuckDBPyConnection) -> frozenset[int]:
    """The recordings in whose window records are known to be missing.

    Recorders start and stop their CPUs one after another: what the streams that start last and end
    first lack counts only if it is more than 0.1 % of the window.
    """
    rows = con.execute(
        f"""
        SELECT DISTINCT l.trace_id
        FROM loss AS l
        JOIN analysis_span() AS span ON span.trace_id = l.trace_id
        WHERE coalesce(l.start_ns, span.start_ns) < span.end_ns
          AND greatest(coalesce(l.end_ns, span.end_ns), coalesce(l.start_ns, span.start_ns) + 1)
            > span.start_ns
          AND NOT (
            l.signalled_by IN ('stream_start', 'stream_end')
            AND overlap_ns(
              coalesce(l.start_ns, span.start_ns), coalesce(l.end_ns, span.end_ns),
              span.start_ns, span.end_ns
            ) <= {SHOWN_FROM} * span.dur_ns
          )
        """
    ).fetchall()
    return frozenset(row[0] for row in rows)


def mark(query: Query, column: str) -> Bound | None:
    """The bound that this column of the query states; None if its comment has no mark.

    Raises `KeyError` if the query has no such column.
    """
    return parse(dict(query.columns)[column])


def range_ends(query: Query) -> frozenset[str]:
    """The columns of the query that are only the lowest or highest value of another one."""
    marks = {column: parse(comment) for column, comment in query.columns}
    ends = {
        end
        for found in marks.values()
        if found and found.kind == "range"
        for end in (found.low, found.high)
        if end is not None
    }
    return frozenset(end for end in ends if (found := marks[end]) and found.kind == "bound")


def parse(comment: str) -> Bound | None:
    """The bound at the end of a column's comment; None if there is no mark."""
    found = _MARK.search(comment)
    if found is None:
        return None
    ends = _RANGE.fullmatch(found[1])
    if ends:
        return Bound("range", ends[1], ends[2])
    kind = _KINDS.get(found[1])
    if kind is None:
        return None
    return Bound(kind, high=SLACK) if kind == "slack" else Bound(kind)


def without_mark(comment: str) -> str:
    """The comment without its mark."""
    return comment if parse(comment) is None else _MARK.sub("", comment)
