"""The stacks of a selection: what ran, waited, was ready, or was woken in a range of time."""

from __future__ import annotations

from typing import Any

from schedlens.output.terminal import visible
from schedlens.timeline.inventory import table
from schedlens.timeline.prepared import Timelines

# Of each kind: the query, its column of weights, and the column of the selected thread. A thread is
# selected to see who wakes it.
KINDS = {
    "samples": ("sample_stack", "samples", "utid"),
    "waiting": ("off_cpu_stack", "wait_ns", "utid"),
    "ready": ("off_cpu_stack", "ready_ns", "utid"),
    "wakeups": ("waker_stack", "wakings", "woken_utid"),
}
# Smaller stacks are one row.
MOST_ROWS = 20_000
# Who wakes a thread, if no thread is recorded.
NO_WAKER = "interrupt on an idle CPU, or unknown"
_MOST_NAME = 120


def of_range(
    timelines: Timelines, trace_id: int, span: tuple[int, int], kind: str, utid: int | None = None
) -> dict[str, Any]:
    """The stacks of one kind in a range, of all threads or of one, heaviest first.

    `rows` has [thread, functions from the outermost inwards, weight]; functions are None without a
    recorded stack. Weights are ns, or counts of samples and wakeups. `rest` is the weight of stacks
    beyond the first `MOST_ROWS`. `sql` returns the same from the database. Raises
    `UnknownNameError` for a recording that does not exist, and `KeyError` for an unknown kind.
    """
    timelines.of(trace_id)
    query, weight, of = KINDS[kind]
    start, end = span
    chosen = "" if utid is None else f" AND {of} = {int(utid)}"
    sql = (
        f"SELECT thread, folded, sum({weight})::BIGINT AS weight\n"
        f"FROM {query}(p_trace_id := {int(trace_id)}, p_from_ns := {int(start)}, "
        f"p_to_ns := {int(end)})\n"
        f"WHERE {weight} > 0{chosen}\nGROUP BY thread, folded\n"
        "ORDER BY weight DESC, thread, folded"
    )
    found = table(timelines, sql, {})
    missing = NO_WAKER if kind == "wakeups" else "unknown"
    rows = [
        [
            _name(row["thread"]) if row["thread"] is not None else missing,
            None if row["folded"] is None else [_name(one) for one in row["folded"].split(";")],
            row["weight"],
        ]
        for row in found[:MOST_ROWS]
    ]
    return {"rows": rows, "rest": sum(row["weight"] for row in found[MOST_ROWS:]), "sql": sql}


def _name(text: str) -> str:
    shown = visible(text[: 4 * _MOST_NAME])
    return shown if len(shown) <= _MOST_NAME else f"{shown[: _MOST_NAME - 8]}…{shown[-7:]}"
