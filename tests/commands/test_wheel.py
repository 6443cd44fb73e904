"""The package, built from source and installed into an empty environment, does the main job."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import wine
from conftest import needs_tracing

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]

# The crates of the registries are built once for all tests here.
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


def test_source_distribution_has_no_tests_or_fixtures(sdist: Path) -> None:
    names = {path.name for path in sdist.iterdir()}
    assert {"decoders", "workloads", "queries", "analyzers", "reports", "collectors"} <= names
    assert {"LICENSE", "CHANGELOG.md", "README.md", "Cargo.lock"} <= names
    assert not {"fixtures", "target", ".venv"} & names


@pytest.fixture(scope="module")
def wheels() -> ModuleType:
    """tools/wheels.py as a module."""
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "tools" / "wheels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wheel_uses_stable_abi_and_contains_licenses_and_sbom(wheel: Path) -> None:
    assert wheel.name == "schedlens-0.1.0-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "schedlens/_decoders.abi3.so" in names
    licenses = "schedlens-0.1.0.dist-info/licenses"
    assert f"{licenses}/LICENSE" in names
    assert f"{licenses}/docs/third-party-licenses.md" in names
    assert "schedlens-0.1.0.dist-info/sboms/schedlens.cdx.json" in names


@pytest.mark.skipif(sys.platform != "linux", reason="manylinux is a name for Linux wheels")
def test_wheel_needs_only_glibc(wheel: Path) -> None:
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel, cwd=ROOT).split())
    assert re.search(r'platform tag: "manylinux_2_\d+_x86_64"', said), said
    libraries = set(re.findall(r"(lib\S+\.so\.\d+) with versions", said))
    assert libraries <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1"}, said


@pytest.mark.skipif(wine.missing() is not None, reason=wine.missing() or "")
@pytest.mark.release
def test_windows_wheel_contains_program_that_runs_under_wine(
    wheels: ModuleType, wheel: Path, tmp_path: Path
) -> None:
    extension, program = wheels.windows_binaries(BUILD)
    assert wheels.foreign(wheels.imports(extension)) == []
    assert wheels.foreign(wheels.imports(program)) == []
    # The stable ABI rather than that of one Python.
    assert "python3.dll" in wheels.imports(extension)
    assert "PyInit__decoders" in run(wheels.OBJDUMP, "-p", extension, cwd=ROOT)
    made = wheels.repack(wheel, extension.read_bytes(), program.read_bytes(), tmp_path)
    with zipfile.ZipFile(made) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("workloads.exe"))
        bundled = Path(archive.extract(name, tmp_path))
    windows = wine.Wine(tmp_path, bundled)
    try:
        wine.libraries(tmp_path)
        done = windows.run("verify", "imul1", "sha256", "--json")
        verdicts = json.loads(done.stdout)["verdicts"]
    finally:
        windows.close()
    assert done.returncode == 0, done.stderr
    assert {row["kernel"] for row in verdicts} == {"imul1", "sha256"}
    assert {row["status"] for row in verdicts} <= {"ok", "unsupported"}


def test_installed_wheel_records_and_analyzes(wheel: Path, tmp_path: Path) -> None:
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
