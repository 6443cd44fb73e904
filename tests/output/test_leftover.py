"""Files of killed runs are removed by the next run; files of live runs are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schedlens.load import store
from schedlens.output import leftover

HOLD_DATABASE = """
import sys, time
from pathlib import Path
from schedlens.load import store
with store.create(Path(sys.argv[1])) as con:
    con.execute("CREATE TABLE big AS SELECT range AS n FROM range(200000)")
    print("ready", flush=True)
    time.sleep(60)
"""
HOLD_FOLDER = """
import time
from schedlens.output.leftover import TemporaryFolder
with TemporaryFolder() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def started(program: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A running program and the line it prints when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_database_of_killed_run_is_removed_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "analysis.duckdb"
    process, _ = started(HOLD_DATABASE, str(path))
    kill(process)
    left = f".analysis.duckdb.{process.pid}"
    (tmp_path / f"{left}.tmp").mkdir()
    (tmp_path / f"{left}.tmp" / "duckdb_temp_storage-0.tmp").write_bytes(b"spilled")
    assert left in names(tmp_path)
    with store.create(path):
        pass
    assert names(tmp_path) == ["analysis.duckdb"]


def test_database_of_live_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "analysis.duckdb"
    process, _ = started(HOLD_DATABASE, str(path))
    try:
        with store.create(path):
            pass
        assert f".analysis.duckdb.{process.pid}" in names(tmp_path)
    finally:
        kill(process)


def test_database_written_by_another_container_is_kept(tmp_path: Path) -> None:
    # No process here has its process id, but DuckDB's lock on the file is held.
    path = tmp_path / "analysis.duckdb"
    process, _ = started(HOLD_DATABASE, str(path))
    try:
        foreign = tmp_path / ".analysis.duckdb.4194305"
        (tmp_path / f".analysis.duckdb.{process.pid}").rename(foreign)
        leftover.remove_unfinished(path)
        assert foreign.exists()
    finally:
        kill(process)
    leftover.remove_unfinished(path)
    assert not foreign.exists()


def test_files_that_only_resemble_leftovers_are_kept(tmp_path: Path) -> None:
    # Process 1 always runs.
    files = [".analysis.duckdb.1", ".analysis.duckdb.mine", ".other.1", "analysis.duckdb.99999999"]
    for name in files:
        (tmp_path / name).touch()
    leftover.remove_unfinished(tmp_path / "analysis.duckdb")
    assert names(tmp_path) == files


def test_temporary_folder_is_removed_only_if_its_run_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    dead, dead_folder = started(HOLD_FOLDER)
    kill(dead)
    live, live_folder = started(HOLD_FOLDER)
    try:
        long_ago = time.time() - 60
        for folder in (dead_folder, live_folder):
            os.utime(folder, (long_ago, long_ago))
        other = "schedlens-run-file"
        (tmp_path / other).touch()
        leftover.remove_folders()
        assert names(tmp_path) == sorted([Path(live_folder).name, "schedlens-run-file"])
    finally:
        kill(live)
