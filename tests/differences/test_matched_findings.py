"""Findings of two sides: new, gone, or in both, with their costs."""

from __future__ import annotations

from pathlib import Path

import compared_recordings
import duckdb
import pytest

from schedlens.ask import pipeline
from schedlens.differences import matched_findings
from schedlens.differences.contrast import Comparison, compare
from schedlens.differences.matched_findings import MatchedFinding, Seen
from schedlens.load import recording

pytestmark = pytest.mark.slow

Stored = dict[tuple[str, str, str | None], list[int | None]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the case study and one of its fix."""
    folder = tmp_path_factory.mktemp("findings")
    for name, fixed, seed in (("fault1", False, 1), ("fault2", False, 2), ("fixed", True, 1)):
        compared_recordings.write(folder / name, fixed=fixed, seed=seed)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> Comparison:
    """The two runs against the fix; the databases are kept."""
    sides = [[folder / "fault1", folder / "fault2"], [folder / "fixed"]]
    return compare(*sides, align="all", keep=folder / "kept")


def _stored(file: Path) -> Stored:
    """The costs of each analyzer, kind and thread name, read without the code under test."""
    rows: Stored = {}
    with duckdb.connect(str(file), read_only=True) as con:
        for *key, cost in con.execute(
            "SELECT analyzer, kind, (SELECT regexp_replace(name, '[0-9]+', '*', 'g') "
            "FROM thread WHERE thread.utid = finding.utid), cost_ns FROM finding"
        ).fetchall():
            rows.setdefault((key[0], key[1], key[2]), []).append(cost)
    return rows


def test_every_finding_of_both_sides_is_in_one_row(found: Comparison, folder: Path) -> None:
    of_a, of_b = (_stored(folder / "kept" / f"{name}.duckdb") for name in "ab")
    states = {(one.analyzer, one.kind, one.thread): one.state for one in found.findings}
    assert len(states) == len(found.findings)
    assert states == {
        key: "both" if key in of_a and key in of_b else "new" if key in of_b else "gone"
        for key in of_a.keys() | of_b.keys()
    }
    # The case study: too many workers on the critical path, which the fix removes.
    assert {"new", "gone", "both"} >= set(states.values()) >= {"gone", "both"}


def test_cost_is_the_mean_over_the_recordings_that_have_it(found: Comparison, folder: Path) -> None:
    of_a = _stored(folder / "kept" / "a.duckdb")
    compared = 0
    for one in found.findings:
        costs = of_a.get((one.analyzer, one.kind, one.thread), [])
        if one.a is None or one.a.cost_ns is None or None in costs:
            continue
        assert one.a.cost_ns == pytest.approx(sum(cost or 0 for cost in costs) / one.a.recordings)
        assert 1 <= one.a.recordings <= one.number_a == 2
        compared += 1
    assert compared >= 3


def test_analyzed_session_gives_the_same_findings(
    found: Comparison, folder: Path, tmp_path: Path
) -> None:
    for name in ("fault1", "fixed"):
        file = tmp_path / f"{name}.duckdb"
        recordings = recording.gather([folder / name])
        with pipeline.analyzed(recordings, file, pipeline.Questions(), quiet=True):
            pass
    again = compare(tmp_path / "fault1.duckdb", tmp_path / "fixed.duckdb", align="all")
    # Of the fix there is one recording in both comparisons.
    assert {(one.kind, one.thread): one.b for one in again.findings if one.b} == {
        (one.kind, one.thread): one.b for one in found.findings if one.b
    }


def test_one_quantity_needs_no_analyzer(folder: Path, tmp_path: Path) -> None:
    found = compare(
        folder / "fault1", folder / "fixed", quantities=["busy_cpus"], align="all", keep=tmp_path
    )
    assert found.findings == ()
    assert _stored(tmp_path / "a.duckdb") == {}


def test_order_is_new_then_gone_then_severity_and_cost() -> None:
    def one(state: str, severity: str, cost: float) -> MatchedFinding:
        seen = Seen(1, f"{state} {severity} {cost}", cost, None, "")
        return MatchedFinding(
            "step", "analyzer", "kind", severity, 2, None, None,
            None if state == "new" else seen, None if state == "gone" else seen, 1, 1,
        )  # fmt: skip

    every = [
        one("both", "critical", 9), one("gone", "warning", 1), one("new", "info", 5),
        one("new", "critical", 1), one("new", "critical", 2), one("gone", "warning", 3),
    ]  # fmt: skip
    found = matched_findings.ordered(every)
    assert [each.title for each in found] == [
        "new critical 2", "new critical 1", "new info 5", "gone warning 3", "gone warning 1",
        "both critical 9",
    ]  # fmt: skip
    assert matched_findings.line(found) == "3 new in B, 2 gone, 1 in both"
