"""Typical mistakes print one line that says what to do next."""

from __future__ import annotations

import lzma
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BIN, command

from schedlens.load import store

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that are no recordings, and an analysis without its recordings."""
    (tmp_path / "empty.etl").touch()
    (tmp_path / "text.perf.data").write_text("hello\n")
    (tmp_path / "perf.data.xz").write_bytes(lzma.compress(b"PERFILE2"))
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "analysis.duckdb").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["analyze", "empty.etl"],
            "analyze: empty.etl: the file is empty: give a perf.data, trace.dat or .etl file",
        ),
        (
            ["analyze", "text.perf.data", "-o", "out"],
            'analyze: text.perf.data: begins with "hello\\n", not with PERFILE2 nor as a '
            "trace.dat or .etl file: give a perf.data, trace.dat or .etl file",
        ),
        (
            ["analyze", "perf.data.xz"],
            "analyze: perf.data.xz: is packed with xz: unpack it first (xz -dk FILE)",
        ),
        (
            ["analyze", "asked"],
            "analyze: asked contains an analysis but no recordings: "
            "query it with `schedlens sql asked QUERY`",
        ),
        (
            ["analyze", "empty.etl", "-o", "/proc/none"],
            "analyze: cannot write /proc/none: No such file or directory. Choose a writable place",
        ),
        (
            ["schedlens", "demo", "--no-open", "-o", "/proc/none"],
            "schedlens: cannot write /proc/none: No such file or directory. "
            "Choose a writable place",
        ),
    ],
)
def test_mistyped_command_prints_one_line(words: list[str], line: str, folder: Path) -> None:
    done = command(*words, check=False, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line + "\n")


def test_unknown_analyzer_lists_existing_ones(folder: Path) -> None:
    done = command("analyze", "empty.etl", "--only", "trace_qualty", check=False, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "analyze: no analyzer named 'trace_qualty': did you mean trace_quality"
    )
    assert "? choose from avoidable_sharing, " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("sql", "text.perf.data", "SELECT 1"),
        ("export", "text.perf.data", "--perfetto", "-o", "x"),
        ("open", "--perfetto", "text.perf.data"),
        ("what-if", "text.perf.data"),
        ("serve", "text.perf.data"),
    ],
    ids=lambda words: words[0],
)
def test_recording_instead_of_a_session_is_to_be_analyzed(
    words: tuple[str, ...], folder: Path
) -> None:
    done = command("schedlens", *words, check=False, cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "schedlens: text.perf.data is not an analyzed session: run `analyze text.perf.data`, and "
        "name the folder it wrote\n"
    )


def test_closed_pipe_and_full_disk_leave_no_traceback(tmp_path: Path) -> None:
    pipe = f"set -o pipefail; {BIN}/schedlens queries 2>&1 | head -n 1"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("affinity_setter ")
    with Path("/dev/full").open("w") as full:
        full_disk = subprocess.run(
            [BIN / "schedlens", "queries", "affinity_spell"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert full_disk.returncode == 2
    assert full_disk.stderr == (
        "schedlens: No space left on device: free some, or write elsewhere\n"
    )


def test_no_arguments_print_the_help(folder: Path) -> None:
    done = command("schedlens", check=False, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: schedlens [OPTIONS] COMMAND [ARGS]...")
    listed = [line.split()[0] for line in done.stderr.splitlines() if line.startswith("  ")]
    assert {"collect", "analyze", "workloads"} <= set(listed)


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e+300"])
def test_invalid_window_time_is_rejected_in_one_line(option: str, value: str, folder: Path) -> None:
    done = command("analyze", "empty.etl", option, value, check=False, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"analyze: Invalid value for '{option}': {value} is not a time in a trace; give seconds, "
        "such as 0.2 (see analyze --help)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("schedlens", "watch", "--interval", "x"), "'--interval': 'x' is not a number."),
        (("collect", "--samples", "x"), "'--samples': 'x' is not a whole number."),
        (("collect", "--repeat", "1.5"), "'--repeat': '1.5' is not a whole number."),
        (("analyze", "empty.etl", "--from", "x"), "'--from': 'x' is not a number."),
        (
            ("schedlens", "watch", "--interval", "0"),
            "'--interval': 0.0 is not in the range 0.5<=x<=60.0.",
        ),
    ],
)
def test_word_in_place_of_a_number_is_rejected_in_plain_words(
    arguments: tuple[str, ...], said: str, folder: Path
) -> None:
    done = command(*arguments, check=False, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_escape_sequence_in_process_name_is_printed_escaped(folder: Path) -> None:
    done = command("analyze", "\x1b[2Jx.etl", check=False, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("analyze: \\u001b[2Jx.etl does not exist: ")


def test_interrupt_within_a_query_is_one_line(tmp_path: Path) -> None:
    database = tmp_path / "analysis.duckdb"
    with store.create(database):
        pass
    endless = "SELECT sum(hash(range)) FROM range(1000000000000)"
    asked = [str(BIN / "schedlens"), "sql", str(database), endless]
    # A shell that starts tests in the background lets them ignore interrupts.
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, outside)
    with process:
        # Its start takes less than that.
        while cpu_s(process.pid) < 2.0:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            output, error = process.communicate(timeout=60)
        finally:
            process.kill()
    # DuckDB ends the line of its own progress bar.
    assert (process.returncode, output, error.strip()) == (130, "", "schedlens: interrupted")


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
