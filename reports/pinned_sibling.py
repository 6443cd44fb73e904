"""Threads bound to siblings of one core, and idle cores meanwhile."""

from __future__ import annotations

from schedlens.report.sections import Nothing, Section, View

HEADING = "Bound to siblings"
ORDER = 75


def section(view: View) -> Section | Nothing:
    """The pairs of all recordings."""
    answer = view.ask_each(
        "pinned_sibling", "trace_id, idle_ns DESC, together_ns DESC, utid, other_utid",
        process=view.process,
    )  # fmt: skip
    if not answer.rows:
        return Nothing("no two threads bound to the siblings of one core ran beside each other")
    return Section(
        "Two threads each bound to one and the same core take each other's resources; while "
        "another whole core stands idle (`idle_ns`) that is not for want of a place.",
        view.all_windows(),
        (),
        (answer.without("trace_id", "utid", "other_utid"),),
    )
