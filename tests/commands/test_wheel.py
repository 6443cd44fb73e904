"""Built from the source, installed into an empty environment, the package does the main job."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest
from conftest import needs_tracing

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]

# The crates of the registries are built once for all of these.
BUILD = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")}


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env=BUILD, capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", folder, cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the unpacked source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, cwd=sdist)
    (built,) = folder.glob("*.whl")
    return built


def test_the_source_distribution_holds_no_tests_and_no_fixtures(sdist: Path) -> None:
    names = {path.name for path in sdist.iterdir()}
    assert {"decoders", "workloads", "queries", "analyzers", "reports", "collectors"} <= names
    assert {"LICENSE", "CHANGELOG.md", "README.md", "Cargo.lock"} <= names
    assert not {"fixtures", "target", ".venv"} & names


def test_the_wheel_does_the_main_job(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    scripts = tmp_path / "env" / "bin"
    run(scripts / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    installed = run(scripts / "pip", "list", "--format=freeze", cwd=tmp_path)
    assert "pytest" not in installed
    assert "numpy" not in installed
    listed = run(scripts / "schedlens", "workloads", "list", cwd=tmp_path)
    assert "sha256" in listed
    assert "sibling_overlap" in run(scripts / "schedlens", "queries", cwd=tmp_path)
    # The profile for Windows is part of the package.
    paper = run(scripts / "collect", "--os", "windows", "--dry-run", cwd=tmp_path)
    assert "wpr -start schedlens.wprp!SchedLens" in paper
    needs_tracing()
    run(
        scripts / "collect", "--workload", "sha256", "--threads", "1..2", "--seconds", "0.2",
        "-o", "session", cwd=tmp_path,
    )  # fmt: skip
    answer = run(scripts / "analyze", "session", cwd=tmp_path)
    assert "report" in answer
    assert (tmp_path / "session" / "analysis.duckdb").exists()
    assert (tmp_path / "session" / "report.html").stat().st_size < 8_000_000
    curve = run(scripts / "schedlens", "sql", "session", "scaling_curve", "--json", cwd=tmp_path)
    assert len(curve.splitlines()) == 6
