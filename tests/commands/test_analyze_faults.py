"""`analyze` that is killed, run twice, or out of space leaves earlier results as they were.

FAULTS=50 sets the number of moments; the default keeps the test short.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from conftest import BIN, command
from fixture_files import copied_session, fixture

from schedlens.report import page

pytestmark = pytest.mark.slow

MOMENTS = int(os.environ.get("FAULTS", "4"))
NAMES = ["analysis.duckdb", "report.html"]


def named(sign: signal.Signals) -> str:
    """SIGKILL rather than 9 in the name of a test."""
    return sign.name


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, float]:
    """A recording, the folder of its analysis, and how long that took, in s."""
    trace, folder = fixture("own_tree", tmp_path_factory), tmp_path_factory.mktemp("original")
    begin = time.monotonic()
    command("analyze", str(trace), "-o", str(folder))
    return trace, folder, time.monotonic() - begin


@pytest.fixture
def analyzed(original: tuple[Path, Path, float], tmp_path: Path) -> tuple[Path, Path, float]:
    """The same with a copy of the analysis, which a test may change."""
    trace, folder, seconds = original
    for name in NAMES:
        shutil.copyfile(folder / name, tmp_path / name)
    return trace, tmp_path, seconds


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
    # A shell starts its background jobs, such as this run of the tests, with SIGINT ignored.
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
    finally:
        signal.signal(signal.SIGINT, outside)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=named)
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
        begin = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(drawn.uniform(0.2, 1.0) * seconds)
            # It ended before: the machine is less busy than when it was measured.
            seconds = time.monotonic() - begin
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
            assert process.returncode in (130, -signal.SIGINT), error
            if process.returncode == 130:
                assert error.splitlines()[-1] == "analyze: interrupted"
        assert rows(folder) == known
    assert stopped
    command("analyze", str(trace), "-o", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert rows(folder) == known


def test_report_of_a_run_at_the_same_time_is_not_mixed_into_this_one(tmp_path: Path) -> None:
    other = "from pathlib import Path; import sys, time; from schedlens.report import page\n"
    other += "with page.saved(Path(sys.argv[1])) as save:\n"
    other += "    save('other' * 1000); print('saved', flush=True); time.sleep(60)\n"
    path = tmp_path / "report.html"
    process = subprocess.Popen(
        [sys.executable, "-c", other, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "saved\n"
        with page.saved(path) as save:
            save("mine")
        assert path.read_text() == "mine"
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        process.kill()
        process.communicate()
    # The next run removes what the killed one left.
    with page.saved(path) as save:
        save("next")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(path.name, "next")]


def twice(*words: str) -> list[tuple[int, str]]:
    """Exit code and messages of two runs of the same command at the same time."""
    ended: list[tuple[int, str]] = []

    def run() -> None:
        done = command(*words, check=False)
        ended.append((done.returncode, done.stderr))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return ended


def test_two_runs_at_once_leave_a_whole_result(analyzed: tuple[Path, Path, float]) -> None:
    trace, folder, _ = analyzed
    known = rows(folder)
    assert twice("analyze", str(trace), "-o", str(folder)) == [(0, ""), (0, "")]
    assert rows(folder) == known
    assert sorted(path.name for path in folder.iterdir()) == NAMES


def test_two_runs_on_one_session_leave_a_whole_result(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    session = copied_session(tmp_path_factory)
    # Four of its thirteen steps: the others only make it longer.
    for step in (*session.glob("*-t1?-r1"), *session.glob("*-t20-r1")):
        shutil.rmtree(step)
    recorded = {path: digest(path) for path in session.rglob("*") if path.is_file()}
    inside = sorted(path.name for path in session.iterdir())
    first = command("analyze", str(session), check=False)
    known = rows(session)
    assert twice("analyze", str(session)) == [(first.returncode, first.stderr)] * 2
    assert rows(session) == known
    assert sorted(path.name for path in session.iterdir()) == sorted([*inside, *NAMES])
    assert {path: digest(path) for path in recorded} == recorded


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be full or read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "schedlens-test", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_disk_full_at_any_size_leaves_the_earlier_result(
    analyzed: tuple[Path, Path, float], disk: Path
) -> None:
    trace, folder, _ = analyzed
    sizes = [(folder / name).stat().st_size for name in NAMES]
    for name in NAMES:
        shutil.copyfile(folder / name, disk / name)
    before, known = {name: digest(disk / name) for name in NAMES}, rows(disk)
    drawn = random.Random(1)
    refused = 0
    for _ in range(MOMENTS):
        usage = os.statvfs(disk)
        free = int(drawn.uniform(0, 1.1) * sum(sizes))
        filler = disk / "filler"
        filler.write_bytes(bytes(max(0, usage.f_bavail * usage.f_frsize - free)))
        done = command("analyze", str(trace), "-o", str(disk), check=False)
        filler.unlink()
        if done.returncode:
            refused += 1
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert "no space left on " in done.stderr
            assert {name: digest(disk / name) for name in NAMES} == before
        before = {name: digest(disk / name) for name in NAMES}
        assert rows(disk) == known
        assert sorted(path.name for path in disk.iterdir()) == NAMES
    assert refused


def test_read_only_output_is_refused_and_the_earlier_result_can_be_read(
    analyzed: tuple[Path, Path, float], disk: Path
) -> None:
    trace, folder, _ = analyzed
    for name in NAMES:
        shutil.copyfile(folder / name, disk / name)
    before, known = {name: digest(disk / name) for name in NAMES}, rows(disk)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for output in (disk, disk / "new"):
        done = command("analyze", str(trace), "-o", str(output), check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"analyze: cannot write {output}")
        assert "Read-only file system" in done.stderr
        assert done.stderr.count("\n") == 1
    assert {name: digest(disk / name) for name in NAMES} == before
    assert rows(disk) == known
    command("schedlens", "sql", str(disk), "FROM finding")


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


def test_error_about_a_name_with_a_newline_is_one_line(tmp_path: Path) -> None:
    trace = tmp_path / "new\nline.data"
    missing = command("analyze", str(trace), check=False)
    trace.write_bytes(b"x" * 100)
    foreign = command("analyze", str(trace), check=False)
    for done in (missing, foreign):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f"{tmp_path}/new\\u000aline.data" in done.stderr


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            "UPDATE trace SET schema_version = 999, tool_version = '0.0.9'",
            "has schema version 999 (schedlens 0.0.9), but this version reads ",
        ),
        (
            "UPDATE trace SET schema_version = 0, tool_version = '0.0.1'",
            "has schema version 0 (schedlens 0.0.1), but this version reads ",
        ),
        ("DROP TABLE trace", "is no analysis of schedlens: "),
    ],
)
def test_database_of_another_version_is_refused_in_one_line(
    change: str, line: str, analyzed: tuple[Path, Path, float]
) -> None:
    trace, folder, _ = analyzed
    known = rows(folder)
    with duckdb.connect(str(folder / "analysis.duckdb")) as con:
        con.execute(change)
    done = command("schedlens", "sql", str(folder), "FROM finding", check=False)
    assert done.returncode == 2
    assert line in done.stderr
    assert "run `analyze` on its recordings again" in done.stderr
    assert done.stderr.count("\n") == 1
    # What the message advises replaces the file.
    command("analyze", str(trace), "-o", str(folder))
    assert rows(folder) == known
