"""Which stacks are missing, and which functions in them have no name.

Requires a recording with stacks. Reported as info if at least 5 % of the functions in stacks have
no name, or if at least 5 % of the switches, wakeups or samples have no stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Rank, Scope, clean
from schedlens.output.wording import and_more, percent

NEEDS = ("stacks",)
METRIC: Metric = "measured"
KINDS = ("unnamed_functions", "missing_stacks")

INFO_PCT = 5.0

_WHY = {
    "file_missing": "is not on this machine",
    "other_build": "has changed since",
    "unreadable": "cannot be read",
    "stripped": "has no debug info",
    "no_symbol": "has no symbol there",
    "kernel_hidden": "hides its addresses",
    "generated_code": "is generated code without a perf map",
    "no_file": "is provided by the kernel",
    "pdb_missing": "has no PDB file here",
    "pdb_other_build": "has only a PDB file of another build here",
    "pdb_unreadable": "has a damaged PDB file",
    "pdb_compressed": "has only a compressed PDB file here",
    "pdb_elsewhere": "has a PDB file in a place that is not here",
    "pdb_not_recorded": "has no PDB signature in the recording",
    "unmapped": "is in no recorded mapping",
}
_KINDS = {"switch": "context switches", "wakeup": "wakeups", "sample": "samples"}


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The share of functions without a name, and of records without a stack."""
    found = [*_unnamed(scope), *_missing(scope)]
    yield from found
    if not found:
        yield clean("at least 95 % of the records have stacks, and of their functions names")


def _unnamed(scope: Scope) -> Iterable[Finding]:
    rows = scope.rows(scope.call("unnamed_code"))
    by_trace: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_trace.setdefault(row["trace_id"], []).append(row)
    for trace_id, parts in by_trace.items():
        share = sum(float(row["frames_pct"]) for row in parts)
        if share < INFO_PCT:
            continue
        worst = parts[0]
        name = _module(worst["module"])
        exact = "exact " if any(row["approximate_frames"] for row in parts) else ""
        why = _WHY.get(worst["reason"], worst["reason"])
        yield Finding(
            kind="unnamed_functions",
            severity="info",
            rank=Rank.CAUSE,
            title=f"{percent(share)} of the functions in stacks have no {exact}name",
            detail=(
                f"{name} {why}: {percent(worst['frames_pct'])} of all functions in stacks."
                f"{and_more(len(parts) - 1)}"
            ),
            advice=f"{worst['remedy']}.",
            evidence_sql=f"FROM unnamed_code(p_trace_id := {trace_id}) LIMIT 20",
            trace_id=trace_id,
        )


def _missing(scope: Scope) -> Iterable[Finding]:
    rows = scope.rows(
        f"SELECT * FROM ({scope.call('stack_coverage')}) "
        f"WHERE with_stack_pct <= {100.0 - INFO_PCT} AND records > 100 "
        "QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY with_stack_pct, kind) = 1 "
        "ORDER BY trace_id"
    )
    for row in rows:
        missing = 100.0 - row["with_stack_pct"]
        kind = _KINDS[row["kind"]]
        yield Finding(
            kind="missing_stacks",
            severity="info",
            rank=Rank.CAUSE,
            title=f"{percent(missing)} of the {kind} have no stack",
            detail=(
                f"{row['records'] - row['with_stack']:,} of {row['records']:,} {kind} were "
                "recorded without a stack."
            ),
            advice="Record with `collect --stacks`, which adds stacks to all of them.",
            evidence_sql=f"FROM stack_coverage(p_trace_id := {row['trace_id']})",
            trace_id=row["trace_id"],
        )


def _module(module: str | None) -> str:
    return "Code" if module is None else module.replace("\\", "/").rpartition("/")[2]
