"""The package, built from source and installed into an empty environment, does the main job."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import duckdb
import pytest
import wine
import wine_python
from conftest import needs_tracing
from recording_writer import write

pytestmark = pytest.mark.records

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


@pytest.fixture(scope="module")
def windows_wheel(
    wheels: ModuleType, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The wheel for Windows: that of this system with cross-built binaries."""
    extension, program = wheels.windows_binaries(BUILD)
    assert wheels.foreign(wheels.imports(extension)) == []
    assert wheels.foreign(wheels.imports(program)) == []
    # The stable ABI rather than that of one Python.
    assert "python3.dll" in wheels.imports(extension)
    assert "PyInit__decoders" in run(wheels.OBJDUMP, "-p", extension, cwd=ROOT)
    folder = tmp_path_factory.mktemp("windows-wheel")
    made: Path = wheels.repack(wheel, extension.read_bytes(), program.read_bytes(), folder)
    return made


NEEDS_WINE = pytest.mark.skipif(wine.missing() is not None, reason=wine.missing() or "")


@NEEDS_WINE
@pytest.mark.release
def test_windows_wheel_contains_program_that_runs_under_wine(
    windows_wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(windows_wheel) as archive:
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


@pytest.fixture(scope="module")
def python(
    windows_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[wine_python.Python]:
    """Python for Windows with this wheel."""
    made = wine_python.installed(windows_wheel, tmp_path_factory.mktemp("python"))
    yield made
    made.windows.close()


# Calls of the Python side that no command makes without a recorder.
PROBE = """
import ctypes, subprocess, sys
from pathlib import Path
from schedlens.output import system_text
from schedlens.record import boost_guard
from schedlens.record.windows import disk_space, elevation
from schedlens.record.windows.observer import Observer

cmd = lambda name: ["cmd", "/c", f"echo ran> {name}.txt"]
if len(sys.argv) > 1:
    # Ends without closing its guard, as if it was killed.
    guard = boost_guard.Guard((), commands=[cmd("ended")])
    sys.stdout.flush()
    ctypes.windll.kernel32.TerminateProcess(ctypes.c_void_p(-1), 9)
page = ctypes.windll.kernel32.GetOEMCP()
umlaut = "\\u00f6"
print(umlaut.encode(system_text.CODE_PAGE) == umlaut.encode(f"cp{page}"))
print(disk_space.free(Path(".")) > 0)
print(elevation.elevated() in (True, False))
boost_guard.Guard((), commands=[cmd("closed")]).close()
print(subprocess.run([sys.executable, __file__, "ends"]).returncode == 9)
observer = Observer()
begin, end = observer.begin(), observer.end()
observer.close()
print(begin["mono_ns"] < end["mono_ns"])
print(any(thread["name"] == "python.exe" for thread in end["threads"]))
"""


@NEEDS_WINE
@pytest.mark.release
def test_commands_run_with_python_for_windows(python: wine_python.Python, tmp_path: Path) -> None:
    plan = python.command("collect", "--seconds", "2", "--dry-run", "-o", "plan", cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert "-instancename" in plan.stdout
    assert {"schedlens.wprp", "record.cmd", "record.ps1"} <= {
        path.name for path in (tmp_path / "plan").iterdir()
    }
    # There is no WPR under Wine: that is one line.
    doctor = python.command("schedlens", "doctor", cwd=tmp_path)
    assert "Traceback" not in doctor.stdout + doctor.stderr
    assert "wpr" in doctor.stdout.lower()
    refused = python.command("collect", "--seconds", "1", "-o", "recorded", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    # Under the lock of what changes the machine.
    restored = python.command("schedlens", "doctor", "--restore", cwd=tmp_path)
    assert "Traceback" not in restored.stdout + restored.stderr
    (tmp_path / "probe.py").write_text(PROBE, encoding="utf-8")
    said = python.run("probe.py", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == ["True", "True", "True", "True", "True", "True"], said.stderr
    # The guard of the program that was killed runs its command soon after.
    deadline = time.monotonic() + 30
    while not (tmp_path / "ended.txt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not (tmp_path / "closed.txt").exists()


# Tests that run no program of Linux.
PORTABLE = [
    *(f"tests/output/test_{name}.py"
      for name in ("fitted", "kept", "step_line", "system_text", "typed_json")),
    "tests/machine/test_machine_state.py",
]  # fmt: skip


@NEEDS_WINE
@pytest.mark.release
def test_portable_tests_pass_with_python_for_windows(python: wine_python.Python) -> None:
    done = python.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *PORTABLE, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 50


@NEEDS_WINE
@pytest.mark.release
def test_python_for_windows_analyzes_an_etl_as_linux_does(
    python: wine_python.Python, tmp_path: Path
) -> None:
    write(
        {"machine": {"cpus": [{"cpu": cpu, "core": cpu} for cpu in range(2)]},
         "etl": {"clock": "qpc", "clock_hz": 10_000_000, "merged": True}},
        [
            {"ts": 0, "cpu": 0, "event": "process", "phase": "rundown_start", "pid": 70,
             "name": "game.exe"},
            {"ts": 0, "cpu": 0, "event": "thread", "phase": "rundown_start", "pid": 70, "tid": 71},
            *(
                {"ts": 100_000 * (number + 1), "cpu": 0, "event": "switch",
                 "old": 71 * (number % 2), "new": 71 * (1 - number % 2)}
                for number in range(100)
            ),
        ],
        etl=tmp_path / "small.etl",
    )  # fmt: skip
    query = "SELECT count(*), sum(dur)::BIGINT FROM sched_slice"
    answers = []
    for name in ("windows", "linux"):
        words = ["analyze", "small.etl", "-o", name]
        if name == "windows":
            done = python.command(*words, cwd=tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
        else:
            run(Path(sys.executable).with_name("analyze"), *words[1:], cwd=tmp_path)
        with duckdb.connect(str(tmp_path / name / "analysis.duckdb"), read_only=True) as con:
            answers.append(con.execute(query).fetchall())
        assert (tmp_path / name / "report.html").stat().st_size > 100_000
    assert answers[0] == answers[1]
    assert answers[0][0][0] >= 100


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
