"""schedlens imports and analyzes a recording without the Python modules that Windows lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import processors
import pytest
import windows_buffers
from fixture_files import fixture
from windows_stand_ins import StandIns, header_only_etl

from schedlens.commands import cli

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "support" / "windows_lacks.py"


def without_posix(
    *words: str, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command of schedlens in a Python without the modules that Windows lacks."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        timeout=300,
    )


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    done = without_posix("--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    count, *rest = done.stdout.splitlines()
    here = sum(1 for _ in (Path(cli.__file__).parent).glob("*.py"))
    # The commands' own modules and the sibling packages.
    assert int(count.split()[0]) > here
    assert all(any(name in line for line in rest) for name in cli.COMMANDS)


def test_recording_is_planned_on_the_machine_topology(tmp_path: Path) -> None:
    stand_ins = StandIns(tmp_path / "stand-ins", header_only_etl(), (0, 0))
    done = without_posix(
        "collect", "--dry-run", "--workload", "imul1", "--threads", "9", "--placement", "physical",
        cwd=tmp_path, environment=stand_ins.environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The P cores of the hybrid machine in the stand-in's buffer, then its first E core.
    line = next(line for line in done.stdout.splitlines() if line.startswith("imul1-physical"))
    assert line.split() == ["imul1-physical-t09-r1", "CPU", "0,2,4,6,8,10,12,14,16"]


def test_experiment_cells_are_measured(tmp_path: Path) -> None:
    processors.needs_two()
    stand_ins = StandIns(
        tmp_path / "stand-ins", header_only_etl(), (500_010_000_000, 501_000_000_000)
    )
    (stand_ins.home / "buffer").write_bytes(windows_buffers.one_core_of_two())
    done = without_posix(
        "collect", "--experiment", "pairs", "--pair", "imul1+imul1", "--seconds", "0.05",
        "--repeat", "1", "-o", "session", cwd=tmp_path, environment=stand_ins.environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = sorted(path.name for path in (tmp_path / "session").glob("*-r1"))
    assert steps == ["imul1+imul1-siblings-r1", "imul1-alone-cpu0-r1"]
    for name in steps:
        step = json.loads((tmp_path / "session" / name / "step.json").read_text())
        assert step["cell"]["experiment"] == "pairs"
        assert step["throughput"]["unit"] == "iterations"


def test_recording_is_analyzed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = fixture("plain", tmp_path_factory)
    done = without_posix("analyze", str(trace), "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "analysis.duckdb", "report.html",
    ]  # fmt: skip
