"""Tables of the page of a comparison: findings, facts about the machine, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlens.differences import matched_findings, numbers
from schedlens.report.sections import Answer, Section

if TYPE_CHECKING:
    from schedlens.differences.contrast import Comparison


def findings(found: Comparison) -> Section | str:
    """The findings of both sides, or why there are none."""
    if not found.findings:
        return "neither side has findings"
    rows = [
        {
            "state": one.state,
            "severity": one.severity,
            "finding": one.title,
            "thread": one.thread,
            "process": one.process,
            "step": one.step,
            **{
                name: value
                for side, seen, number in (
                    ("A", one.a, one.number_a), ("B", one.b, one.number_b),
                )
                for name, value in (
                    (f"recordings in {side}", f"{seen.recordings if seen else 0} of {number}"),
                    (f"cost in {side}", _cost(seen)),
                )
            },
            "analyzer": one.analyzer,
            "kind": one.kind,
        }
        for one in found.findings
    ]  # fmt: skip
    lead = (
        f"{matched_findings.line(found.findings)}. A finding passed a threshold on one side: "
        "whether its cost changed is answered by the differences."
    )
    return Section(
        lead, "The window of each recording; costs are means over the recordings with the finding.",
        (), (Answer(matched_findings.SQL.strip(), "matched_finding", tuple(rows[0]), rows),),
    )  # fmt: skip


def _cost(seen: matched_findings.Seen | None) -> str:
    if seen is None or (seen.cost_ns is None and seen.cost_pct is None):
        return ""
    time = "" if seen.cost_ns is None else numbers.value(seen.cost_ns, "ns")
    share = "" if seen.cost_pct is None else f"{numbers.value(seen.cost_pct, '%')} {seen.of}"
    return ", ".join(filter(None, (time, share)))


def machine(found: Comparison) -> Section | str:
    """What the recordings say differently about their machine."""
    if not found.machine:
        return "both sides report the same machine and software"
    rows = [{"topic": one.topic, "name": one.key, "A": one.a, "B": one.b} for one in found.machine]
    lead = "A difference above may be due to one of these."
    return Section(
        lead, "What the recordings say about the machine.", (),
        (Answer("FROM machine_fact", "machine_fact", tuple(rows[0]), rows),),
    )  # fmt: skip


def not_compared(found: Comparison, window: str) -> Section | str:
    """Quantities and steps that were not compared, each with its reason."""
    rows = [
        {"quantity": one.quantity, "of": one.subject, "step": one.step, "reason": one.reason}
        for one in found.differences
        if one.reason
    ]
    rows += [
        {"quantity": None, "of": None, "step": step, "reason": "only one side has this step"}
        for step in found.unmatched
    ]
    if not rows:
        return "every quantity has enough data on both sides"
    lead = "Too little is known about these: they may have changed."
    return Section(
        lead, window, (),
        (Answer("FROM time_block", "not_compared", tuple(rows[0]), rows),),
    )  # fmt: skip


def gate(found: Comparison, window: str) -> Section | str:
    """The verdict on each rule, or that there is none."""
    if found.gate is None:
        return "no rules were given (--gate RULES.toml)"
    rows = [
        {
            "rule": one.name,
            "result": one.state,
            "difference": numbers.difference(one.difference) if one.difference else None,
            "reason": one.reason,
            "p_beyond": one.p_regression,
            "p_within": one.p_within,
        }
        for one in found.gate.judged
    ]
    sql = "\n;\n".join(
        dict.fromkeys(one.difference.sql for one in found.gate.judged if one.difference)
    )
    lead = (
        f"Result: {found.gate.state}. A regression needs a test that the limit is exceeded, and "
        "within limits a test that it is not."
    )
    return Section(lead, window, (), (Answer(sql, "gate", tuple(rows[0]), rows),))
