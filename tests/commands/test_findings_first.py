"""`analyze` prints its findings while it still writes the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command
from fixture_files import fixture

ANALYZE = Path(sys.executable).parent / "analyze"


def test_findings_are_printed_before_the_report_is_there(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    # Into a pipe, whose writer keeps lines back unless it is flushed.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [str(ANALYZE), str(trace), "-o", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        lines = [running.stdout.readline()]
        while not lines[-1].startswith("missing"):
            lines.append(running.stdout.readline())
            assert lines[-1], lines
        # Neither has its name before both are complete.
        assert not (tmp_path / "report.html").exists()
        assert not (tmp_path / "analysis.duckdb").exists()
        rest = running.stdout.read()
    assert running.returncode == 0
    assert lines[0].startswith("1 recording")
    assert rest.startswith("\ndatabase")
    assert (tmp_path / "report.html").exists()


def test_a_report_that_cannot_be_written_costs_no_findings(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    (tmp_path / "report.html").mkdir()
    done = command("analyze", str(trace), "-o", str(tmp_path), check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("1 recording")
    assert "Next steps" not in done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("analyze: ")
    assert "report.html" in line


@pytest.mark.parametrize("full", [True, False])
def test_a_full_or_closed_output_costs_no_result(
    full: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    if full:
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, output = os.pipe()
        os.close(reader)
    try:
        done = subprocess.run(
            [str(ANALYZE), str(trace), "-o", str(tmp_path)],
            stdout=output, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(output)
    assert done.returncode == (2 if full else 0)
    assert [line for line in done.stderr.splitlines() if line.startswith("analyze:")] == (
        ["analyze: No space left on device: free some, or write elsewhere"] if full else []
    )
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "analysis.duckdb").exists()
