"""Matches frames that a program stamped to the clock and the threads of its recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens.errors import UnsupportedTraceError
from schedlens.load.frames import clock as frame_clock
from schedlens.load.frames import program_stamps
from schedlens.load.frames.program_stamps import FrameMark, Marks

if TYPE_CHECKING:
    import duckdb

_NS = 1_000_000_000
# utid, start and end of a life; None: before or after the recording.
_Life = tuple[int, int | None, int | None]
# Clocks that match the session's times: on other systems CLOCK_MONOTONIC is QPC.
_JOINED = ("monotonic", "qpc")


def rows(con: duckdb.DuckDBPyConnection, trace_id: int, path: Path) -> list[dict[str, Any]]:
    """Rows of `frame` for those frames of a file that are in the recording; notes the others.

    Raises `NotATraceError`, `DamagedTraceError`, and `UnsupportedTraceError` if the clocks differ
    or no frame is in the recording.
    """
    marks = program_stamps.read(path)
    clock, start, hz, first, last = con.execute(
        "SELECT clock_name, start_clock, clock_hz, first_ns, duration_ns FROM trace "
        "WHERE trace_id = ?",
        [trace_id],
    ).fetchall()[0]
    if clock not in _JOINED or not hz or start is None:
        raise UnsupportedTraceError(
            f"{path}: its times are CLOCK_MONOTONIC, but the recording uses the clock "
            f"'{clock}': record with `collect`, or with `perf record -k CLOCK_MONOTONIC`"
        )
    zero_ns = frame_clock.qpc_ns(start, 0, hz)
    inside = {
        at
        for at, one in enumerate(marks.frames)
        if one.start_ns - zero_ns <= last and _latest(one) - zero_ns >= first
    }
    if not inside:
        raise UnsupportedTraceError(_elsewhere(marks, zero_ns + first, zero_ns + last))
    made, unseen = _made(con, trace_id, marks, zero_ns, inside)
    _note(con, trace_id, path, "lines without a frame", marks.skipped)
    _note(con, trace_id, path, "frames outside the recording", len(marks.frames) - len(inside))
    _note(con, trace_id, path, "frames whose thread is not in the recording", unseen)
    # One clock tick, if that is longer than a nanosecond.
    residual_ns = 0 if hz >= _NS else _NS // hz
    return [{**row, "clock_residual_ns": residual_ns} for row in made]


def _made(
    con: duckdb.DuckDBPyConnection, trace_id: int, marks: Marks, zero_ns: int, inside: set[int]
) -> tuple[list[dict[str, Any]], int]:
    """The rows, and how many of them have an unknown thread."""
    lives: dict[int, list[_Life]] = {}
    for tid, utid, begin_ns, end_ns in con.execute(
        "SELECT tid, utid, start_ns, end_ns FROM thread "
        "WHERE trace_id = ? AND NOT is_idle ORDER BY tid, start_ns NULLS FIRST",
        [trace_id],
    ).fetchall():
        lives.setdefault(tid, []).append((utid, begin_ns, end_ns))
    processes = {
        pid: (upid, name)
        for pid, upid, name in con.execute(
            "SELECT pid, upid, name FROM process WHERE trace_id = ? "
            "ORDER BY pid, end_ns NULLS LAST, upid",
            [trace_id],
        ).fetchall()
    }
    numbers: Counter[int] = Counter()
    found, unseen = [], 0
    for at, mark in enumerate(marks.frames):
        numbers[mark.pid] += 1
        if at not in inside:
            continue
        start_ns = mark.start_ns - zero_ns
        utid = _at(lives.get(mark.tid, []), start_ns) if mark.tid is not None else None
        unseen += utid is None
        upid, name = processes.get(mark.pid, (None, None))
        found.append(
            {
                "frame": numbers[mark.pid],
                "upid": upid,
                "utid": utid,
                "process": name or f"pid {mark.pid}",
                "start_ns": start_ns,
                "dur_ns": None if mark.end_ns is None else mark.end_ns - mark.start_ns,
                "cpu_busy_ns": (
                    None if mark.present_ns is None else mark.present_ns - mark.start_ns
                ),
                "dialect": "mark",
            }
        )
    return found, unseen


def _at(lives: list[_Life], ts: int) -> int | None:
    """The life of a thread id at a time."""
    for utid, start_ns, end_ns in reversed(lives):
        if (start_ns is None or start_ns <= ts) and (end_ns is None or ts <= end_ns):
            return utid
    return None


def _latest(mark: FrameMark) -> int:
    return max(mark.start_ns, mark.present_ns or 0, mark.end_ns or 0)


def _elsewhere(marks: Marks, first_ns: int, last_ns: int) -> str:
    begin = min(mark.start_ns for mark in marks.frames)
    end = max(_latest(mark) for mark in marks.frames)
    return (
        f"{marks.path}: its {len(marks.frames)} frames are between {begin / _NS:.3f} s and "
        f"{end / _NS:.3f} s of CLOCK_MONOTONIC, but the recording is between "
        f"{first_ns / _NS:.3f} s and {last_ns / _NS:.3f} s: name files of the same time and machine"
    )


def _note(con: duckdb.DuckDBPyConnection, trace_id: int, path: Path, what: str, times: int) -> None:
    if times:
        con.execute("INSERT INTO problem VALUES (?, ?, ?, ?)", [trace_id, path.name, what, times])
