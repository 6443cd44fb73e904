"""Answers of tools: parts with rows, cut to a number of bytes, with what was omitted."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass, field
from typing import Any

from schedlens.agents.guarded_sql import Answer

# Characters of a text in a cell, and of the SQL of a part: the most that fits.
_CELL = 300
_SQL = (2000, 900, 300, 100)
# What a message has besides the answer.
_ENVELOPE = 200


@dataclass(frozen=True)
class Part:
    """Rows that one statement returned, and how to get fewer or others.

    `source` says where rows come from that no SQL returns: a command, or the file system. `more`
    counts rows that were not fetched.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    narrow: str
    sql: str | None = None
    source: str | None = None
    more: int = 0
    more_known: bool = True


def of_sql(name: str, answer: Answer, narrow: str) -> Part:
    """The part with the rows of a statement."""
    return Part(
        name, answer.columns, answer.rows, narrow, answer.sql,
        more=answer.more, more_known=answer.more_known,
    )  # fmt: skip


_PART: dict[str, Any] = {
    "name": {"type": "string"},
    "sql": {"type": ["string", "null"]},
    "source": {"type": "string"},
    "columns": {"type": "array", "items": {"type": "string"}},
    "rows": {"type": "array", "items": {"type": "array"}},
    "rows_omitted": {"type": "integer"},
    "rows_omitted_is_lower_bound": {"type": "boolean"},
    "narrow": {"type": "string"},
}
# The JSON schema of every answer.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rows_omitted": {"type": "integer"},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _PART,
                "required": ["name", "sql", "columns", "rows", "rows_omitted", "narrow"],
            },
        },
    },
    "required": ["rows_omitted", "parts"],
}


@dataclass
class _Fitted:
    part: Part
    rows: list[list[Any]] = field(default_factory=list)
    costs: list[int] = field(default_factory=list)


def fitted(parts: list[Part], most_bytes: int) -> dict[str, Any]:
    """The answer as a JSON object whose message (`size`) has at most `most_bytes`.

    Rows are left out at the end of each part, those of the largest part first. SQL is cut only
    where it would leave no answer at all.
    """
    every = []
    for part in parts:
        rows = [[_cell(value) for value in row] for row in part.rows]
        every.append(_Fitted(part, rows, [_cost(row) for row in rows]))
    bare = [one.part for one in every]
    for characters in _SQL:
        # The numbers of omitted rows get longer when rows are removed.
        fixed = size(_object(bare, [[] for _ in bare], characters)) + 16 * len(every)
        if fixed <= most_bytes:
            break
    room = most_bytes - fixed
    total = sum(sum(one.costs) for one in every)
    while total > room and any(one.rows for one in every):
        largest = max((one for one in every if one.rows), key=lambda one: sum(one.costs))
        total -= largest.costs.pop()
        largest.rows.pop()
    return _object(bare, [one.rows for one in every], characters)


def size(answer: dict[str, Any]) -> int:
    """Bytes of the message with an answer: it is sent as text and as structured content."""
    return _cost(answer) + _ENVELOPE


def text(answer: Any) -> str:
    """The answer as it is sent."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _cost(value: Any) -> int:
    """Bytes of a value as JSON, once plainly and once inside a JSON text."""
    once = text(value)
    return len(once.encode()) + len(text(once).encode())


def _object(parts: list[Part], rows: list[list[list[Any]]], characters: int) -> dict[str, Any]:
    shown = []
    for number, part in enumerate(parts):
        kept = rows[number]
        omitted = len(part.rows) - len(kept) + part.more
        one: dict[str, Any] = {"name": part.name, "sql": _short(part.sql, characters)}
        if part.source is not None:
            one["source"] = _short(part.source, characters)
        one |= {"columns": list(part.columns), "rows": kept, "rows_omitted": omitted}
        if not part.more_known:
            one["rows_omitted_is_lower_bound"] = True
        shown.append({**one, "narrow": _short(part.narrow, characters)})
    return {"rows_omitted": sum(one["rows_omitted"] for one in shown), "parts": shown}


def _short(value: str | None, most: int) -> str | None:
    if value is None or len(value) <= most:
        return value
    return f"{value[:most]}… ({len(value) - most:,} more characters)"


def _cell(value: Any) -> Any:
    """A value as JSON; of long texts and lists, the begin."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # JavaScript reads larger numbers as floats.
        return value if abs(value) < 1 << 53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, (list, tuple, dict)):
        return _short(json.dumps(value, default=str, ensure_ascii=False), _CELL)
    return _short(str(value).encode("utf-8", "replace").decode(), _CELL)
