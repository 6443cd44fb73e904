"""Frames that a program stamped itself: a CSV file with a line for each, docs/frame-marks.md.

Columns by name: `start_mono_ns` (CLOCK_MONOTONIC, ns) and `pid` must be there; `tid`,
`present_mono_ns` and `end_mono_ns` may. A frame lasts to its end, or else until the next one of its
thread begins; so the last one has no length.
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
# No longer than a whole number of 64 bits is.
_DIGITS = 19


@dataclass(frozen=True)
class FrameMark:
    """A frame; times are ns of CLOCK_MONOTONIC, None where the file does not tell."""

    pid: int
    tid: int | None
    start_ns: int
    present_ns: int | None
    end_ns: int | None


@dataclass(frozen=True)
class Marks:
    """The frames of one file, by process and begin."""

    path: Path
    frames: tuple[FrameMark, ...]
    skipped: int
    """Lines that hold no frame: a number that cannot be read, an end before its begin."""


def is_one(path: Path) -> bool:
    """Whether a file begins as such files do."""
    return csv_rows.names(path) >= NEEDED


def read(path: Path) -> Marks:
    """All frames of a file.

    Raises `NotATraceError` for a file that is none, `DamagedTraceError` where no frame can be read
    from it.
    """
    with csv_rows.opened(path, "write it again") as (names, rows):
        if not set(names) >= NEEDED:
            raise NotATraceError(
                f"{path}: its first line does not name {' and '.join(sorted(NEEDED))}: "
                "docs/frame-marks.md tells what a file of frames holds"
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
            raise DamagedTraceError(f"{path}: more than {_MOST_FRAMES:,} frames: cut it in parts")
    if not found:
        raise DamagedTraceError(
            f"{path}: holds no frame that can be read ({skipped} lines cannot): write it again"
        )
    return Marks(path, tuple(_ended(found)), skipped)


def _frame(row: dict[str, str]) -> FrameMark | None:
    """The frame of a line; None where it has none, or contradicts itself."""
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
    """In the order of process, thread and begin, each with the begin of the next as its end."""
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
