"""Recordings with unusual content, names, and places, made by perf on this machine."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, command, needs_tracing

pytestmark = pytest.mark.records

# A name that clears the screen and turns the text red on a terminal.
HOSTILE = "\x1b[2J\x1b[31mowned"
RENAME = "import ctypes, sys; ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)"


def perf_record(output: Path, *arguments: str) -> None:
    subprocess.run(["perf", "record", "-q", "-o", str(output), *arguments], check=True)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An analyzed recording of a process that gave itself a hostile name."""
    needs_tracing()
    folder = tmp_path_factory.mktemp("hostile")
    switches = ["--switch-events", "-e", "sched:sched_switch,sched:sched_waking"]
    perf_record(folder / "a.data", *switches, "--", sys.executable, "-c", RENAME, HOSTILE)
    command("analyze", str(folder / "a.data"), "--no-report", "-o", str(folder), check=False)
    return folder


def on_terminal(*arguments: str) -> bytes:
    """What a command prints on a terminal."""
    here, there = pty.openpty()
    with subprocess.Popen([str(BIN / arguments[0]), *arguments[1:]], stdout=there, stderr=there):
        os.close(there)
        written = b""
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:
                break
            if not part:
                break
            written += part
    os.close(here)
    return written


@pytest.mark.parametrize("form", [(), ("--csv",), ("--json",)])
def test_escape_sequence_in_thread_name_does_not_reach_the_terminal(
    form: tuple[str, ...], hostile: Path
) -> None:
    query = f"SELECT name FROM thread WHERE name = '{HOSTILE}'"
    written = on_terminal("schedlens", "sql", *form, str(hostile), query)
    assert b"\x1b[2J" not in written
    assert b"\x1b[31mowned" not in written
    assert b"\\u001b[2J\\u001b[31mowned" in written


def test_csv_in_a_pipe_keeps_raw_bytes_of_names(hostile: Path) -> None:
    query = f"SELECT name FROM thread WHERE name = '{HOSTILE}'"
    done = command("schedlens", "sql", "--csv", str(hostile), query)
    assert done.stdout == f'"name"\n"{HOSTILE}"\n'


def test_unknown_process_lists_hostile_names_without_escape_sequences(hostile: Path) -> None:
    recording = str(hostile / "a.data")
    done = command(
        "analyze", recording, "--process", f"{HOSTILE}x", "-o", str(hostile / "o"), check=False
    )
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\\u001b[2J\\u001b[31mowned" in done.stderr


def test_recording_of_sleeping_process_is_reported_and_others_load(tmp_path: Path) -> None:
    needs_tracing()
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        follow = ["-e", "sched:sched_switch", "-p", str(sleeper.pid), "--", "sleep", "0.2"]
        perf_record(tmp_path / "asleep.data", *follow)
    finally:
        sleeper.kill()
        sleeper.wait()
    perf_record(tmp_path / "awake.data", "-a", "-e", "sched:sched_switch", "--", "sleep", "0.1")
    line = "asleep.data: contains no records: the recorded process did not run. Record the whole"
    alone = command("analyze", str(tmp_path / "asleep.data"), check=False)
    assert alone.returncode == 2
    assert alone.stderr.startswith(f"analyze: {tmp_path}/{line}")
    assert len(alone.stderr.splitlines()) == 1
    both = command("analyze", str(tmp_path), "--no-report", "--json", check=False)
    facts = json.loads(both.stdout)
    assert both.returncode == 1
    assert [trace["label"] for trace in facts["traces"]] == ["awake.data"]
    (failure,) = facts["not_loaded"]
    assert failure["label"] == "asleep.data"
    assert line in failure["why"]


def test_recordings_of_one_name_get_distinct_labels(hostile: Path, tmp_path: Path) -> None:
    for name in ("x/before", "x/after", "y/after"):
        (tmp_path / name).mkdir(parents=True)
        shutil.copy(hostile / "a.data", tmp_path / name / "perf.data")
    shutil.copy(hostile / "a.data", tmp_path / "other.data")
    files = ["x/before/perf.data", "x/after/perf.data", "y/after/perf.data", "other.data"]
    asked = [str(tmp_path / file) for file in [*files, files[0]]]
    done = command(
        "analyze", *asked, "-o", str(tmp_path / "o"), "--no-report", "--json", check=False
    )
    assert [trace["label"] for trace in json.loads(done.stdout)["traces"]] == [
        "before/perf.data",
        "x/after/perf.data",
        "y/after/perf.data",
        "other.data",
        "before/perf.data (2)",
    ]


def test_full_disk_error_names_the_database(hostile: Path, tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "schedlens-test", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        done = command("analyze", str(hostile / "a.data"), "-o", str(tmp_path), check=False)
        assert done.returncode == 2
        assert done.stderr == (
            f"analyze: cannot write {tmp_path}/analysis.duckdb: no space left on its disk; free "
            "some, or choose another place with -o. An existing file is unchanged\n"
        )
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_full_disk_error_names_the_report_folder(hostile: Path, tmp_path: Path) -> None:
    # The report's temporary file, named by the process id, points to a device that is always full.
    script = 'ln -s /dev/full "$2/.report.html.$$" && exec "$0" "$1" -o "$2"'
    words = [str(BIN / "analyze"), str(hostile / "a.data"), str(tmp_path)]
    done = subprocess.run(
        ["sh", "-c", script, *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"analyze: no space left on the disk of {tmp_path}. Free some and retry\n"
    )
    assert not (tmp_path / "analysis.duckdb").exists()
