"""Damaged texts give rows or one clear line, never a crash, a hang, or a full memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loaded_recording import loaded
from xperf_lines import HEAD, ROWS

from schedlens.errors import SchedlensError
from schedlens.load import converted

pytestmark = pytest.mark.slow

# `SCHEDLENS_FUZZ_ROUNDS=2000` is the long version; decoders/text cuts its texts at every length.
ROUNDS = int(os.environ.get("SCHEDLENS_FUZZ_ROUNDS", "60")) // 4
SEED = 20261123
# Processor time, because the machine may be busy: a whole text takes a second.
LIMIT_S = 20.0

_SWITCH = (
    "{0:>16} {1:>5} [{2:03}]  1.00{3:07}: sched:sched_switch: prev_comm={0} prev_pid={1} "
    "prev_prio=120 prev_state=S ==> next_comm={4} next_pid={5} next_prio=120\n"
)
PERF_SCRIPT = "".join(
    [
        "# captured on    : Mon Nov 23 13:21:42 2026\n# clockid: monotonic (1)\n",
        _SWITCH.format("swapper", 0, 0, 1000, "a b", 5),
        "             a b     5 [000]  1.000002000: sched:sched_waking: comm=c pid=6 prio=120 "
        "target_cpu=001\n",
        _SWITCH.format("a b", 5, 0, 3000, "swapper", 0),
        _SWITCH.format("swapper", 0, 1, 3500, "c", 6),
        "               c     6 [001]  1.000400000: PERF_RECORD_FORK(7:7):(6:6)\n",
        _SWITCH.format("c", 6, 1, 9000, "swapper", 0),
    ]
)
WPA = (
    "New Process,New Thread Id,CPU,Switch-In Time (s),Next Switch-Out Time (s),Ready Time (s),"
    "Last Switch-Out Time (s),Readying Thread Id,Old Process,Old Thread Id,Old State\n"
    "game.exe (100),8,0,0.001000000,0.001050000,,,,Idle (0),0,Running\n"
    "game.exe (100),9,1,0.001005000,0.001160000,,,,Idle (0),0,Running\n"
    '"a, b.exe (100)","8",0,0.001100000,0.001150000,0.001080000,0.001050000,9,Idle (0),0,Running\n'
)
TEXTS = {"perf_script": PERF_SCRIPT, "xperf": HEAD + ROWS, "wpa": WPA}


def read_or_refused(path: Path, folder: Path, note: str) -> bool:
    """Whether it was read; otherwise one line refused it. Anything else fails."""
    begin = time.process_time()
    try:
        with loaded(path, folder) as con:
            con.execute("SELECT count(*) FROM sched_slice").fetchall()
            return True
    except SchedlensError as error:
        line = str(error)
        assert "\n" not in line, note
        assert "did not expect" not in line, (note, line)
        return False
    finally:
        assert time.process_time() - begin < LIMIT_S, note


@pytest.mark.parametrize("kind", TEXTS)
def test_truncation_anywhere_gives_rows_or_one_line(kind: str, tmp_path: Path) -> None:
    data = TEXTS[kind].encode()
    path = tmp_path / "cut"
    path.write_bytes(data)
    assert read_or_refused(path, tmp_path, "whole")
    read = 0
    for cut in sorted({*random.Random(SEED).sample(range(len(data)), ROUNDS), len(data) - 1}):
        path.write_bytes(data[:cut])
        read += read_or_refused(path, tmp_path, f"cut at {cut}")
    assert read > 0


@pytest.mark.parametrize("kind", TEXTS)
def test_changed_bytes_give_rows_or_one_line(kind: str, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    path = tmp_path / "changed"
    for number in range(ROUNDS):
        data = bytearray(TEXTS[kind].encode())
        for _ in range(dice.randrange(1, 20)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        read_or_refused(path, tmp_path, f"round {number}")


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "cp500"])
def test_wrong_encodings_give_rows_or_one_line(kind: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "encoded"
    path.write_bytes(TEXTS[kind].encode(encoding))
    # UTF-16 with its mark is what Windows writes; the others are no texts.
    assert read_or_refused(path, tmp_path, encoding) == (encoding == "utf-16")


TIMES = {"perf_script": "1.000003000", "xperf": "       1050", "wpa": "0.001050000"}


@pytest.mark.parametrize("kind", TEXTS)
def test_times_at_the_limits_give_rows_or_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "late"
    for late in ("9223372036854775807", "99999999999.000000000", "-5", "1e300", "nan", ""):
        path.write_text(TEXTS[kind].replace(TIMES[kind], late))
        read_or_refused(path, tmp_path, late)


# Each is larger than the memory that a reader may take for it.
SIZE, MOST_GROWTH = 1 << 26, 48 << 20
BOMBS = {
    "one line": b"x" * SIZE,
    "one quoted cell": b'"' + b"y," * (SIZE // 2),
    "one row of empty cells": b"," * SIZE,
    "empty lines": b"\n" * (SIZE // 8),
}
CONVERT = """
import resource, sys
from pathlib import Path
from schedlens.load import converted
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
with converted.made(Path(sys.argv[1])):
    before = peak()
with converted.made(Path(sys.argv[2])) as found:
    print(found is not None, peak() - before)
"""


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("kind", TEXTS)
def test_bombs_do_not_fill_the_memory(kind: str, bomb: str, tmp_path: Path) -> None:
    usual, large = tmp_path / "usual", tmp_path / "bomb"
    usual.write_bytes(TEXTS[kind].encode())
    large.write_bytes(TEXTS[kind].encode() + BOMBS[bomb] + b"\n" + TEXTS[kind].encode())
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, str(usual), str(large)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    is_read, growth = done.stdout.split()
    assert is_read == "True"
    assert int(growth) < MOST_GROWTH


@pytest.mark.parametrize("name", ["", "notes", "# tracer: nop\n", "a,b\n1,2\n", "\0" * 100])
def test_other_files_are_none_of_these_texts(name: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text(name)
    assert converted.kind(path) in (None, "perfetto")
