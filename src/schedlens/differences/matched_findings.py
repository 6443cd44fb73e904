"""Which findings came with B, which are gone, and what those cost that both sides have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb

from schedlens.differences.sides import Recorded
from schedlens.errors import DatabaseError

State = Literal["new", "gone", "both"]

# Of the recording that a finding is about; a finding about a session is in each of its recordings.
SQL = """
SELECT f.analyzer, f.kind, p.name AS process, th.name AS thread, f.severity, f.rank, f.title,
  f.cost_ns, f.cost_pct, f.cost_of
FROM finding AS f
LEFT JOIN thread AS th ON th.trace_id = f.trace_id AND th.utid = f.utid
LEFT JOIN process AS p ON p.trace_id = th.trace_id AND p.upid = th.upid
WHERE f.trace_id = $trace_id OR f.trace_id IS NULL
ORDER BY f.finding_id
"""
_SEVERITIES = ("critical", "warning", "info")
_ORDER: tuple[State, ...] = ("new", "gone", "both")


@dataclass(frozen=True)
class Seen:
    """A finding on one side: in how many recordings, and its mean over these.

    `title` is that of the first recording that has it. `cost_ns` is in ns, `cost_pct` in percent
    `of` something; None where the finding has no such cost.
    """

    recordings: int
    title: str
    cost_ns: float | None
    cost_pct: float | None
    of: str


@dataclass(frozen=True)
class MatchedFinding:
    """A finding of A, of B, or of both: of one kind, about threads of one name in one process.

    In names, `*` is any number: Worker 3 and Worker 8 have one row.
    `number_a` and `number_b` count the recordings of the step. A finding is a judgement against a
    threshold: that it is gone does not show that its cost changed. The differences show that.
    """

    step: str
    analyzer: str
    kind: str
    severity: str
    rank: int
    process: str | None
    thread: str | None
    a: Seen | None
    b: Seen | None
    number_a: int
    number_b: int

    @property
    def state(self) -> State:
        """Whether B has it newly, has it no longer, or both sides have it."""
        if self.a is None:
            return "new"
        return "gone" if self.b is None else "both"

    @property
    def title(self) -> str:
        """Its title in B, or in A if B lacks it."""
        seen = self.b or self.a
        return seen.title if seen else ""

    @property
    def subject(self) -> str:
        """The thread and its process, or the empty string."""
        return (
            f"{self.thread or '?'} of {self.process or '?'}" if self.thread or self.process else ""
        )


Key = tuple[str, str, str | None, str | None]
Row = dict[str, object]


def matched(step: str, of_a: Sequence[Recorded], of_b: Sequence[Recorded]) -> list[MatchedFinding]:
    """The findings of one step. Raises `DatabaseError`."""
    rows_a, rows_b = [_rows(one) for one in of_a], [_rows(one) for one in of_b]
    every = [*rows_b, *rows_a]
    return [
        MatchedFinding(
            step, key[0], key[1], _worst(every, key), _rank(every, key), key[2], key[3],
            _seen(rows_a, key), _seen(rows_b, key), len(of_a), len(of_b),
        )
        for key in dict.fromkeys(key for found in every for key in found)
    ]  # fmt: skip


def ordered(found: Sequence[MatchedFinding]) -> tuple[MatchedFinding, ...]:
    """New ones first, then those that are gone; the most severe and most expensive first."""

    def place(one: MatchedFinding) -> tuple[int, int, int, float]:
        cost = max((s.cost_ns or 0.0 for s in (one.a, one.b) if s), default=0.0)
        return (
            _ORDER.index(one.state), _SEVERITIES.index(one.severity), one.rank, -cost,
        )  # fmt: skip

    return tuple(sorted(found, key=place))


def line(found: Sequence[MatchedFinding]) -> str:
    """How many findings are new, gone, and in both: one line."""
    number = Counter(one.state for one in found)
    return f"{number['new']} new in B, {number['gone']} gone, {number['both']} in both"


def _rows(recorded: Recorded) -> dict[Key, list[Row]]:
    try:
        cursor = recorded.con.execute(SQL, {"trace_id": recorded.trace_id})
        names = [column[0] for column in cursor.description or []]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error as error:
        raise DatabaseError(
            f"cannot compare the findings of {recorded.database}: {str(error).splitlines()[0]}. "
            "Run `analyze` on its recordings again"
        ) from None
    found: dict[Key, list[Row]] = {}
    for row in rows:
        # Which thread of a pool is worst differs from run to run.
        thread = re.sub(r"\d+", "*", row["thread"]) if row["thread"] else None
        key = (row["analyzer"], row["kind"], row["process"], thread)
        found.setdefault(key, []).append(row)
    return found


def _every(found: Sequence[dict[Key, list[Row]]], key: Key) -> Iterator[Row]:
    for one in found:
        yield from one.get(key, ())


def _worst(found: Sequence[dict[Key, list[Row]]], key: Key) -> str:
    return min((str(row["severity"]) for row in _every(found, key)), key=_SEVERITIES.index)


def _rank(found: Sequence[dict[Key, list[Row]]], key: Key) -> int:
    return min(int(str(row["rank"])) for row in _every(found, key))


def _seen(found: Sequence[dict[Key, list[Row]]], key: Key) -> Seen | None:
    with_it = [one[key] for one in found if key in one]
    if not with_it:
        return None
    first = with_it[0][0]
    return Seen(
        len(with_it), str(first["title"]), _mean(with_it, "cost_ns"), _mean(with_it, "cost_pct"),
        str(first["cost_of"]),
    )  # fmt: skip


def _mean(with_it: Sequence[Sequence[Row]], name: str) -> float | None:
    """The sum in each recording (threads of one name), as the mean over the recordings."""
    sums = [[float(str(row[name])) for row in rows if row[name] is not None] for rows in with_it]
    known = [sum(values) for values in sums if values]
    return sum(known) / len(known) if known else None
