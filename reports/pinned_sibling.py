"""Threads bound to the SMT siblings of one core while other cores were idle."""

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
        return Nothing("no two threads bound to the siblings of one core ran at the same time")
    return Section(
        "Two threads bound to the same core compete for its resources. While another whole core is "
        "idle (`idle`), this is avoidable.",
        view.all_windows(),
        (),
        (answer.without("trace_id", "utid", "other_utid"),),
    )
