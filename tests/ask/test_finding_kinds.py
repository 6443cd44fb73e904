"""Findings carry their own presentation: no other source uses analyzer names or texts."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import table_hashes
from judged import keeps_the_rules

from schedlens.ask import judging
from schedlens.ask.findings import Finding, Rank
from schedlens.commands import cli
from schedlens.commands.analyze import analyze

ROOT = Path(__file__).resolve().parents[2]
ANALYZERS = judging.analyzers()
# Everything that reads findings, which is all but the analyzers.
# Each quantity that `compare` compares names the analyzer that explains it: test_compare_docs.py.
QUANTITIES = ROOT / "src/schedlens/differences/quantities.py"
SOURCES = sorted(
    {*(ROOT / "src/schedlens").rglob("*.py"), *(ROOT / "reports").glob("*.py")} - {QUANTITIES}
)
SCRIPTS = sorted((ROOT / "reports/page").glob("*.js"))


def _named(node: ast.AST) -> set[str]:
    """The analyzers' names among the strings of a literal."""
    strings = {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    return strings & set(ANALYZERS)


def test_every_analyzer_declares_its_kinds() -> None:
    for name, analyzer in ANALYZERS.items():
        assert analyzer.kinds, name
        assert len(set(analyzer.kinds)) == len(analyzer.kinds), name
        for kind in analyzer.kinds:
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind), (name, kind)


@pytest.mark.parametrize("name", sorted(ANALYZERS))
def test_analyzers_yield_only_kinds_they_declare(name: str) -> None:
    tree = ast.parse((ROOT / "analyzers" / f"{name}.py").read_text(encoding="utf-8"))
    used = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    declared = ANALYZERS[name].kinds
    body = [node for node in tree.body if not isinstance(node, ast.Assign)] + [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) != "KINDS"
    ]
    elsewhere = {
        each.value
        for node in body
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    assert set(declared) <= used & elsewhere
    given = {
        each.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "kind"
        for each in ast.walk(node.value)
        if isinstance(each, ast.Constant)
    }
    assert given <= set(declared)


def test_no_other_source_lists_analyzers() -> None:
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_list = isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict)
            if (is_list and len(_named(node)) > 1) or (
                isinstance(node, ast.Compare) and _named(node)
            ):
                found.append(f"{path.name}: {ast.unparse(node)}")
    assert found == []


def test_no_script_of_the_page_lists_analyzers() -> None:
    for path in SCRIPTS:
        strings = set(re.findall(r"['\"`]([a-z_]+)['\"`]", path.read_text(encoding="utf-8")))
        assert len(strings & set(ANALYZERS)) < 2, path.name


def test_no_other_source_matches_titles_or_names() -> None:
    for path in (*SOURCES, *SCRIPTS):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"title\W{0,3}\.(startswith|endswith|includes|match|search)", text), (
            path
        )
        assert not re.search(r"title\s+(NOT\s+)?I?LIKE", text), path
        assert not re.search(r"analyzer\s*(===?|=|IN)\s*\(?\s*'[a-z_]+'", text), path


def _stored(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    cursor = con.execute("SELECT * EXCLUDE (finding_id) FROM finding ORDER BY finding_id")
    names = [column[0] for column in cursor.description or []]
    for row in cursor.fetchall():
        values = dict(zip(names, row, strict=True))
        yield Finding(**{**values, "rank": Rank(values["rank"])})


@pytest.mark.slow
def test_findings_of_fixtures_and_demo_follow_the_rules(tmp_path: Path) -> None:
    seen = set()
    for name, path in table_hashes.recordings(tmp_path, None):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        cli.run(analyze, [str(path), "-o", str(out), "--no-report"], name="analyze")
        with duckdb.connect(out / "analysis.duckdb", read_only=True) as con:
            found = list(_stored(con))
            for finding in found:
                keeps_the_rules(finding)
                # A reader gets from the finding to the rows that it is computed from.
                assert con.execute(finding.evidence_sql).fetchall(), (name, finding)
                seen.add(finding.analyzer)
            outcomes = con.execute(
                "SELECT analyzer, outcome FROM analyzer_outcome WHERE trace_id IS NULL "
                "ORDER BY analyzer"
            ).fetchall()
        assert [analyzer for analyzer, _ in outcomes] == sorted(ANALYZERS), name
        assert {analyzer for analyzer, outcome in outcomes if outcome == "found"} == {
            finding.analyzer for finding in found
        }, name
    assert len(seen) >= 10
