"""Fuzzes the readers of CSV that Python implements, guided by the lines that they execute.

`python tools/fuzz/csv_files.py SECONDS` runs for so many seconds of a CPU, and prints executions
and covered lines as JSON; exit status 1 and the input if a reader raises anything but its own
errors, or returns an impossible frame.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

from schedlens.errors import SchedlensError
from schedlens.load.frames import csv_rows, presentmon, program_stamps
from schedlens.machine import energy_events
from schedlens.record.windows import processes

_MODULES = {module.__file__ for module in
            (csv_rows, presentmon, program_stamps, energy_events, processes)}  # fmt: skip
_MOST_BYTES = 4000
# Tracing takes several times as long as the execution itself: after the first ones, only one of so
# many is traced. All of them can fail.
_ALL_TRACED = 2_000
_EACH_TRACED = 8

_FIRST = [
    b"Application,ProcessID,SwapChainAddress,CPUStartTime,FrameTime,CPUBusy,GPUBusy,DisplayLatency,"
    b"DisplayedTime\ng.exe,7,0x1,0,10,9,7,20,16\ng.exe,7,0x1,10,15,14,12,NA,NA\n",
    b"Application,ProcessID,SwapChainAddress,CPUStartQPC,MsBetweenAppStart,MsCPUBusy,MsGPUBusy,"
    b"MsUntilDisplayed\ng.exe,7,0x1,100,10,9,7,11\n",
    b"Application,ProcessID,SwapChainAddress,QPCTime,MsBetweenPresents,MsInPresentAPI,"
    b"MsUntilDisplayed,MsGPUActive,Dropped\ng.exe,7,0x1,1.5,10,1,12,5,0\ng.exe,7,0x1,2,16,1,3,4,1\n",
    b"pid,tid,start_mono_ns,present_mono_ns,end_mono_ns\n7,8,100,150,200\n7,8,200,,\n",
    b"12.5,Joules,power/energy-pkg/,1000,100.00,,\n1.5,Joules,power/energy-cores/,1000,100.00,,\n",
    b'"game.exe","1234","Console","1","1,234 K"\r\n',
]
_WORDS = [
    b",", b"\n", b"\r", b'"', b"\0", b"NA", b"nan", b"inf", b"-1", b"0", b"1e18", b"1e308", b"-5.5",
    b"1_0", "²".encode(), "٣".encode(), b"\xef\xbb\xbf", b"\xff", b"9" * 25, b"timeinseconds",
    b"cpustartqpctime", b"frametime", b"msbetweenappstart", b"msbetweenpresents", b"qpctime",
    b"tid", b"Application,ProcessID,SwapChainAddress", b"end_mono_ns", b"present_mono_ns",
    b"Joules",
]  # fmt: skip


class Coverage:
    """The lines of the readers that a call executes, each with the line before it."""

    def __init__(self) -> None:
        self.steps: set[tuple[str, int, int]] = set()
        self._before: dict[int, int] = {}

    def __enter__(self) -> Coverage:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename in _MODULES else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        before = self._before.get(id(frame), 0) if event == "line" else 0
        self.steps.add((frame.f_code.co_filename, before, frame.f_lineno))
        self._before[id(frame)] = frame.f_lineno
        return self._line


def refused(error: SchedlensError) -> None:
    """Checks that an error is one line."""
    assert "\n" not in str(error), error


def read(path: Path, content: bytes) -> None:
    """Every reader, as far as it accepts the content."""
    path.write_bytes(content)
    presentmon.is_presentmon(path)
    program_stamps.is_one(path)
    try:
        for frame in presentmon.read(path).frames:
            lengths = (frame.dur_ns, frame.cpu_busy_ns, frame.gpu_busy_ns)
            assert all(length is None or length >= 0 for length in lengths), frame
            assert frame.ahead_ns >= 0, frame
    except SchedlensError as error:
        refused(error)
    try:
        for mark in program_stamps.read(path).frames:
            assert mark.end_ns is None or mark.end_ns >= mark.start_ns >= 0, mark
    except SchedlensError as error:
        refused(error)
    text = content.decode("utf-8", "replace")
    for joules in energy_events.parsed(text).values():
        assert 0 <= joules < float("inf"), joules
    processes.running(7, lambda _: text)


def mutated(dice: random.Random, corpus: list[bytes]) -> bytes:
    """One of the inputs with some changes."""
    content = bytearray(dice.choice(corpus))
    for _ in range(dice.choice((1, 1, 2, 4, 8))):
        at = dice.randrange(len(content) + 1)
        end = min(len(content), at + dice.choice((0, 1, 1, 4, 16)))
        other = dice.choice(corpus)
        begin = dice.randrange(len(other) + 1)
        content[at:end] = dice.choice(
            (b"", dice.choice(_WORDS), dice.choice(_WORDS), dice.randbytes(1), other[begin:][:64])
        )
    return bytes(content[:_MOST_BYTES])


def main(seconds: float, seed: int, most: float) -> int:
    """Runs for some time, or up to `most` executions. Exit status."""
    dice, corpus, known = random.Random(seed), list(_FIRST), set[tuple[str, int, int]]()
    executions, end = 0, time.process_time() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.csv"
        while executions < len(_FIRST) or (executions < most and time.process_time() < end):
            first = executions < len(_FIRST)
            content = _FIRST[executions] if first else mutated(dice, corpus)
            coverage = Coverage()
            is_traced = executions < _ALL_TRACED or executions % _EACH_TRACED == 0
            try:
                with coverage if is_traced else contextlib.nullcontext():
                    read(path, content)
            except Exception:
                print(f"failing input: {content!r}", file=sys.stderr)
                raise
            if not coverage.steps <= known:
                known |= coverage.steps
                corpus.append(content)
            executions += 1
    print(json.dumps({"executions": executions, "edges": len(known), "inputs": len(corpus)}))
    return 0


if __name__ == "__main__":
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    sys.exit(main(float(sys.argv[1]), chosen, float(sys.argv[3]) if len(sys.argv) > 3 else inf))
