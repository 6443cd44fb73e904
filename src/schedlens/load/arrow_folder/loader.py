"""Loads a folder of base tables through the state machine, like the loaders of other formats."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.errors import DamagedTraceError
from schedlens.load.arrow_folder import layout
from schedlens.load.arrow_folder.layout import IN_TIME, TablesFolder

# Rows of a table to buffer at once, which limits the length of a chunk.
BUFFERED_ROWS = 1 << 18

Rows = tuple[str, pa.RecordBatch]

# The state machine corrects the rows of these tables and returns them itself.
_THROUGH_THE_MACHINE = ("context_switch", "wakeup")
# Rows of these are identified by CPU and position.
_PLACED = ("context_switch", "wakeup")
_BEGIN = -(1 << 63)


class Loader(Iterator[Rows]):
    """(table, batch) of a folder, ready for the database.

    `cpus`: rows of `cpu` from the user, which replace the folder's. Errors in the manifest, such as
    `DamagedTraceError`, are raised at once, others with a batch.
    """

    def __init__(
        self, path: Path, trace_id: int, label: str, cpus: pa.RecordBatch | None = None
    ) -> None:
        self.folder = layout.open_folder(path)
        self.trace_id = trace_id
        self.label = label
        self.cpus = cpus
        self._all = max(1, sum(self.folder.rows.values()))
        self._read = 0
        self._rows = self._load()

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> Rows:
        return next(self._rows)

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def progress(self) -> float:
        """Share of the rows that has been read, 0 to 1."""
        return min(1.0, self._read / self._all)

    def _load(self) -> Iterator[Rows]:
        folder = self.folder
        settings = self._whole("machine_setting")
        machine = _decoders.States(
            self.trace_id,
            folder.source,
            _tick_ns(settings),
            "sched_yield" in folder.rows,
            "wakeup" in folder.rows,
        )
        threads, cpus = self._whole("thread"), self._whole("cpu")
        if self.cpus is not None:
            cpus = pa.RecordBatch.from_arrays(self.cpus.columns, schema=cpus.schema)
        # The state machine applies each gap where it starts, so it needs all of them first.
        losses = self._whole("loss")
        yield from machine.push(_BEGIN, [("thread", threads), ("loss", losses)])
        for table in folder.rows:
            if table in (*IN_TIME, "thread", "cpu", "loss", "machine_setting"):
                continue
            for batch in folder.batches(table, BUFFERED_ROWS):
                rows = self._declared(table, [batch])
                if table == "cpu_idle":
                    yield from machine.push(_BEGIN, [(table, rows)])
                yield table, rows
        if folder.rows.get("sched_yield") == 0:
            # An empty table means that events of this kind were recorded; a count of 0 keeps that.
            yield "record_count", self._counted("sched_yield", 0)
        chunks = _Chunks(folder)
        for until, raw in chunks:
            parts = {table: self._declared(table, batches) for table, batches in raw.items()}
            chunks.check_positions(parts)
            yield from machine.push(until, list(parts.items()))
            for table, rows in parts.items():
                if table not in _THROUGH_THE_MACHINE:
                    yield table, rows
        window = _window(folder, chunks)
        yield from machine.finish(*window, threads, cpus)
        yield "thread", threads
        yield "cpu", cpus
        yield "machine_setting", settings
        yield "trace", _trace(folder, self.trace_id, self.label, window)

    def _declared(self, table: str, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = layout.declared(self.folder, table, batches, self.trace_id)
        self._read += rows.num_rows
        return rows

    def _counted(self, record: str, count: int) -> pa.RecordBatch:
        row = {"trace_id": self.trace_id, "record": record, "count": count}
        return pa.RecordBatch.from_pylist([row], schema=_decoders.schemas()["record_count"])

    def _whole(self, table: str) -> pa.RecordBatch:
        """All rows of a small table."""
        batches = list(self.folder.batches(table, BUFFERED_ROWS))
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=_decoders.schemas()[table])
        return self._declared(table, batches)


class _Chunks:
    """The tables in time order, cut at common times; rows with equal times stay together."""

    def __init__(self, folder: TablesFolder) -> None:
        self.folder = folder
        self.streams = [_Stream(folder, table) for table in IN_TIME]
        self.positions: dict[tuple[str, int], int] = {}
        self.first: int | None = None
        self.last: int | None = None

    def __iter__(self) -> Iterator[tuple[int, dict[str, list[pa.RecordBatch]]]]:
        more = True
        while more:
            for stream in self.streams:
                stream.fill()
            horizons = [stream.last for stream in self.streams if not stream.ended]
            until = min(horizons, default=None)
            parts = {stream.table: stream.take(until) for stream in self.streams}
            parts = {table: batches for table, batches in parts.items() if batches}
            more = until is not None
            if more and not parts:
                # All buffered rows of a table have the same time: read until that time ends.
                for stream in self.streams:
                    if not stream.ended and stream.last == until:
                        stream.add()
                continue
            self._note(parts)
            yield (1 << 63) - 1 if until is None else until, parts

    def _note(self, parts: dict[str, list[pa.RecordBatch]]) -> None:
        for batches in parts.values():
            first, last = batches[0].column("ts")[0].as_py(), batches[-1].column("ts")[-1].as_py()
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)

    def check_positions(self, parts: dict[str, pa.RecordBatch]) -> None:
        """Checks that each row has its own CPU and position, which identify rows to correct.

        Raises `DamagedTraceError`.
        """
        for table in _PLACED:
            if table not in parts:
                continue
            rows = pa.Table.from_batches([parts[table].select(["cpu", "seq"])])
            wanted = [("seq", kind) for kind in ("min", "max", "count", "count_distinct")]
            for row in rows.group_by("cpu").aggregate(wanted).to_pylist():
                before = self.positions.get((table, row["cpu"]))
                repeated = row["seq_count"] != row["seq_count_distinct"]
                if repeated or (before is not None and row["seq_min"] <= before):
                    raise DamagedTraceError(
                        f"{self.folder.path / table}{layout.SUFFIX}: seq repeats or decreases "
                        f"on CPU {row['cpu']}, but must be the position in that CPU's stream: "
                        "export again"
                    )
                self.positions[table, row["cpu"]] = row["seq_max"]


class _Stream:
    """The rows of one table that have been read but not yet taken."""

    def __init__(self, folder: TablesFolder, table: str) -> None:
        self.table = table
        self.ended = False
        self._batches = folder.batches(table, BUFFERED_ROWS)
        self._buffered: list[pa.RecordBatch] = []
        self._rows = 0

    @property
    def last(self) -> int:
        """The last buffered time; only valid while rows remain to be read."""
        time: int = self._buffered[-1].column("ts")[-1].as_py()
        return time

    def fill(self) -> None:
        """Reads until enough rows are buffered."""
        while not self.ended and self._rows < BUFFERED_ROWS:
            self.add()

    def add(self) -> None:
        """Reads one more batch."""
        batch = next(self._batches, None)
        if batch is None:
            self.ended = True
        elif batch.num_rows:
            self._buffered.append(batch)
            self._rows += batch.num_rows

    def take(self, until: int | None) -> list[pa.RecordBatch]:
        """Removes and returns the rows before a time; all rows if there is none."""
        taken = []
        while self._buffered:
            batch = self._buffered[0]
            times = batch.column("ts")
            count = batch.num_rows
            if until is not None and times[-1].as_py() >= until:
                count = bisect_left(range(count), until, key=lambda row: times[row].as_py())
            if count:
                taken.append(batch.slice(0, count))
                self._rows -= count
            if count < batch.num_rows:
                self._buffered[0] = batch.slice(count)
                break
            del self._buffered[0]
        return taken


def _tick_ns(settings: pa.RecordBatch) -> int | None:
    """Length of a scheduler tick, from the setting `hz`."""
    for row in settings.to_pylist():
        if row["key"] == "hz" and (row["value"] or "").isdigit() and int(row["value"]):
            return 1_000_000_000 // int(row["value"]) or None
    return None


def _window(folder: TablesFolder, chunks: _Chunks) -> tuple[int, int]:
    """First and last time in the manifest, extended to records outside it."""
    firsts = [folder.trace.get("first_ns"), chunks.first]
    lasts = [folder.trace.get("duration_ns"), chunks.last]
    first = min((time for time in firsts if time is not None), default=0)
    return first, max((time for time in lasts if time is not None), default=first)


def _trace(
    folder: TablesFolder, trace_id: int, label: str, window: tuple[int, int]
) -> pa.RecordBatch:
    facts = folder.trace
    row = {
        **{name: facts.get(name) for name in ("host", "os", "cpu_model", "clock_name")},
        **{name: facts.get(name) for name in ("start_clock", "clock_hz")},
        **{name: facts.get(name) for name in ("events_lost", "buffers_lost")},
        "trace_id": trace_id,
        "label": label,
        "source": folder.source,
        "path": str(folder.path),
        "start_time_utc": facts.get("start_time_utc_ns"),
        "first_ns": window[0],
        "duration_ns": window[1],
        "schema_version": _decoders.SCHEMA_VERSION,
        "tool_version": __version__,
    }
    schema = _decoders.schemas()["trace"]
    columns = [pa.array([row[field.name]], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
