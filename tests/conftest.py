"""Shared by several tests: real recordings, made once per run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import processors
import pytest
import shared_files

from schedlens.errors import WorkloadError
from schedlens.record import workload_program

BIN = Path(sys.executable).parent

# Tests that use these record, so `make test` runs them like those that their file marks `alone`:
# one after the other, after the rest.
RECORDING_FIXTURES = {"session", "analysis", "workload"}


def pytest_sessionstart() -> None:
    processors.bring_back()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that must have the machine to themselves."""
    for item in items:
        if RECORDING_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("alone")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts the tests that skipped for lack of recordings, in one line."""
    reports = terminalreporter.stats.get("skipped", [])
    # If pytest itself skips, longrepr is a file, a line, and the reason.
    line = shared_files.summary(str(report.longrepr) for report in reports)
    if line:
        terminalreporter.write_line(line, yellow=True)


def _nothing_beside() -> None:
    """Fails a test that would record while others run."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.fail("this test records while others run: mark it `alone`, or omit -n")


def command(
    *arguments: str, check: bool = True, **more: object
) -> subprocess.CompletedProcess[str]:
    """Runs one of the project's commands as a user would."""
    # Neither a plan nor a request for another system records here.
    on_paper = {"--dry-run", "--os"} & set(arguments)
    if arguments[0] == "collect" and "-o" in arguments and not on_paper:
        _nothing_beside()
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
    _nothing_beside()
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
