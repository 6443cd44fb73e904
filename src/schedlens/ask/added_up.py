"""Costs longer than the window: over how many threads or CPUs they are added up."""

from __future__ import annotations

from dataclasses import replace

import duckdb

from schedlens.ask.findings import Finding, Scope
from schedlens.output.wording import count

# Columns of the evidence that identify what a cost is added up over, the best first.
_COUNTED = (("utid", "thread"), ("tid", "thread"), ("core", "core"), ("cpu", "CPU"))
_SAYS = "added up over"


def worded(scope: Scope, finding: Finding, window_ns: int) -> Finding:
    """The finding; its detail says what a cost longer than the window is added up over."""
    if finding.cost_ns is None or finding.cost_ns <= window_ns or _SAYS in finding.detail:
        return finding
    return replace(
        finding, detail=f"{finding.detail} This time is {_SAYS} {_over(scope, finding)}."
    )


def _over(scope: Scope, finding: Finding) -> str:
    evidence = f"({finding.evidence_sql.strip().rstrip(';')})"
    try:
        columns, _ = scope.named_rows(f"SELECT * FROM {evidence} LIMIT 0")
        for column, noun in _COUNTED:
            if column in columns:
                found = scope.rows(f"SELECT count(DISTINCT {column}) AS n FROM {evidence}")
                if found[0]["n"] > 1:
                    return count(found[0]["n"], noun)
    except duckdb.OutOfMemoryException:
        pass
    return "threads and CPUs"
