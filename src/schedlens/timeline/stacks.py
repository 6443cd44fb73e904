"""The stacks of slices: where a thread left its CPU, where it waited before, where it was woken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.timeline.inventory import table
from schedlens.timeline.prepared import Timelines

_ANY = "SELECT 1 AS one FROM stack WHERE trace_id = {one} LIMIT 1"
# The stack ids of a slice, by what each explains.
IDS = {
    "left_stack": """
SELECT coalesce(
  (SELECT max(stack_id) FROM context_switch
   WHERE trace_id = {one} AND prev_utid = {utid} AND ts = {end}),
  (SELECT next_stack_id FROM context_switch
   WHERE trace_id = {one} AND next_utid = {utid} AND ts >= {end} ORDER BY ts, seq LIMIT 1)
) AS stack_id
""",
    "before_stack": """
SELECT coalesce(
  (SELECT max(next_stack_id) FROM context_switch
   WHERE trace_id = {one} AND next_utid = {utid} AND ts = {start}),
  (SELECT stack_id FROM context_switch
   WHERE trace_id = {one} AND prev_utid = {utid} AND ts < {start}
   ORDER BY ts DESC, seq DESC LIMIT 1)
) AS stack_id
""",
    "waker_stack": """
SELECT stack_id FROM wakeup
WHERE trace_id = {one} AND utid = {utid} AND effective AND ts = {woken} AND stack_id IS NOT NULL
LIMIT 1
""",
}
_FRAMES = """
WITH RECURSIVE up AS (
  SELECT stack_id AS of_id, stack_id, parent_id, depth
  FROM stack WHERE trace_id = {one} AND stack_id IN ({ids})
  UNION ALL
  SELECT up.of_id, s.stack_id, s.parent_id, s.depth
  FROM up JOIN stack AS s ON s.stack_id = up.parent_id AND s.depth < up.depth
)
SELECT up.of_id, named.frame
FROM up JOIN stack_frame({one}) AS named ON named.stack_id = up.stack_id
ORDER BY up.of_id, up.depth DESC
"""


def recorded(timelines: Timelines, trace_id: int) -> bool:
    """Whether a recording has stacks."""
    return bool(table(timelines, _ANY.format(one=trace_id), {}))


def of_slice(timelines: Timelines, names: dict[str, Any], used: dict[str, str]) -> dict[str, Any]:
    """The functions of each stack of a slice, innermost first; None if it was not recorded.

    `names` are the values in the statements, of which `woken` may be missing; `used` gets the
    statements.
    """
    ids: dict[str, int | None] = {}
    for name, sql in IDS.items():
        if name == "waker_stack" and "woken" not in names:
            ids[name] = None
            continue
        used[name] = sql.format(**names).strip()
        rows = table(timelines, used[name], {})
        ids[name] = rows[0]["stack_id"] if rows else None
    found = frames(timelines, names["one"], [one for one in ids.values() if one is not None])
    return {name: None if one is None else found.get(one) for name, one in ids.items()}


def frames(timelines: Timelines, trace_id: int, ids: Iterable[int]) -> dict[int, list[str]]:
    """The functions of stacks, innermost first."""
    listed = ", ".join(str(one) for one in sorted(set(ids)))
    found: dict[int, list[str]] = {}
    if listed:
        for row in table(timelines, _FRAMES.format(one=trace_id, ids=listed), {}):
            found.setdefault(row["of_id"], []).append(row["frame"])
    return found
