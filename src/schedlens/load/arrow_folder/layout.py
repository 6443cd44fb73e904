"""A folder of base tables as Arrow files, as the TraceProcessor exporter writes it.

`tables.json` is written last and lists what the folder contains. None of it is trusted: row
counts, columns, types, order and ids are checked while the files are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from schedlens import _decoders
from schedlens.errors import DamagedTraceError, NotATraceError, UnsupportedTraceError

MANIFEST = "tables.json"
FORMAT = "schedlens-tables"
VERSION = 1
SUFFIX = ".arrow"

# Base tables of a recording. Session tables come from the session, `trace` from the manifest.
TABLES = (
    "cpu", "machine_setting", "process", "thread", "thread_name", "affinity", "context_switch",
    "wakeup", "migration", "priority_change", "affinity_change", "ideal_cpu_change", "qos_change",
    "sched_yield", "interrupt_slice", "cpu_idle", "cpu_frequency", "cpu_parking", "counter_sample",
    "frame", "mark", "loss", "problem", "record_count",
)  # fmt: skip
NEEDED = ("cpu", "thread", "context_switch")

# Tables whose rows are in time order.
IN_TIME = (
    "context_switch", "wakeup", "migration", "sched_yield", "interrupt_slice", "counter_sample",
)  # fmt: skip

IDS = ("utid", "prev_utid", "next_utid", "waker_utid", "upid")
# The state machine allocates an entry per thread, so it rejects implausibly large numbers.
MOST_LIVES = 1 << 22
# A dictionary of texts uses one byte per row.
MOST_WORDS = 256

_NUMBERS = (
    "start_clock", "clock_hz", "start_time_utc_ns", "first_ns", "duration_ns", "events_lost",
    "buffers_lost",
)  # fmt: skip
_TEXTS = ("path", "host", "os", "cpu_model", "clock_name")


@dataclass(frozen=True)
class TablesFolder:
    """A folder whose manifest has been read; `rows` by table, `trace` as in the manifest."""

    path: Path
    source: str
    written_by: str
    rows: Mapping[str, int]
    trace: Mapping[str, Any]

    def batches(self, table: str, most_rows: int) -> Iterator[pa.RecordBatch]:
        """The checked rows of a table in file order, at most `most_rows` at a time.

        Yields nothing for a table that the folder lacks. Raises `DamagedTraceError`.
        """
        if table not in self.rows:
            return
        file = self.path / f"{table}{SUFFIX}"
        count, before = 0, None
        for batch in _batches(file, _decoders.schemas()[table]):
            for start in range(0, batch.num_rows, most_rows):
                part = batch.slice(start, most_rows)
                if table in IN_TIME:
                    before = _in_time(file, part, before, count)
                count += part.num_rows
                yield part
        if count != self.rows[table]:
            raise DamagedTraceError(
                f"{file} has {count} rows, but {MANIFEST} says {self.rows[table]}: "
                "the export is incomplete, export again"
            )


def is_one(path: Path) -> bool:
    """Whether a path is such a folder, complete or not."""
    return path.is_dir() and ((path / MANIFEST).exists() or any(path.glob(f"*{SUFFIX}")))


def open_folder(path: Path) -> TablesFolder:
    """Reads the manifest.

    Raises `NotATraceError`, `UnsupportedTraceError` or `DamagedTraceError`.
    """
    file = path / MANIFEST
    if not is_one(path):
        raise NotATraceError(f"{path} contains no tables: name the folder that an export wrote")
    if not file.exists():
        raise DamagedTraceError(f"{path} has no {MANIFEST}: the export is incomplete, export again")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedTraceError(f"cannot read {file} ({error}): export again") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NotATraceError(f"{file} does not have the format {FORMAT}: name a folder of tables")
    if found.get("format_version") != VERSION:
        raise UnsupportedTraceError(
            f"{file} has version {found.get('format_version')!r}, but only {VERSION} is supported: "
            "export again with the exporter that came with this schedlens"
        )
    source, trace, rows = found.get("source"), found.get("trace"), found.get("tables")
    if source not in ("perf", "etw", "perfetto"):
        raise UnsupportedTraceError(f"{file}: source {source!r} is not perf, etw or perfetto")
    if not isinstance(trace, dict) or not isinstance(rows, dict):
        raise DamagedTraceError(f"{file} lacks `trace` or `tables`: export again")
    for table, count in rows.items():
        if table not in TABLES:
            raise UnsupportedTraceError(f"{file}: there is no base table {table!r}")
        if not _is_int64(count) or count < 0:
            raise DamagedTraceError(f"{file}: {table} has {count!r} rows: export again")
        if not (path / f"{table}{SUFFIX}").is_file():
            raise DamagedTraceError(
                f"{path} lacks {table}{SUFFIX}, which {MANIFEST} lists: export again"
            )
    for table in NEEDED:
        if table not in rows:
            raise DamagedTraceError(f"{path} lacks the table {table}: export again")
    for extra in sorted(path.glob(f"*{SUFFIX}")):
        if extra.stem not in rows:
            raise DamagedTraceError(f"{extra} is not listed in {MANIFEST}: export again")
    _check_facts(file, trace)
    return TablesFolder(path, source, str(found.get("written_by") or "unknown"), rows, trace)


def declared(
    folder: TablesFolder, table: str, batches: list[pa.RecordBatch], trace_id: int
) -> pa.RecordBatch:
    """Rows of a file in the table's declared schema, as rows of the recording `trace_id`.

    Columns that the file lacks are NULL. Raises `DamagedTraceError`.
    """
    file = folder.path / f"{table}{SUFFIX}"
    try:
        return _declared(file, _decoders.schemas()[table], batches, trace_id)
    except (pa.ArrowException, MemoryError) as error:
        why = str(error).partition("\n")[0]
        raise DamagedTraceError(f"{file} does not fit its table ({why}): export again") from None


def _declared(
    file: Path, schema: pa.Schema, batches: list[pa.RecordBatch], trace_id: int
) -> pa.RecordBatch:
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    count = batch.num_rows
    own = _own_trace_id(file, batch)
    columns = []
    for field in schema:
        if field.name == "trace_id":
            columns.append(pa.repeat(pa.scalar(trace_id, pa.int64()), count))
        elif field.name not in batch.schema.names:
            columns.append(pa.nulls(count, field.type))
        elif field.name in IDS:
            columns.append(_moved(file, field.name, batch.column(field.name), own, trace_id))
        else:
            columns.append(_cast(file, field, batch.column(field.name)))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _batches(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a file, each checked against the declared schema."""
    try:
        with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as reader:
            _check_columns(file, reader.schema, schema)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)
                _check_nulls(file, batch, schema)
                yield batch
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        why = str(error).partition("\n")[0]
        raise DamagedTraceError(
            f"{file} is not a complete Arrow file ({why}): the export did not finish, export again"
        ) from None


def _check_columns(file: Path, found: pa.Schema, wanted: pa.Schema) -> None:
    for field in wanted:
        places = found.get_all_field_indices(field.name)
        if len(places) > 1 or (not places and not field.nullable):
            raise DamagedTraceError(
                f"{file}: {len(places)} columns named {field.name}, expected 1: export again"
            )
        if places and not _fits(found.field(places[0]).type, field.type):
            raise DamagedTraceError(
                f"{file}: column {field.name} has type {found.field(places[0]).type}, "
                f"expected {field.type}: export again"
            )
    for name in found.names:
        if name not in wanted.names:
            raise DamagedTraceError(
                f"{file}: unknown column {name!r}: export again with the exporter that "
                "came with this schedlens"
            )


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type is accepted: texts may be dictionaries, lists may name items in any way."""
    if pa.types.is_dictionary(wanted) or pa.types.is_string(wanted):
        plain = found.value_type if pa.types.is_dictionary(found) else found
        return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(found) and _fits(found.value_type, wanted.value_type))
    return bool(found == wanted)


def _check_nulls(file: Path, batch: pa.RecordBatch, wanted: pa.Schema) -> None:
    for field in wanted:
        if not field.nullable and batch.column(field.name).null_count:
            raise DamagedTraceError(
                f"{file}: column {field.name} must not be NULL, but is in "
                f"{batch.column(field.name).null_count} rows: export again"
            )


def _in_time(file: Path, batch: pa.RecordBatch, before: int | None, row: int) -> int | None:
    """The last time of a batch in time order. Raises `DamagedTraceError` for other orders."""
    times = batch.column("ts")
    count = len(times)
    if count == 0:
        return before
    falls = pc.index(pc.less(times.slice(1), times.slice(0, count - 1)), True).as_py() + 1
    if before is not None and times[0].as_py() < before:
        falls = 0
    elif falls == 0:
        last: int = times[count - 1].as_py()
        return last
    earlier = before if falls == 0 else times[falls - 1].as_py()
    raise DamagedTraceError(
        f"{file}: row {row + falls} has time {times[falls].as_py()} after {earlier}: "
        "rows must be in time order, export again"
    )


def _own_trace_id(file: Path, batch: pa.RecordBatch) -> int:
    bounds = pc.min_max(batch.column("trace_id")).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None:
        return 0
    if low != high or not 0 <= low < 1 << 31:
        raise DamagedTraceError(
            f"{file} contains recordings {low} to {high}: export one recording per folder"
        )
    return int(low)


def _moved(file: Path, name: str, ids: pa.Array, own: int, trace_id: int) -> pa.Array:
    """Converts life numbers of the recording `own` to those of `trace_id`."""
    bounds = pc.min_max(ids).as_py()
    base = own << 32
    if bounds["min"] is None:
        return ids
    if bounds["min"] < base or bounds["max"] >= base + MOST_LIVES:
        raise DamagedTraceError(
            f"{file}: {name} ranges from {bounds['min']} to {bounds['max']}, but "
            f"recording {own} allows {base} to {base + MOST_LIVES - 1}: export again"
        )
    return pc.add(ids, pa.scalar((trace_id << 32) - base, pa.int64()))


def _cast(file: Path, field: pa.Field, column: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(field.type):
        return column if column.type == field.type else column.cast(field.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    words = column.cast(pa.string()).dictionary_encode()
    if len(words.dictionary) > MOST_WORDS:
        raise DamagedTraceError(
            f"{file}: column {field.name} has more than {MOST_WORDS} different texts in a row "
            "of batches: export again"
        )
    return pa.DictionaryArray.from_arrays(words.indices.cast(pa.uint8()), words.dictionary)


def _check_facts(file: Path, trace: Mapping[str, Any]) -> None:
    for name in _NUMBERS:
        value = trace.get(name)
        if value is not None and not _is_int64(value):
            raise DamagedTraceError(f"{file}: {name} is {value!r}, not a number: export again")
    for name in _TEXTS:
        value = trace.get(name)
        if value is not None and not isinstance(value, str):
            raise DamagedTraceError(f"{file}: {name} is {value!r}, not a text: export again")


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
