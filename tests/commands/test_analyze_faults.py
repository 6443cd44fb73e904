"""`analyze` that is killed, interrupted, or run twice leaves earlier results as they were.

FAULTS=50 sets the number of moments; the default keeps the test short.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import duckdb
import pytest
from conftest import BIN, command
from fixture_files import fixture

pytestmark = pytest.mark.slow

MOMENTS = int(os.environ.get("FAULTS", "6"))
NAMES = ["analysis.duckdb", "report.html"]


@pytest.fixture
def analyzed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, float]:
    """A recording, the folder of its analysis, and how long that took, in s."""
    trace = fixture("own_tree", tmp_path_factory)
    begin = time.monotonic()
    command("analyze", str(trace), "-o", str(tmp_path))
    return trace, tmp_path, time.monotonic() - begin


def digest(path: Path) -> str:
    # pytest's comparison of long, unequal bytes takes hours.
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows(folder: Path) -> list[tuple[object, ...]]:
    """Something of every stage: slices, states, intervals and findings."""
    with duckdb.connect(str(folder / "analysis.duckdb"), read_only=True) as con:
        return con.execute(
            "SELECT (SELECT sum(dur) FROM sched_slice), (SELECT count(*) FROM thread_state), "
            "(SELECT count(*) FROM ready_slice), (SELECT count(*) FROM finding)"
        ).fetchall()


def started(trace: Path, folder: Path) -> subprocess.Popen[str]:
    words = [str(BIN / "analyze"), str(trace), "-o", str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_stopped_run_leaves_the_earlier_result(
    sign: signal.Signals, analyzed: tuple[Path, Path, float]
) -> None:
    trace, folder, seconds = analyzed
    database = folder / "analysis.duckdb"
    before, known = (digest(database), database.stat().st_ino), rows(folder)
    drawn = random.Random(int(sign))
    stopped = 0
    for _ in range(MOMENTS):
        process = started(trace, folder)
        time.sleep(drawn.uniform(0.2, 1.0) * seconds)
        process.send_signal(sign)
        _, error = process.communicate(timeout=120)
        now = (digest(database), database.stat().st_ino)
        stopped += process.returncode != 0
        # It may have finished, or been stopped after it named its files: then the new database, a
        # file of its own, says the same (below). Otherwise the earlier one is as it was.
        assert now == before or now[1] != before[1]
        before = now
        if sign == signal.SIGINT and process.returncode:
            # Before Python runs the command, it ends by the signal itself.
            assert process.returncode in (130, -signal.SIGINT, 1), error
            if process.returncode == 130:
                assert error.splitlines()[-1] == "analyze: interrupted"
        assert rows(folder) == known
    assert stopped
    command("analyze", str(trace), "-o", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert rows(folder) == known


def test_two_runs_at_once_leave_a_whole_result(analyzed: tuple[Path, Path, float]) -> None:
    trace, folder, _ = analyzed
    known = rows(folder)
    ended: list[tuple[int, str]] = []

    def run() -> None:
        done = command("analyze", str(trace), "-o", str(folder), check=False)
        ended.append((done.returncode, done.stderr))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [(0, ""), (0, "")]
    assert rows(folder) == known
    assert sorted(path.name for path in folder.iterdir()) == NAMES


def test_reader_of_the_earlier_result_is_not_disturbed(analyzed: tuple[Path, Path, float]) -> None:
    trace, folder, _ = analyzed
    known = rows(folder)
    with duckdb.connect(str(folder / "analysis.duckdb"), read_only=True) as con:
        command("analyze", str(trace), "-o", str(folder))
        count = con.execute("SELECT count(*) FROM thread_state").fetchall()[0][0]
    assert count == known[0][1]


@pytest.mark.parametrize(
    "name", ["with space", "gr\u00fc\u00dfe \u65e5\u672c", "new\nline", "-dash", "quote'\""]
)
def test_unusual_paths_are_read_and_written(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    trace = folder / f"{name}.perf.data"
    trace.write_bytes(fixture("own_tree", tmp_path_factory).read_bytes())
    command("analyze", str(trace))
    assert sorted(path.name for path in folder.iterdir()) == sorted([*NAMES, trace.name])
    done = command("schedlens", "sql", str(folder), "SELECT label FROM trace")
    assert name.split("\n", maxsplit=1)[0] in done.stdout


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            "UPDATE trace SET schema_version = 999, tool_version = '0.0.9'",
            "has schema version 999 (schedlens 0.0.9), but this version reads ",
        ),
        ("DROP TABLE trace", "is no analysis of schedlens: "),
    ],
)
def test_database_of_another_version_is_refused_in_one_line(
    change: str, line: str, analyzed: tuple[Path, Path, float]
) -> None:
    _, folder, _ = analyzed
    with duckdb.connect(str(folder / "analysis.duckdb")) as con:
        con.execute(change)
    done = command("schedlens", "sql", str(folder), "FROM finding", check=False)
    assert done.returncode == 2
    assert line in done.stderr
    assert "run `analyze` on its recordings again" in done.stderr
    assert done.stderr.count("\n") == 1
