"""What a gate writes for CI: JUnit, SARIF 2.1.0, and Markdown for a pull request.

Names of processes, marks and steps come from recordings and are escaped for each form.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

from schedlens import __version__
from schedlens.differences import matched_findings, numbers
from schedlens.differences.quantities import BY_NAME
from schedlens.output.terminal import visible

if TYPE_CHECKING:
    from schedlens.differences.contrast import Comparison, Difference
    from schedlens.differences.verdicts import Gate, Judged

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# SARIF allows a level other than none only for what failed.
_LEVELS = {"regression": "error", "cannot tell": "none", "within": "none"}
_KINDS = {"regression": "fail", "cannot tell": "review", "within": "pass"}
_MOST_ROWS = 25
# XML 1.0 has no form for these, not even an escaped one.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(gate: Gate) -> str:
    """A test case for each rule and difference: a failure if broken, an error if it cannot tell."""
    failed = sum(one.state == "regression" for one in gate.judged)
    errors = sum(one.state == "cannot tell" for one in gate.judged)
    suite = ET.Element(
        "testsuite",
        name="schedlens compare",
        tests=str(len(gate.judged)),
        failures=str(failed),
        errors=str(errors),
    )
    for one in gate.judged:
        case = ET.SubElement(
            suite, "testcase", classname=_xml(one.rule.metric), name=_xml(one.name)
        )
        if one.state != "within":
            kind = "failure" if one.state == "regression" else "error"
            ET.SubElement(case, kind, message=_xml(_sentence(one)), type=_xml(one.state))
        else:
            ET.SubElement(case, "system-out").text = _xml(_sentence(one))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("�", visible(text))


def sarif(gate: Gate, rules_file: str) -> str:
    """A result for each rule and difference, placed in the file of the rules."""
    metrics = sorted({one.rule.metric for one in gate.judged})
    results: list[dict[str, Any]] = [
        {
            "ruleId": one.rule.metric,
            "ruleIndex": metrics.index(one.rule.metric),
            "kind": _KINDS[one.state],
            "level": _LEVELS[one.state],
            "message": {"text": visible(f"{one.name}: {_sentence(one)}")},
            "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": rules_file.replace("\\", "/")}}}
            ],
            "partialFingerprints": {"rule/v1": visible(one.name)},
        }
        for one in gate.judged
    ]
    driver = {
        "name": "schedlens",
        "version": __version__,
        "rules": [
            {"id": name, "shortDescription": {"text": BY_NAME[name].text}} for name in metrics
        ],
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def markdown(found: Comparison) -> str:
    """The verdicts, the differences that are shown, their mechanisms, and the machine's."""
    lines: list[str] = []
    if found.gate is not None:
        heading = {
            "regression": "Regression",
            "within": "Within limits",
            "cannot tell": "Cannot tell",
        }[found.gate.state]
        lines += [f"## schedlens: {heading}", "", "| rule | result | A | B | difference | |"]
        lines += ["|---|---|---|---|---|---|"]
        for one in found.gate.judged:
            row = one.difference
            cells = (
                one.name,
                one.state,
                numbers.value(row.a, row.unit) if row else "?",
                numbers.value(row.b, row.unit) if row else "?",
                numbers.difference(row) if row else "?",
                one.reason,
            )
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
    else:
        lines += ["## schedlens: comparison"]
    shown = [one for one in found.differences if one.verdict != "cannot tell"]
    lines += ["", "### Differences", ""]
    if shown:
        lines += ["| quantity | A | B | difference (95 %) | |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, _row(one)))} |" for one in shown[:_MOST_ROWS]]
        if len(shown) > _MOST_ROWS:
            lines += ["", f"{len(shown) - _MOST_ROWS} more are in the report."]
    else:
        lines.append("No difference is shown. That is not the same as no change.")
    if found.mechanisms:
        lines += ["", "### What moved with it", ""]
        lines += [
            _cell(
                f"- {BY_NAME[one.symptom].text}: {one.text}"
                f"{f' ({one.subject})' if one.subject else ''}, analyzer {one.analyzer}, "
                f"rank correlation {one.correlation:+.2f}"
            )
            for one in found.mechanisms
        ]
    changed = [one for one in found.findings if one.state != "both" and one.severity != "info"]
    if changed:
        lines += ["", f"### Findings: {matched_findings.line(found.findings)}", ""]
        lines += [
            f"- {one.state}, {one.severity}: {_cell(one.title)}"
            + (f" ({_cell(one.subject)})" if one.subject else "")
            for one in changed[:_MOST_ROWS]
        ]
    if found.machine:
        lines += ["", "### What is different about the machine", "", "| | A | B |", "|---|---|---|"]
        lines += [
            f"| {' | '.join(map(_cell, (fact.key, fact.a or '—', fact.b or '—')))} |"
            for fact in found.machine[:_MOST_ROWS]
        ]
    unclear = len(found.differences) - len(shown)
    lines += [
        "",
        f"{len(found.labels_a)} and {len(found.labels_b)} recordings; {len(found.differences)} "
        f"quantities, of which {unclear} are not shown to differ. At most 5 % of the differences "
        "shown are expected to be chance (Benjamini-Hochberg).",
    ]
    return "\n".join(lines) + "\n"


def _row(one: Difference) -> tuple[str, ...]:
    worse = {True: "worse", False: "better", None: one.verdict}[one.is_worse]
    where = one.subject or ""
    name = f"{one.text}{f' ({where})' if where else ''}"
    return (
        name, numbers.value(one.a, one.unit), numbers.value(one.b, one.unit),
        numbers.difference(one), worse,
    )  # fmt: skip


def _sentence(one: Judged) -> str:
    row = one.difference
    if row is None or row.difference is None:
        return f"{one.state}: {one.reason}"
    return (
        f"{one.state}: {numbers.value(row.a, row.unit)} to {numbers.value(row.b, row.unit)}, "
        f"{numbers.difference(row)}; {one.reason}"
    )


def _cell(text: str) -> str:
    """Text that cannot end a cell or begin markup, mentions or HTML."""
    shown = visible(text)[:300]
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", shown).replace("@", "@\u200b")
