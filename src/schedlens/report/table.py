"""An answer as the page's tables take it: columns with kinds and titles, rows as JSON values."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from schedlens.ask import bounds
from schedlens.ask.catalog import Query
from schedlens.output.terminal import visible
from schedlens.report.sections import Answer, Rows

MOST_ROWS = 1500
MOST_TEXT = 300

# JavaScript reads integers beyond this inexactly.
_EXACT = 2**53

_IDS = {
    "cpu", "core", "tid", "pid", "utid", "upid", "trace_id", "worker", "chain", "finding_id",
    "package", "llc", "l2", "numa_node", "smt_index", "state_no", "priority", "repeat",
    "percentile",
}  # fmt: skip
# Words that are not written as in a name.
_WRITTEN = {
    "cpu": "CPU", "cpus": "CPUs", "gpu": "GPU", "smt": "SMT", "llc": "LLC", "numa": "NUMA",
    "khz": "kHz", "fps": "FPS", "pid": "PID", "tid": "TID",
    "irq": "IRQ", "ipc": "IPC", "ghz": "GHz", "p": "P", "e": "E", "cpi": "CPI",
    "avg": "mean", "dur": "length",
}  # fmt: skip
# Names that are clear only next to the others of their table.
_ALONE = {
    "ns": "time", "pct": "share", "ts": "begin", "dur": "length", "dur_ns": "length",
    "ready_ts": "ready from", "p": "P cores", "e": "E cores", "p_ns": "P cores", "e_ns": "E cores",
    "n": "number", "max_khz": "highest", "min_khz": "lowest", "other": "other cores",
    "smt": "busy siblings", "hop": "place in chain", "fit": "fit (R²)",
}  # fmt: skip
_SUFFIXES = (("_ns", "ns"), ("_ts", "ns"), ("_dur", "ns"), ("_pct", "pct"), ("_khz", "khz"))


def kind(name: str, values: list[Any]) -> str:
    """How a column is written: ns, pct, khz, int, id, num, bool or text."""
    known = [value for value in values if value is not None]
    numeric = bool(known) and all(
        isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
        for value in known
    )
    if known and all(isinstance(value, bool) for value in known):
        return "bool"
    if known and not numeric:
        return "text"
    for suffix, found in _SUFFIXES:
        if name.endswith(suffix) or name == suffix[1:]:
            return found
    stem = name.rsplit("_", maxsplit=1)[-1]
    if name in _IDS or stem in ("cpu", "utid", "tid", "pid", "priority"):
        return "id"
    if not known:
        return "text"
    return "int" if all(isinstance(value, int) for value in known) else "num"


def heading(name: str) -> str:
    """A column's name in words: the page appends the unit."""
    return _ALONE.get(name) or words(re.sub(r"_(ns|pct|khz|ts|dur)$", "", name))


def words(name: str) -> str:
    """The name of a column or a query in words."""
    if name == "trace_id":
        return "recording"
    return " ".join(_WRITTEN.get(word, word) for word in name.split("_"))


def title(query: str) -> str:
    """The name of a query as a heading."""
    text = words(query)
    return text[:1].upper() + text[1:]


def shown_columns(names: Sequence[str], rows: Rows) -> list[str]:
    """The columns without ids that only SQL needs: a table names threads and recordings."""
    named = {"label", "recording", "step"} & set(names)
    several = len({row["trace_id"] for row in rows}) > 1 if "trace_id" in names else False
    kept = [
        name
        for name in names
        if not name.endswith(("utid", "upid")) and (name != "trace_id" or (several and not named))
    ]
    return kept or list(names)


def value(found: object) -> object:
    """One cell as JSON: whole numbers exact, fractions with 12 digits, others as text.

    The last digits of a sum of fractions differ from run to run, because DuckDB's threads add them
    up in any order. Not a number and infinities are unknown.
    """
    if found is None or isinstance(found, bool):
        return found
    if isinstance(found, int):
        return found if abs(found) < _EXACT else str(found)
    if isinstance(found, (float, decimal.Decimal)):
        number = float(found)
        return float(f"{number:.12g}") if math.isfinite(number) else None
    if isinstance(found, (list, tuple)):
        text = ", ".join("?" if item is None else str(item) for item in found[:64])
        return _cut(text + (f", … {len(found)} in all" if len(found) > 64 else ""))
    if isinstance(found, (datetime.date, datetime.datetime)):
        return found.isoformat(sep=" ") if isinstance(found, datetime.datetime) else str(found)
    return _cut(str(found))


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return visible(text)
    return f"{visible(text[: MOST_TEXT - 40])} … ({len(text):,} characters)"


def table(
    answer: Answer,
    query: Query | None = None,
    *,
    most: int = MOST_ROWS,
    total: int | None = None,
    lossy: Collection[int] = (),
) -> dict[str, Any]:
    """The answer for the page: at most `most` rows, with the number there are in `total`.

    Rows of the recordings in `lossy` get the bounds that the query states for their values.
    """
    texts = dict(query.columns) if query else {}
    # The page writes both ends of a range in the cell of its column.
    ends = bounds.range_ends(query) if query else frozenset()
    rows = answer.rows[:most]
    names = shown_columns(
        [name for name in answer.columns or answer.names if name not in ends], rows
    )
    kinds = {name: kind(name, [row[name] for row in rows]) for name in names}
    return {
        "query": answer.query,
        "title": title(answer.query),
        "sql": answer.sql,
        "text": query.text if query else "",
        "definition": query.sql if query else None,
        "documented": [[name, text] for name, text in query.columns] if query else [],
        "columns": [
            {
                "name": name,
                "title": (
                    heading(name)
                    if name in _ALONE or kinds[name] in ("ns", "pct", "khz")
                    else words(name)
                ),
                "kind": kinds[name],
                "text": texts.get(name, ""),
            }
            for name in names
        ],
        "rows": [[value(row[name]) for name in names] for row in rows],
        "limits": _limits(names, rows, query, lossy) if query and lossy else {},
        "folded": answer.folded,
        "total": total if total is not None else len(answer.rows),
    }


def _limits(
    names: Sequence[str], rows: Rows, query: Query, lossy: Collection[int]
) -> dict[int, list[list[object]]]:
    """By number of the row: column, lowest and highest value of each cell that has them."""
    texts = dict(query.columns)
    marks = {name: bounds.parse(texts.get(name, "")) for name in names}
    found: dict[int, list[list[object]]] = {}
    for number, row in enumerate(rows):
        if "trace_id" in row and row["trace_id"] not in lossy:
            continue
        for place, name in enumerate(names):
            mark = marks[name]
            limits = bounds.shown_limits(mark, name, row) if mark else None
            if limits is not None:
                found.setdefault(number, []).append([place, *map(value, limits)])
    return found
