"""Loads captured frames into the table `frame`, and computes the critical paths of all frames."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schedlens import _decoders
from schedlens.errors import UnsupportedTraceError
from schedlens.load.frames import clock as frame_clock
from schedlens.load.frames import matching, presentmon, program_stamps

if TYPE_CHECKING:
    import duckdb

# PresentMon writes milliseconds with four digits.
_RESOLUTION_NS = 100
_BATCH = 1 << 17

_PATH_FRAMES = """
SELECT upid, frame, utid, start_ns, start_ns + dur_ns AS end_ns
FROM frame
WHERE trace_id = $trace_id AND dur_ns > 0 AND utid IS NOT NULL AND upid IS NOT NULL
ORDER BY upid, frame
"""

_PATH_STATES = """
SELECT
  state.utid,
  state.ts,
  state.dur,
  CASE state.state WHEN 'running' THEN 0 WHEN 'ready' THEN 1 WHEN 'waiting' THEN 2 ELSE 3 END
    ::TINYINT AS state,
  -- If an interrupt wakes a thread, the thread that it interrupted is not the waker.
  CASE WHEN NOT waker.is_idle AND alarm.utid IS NULL THEN state.waker_utid END AS waker_utid
FROM (
  SELECT utid, ts, dur, state, waker_utid
  FROM thread_state
  WHERE trace_id = $trace_id
  -- A thread that found a free CPU was ready for no time: only its slice has the waker.
  UNION ALL
  SELECT utid, ts, 0, 'ready', waker_utid
  FROM sched_slice
  WHERE trace_id = $trace_id AND ready_ns = 0 AND waker_utid IS NOT NULL
) AS state
LEFT JOIN thread AS waker ON waker.utid = state.waker_utid
LEFT JOIN (
  SELECT DISTINCT utid, ts FROM wakeup WHERE trace_id = $trace_id AND in_interrupt AND effective
) AS alarm ON alarm.utid = state.utid AND alarm.ts = state.ts
ORDER BY state.utid, state.ts, state.dur
"""


def load(con: duckdb.DuckDBPyConnection, trace_id: int, path: Path) -> None:
    """Loads the frames of a PresentMon file, or of a program's own stamps, into `frame`.

    They replace the trace's frames of the same processes, because they contain more. Raises
    `NotATraceError`, `DamagedTraceError`, and `UnsupportedTraceError` if the clocks cannot be
    joined.
    """
    if program_stamps.is_one(path):
        rows = matching.rows(con, trace_id, path)
    else:
        rows = _presented(con, trace_id, path)
    for upid in {row["upid"] for row in rows} - {None}:
        con.execute("DELETE FROM frame WHERE trace_id = ? AND upid = ?", [trace_id, upid])
    schema = _decoders.schemas()["frame"]
    batch = pa.RecordBatch.from_pylist([{"trace_id": trace_id, **row} for row in rows], schema)
    con.register("presented", batch)
    con.execute("INSERT INTO frame BY NAME FROM presented")
    con.unregister("presented")


def _presented(con: duckdb.DuckDBPyConnection, trace_id: int, path: Path) -> list[dict[str, Any]]:
    """Rows of a PresentMon file; the presenting thread comes from the trace's frames."""
    capture = presentmon.read(path)
    start_clock, clock_hz = _one(
        con, "SELECT start_clock, clock_hz FROM trace WHERE trace_id = ?", trace_id
    )
    rows: list[dict[str, Any]] = []
    for pid in sorted({frame.pid for frame in capture.frames}):
        own = [frame for frame in capture.frames if frame.pid == pid]
        found = con.execute(
            "SELECT upid FROM process WHERE trace_id = ? AND pid = ? "
            "ORDER BY end_ns DESC NULLS FIRST LIMIT 1",
            [trace_id, pid],
        ).fetchone()
        upid = found[0] if found else None
        presents = con.execute(
            "SELECT start_ns + coalesce(cpu_busy_ns, dur_ns, 0), utid FROM frame "
            "WHERE trace_id = ? AND upid = ? ORDER BY 1",
            [trace_id, upid],
        ).fetchall()
        rows.extend(_rows(capture, own, upid, presents, start_clock, clock_hz))
    if capture.skipped:
        con.execute(
            "INSERT INTO problem VALUES (?, ?, 'rows without a frame', ?)",
            [trace_id, path.name, capture.skipped],
        )
    return rows


def _rows(
    capture: presentmon.Capture,
    frames: list[presentmon.PresentMonFrame],
    upid: int | None,
    presents: list[tuple[int, int | None]],
    start_clock: int | None,
    clock_hz: int | None,
) -> list[dict[str, Any]]:
    if capture.clock == "relative" or not clock_hz or start_clock is None:
        begins = sorted(
            frame.time - frame.ahead_ns + (frame.cpu_busy_ns or frame.dur_ns or 0)
            for frame in frames
        )
        try:
            joined = frame_clock.solve(begins, [ns for ns, _ in presents])
        except UnsupportedTraceError as error:
            raise UnsupportedTraceError(f"{capture.path}: {error}") from None
    elif capture.clock == "qpc":
        joined = frame_clock.Joined(0.0, 0.0, 0, 0)
    else:
        joined = frame_clock.from_qpc_ns(start_clock, clock_hz, _RESOLUTION_NS)
    times = [ns for ns, _ in presents]
    rows = []
    for number, frame in enumerate(frames, start=1):
        if capture.clock == "qpc" and clock_hz and start_clock is not None:
            time = frame_clock.qpc_ns(frame.time, start_clock, clock_hz)
        else:
            time = joined.ns(frame.time)
        start = time - frame.ahead_ns
        rows.append(
            {
                "frame": number,
                "upid": upid,
                "utid": _presenter(presents, times, start + (frame.cpu_busy_ns or 0)),
                "process": frame.process,
                "start_ns": start,
                "dur_ns": frame.dur_ns,
                "cpu_busy_ns": frame.cpu_busy_ns,
                "gpu_busy_ns": frame.gpu_busy_ns,
                "displayed_ns": (
                    None if frame.displayed_after_ns is None else start + frame.displayed_after_ns
                ),
                "dropped": frame.dropped,
                "dialect": capture.dialect,
                "clock_residual_ns": joined.residual_ns,
            }
        )
    return rows


def _presenter(
    presents: list[tuple[int, int | None]], times: list[int], present_ns: int
) -> int | None:
    """The thread of the nearest present in the trace."""
    if not presents:
        return None
    at = bisect_left(times, present_ns)
    near = presents[max(0, at - 1) : at + 1]
    return min(near, key=lambda other: abs(other[0] - present_ns))[1]


def build_paths(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Fills `frame_path` for the frames whose presenting thread is known."""
    con.execute("DELETE FROM frame_path WHERE trace_id = ?", [trace_id])
    parameters = {"trace_id": trace_id}
    if not con.execute(f"SELECT 1 FROM ({_PATH_FRAMES}) LIMIT 1", parameters).fetchall():
        return
    frames, states = con.cursor(), con.cursor()
    found = _decoders.critical_path(
        trace_id,
        frames.sql(_PATH_FRAMES, params=parameters).to_arrow_reader(_BATCH),
        states.sql(_PATH_STATES, params=parameters).to_arrow_reader(_BATCH),
    )
    if found is not None:
        con.register("found_paths", found)
        con.execute("INSERT INTO frame_path BY NAME FROM found_paths")
        con.unregister("found_paths")


def _one(con: duckdb.DuckDBPyConnection, sql: str, *values: object) -> tuple[Any, ...]:
    found = con.execute(sql, list(values)).fetchone()
    if found is None:
        raise UnsupportedTraceError("the recording has no row in `trace`")
    return tuple(found)
