"""What schedlens adds to a trace: slices on tracks of their own, each family from one query.

A family yields rows for `PerfettoPackets.slices`: track, ts, dur, name, flow, flow_end, and any
further columns as arguments. Rows of a track follow each other and never overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import duckdb
import pyarrow as pa

# What a track belongs to: its number is a utid, a upid, a CPU, a core, or a lane.
Owner = Literal["thread", "process", "cpu", "core", "lane"]

# The upper bits of a track's uuid are its family, the lower ones the number of its owner.
FAMILY_SHIFT = 40
OWNER_MASK = (1 << FAMILY_SHIFT) - 1
PROCESSES, THREADS = 1, 2
# The number of a CPU that is not known.
NO_CPU = 0xFFFF


@dataclass(frozen=True)
class Family:
    """Tracks of one kind."""

    number: int
    owner: Owner
    group: str
    """Name of the group of its tracks; for a thread or a process, of the track itself."""
    sql: Callable[[str, int], str]
    """SQL of its rows, given the SQL of the track's number and the recording."""

    @property
    def group_uuid(self) -> int:
        """The uuid of the group."""
        return self.number << FAMILY_SHIFT | OWNER_MASK

    def rows(self, trace_id: int) -> str:
        """SQL of its rows."""
        number = f"({self.number}::BIGINT << {FAMILY_SHIFT} | (number & {0xFFFFFFFF}))"
        return self.sql(number, trace_id)


_NO_FLOW = "NULL::BIGINT AS flow, NULL::BIGINT AS flow_end"


def _findings(track: str, trace_id: int) -> str:
    # Each finding has its own lane: their times overlap.
    return f"""
      SELECT {track} AS track, ts, dur, name, {_NO_FLOW}, * EXCLUDE (number, ts, dur, name)
      FROM (
        SELECT
          finding_id AS number,
          coalesce(f.start_ns, first_ns) AS ts,
          greatest(coalesce(f.end_ns, duration_ns) - coalesce(f.start_ns, first_ns), 0) AS dur,
          f.title AS name, f.detail, f.advice, f.severity, f.analyzer, f.kind, f.cost_ns,
          f.cost_pct, f.cost_of, f.bound, f.cost_low_ns, f.cost_high_ns,
          thread.name AS thread, f.cpu::BIGINT AS cpu,
          f.start_ns IS NULL AS whole_recording, evidence_sql, counter_evidence_sql,
        FROM finding AS f
        JOIN trace ON trace.trace_id = {trace_id}
        LEFT JOIN thread ON thread.utid = f.utid
        WHERE coalesce(f.trace_id, {trace_id}) = {trace_id}
      )
      ORDER BY track, ts"""


def _lost(track: str, trace_id: int) -> str:
    # Rows of the same time on one CPU, such as a gap and the record that signals it, are one slice.
    return f"""
      SELECT {track} AS track, ts, greatest(until - ts, 0) AS dur, 'lost events' AS name,
        {_NO_FLOW}, events::BIGINT AS events, signalled_by,
      FROM (
        SELECT
          coalesce(cpu, {NO_CPU}) AS number,
          greatest(coalesce(start_ns, first_ns), coalesce(max(end_ns) OVER before, first_ns)) AS ts,
          coalesce(end_ns, duration_ns) AS until,
          loss.events, signalled_by,
        FROM loss
        JOIN trace USING (trace_id)
        WHERE trace_id = {trace_id}
        WINDOW before AS (
          PARTITION BY cpu ORDER BY coalesce(start_ns, first_ns), end_ns
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
      )
      WHERE until >= ts
      ORDER BY track, ts, dur"""


def _siblings(track: str, trace_id: int) -> str:
    return f"""
      SELECT {track} AS track, ts, dur, one || ' + ' || other AS name, {_NO_FLOW},
        cpu::BIGINT AS cpu, other_cpu::BIGINT AS other_cpu, one AS thread, other AS other_thread,
      FROM (
        SELECT
          s.core << 10 | row_number() OVER (
            PARTITION BY s.core, s.ts ORDER BY s.cpu, s.other_cpu
          ) AS number,
          s.ts, s.dur, s.cpu, s.other_cpu,
          coalesce(a.name, 'interrupt') AS one, coalesce(b.name, 'interrupt') AS other,
        FROM sibling_slice AS s
        LEFT JOIN thread AS a ON a.utid = s.utid
        LEFT JOIN thread AS b ON b.utid = s.other_utid
        WHERE s.trace_id = {trace_id}
      )
      ORDER BY track, ts"""


def _parked(track: str, trace_id: int) -> str:
    return f"""
      SELECT {track} AS track, ts, dur, replace(state, '_', ' ') AS name, {_NO_FLOW}, reason,
      FROM (
        SELECT cpu AS number, * FROM parking_spell(p_trace_id := {trace_id})
        WHERE state IN ('parked', 'soft_parked')
      )
      ORDER BY track, ts"""


def _interrupts(track: str, trace_id: int) -> str:
    # A nested interrupt is left out: its time belongs to the outer one.
    return f"""
      SELECT {track} AS track, ts, dur, name, {_NO_FLOW}, kind,
      FROM (
        SELECT cpu AS number, ts, dur, coalesce(name, kind) AS name, kind,
          max(ts + dur) OVER (
            PARTITION BY cpu ORDER BY ts, dur DESC, seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ) AS before
        FROM interrupt_slice
        WHERE trace_id = {trace_id} AND dur IS NOT NULL
      )
      WHERE before IS NULL OR ts >= before
      ORDER BY track, ts"""


def _avoidable(track: str, trace_id: int) -> str:
    return f"""
      SELECT {track} AS track, ts, dur, 'a whole core was idle' AS name, {_NO_FLOW},
        cpu::BIGINT AS cpu, same_type_idle_ns, any_type_idle_ns,
        nullif(affinity_known, true) AS affinity_known,
      FROM (
        SELECT utid AS number, * FROM sharing_slice
        WHERE trace_id = {trace_id} AND any_type_idle_ns >= 100000
      )
      ORDER BY track, ts"""


def _ready(track: str, trace_id: int) -> str:
    # The first part of a ready period that a thread started is the end of an arrow.
    return f"""
      SELECT {track} AS track, ts, dur, replace(obstacle, '_', ' ') AS name,
        NULL::BIGINT AS flow,
        CASE WHEN woken AND ts = ready_ts THEN (hash(number, ts) >> 1)::BIGINT END AS flow_end,
        entered_cpu::BIGINT AS entered_cpu, nullif(affinity_known, true) AS affinity_known,
      FROM (
        SELECT o.utid AS number, o.*, s.waker_utid IS NOT NULL AS woken,
        FROM ready_obstacle_slice(
          p_trace_id := {trace_id},
          p_from_ns := (SELECT first_ns FROM trace WHERE trace_id = {trace_id}),
          p_to_ns := (SELECT duration_ns FROM trace WHERE trace_id = {trace_id})
        ) AS o
        LEFT JOIN thread_state AS s
          ON s.trace_id = {trace_id} AND s.utid = o.utid AND s.ts = o.ready_ts
          AND s.state = 'ready'
      )
      ORDER BY track, ts"""


def _wakers(track: str, trace_id: int) -> str:
    return f"""
      SELECT {track} AS track, ts, NULL::BIGINT AS dur,
        'wakes ' || coalesce(name, 'a thread') AS name,
        (hash(wakee, ts) >> 1)::BIGINT AS flow, NULL::BIGINT AS flow_end,
      FROM (
        SELECT s.waker_utid AS number, s.ts, s.utid AS wakee, t.name,
        FROM thread_state AS s
        JOIN thread AS w ON w.utid = s.waker_utid AND NOT w.is_idle
        JOIN thread AS t ON t.utid = s.utid
        WHERE s.trace_id = {trace_id} AND s.state = 'ready' AND s.waker_utid IS NOT NULL
      )
      ORDER BY track, ts, name"""


def _guests(track: str, trace_id: int) -> str:
    return f"""
      SELECT {track} AS track, ts, dur, coalesce(guest_thread, 'thread ' || guest_tid, 'unknown')
          || CASE host_state WHEN 'running' THEN '' WHEN 'ready' THEN ' (steal)'
            WHEN 'waiting' THEN ' (blocked in the host)' ELSE ' (unknown in the host)' END AS name,
        {_NO_FLOW}, guest, guest_cpu::BIGINT AS guest_cpu, guest_tid::BIGINT AS guest_tid,
        guest_process, host_state, host_cpu::BIGINT AS host_cpu,
      FROM (SELECT host_utid AS number, * FROM guest_slice(p_trace_id := {trace_id}))
      WHERE number IS NOT NULL
      ORDER BY track, ts"""


def _frames(track: str, trace_id: int) -> str:
    return f"""
      SELECT {track} AS track, start_ns AS ts, dur_ns AS dur, 'frame ' || frame AS name,
        {_NO_FLOW}, frame, cpu_busy_ns, gpu_busy_ns, displayed_ns, dropped, dialect,
        clock_residual_ns,
      FROM frame_lane
      WHERE {trace_id} = {trace_id}
      ORDER BY track, ts, frame"""


def frame_lanes(con: duckdb.DuckDBPyConnection, trace_id: int) -> pa.Table:
    """The frames of a recording with a `number`: process and lane; a lane has no overlap."""
    rows = con.sql(
        f"SELECT * FROM frame WHERE trace_id = {trace_id} AND upid IS NOT NULL "
        "ORDER BY upid, start_ns, frame"
    ).to_arrow_table()
    ends: dict[int, list[int]] = {}
    numbers = []
    for upid, start, length in zip(
        *(rows[name].to_pylist() for name in ("upid", "start_ns", "dur_ns")), strict=True
    ):
        lanes = ends.setdefault(upid, [])
        lane = next((n for n, end in enumerate(lanes) if end <= start), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
        lanes[lane] = start + (length or 0)
        numbers.append((upid & (1 << _LANE_SHIFT) - 1) | lane << _LANE_SHIFT)
    return rows.append_column("number", pa.array(numbers, pa.int64()))


# Processes of a recording in which lanes are counted: more than any system has.
_LANE_SHIFT = 24


FAMILIES = (
    Family(16, "lane", "schedlens: findings", _findings),
    Family(17, "process", "Frames", _frames),
    Family(18, "cpu", "schedlens: lost events", _lost),
    Family(19, "core", "schedlens: SMT siblings busy", _siblings),
    Family(20, "cpu", "schedlens: parked", _parked),
    Family(21, "cpu", "schedlens: interrupts", _interrupts),
    # An arrow has to begin before it ends, also in the file if both have the same time.
    Family(22, "thread", "Wakes", _wakers),
    Family(23, "thread", "Ready: what stood in the way", _ready),
    Family(24, "thread", "Shares a core while another is idle", _avoidable),
    Family(25, "thread", "Guest: what ran on this CPU of it", _guests),
)


def owner_number(family: Family, track: int) -> int:
    """The number of a track's owner, without its lane."""
    number = track & OWNER_MASK
    if family.owner == "process":
        return number & (1 << _LANE_SHIFT) - 1
    if family.owner == "core":
        return number >> 10
    return number
