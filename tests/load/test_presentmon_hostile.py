"""Damaged PresentMon files give frames or one clear line, never a crash or a full memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from schedlens.errors import SchedlensError
from schedlens.load.frames import presentmon

FILES = {
    "1": (
        "Application,ProcessID,SwapChainAddress,Runtime,Dropped,TimeInSeconds,msInPresentAPI,"
        "msBetweenPresents,msUntilRenderComplete,msUntilDisplayed,QPCTime\n",
        "g.exe,7,0x1,DXGI,0,{0}.5,1.0,16.6,5.0,20.0,{0}000\n",
    ),
    "2": (
        "Application,ProcessID,SwapChainAddress,PresentRuntime,CPUStartTime,FrameTime,CPUBusy,"
        "CPUWait,GPUBusy,DisplayLatency,DisplayedTime\n",
        '"g, e.exe",7,0x1,DXGI,{0}.25,16.6,9.5,7.1,NA,20.0,16.6\n',
    ),
    "2.3": (
        "application,process_id,swap_chain_address,present_runtime,time_in_qpc,ms_between_app_start,"
        "ms_cpu_busy,ms_cpu_wait,ms_gpu_busy,ms_until_displayed,ms_in_present_api\n",
        "g.exe,7,0x1,DXGI,{0}000,16.6,9.5,7.1,4.0,NA,1.0\n",
    ),
}
ROWS = 6
VALUES = (
    "", "NA", "-1", "nan", "inf", "-inf", "1e308", "1e999", "9223372036854775808", "9" * 400,
    "0x7f", "1_000", "\u0661", "\0", '"',
)  # fmt: skip


def text(dialect: str) -> str:
    head, row = FILES[dialect]
    return head + "".join(row.format(number + 1) for number in range(ROWS))


def frames_or_line(path: Path, note: str) -> int:
    """How many frames were read; 0 if one line refused the file. Anything else fails."""
    assert presentmon.is_presentmon(path) in (True, False)
    try:
        found = presentmon.read(path)
    except SchedlensError as error:
        line = str(error)
        assert len(line.splitlines()) == 1, note
        return 0
    for frame in found.frames:
        lengths = (frame.dur_ns, frame.cpu_busy_ns, frame.gpu_busy_ns, frame.displayed_after_ns)
        assert all(one is None or abs(one) < 1 << 63 for one in lengths), note
        assert abs(frame.time) < 1 << 63, note
        assert 0 <= frame.pid < 1 << 63, note
    return len(found.frames)


@pytest.mark.parametrize("dialect", FILES)
def test_truncation_at_every_length_gives_frames_or_one_line(dialect: str, tmp_path: Path) -> None:
    data = text(dialect).encode()
    path = tmp_path / "cut.csv"
    path.write_bytes(data)
    whole = frames_or_line(path, "whole")
    assert whole >= ROWS - 1
    counts = []
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        counts.append(frames_or_line(path, f"cut at {cut}"))
    assert counts == sorted(counts)
    assert counts[-1] <= whole


@pytest.mark.parametrize("dialect", FILES)
def test_changed_bytes_give_frames_or_one_line(dialect: str, tmp_path: Path) -> None:
    dice = random.Random(20261125)
    path = tmp_path / "changed.csv"
    data = text(dialect).encode()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << dice.randrange(8)
        path.write_bytes(changed)
        frames_or_line(path, f"byte {place}")


@pytest.mark.parametrize("dialect", FILES)
def test_every_value_in_every_column_gives_frames_or_one_line(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "values.csv"
    head, row = FILES[dialect]
    cells = row.format(3).strip().replace("g, e.exe", "g.exe").split(",")
    for column in range(len(cells)):
        for value in VALUES:
            changed = ",".join([*cells[:column], value, *cells[column + 1 :]])
            path.write_text(head + row.format(1) + row.format(2) + changed + "\n")
            frames_or_line(path, f"column {column}: {value[:20]}")


# Each is larger than the memory that the reader may take for it.
SIZE, MOST_GROWTH = 1 << 26, 48 << 20
BOMBS = {
    "one line": b"x" * SIZE,
    "one quoted cell": b'"' + b"y\n" * (SIZE // 2),
    "one row of empty cells": b"," * SIZE,
}
READ = """
import resource, sys
from pathlib import Path
from schedlens.errors import SchedlensError
from schedlens.load.frames import presentmon
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
presentmon.read(Path(sys.argv[1]))
before = peak()
try:
    presentmon.read(Path(sys.argv[2]))
except SchedlensError as error:
    print(str(error).count(chr(10)), peak() - before)
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_without_filling_the_memory(bomb: str, tmp_path: Path) -> None:
    usual, large = tmp_path / "usual.csv", tmp_path / "bomb.csv"
    usual.write_text(text("2"))
    large.write_bytes(text("2").encode() + BOMBS[bomb])
    done = subprocess.run(
        [sys.executable, "-c", READ, str(usual), str(large)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    breaks, growth = map(int, done.stdout.split())
    assert breaks == 0
    assert growth < MOST_GROWTH
