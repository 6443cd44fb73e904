"""`collect --affinity-calls`: who set an affinity, recorded here while `taskset` sets it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import duckdb
import pinned_by_taskset
import pytest
from conftest import command, needs_tracing

from schedlens.record.changes import tracefs_mount

pytestmark = pytest.mark.records


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The database, and what the program printed."""
    needs_tracing()
    mount = tracefs_mount()
    if mount is None or not (mount / "events/syscalls/sys_enter_sched_setaffinity").is_dir():
        pytest.skip("this kernel has no tracepoints of system calls, or hides them")
    if shutil.which("taskset") is None:
        pytest.skip("taskset is not installed")
    folder = tmp_path_factory.mktemp("affinity")
    done = command(
        "collect", "--affinity-calls", "-o", str(folder / "session"), "--",
        sys.executable, pinned_by_taskset.__file__,
    )  # fmt: skip
    printed = next(json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{")
    found = command("analyze", str(folder / "session"), "--no-report", check=False)
    assert found.returncode in (0, 1), found.stderr
    return folder / "session" / "analysis.duckdb", printed


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(sql).fetchall()


def test_taskset_is_named_as_the_setter(recorded: tuple[Path, dict[str, int]]) -> None:
    path, printed = recorded
    # The second call failed, so there is one row.
    asked = "SELECT setter_process, setter_thread, setter_tid FROM affinity_setter WHERE tid = "
    assert rows(path, f"{asked}{printed['pinned']}") == [("taskset", "taskset", printed["taskset"])]


def test_program_that_pins_itself_has_its_name_of_then(
    recorded: tuple[Path, dict[str, int]],
) -> None:
    path, printed = recorded
    asked = (
        "SELECT thread, setter_thread, setter_tid, setter_utid = utid FROM affinity_setter "
        f"WHERE tid = {printed['own']}"
    )
    assert rows(path, asked) == [("sleep", "taskset", printed["own"], True)]


def test_change_lies_in_the_life_of_taskset(recorded: tuple[Path, dict[str, int]]) -> None:
    path, printed = recorded
    asked = (
        "SELECT a.ts BETWEEN t.start_ns AND t.end_ns FROM affinity_setter AS a "
        "JOIN thread AS t ON t.utid = a.setter_utid WHERE a.tid = "
    )
    assert rows(path, f"{asked}{printed['pinned']}") == [(True,)]
