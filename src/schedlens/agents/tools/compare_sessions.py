"""Compare sessions with baseline sessions: what differs, how surely, and what moved with it.

Several sessions on a side are repeats of one another. A difference is B minus A; verdict is higher,
lower, or cannot tell, never that nothing changed.
"""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part
from schedlens.differences.contrast import Comparison, compare

_NARROW = "pass quantities or processes; the SQL of a row returns what each side is computed from"


class Arguments(BaseModel):
    """Which sessions, and what about them."""

    model_config = ConfigDict(extra="forbid")
    baseline: list[str] = Field(
        min_length=1, max_length=32, description="Sessions of list_sessions: side A."
    )
    sessions: list[str] = Field(
        min_length=1, max_length=32, description="Sessions to compare with them: side B."
    )
    quantities: list[str] = Field(
        [], description="Only these, such as frame_p95_ns; all by default."
    )
    processes: list[str] = Field([], description="Processes; the busiest by default.")
    align: Literal["step", "all"] = Field(
        "step", description="step: recordings of one name; all: all of a side are repeats."
    )


def answer(access: Access, given: Arguments) -> list[Part]:
    """Differences, those that are shown first; the mechanisms; what differs about the machines."""
    sides = [
        [access.folders.database(name) for name in names]
        for names in (given.baseline, given.sessions)
    ]
    found = compare(
        *sides, processes=given.processes, quantities=given.quantities, align=given.align
    )
    words = ["schedlens", "compare", *given.sessions]
    words += [word for name in given.baseline for word in ("--baseline", name)]
    return _parts(found, shlex.join(words))


def _parts(found: Comparison, source: str) -> list[Part]:
    rows = [
        [
            one.verdict, one.quantity, one.subject, one.step, one.unit, one.a, one.b,
            one.difference, one.low, one.high, one.p_adjusted, one.units, one.reason, one.sql,
        ]
        for one in sorted(found.differences, key=lambda one: one.verdict == "cannot tell")
    ]  # fmt: skip
    columns = (
        "verdict", "quantity", "subject", "step", "unit", "a", "b", "difference", "low", "high",
        "p_adjusted", "units", "reason", "sql",
    )  # fmt: skip
    parts = [Part("differences", columns, rows, _NARROW, source=source)]
    mechanisms = [
        [one.symptom, one.symptom_subject, one.step, one.quantity, one.subject, one.analyzer,
         one.change_pct, one.correlation]
        for one in found.mechanisms
    ]  # fmt: skip
    if mechanisms:
        moved = (
            "symptom", "symptom_subject", "step", "quantity", "subject", "analyzer", "change_pct",
            "correlation",
        )  # fmt: skip
        parts.append(Part("mechanisms", moved, mechanisms, _NARROW, source=source))
    machine = [[fact.topic, fact.key, fact.a, fact.b] for fact in found.machine]
    if machine:
        narrow = "run_sql on each session: FROM machine_fact"
        parts.append(Part("machine", ("topic", "key", "a", "b"), machine, narrow, source=source))
    return parts
