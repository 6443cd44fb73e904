"""A second analysis of the same recording gives the same result."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import command
from fixture_files import fixture

pytestmark = pytest.mark.slow


def test_second_analysis_writes_the_same_report(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("own_tree", tmp_path_factory)
    reports = set()
    for name in ("first", "second"):
        command("analyze", str(trace), "-o", str(tmp_path / name))
        reports.add((tmp_path / name / "report.html").read_bytes())
    # pytest's comparison of long, unequal bytes takes hours.
    assert len(reports) == 1
