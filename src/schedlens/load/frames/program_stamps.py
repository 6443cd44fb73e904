"""Reads frames that a program stamped itself: a CSV file, see docs/frame-marks.md.

Columns by name: `start_mono_ns` (CLOCK_MONOTONIC, ns) and `pid` are required; `tid`,
`present_mono_ns` and `end_mono_ns` are optional. A frame without an end lasts until the next frame
of its thread starts, so the last one has no duration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from schedlens.errors import DamagedTraceError, NotATraceError
from schedlens.load.frames import csv_rows

NEEDED = frozenset({"pid", "start_mono_ns"})
_MOST_FRAMES = 2_000_000
# The most digits of a 64-bit integer.
_DIGITS = 19


@dataclass(frozen=True)
class FrameMark:
    """A frame; times are ns of CLOCK_MONOTONIC, None if the file lacks them."""

    pid: int
    tid: int | None
    start_ns: int
    present_ns: int | None
    end_ns: int | None


@dataclass(frozen=True)
class Marks:
    """The frames of one file, by process and start."""

    path: Path
    frames: tuple[FrameMark, ...]
    skipped: int
    """Number of lines without a frame: unreadable numbers, or an end before the start."""


def is_one(path: Path) -> bool:
    """Whether a file starts like such files."""
    return csv_rows.names(path) >= NEEDED


def read(path: Path) -> Marks:
    """All frames of a file.

    Raises `NotATraceError` for other files, `DamagedTraceError` if no frame can be read.
    """
    with csv_rows.opened(path, "write it again") as (names, rows):
        if not set(names) >= NEEDED:
            raise NotATraceError(
                f"{path}: its first line does not name {' and '.join(sorted(NEEDED))}: "
                "see docs/frame-marks.md for the format"
            )
        return _marks(path, names, rows)


def _marks(path: Path, names: list[str], rows: Iterator[list[str]]) -> Marks:
    found: list[FrameMark] = []
    skipped = 0
    for values in rows:
        if not values:
            continue
        frame = _frame(dict(zip(names, values, strict=False)))
        if frame is None:
            skipped += 1
            continue
        found.append(frame)
        if len(found) > _MOST_FRAMES:
            raise DamagedTraceError(f"{path}: more than {_MOST_FRAMES:,} frames: split the file")
    if not found:
        raise DamagedTraceError(
            f"{path}: contains no readable frame ({skipped} bad lines): write it again"
        )
    return Marks(path, tuple(_ended(found)), skipped)


def _frame(row: dict[str, str]) -> FrameMark | None:
    """The frame of a line; None if it has none or contradicts itself."""
    pid, start = _whole(row.get("pid")), _whole(row.get("start_mono_ns"))
    if pid is None or start is None:
        return None
    later = []
    for name in ("present_mono_ns", "end_mono_ns"):
        value = _whole(row.get(name))
        if value is None and row.get(name, "").strip():
            return None
        later.append(value)
    present, end = later
    if (present is not None and present < start) or (end is not None and end < start):
        return None
    return FrameMark(pid, _whole(row.get("tid")), start, present, end)


def _ended(frames: list[FrameMark]) -> list[FrameMark]:
    """Sorts by process, thread and start, and ends each frame at the next one's start."""
    frames.sort(key=lambda one: (one.pid, one.tid is not None, one.tid or 0, one.start_ns))
    ended = []
    for frame, following in pairwise(frames):
        of_one = (frame.pid, frame.tid) == (following.pid, following.tid)
        if frame.end_ns is None and of_one:
            ended.append(replace(frame, end_ns=following.start_ns))
        else:
            ended.append(frame)
    ended.append(frames[-1])
    return sorted(ended, key=lambda one: (one.pid, one.start_ns))


def _whole(text: str | None) -> int | None:
    """A whole number that is not negative; None for anything else."""
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < _DIGITS else None
