"""Shared by several tests: real recordings, made once per run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import processors
import pytest
import shared_files
from hypothesis import settings

from schedlens.errors import WorkloadError
from schedlens.record import workload_program

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# Each run draws the same inputs, so that one found by chance fails no other change: `make
# fuzz-drawn` draws others.
settings.register_profile("same", derandomize=True)
settings.register_profile("others", derandomize=False)
settings.load_profile("same")

BIN = Path(sys.executable).parent

# Tests that use these record.
RECORDING_FIXTURES = {"session", "analysis", "workload"}
ROOT = Path(__file__).resolve().parents[1]


def pytest_sessionstart() -> None:
    processors.bring_back()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that record in files that are not marked, and puts long files first."""
    slow = set()
    for item in items:
        module = getattr(item, "module", None)
        names = RECORDING_FIXTURES & set(getattr(item, "fixturenames", ()))
        # Some files have a fixture or a mark of such a name that records nothing.
        recording = any(not hasattr(module, name) for name in names)
        if recording and not _records(item.nodeid):
            item.add_marker("alone")
        if item.get_closest_marker("slow"):
            slow.add(item.path)
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Otherwise one worker would end minutes before the other.
        items.sort(key=lambda item: (not _records(item.nodeid), item.path not in slow))


@cache
def _marked(file: str) -> bool:
    return "pytest.mark.records" in (ROOT / file).read_text(encoding="utf-8")


def _records(nodeid: str) -> bool:
    """Whether the file of a test is marked `records`: xdist passes on no more than its name."""
    return _marked(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Tests are distributed by file, whatever `--dist` says."""
    # Python for Windows under Wine has no xdist.
    import by_file

    return by_file.Scheduling(config, log, _records)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts the tests that skipped for lack of recordings, in one line."""
    reports = terminalreporter.stats.get("skipped", [])
    # If pytest itself skips, longrepr is a file, a line, and the reason.
    line = shared_files.summary(str(report.longrepr) for report in reports)
    if line:
        terminalreporter.write_line(line, yellow=True)


def _no_other_recording() -> None:
    """Fails a test that could record while another one does."""
    if "PYTEST_XDIST_WORKER" in os.environ and not _records(os.environ["PYTEST_CURRENT_TEST"]):
        pytest.fail("this test records while others run: mark its file `records`, or omit -n")


def command(
    *arguments: str, check: bool = True, **more: object
) -> subprocess.CompletedProcess[str]:
    """Runs one of the project's commands as a user would."""
    # Neither a plan nor a request for another system records here.
    on_paper = {"--dry-run", "--os"} & set(arguments)
    if arguments[0] == "collect" and "-o" in arguments and not on_paper:
        _no_other_recording()
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(BIN / arguments[0]), *arguments[1:]],
        check=check,
        capture_output=True,
        text=True,
        timeout=600,
        **more,  # type: ignore[call-overload]
    )
    return done


def needs_tracing() -> None:
    """Skips if this machine does not let perf record scheduler events."""
    _no_other_recording()
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed: nothing can be recorded here")
    if os.geteuid() != 0:
        pytest.skip("not root: scheduler events of the whole machine cannot be recorded")


@pytest.fixture(scope="module")
def workload() -> str:
    """The path of the workload program."""
    try:
        return workload_program.program()
    except WorkloadError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real sweep on this machine: sha256 at 1 to 3 threads, all placements, analyzed."""
    needs_tracing()
    folder = tmp_path_factory.mktemp("sweep") / "session"
    command(
        "collect", "--workload", "sha256", "--threads", "1..3", "--seconds", "0.8",
        "-o", str(folder),
    )  # fmt: skip
    command("analyze", str(folder))
    return folder


@pytest.fixture
def analysis(session: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of the real sweep."""
    con = duckdb.connect(str(session / "analysis.duckdb"), read_only=True)
    yield con
    con.close()


@pytest.fixture
def con(drawn: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """The drawn recording of a module, restored after each test."""
    drawn.execute("BEGIN")
    yield drawn
    drawn.execute("ROLLBACK")
