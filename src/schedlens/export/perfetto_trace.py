"""Writes a recording as a trace that ui.perfetto.dev opens: see docs/perfetto.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.errors import DatabaseError
from schedlens.export import exported_ids, own_tracks, schedule_rows
from schedlens.export.exported_ids import ExportedThread, Ids
from schedlens.export.own_tracks import Family
from schedlens.export.proto_message import Message, varint
from schedlens.output import whole_file

Progress = Callable[[str, float], None]

# Rows that are encoded at once.
_BATCH_ROWS = 131_072
# Times of a trace are 64-bit ns; a clock far beyond this (FILETIME) is not used as it is.
_LATEST_CLOCK_NS = 1 << 62
_NS_PER_S = 1_000_000_000
# Where the trace begins if the recording's own clock is not known or does not fit.
_BASE_NS = _NS_PER_S
# `ClockSnapshot.Clock.BuiltinClocks`.
_REALTIME, _BOOTTIME = 1, 6
# From this release of Linux on, sched_switch reports states as they are written here.
_STATES_SINCE = (4, 14)
# trace_processor refuses CPUs above this.
_CPUS = 1024
_TRACK_SEQUENCE = 2
_LOWER_HALF = 0xFFFFFFFF


def save(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    path: Path,
    *,
    with_tracks: bool = True,
    progress: Progress = lambda label, share: None,
) -> None:
    """Writes one recording of an analyzed session to a file.

    `with_tracks`: also what schedlens found, on tracks of its own. Raises `DatabaseError`,
    `SessionError`, or `NoSpaceError`, and leaves no half-written file.
    """
    whole_file.write(
        path, lambda out: write(con, trace_id, out, with_tracks=with_tracks, progress=progress)
    )


def write(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    out: BinaryIO,
    *,
    with_tracks: bool = True,
    progress: Progress = lambda label, share: None,
) -> None:
    """As `save`, to an open file."""
    try:
        _Trace(con, trace_id, out).write(with_tracks, progress)
    except duckdb.Error as error:
        raise DatabaseError(str(error).splitlines()[0]) from None


def base_ns(facts: dict[str, Any]) -> int:
    """The time in the trace of ns 0 of a recording: its own clock in ns, if that is known."""
    first = min(facts["first_ns"] or 0, 0)
    start, hz = facts["start_clock"], facts["clock_hz"]
    if start is not None and hz and 0 <= start * _NS_PER_S // hz < _LATEST_CLOCK_NS:
        return int(max(start * _NS_PER_S // hz, -first))
    return _BASE_NS - first


def _facts(con: duckdb.DuckDBPyConnection, trace_id: int) -> dict[str, Any]:
    rows = con.sql(
        "SELECT * EXCLUDE (start_time_utc), epoch_ns(start_time_utc) AS utc_ns FROM trace "
        f"WHERE trace_id = {trace_id}"
    ).to_arrow_table()
    facts: dict[str, Any] = rows.to_pylist()[0]
    return facts


class _Trace:
    """One trace in the making."""

    def __init__(self, con: duckdb.DuckDBPyConnection, trace_id: int, out: BinaryIO) -> None:
        self.con, self.trace_id, self.out = con, trace_id, out
        self.facts = _facts(con, trace_id)
        self.base = base_ns(self.facts)
        self.first = self.base + min(self.facts["first_ns"] or 0, 0)
        self.ids = exported_ids.assign(con, trace_id)
        self.threads = {thread.utid & _LOWER_HALF: thread for thread in self.ids.threads}
        self.last_cpu = self._last_cpu()
        self.packets = _decoders.PerfettoPackets(
            self.base, self.facts["first_ns"] or 0, self.last_cpu, _listed(self.ids)
        )
        # When threads were created that existed in a state before they could run.
        self.created: dict[int, int] = {}
        self._described: set[int] = set()

    def write(self, with_tracks: bool, progress: Progress) -> None:
        families = self._families() if with_tracks else []
        parts = len(families) + 3
        progress("names", 0)
        self._machine()
        schedule_rows.prepare(self.con, self.trace_id)
        self._states()
        self._names()
        progress("schedule", 1 / parts)
        sql = schedule_rows.schedule(self.trace_id, self.last_cpu)
        for batch in self._batches(sql):
            self.out.write(self.packets.schedule(batch))
        self.out.write(self.packets.end_schedule())
        schedule_rows.release(self.con)
        for number, family in enumerate(families):
            progress(family.group, (number + 3) / parts)
            for batch in self._batches(family.rows(self.trace_id)):
                self._describe(family, batch)
                self.out.write(self.packets.slices(batch))

    def _batches(self, sql: str) -> pa.RecordBatchReader:
        return self.con.sql(sql).to_arrow_reader(_BATCH_ROWS)

    def _packet(self, field: int, content: Message, ts: int | None = None) -> None:
        packet = Message().number(8, self.first if ts is None else ts).number(10, _TRACK_SEQUENCE)
        whole = bytes(packet.message(field, content))
        self.out.write(b"\x0a" + varint(len(whole)) + whole)

    def _last_cpu(self) -> int:
        """The highest CPU number of the schedule."""
        rows = self.con.execute(
            "SELECT coalesce(max(cpu), 0) FROM cpu_state WHERE trace_id = ?", [self.trace_id]
        ).fetchall()
        highest: int = rows[0][0]
        if highest >= _CPUS:
            raise DatabaseError(
                f"{self.facts['label']} has CPU {highest}, but Perfetto reads CPUs up to "
                f"{_CPUS - 1}: export tables instead (--parquet)"
            )
        return highest

    def _machine(self) -> None:
        facts = self.facts
        clocks = Message().message(1, Message().number(1, _BOOTTIME).number(2, self.base))
        if facts["utc_ns"] is not None and facts["utc_ns"] >= 0:
            clocks.message(1, Message().number(1, _REALTIME).number(2, facts["utc_ns"]))
        self._packet(6, clocks.number(2, _BOOTTIME))
        system = facts["os"] or "unknown system"
        name = Message().text(1, "Linux").text(2, system).text(3, release(facts["os"]))
        self._packet(45, Message().message(1, name).text(4, f"schedlens {facts['tool_version']}"))
        cpus = self.con.execute(
            "SELECT cpu, arg_max(capacity, coalesce(valid_from_ns, -1)), "
            "arg_max(max_khz, coalesce(valid_from_ns, -1)) FROM cpu WHERE trace_id = ? "
            "GROUP BY cpu",
            [self.trace_id],
        ).fetchall()
        known = {cpu: (capacity, khz) for cpu, capacity, khz in cpus}
        described = Message()
        for cpu in range(max(known, default=-1) + 1):
            capacity, khz = known.get(cpu, (None, None))
            one = Message().text(1, facts["cpu_model"]).number(2, khz).number(3, capacity)
            described.message(1, one)
        if known:
            self._packet(67, described)

    def _states(self) -> None:
        for batch in self._batches(schedule_rows.other_states()):
            for row in batch.to_pylist():
                if row["state"] == "Created":
                    self.created[row["utid"] & _LOWER_HALF] = self.base + row["ts"]
            self.out.write(self.packets.states(batch))

    def _names(self) -> None:
        """Processes and threads, each when it is created: a state may come before its name."""
        mains = {thread.tid: self._since(thread) for thread in self.ids.threads}
        for process in self.ids.processes:
            since = mains.get(process.pid, self.first)
            # The name of a parent creates its main thread, which must not exist too early.
            parent = process.parent or 0
            named = process.parent if mains.get(parent, self.first) <= since else None
            entry = Message().number(1, process.pid).number(2, named).text(3, process.name or "")
            self._packet(2, Message().message(1, entry), since)
        for thread in self.ids.threads:
            entry = Message().number(1, thread.tid).text(2, thread.name).number(3, thread.pid)
            self._packet(2, Message().message(2, entry), self._since(thread))

    def _since(self, thread: ExportedThread) -> int:
        return self.created.get(thread.utid & _LOWER_HALF, self.first)

    def _families(self) -> list[Family]:
        self.con.register("frame_lane", own_tracks.frame_lanes(self.con, self.trace_id))
        return list(own_tracks.FAMILIES)

    def _describe(self, family: Family, batch: pa.RecordBatch) -> None:
        """Writes the descriptors of tracks that no batch had before."""
        import pyarrow.compute as pc

        for track in pc.unique(batch["track"]).to_pylist():
            if track not in self._described:
                self._described.add(track)
                self._describe_track(family, track)

    def _describe_track(self, family: Family, track: int) -> None:
        number = own_tracks.owner_number(family, track)
        if family.owner == "thread":
            thread = self.threads.get(number)
            if thread is None:
                return
            parent = own_tracks.THREADS << own_tracks.FAMILY_SHIFT | number
            since = self._since(thread)
            who = Message().number(1, thread.pid).number(2, thread.tid).text(5, thread.name)
            self._once(parent, Message().number(1, parent).message(4, who), since)
            self._track(track, family.group, parent, since)
            return
        if family.owner == "process":
            parent = own_tracks.PROCESSES << own_tracks.FAMILY_SHIFT | number
            for process in self.ids.processes:
                if process.upid is not None and process.upid & _LOWER_HALF == number:
                    who = Message().number(1, process.pid).text(6, process.name)
                    self._once(parent, Message().number(1, parent).message(3, who))
            self._track(track, family.group, parent)
            return
        group = Message().number(1, family.group_uuid).text(2, family.group)
        self._once(family.group_uuid, group)
        name = {"cpu": f"CPU {number}", "core": f"core {number}"}.get(family.owner, "findings")
        self._track(track, "some CPU" if number == own_tracks.NO_CPU else name, family.group_uuid)

    def _once(self, uuid: int, descriptor: Message, since: int | None = None) -> None:
        if uuid not in self._described:
            self._described.add(uuid)
            self._packet(60, descriptor, since)

    def _track(self, uuid: int, name: str, parent: int, since: int | None = None) -> None:
        descriptor = Message().number(1, uuid).text(2, name).number(5, parent)
        self._packet(60, descriptor, since)


def release(system: str | None) -> str:
    """A release of Linux by which trace_processor reads the states as they are written."""
    found = re.match(r"Linux ((\d+)\.(\d+)\S*)", system or "")
    if found and (int(found[2]), int(found[3])) >= _STATES_SINCE:
        return found[1]
    return f"6.0.0-schedlens-{__version__}"


def _listed(ids: Ids) -> pa.RecordBatch:
    """The threads as `PerfettoPackets` takes them."""
    return pa.RecordBatch.from_pydict(
        {
            "utid": pa.array([thread.utid for thread in ids.threads], pa.int64()),
            "tid": pa.array([thread.tid for thread in ids.threads], pa.int32()),
            "name": pa.array([thread.name for thread in ids.threads], pa.string()),
        }
    )


def window(
    con: duckdb.DuckDBPyConnection, trace_id: int, span: tuple[int, int] | None
) -> tuple[int, int] | None:
    """A span in ns of a recording as times of its trace, limited to it."""
    if span is None:
        return None
    facts = _facts(con, trace_id)
    base = base_ns(facts)
    start = max(span[0], facts["first_ns"] or 0)
    return base + start, base + max(start, min(span[1], facts["duration_ns"]))
