"""Runs one analyzer on a database, and checks the rules for every finding."""

from __future__ import annotations

import re

import duckdb

from schedlens.ask import judging
from schedlens.ask.findings import SEVERITIES, Finding, Outcome, Scope

MOST_WORDS = 12
_UNITS = re.compile(r"\d (?:%|(?:ns|us|ms|s|[kMG]?Hz)\b)")


def yielded(
    con: duckdb.DuckDBPyConnection, analyzer: str, process: str | None = None
) -> list[Finding]:
    """The findings of an analyzer, whether or not the recording contains the events it needs."""
    said = judging.analyzers()[analyzer].judge(Scope(con, process))
    return [each for each in said if isinstance(each, Finding)]


def concluded(con: duckdb.DuckDBPyConnection, analyzer: str) -> Outcome:
    """The same if it finds nothing: its one outcome."""
    (outcome,) = judging.analyzers()[analyzer].judge(Scope(con))
    assert isinstance(outcome, Outcome), outcome
    return outcome


def judged(con: duckdb.DuckDBPyConnection, analyzer: str) -> list[Finding]:
    """The findings of an analyzer, as `analyze` stores them, after checking the rules."""
    found = judging.judge_all(Scope(con), [analyzer]).findings
    for finding in found:
        keeps_the_rules(finding)
        con.execute(finding.evidence_sql).fetchall()
        if finding.counter_evidence_sql:
            con.execute(finding.counter_evidence_sql).fetchall()
    return found


def outcome(con: duckdb.DuckDBPyConnection, analyzer: str) -> Outcome:
    """What an analyzer concluded about the session."""
    (found,) = [
        each for each in judging.judge_all(Scope(con), [analyzer]).outcomes if each.trace_id is None
    ]
    return found


def plain(text: str) -> str:
    """The text with plain spaces between numbers and units."""
    return text.replace("\u00a0", " ")


def keeps_the_rules(finding: Finding) -> None:
    """Fails unless the finding has a declared kind, a short title, a sentence, and advice."""
    assert finding.kind in judging.analyzers()[finding.analyzer].kinds, finding
    assert finding.severity in SEVERITIES, finding
    # A number and its unit are one word.
    assert 1 <= len(finding.title.split(" ")) <= MOST_WORDS, finding.title
    assert not finding.title.endswith("."), finding.title
    assert finding.detail.endswith("."), finding.detail
    assert finding.advice.endswith("."), finding.advice
    assert finding.evidence_sql, finding
    for text in (finding.title, finding.detail, finding.advice):
        assert not _UNITS.search(text), text
        assert "None" not in text, text
