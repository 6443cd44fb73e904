"""Reads PresentMon's CSV files in three dialects: columns by name, frames of all swap chains.

Dialects: `presentmon1` (1.x and --v1_metrics), `presentmon2` (2.0 to 2.2 and --v2_metrics),
`presentmon2.3` (2.3.1 and later). A frame starts when the previous Present returns and ends when
its own Present returns. 1.x shows this only as a difference, so the first frame of each swap
chain is omitted. Names may be in snake_case. Missing is `NA`; CPU busy and frame time are 0 when
missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schedlens.errors import DamagedTraceError, NotATraceError
from schedlens.load.frames import csv_rows

MS = 1e6
_MOST_FRAMES = 50_000_000
_MOST_PID = 0xFFFF_FFFF
# About 146 years: sums of times are 64-bit numbers too.
_MOST_NS = 1 << 62

Clock = Literal["qpc", "qpc_ns", "relative"]


@dataclass(frozen=True)
class _Time:
    """A column with the time of a frame: of its start, or of the call of Present."""

    column: str
    clock: Clock
    unit_ns: float = 1.0
    of_present: bool = False


# Best first: raw QPC joins exactly, QPC in ms to 100 ns, the others must be matched.
_TIMES = (
    _Time("cpustartqpc", "qpc"),
    _Time("timeinqpc", "qpc", of_present=True),
    _Time("qpctime", "qpc", of_present=True),
    _Time("cpustartqpctime", "qpc_ns", MS),
    _Time("cpustartqpctimeinms", "qpc_ns", MS),
    _Time("cpustarttime", "relative", MS),
    _Time("cpustarttimeinms", "relative", MS),
    _Time("timeinms", "relative", MS, of_present=True),
    _Time("timeinseconds", "relative", 1e9, of_present=True),
)


@dataclass(frozen=True)
class PresentMonFrame:
    """A frame; `start` in the capture's clock, durations in ns, NULL if unknown."""

    process: str
    pid: int
    swap_chain: str
    time: float
    """QPC ticks, or ns of the capture's clock."""
    ahead_ns: int
    """How long before `time` it started: 0, or the time from its start to Present."""
    dur_ns: int | None
    cpu_busy_ns: int | None
    gpu_busy_ns: int | None
    displayed_after_ns: int | None
    """From its start to the screen."""
    dropped: bool | None


@dataclass(frozen=True)
class Capture:
    """One CSV file."""

    path: Path
    dialect: str
    clock: Clock
    frames: tuple[PresentMonFrame, ...]
    skipped: int
    """Number of rows without a frame: unreadable numbers or too few columns."""


def is_presentmon(path: Path) -> bool:
    """Whether a file starts like PresentMon's CSV files."""
    return {"application", "processid", "swapchainaddress"} <= set(
        map(_plain, csv_rows.names(path))
    )


def _plain(name: str) -> str:
    """A column's name in any dialect: some write `ms_between_presents` for `msBetweenPresents`."""
    return name.replace("_", "")


def read(path: Path) -> Capture:
    """All frames of a file in file order.

    Raises `NotATraceError` for other files, `DamagedTraceError` if no frame can be read.
    """
    with csv_rows.opened(path, "record it again") as (header, rows):
        names = [_plain(name) for name in header]
        if not {"application", "processid"} <= set(names):
            raise NotATraceError(
                f"{path}: not a PresentMon CSV file: its first line lacks Application and ProcessID"
            )
        return _capture(path, names, rows)


def _capture(path: Path, names: list[str], rows: Iterator[list[str]]) -> Capture:
    known = set(names)
    reader: Callable[[Row, _Before], _Lengths | None]
    if "msbetweenappstart" in known:
        dialect, reader = "presentmon2.3", _version_2_3
    elif "frametime" in known:
        dialect, reader = "presentmon2", _version_2
    elif "msbetweenpresents" in known:
        dialect, reader = "presentmon1", _version_1
    else:
        raise NotATraceError(
            f"{path}: no column MsBetweenAppStart, FrameTime or msBetweenPresents: record frames "
            "with PresentMon 1.x or 2.x"
        )
    timed = next((time for time in _TIMES if time.column in known), None)
    if timed is None:
        raise NotATraceError(
            f"{path}: no time column that can be joined to a trace: run PresentMon with --qpc_time"
        )
    frames: list[PresentMonFrame] = []
    before: dict[tuple[int, str], _Before] = {}
    skipped = 0
    for values in rows:
        if not values:
            continue
        row = dict(zip(names, values, strict=False))
        if row.get("application", "").strip().lower() == "application":
            # A repeated header: the file contains several captures.
            before.clear()
            continue
        text = row.get(timed.column, "")
        time, pid = _number(text), _number(row.get("processid"))
        if time is None or pid is None or len(values) < len(names):
            skipped += 1
            continue
        if timed.column == "qpctime" and "." in text:
            # 1.x writes raw ticks, or seconds on request.
            timed = _Time("qpctime", "qpc_ns", 1e9, of_present=True)
        if not 0 <= pid <= _MOST_PID or abs(time) * timed.unit_ns > _MOST_NS:
            skipped += 1
            continue
        swap_chain = row.get("swapchainaddress", "").strip()
        lengths = reader(row, before.setdefault((int(pid), swap_chain), _Before()))
        if lengths is None:
            continue
        frames.append(
            PresentMonFrame(
                process=row["application"].strip(),
                pid=int(pid),
                swap_chain=swap_chain,
                time=time if timed.clock == "qpc" else time * timed.unit_ns,
                ahead_ns=(lengths.cpu_busy_ns or 0) if timed.of_present else 0,
                dur_ns=lengths.dur_ns,
                cpu_busy_ns=lengths.cpu_busy_ns,
                gpu_busy_ns=lengths.gpu_busy_ns,
                displayed_after_ns=lengths.displayed_after_ns,
                dropped=lengths.dropped,
            )
        )
        if len(frames) > _MOST_FRAMES:
            raise DamagedTraceError(f"{path}: more than {_MOST_FRAMES:,} frames: split the file")
    if not frames:
        raise DamagedTraceError(
            f"{path}: contains no readable frame ({skipped} bad rows): record it again"
        )
    return Capture(path, dialect, timed.clock, tuple(frames), skipped)


Row = Mapping[str, str]


@dataclass
class _Before:
    """The previous frame on the same swap chain."""

    inside_ns: int | None = None


@dataclass(frozen=True)
class _Lengths:
    """The durations in a row, ns."""

    dur_ns: int | None
    cpu_busy_ns: int | None
    gpu_busy_ns: int | None
    displayed_after_ns: int | None
    dropped: bool | None


def _version_2(row: Row, before: _Before) -> _Lengths:
    shown = _ms(row, "displayedtime")
    return _Lengths(
        dur_ns=_positive(_ms(row, "frametime")),
        cpu_busy_ns=_positive(_ms(row, "cpubusy")),
        gpu_busy_ns=_ms(row, "gpubusy"),
        displayed_after_ns=_ms(row, "displaylatency") if shown is not None else None,
        dropped=(shown is None) if "displayedtime" in row else None,
    )


def _version_2_3(row: Row, before: _Before) -> _Lengths:
    busy = _positive(_ms(row, "mscpubusy"))
    until = _ms(row, "msuntildisplayed")
    return _Lengths(
        dur_ns=_positive(_ms(row, "msbetweenappstart")),
        cpu_busy_ns=busy,
        gpu_busy_ns=_ms(row, "msgpubusy"),
        # Counted from the call of Present, which ends the CPU's part of the frame.
        displayed_after_ns=None if until is None or busy is None else busy + until,
        dropped=(until is None) if "msuntildisplayed" in row else None,
    )


def _version_1(row: Row, before: _Before) -> _Lengths | None:
    """A row describes a call of Present; its frame is between two returns of Present."""
    inside = _ms(row, "msinpresentapi")
    between = _ms(row, "msbetweenpresents")
    last, before.inside_ns = before.inside_ns, inside
    if last is None or inside is None or between is None or between < last:
        return None
    busy = between - last
    until = _ms(row, "msuntildisplayed")
    dropped = row.get("dropped", "").strip() == "1"
    return _Lengths(
        dur_ns=busy + inside,
        cpu_busy_ns=busy,
        gpu_busy_ns=_ms(row, "msgpuactive"),
        displayed_after_ns=None if dropped or until is None else busy + until,
        dropped=dropped,
    )


def _number(text: str | None) -> float | None:
    """A finite number; None for NA, an empty text or anything else."""
    try:
        value = float((text or "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e18 else None


def _ms(row: Row, column: str) -> int | None:
    """Converts milliseconds to whole ns; None if they are not a length."""
    value = _number(row.get(column))
    return None if value is None or not 0 <= value <= 1e9 else round(value * MS)


def _positive(value: int | None) -> int | None:
    """None for 0, which means unknown in these columns."""
    return value or None
