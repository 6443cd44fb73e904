"""The database: written aside, whole or not at all, readable by the DuckDB shells people have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from schedlens import __version__, _decoders
from schedlens.errors import DatabaseError, NoSpaceError, NothingToReadError, SchedlensError
from schedlens.load import (
    calibration,
    core_type_counters,
    experiment_tables,
    gaps,
    intervals,
    schema,
    session_context,
)
from schedlens.load.arrow_folder import layout
from schedlens.load.arrow_folder import loader as tables_load
from schedlens.load.frames import capture
from schedlens.load.recording import Recording
from schedlens.load.row_groups import RowGroups
from schedlens.output import leftover
from schedlens.output.whole_file import cannot_write

# The newest form that DuckDB 1.5 shells read; the default of DuckDB 2 they cannot.
STORAGE_VERSION = "v1.5.0"

SCHEMA_VERSION = 1

# Nearly all columns are numbers that change from row to row, for which DuckDB chooses this anyway
# after it has tried others; those that hardly change name theirs, and texts have none of this.
_COMPRESSION = "bitpacking"

# An ASOF join is a nested loop where DuckDB expects few rows on its left, which it also does where
# millions come: what a question joins at last is hard to foresee.
_ANSWERING = "SET asof_loop_join_threshold = 0"

# Row groups handed to DuckDB at once: its threads share them, and the decoder goes on beside.
INSERT_ROW_GROUPS = 8

# Rows that correct rows of the table so named; the state machine declares them.
_MENDS = {
    "wakeup_mend": (
        "trace_id BIGINT, cpu INTEGER, seq BIGINT, effective BOOLEAN, target_cpu INTEGER"
    ),
    "context_switch_mend": "trace_id BIGINT, cpu INTEGER, seq BIGINT, next_utid BIGINT",
}

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Failure:
    """A recording that could not be loaded, and why in one line."""

    label: str
    why: str

    @property
    def line(self) -> str:
        """Both; the label only where the reason does not begin with a file of that name."""
        path = self.why.partition(": ")[0]
        named = Path(path).name == Path(self.label).name
        return self.why if named else f"{self.label}: {self.why}"


@contextmanager
def create(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A new database with all tables; it takes its name only when the block ends well.

    A shell that holds the old file keeps it. Raises `DatabaseError`.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    leftover.remove_databases(path)
    remove(aside)
    try:
        con = duckdb.connect(
            str(aside),
            config={
                "storage_compatibility_version": STORAGE_VERSION,
                "force_compression": _COMPRESSION,
            },
        )
    except duckdb.Error as error:
        raise DatabaseError(
            f"cannot write {path}: {_first_line(error)}; choose another place with -o"
        ) from None
    try:
        con.execute(_ANSWERING)
        schema.create(con)
        yield con
        con.execute("CHECKPOINT")
        con.close()
        aside.replace(path)
    except OSError as error:
        named = Path(error.filename) if error.filename else path
        raise cannot_write(path if named == aside else named, error) from None
    except duckdb.Error as error:
        if "No space left on device" in str(error):
            raise NoSpaceError(
                f"cannot write {path}: no space left on its disk; free some, or choose another "
                "place with -o. The former file, if any, is untouched"
            ) from None
        raise DatabaseError(
            f"cannot write {path}: {_first_line(error)}; the former file, if any, is untouched"
        ) from None
    finally:
        con.close()
        remove(aside)


def remove(path: Path) -> None:
    """Deletes a database that is not wanted, with its log."""
    for file in (path, path.with_name(path.name + ".wal")):
        file.unlink(missing_ok=True)


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Opens the database at `path`, or in the session folder `path`, read only."""
    file = path / "analysis.duckdb" if path.is_dir() else path
    if not file.exists():
        raise NothingToReadError(f"{file} does not exist: `analyze {path}` writes it")
    try:
        con = duckdb.connect(str(file), read_only=True)
    except duckdb.Error as error:
        raise DatabaseError(
            f"cannot open {file}: {_first_line(error)} Give a folder that `analyze` wrote, or the "
            "analysis.duckdb in it"
        ) from None
    # Not in the configuration: another connection to this file must agree with that.
    con.execute(_ANSWERING)
    return con


def load_rows(
    con: duckdb.DuckDBPyConnection,
    recordings: list[Recording],
    window: tuple[int | None, int | None],
    progress: Progress,
) -> list[Failure]:
    """Loads all recordings, each as a whole or not at all; returns those that could not be.

    `window` is (from, to) in ns, None for the default end; it fills `analysis_window`.
    """
    failures: list[Failure] = []
    loaded: list[int] = []
    for trace_id, recording in enumerate(recordings, start=1):
        progress(recording.label, (trace_id - 1) / len(recordings))

        def part(share: float, label: str = recording.label, before: int = trace_id - 1) -> None:
            progress(label, (before + share) / len(recordings))

        con.begin()
        try:
            load_base_and_derived(con, recording, trace_id, part)
            _require_records(con, recording, trace_id)
            if recording.frames is not None:
                capture.load(con, trace_id, recording.frames)
        except SchedlensError as error:
            con.rollback()
            failures.append(Failure(recording.label, str(error)))
            continue
        except BaseException:
            con.rollback()
            raise
        con.commit()
        loaded.append(trace_id)
    if not loaded:
        return failures
    _fill_windows(con, window)
    intervals.build(con, loaded)
    for trace_id in loaded:
        capture.build_paths(con, trace_id)
    return failures


def _require_records(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """Raises `NothingToReadError` for a recording that contains no record with a time."""
    row = con.execute("SELECT duration_ns FROM trace WHERE trace_id = ?", [trace_id]).fetchone()
    if row is not None and row[0] is None:
        raise NothingToReadError(
            f"{recording.trace}: contains no records, so nothing it followed ran: record the whole "
            "machine (collect --seconds 10, or perf record -a)"
        )


def load_base_and_derived(
    con: duckdb.DuckDBPyConnection,
    recording: Recording,
    trace_id: int,
    progress: Callable[[float], None] = lambda share: None,
) -> None:
    """Fills the base and derived tables from one recording, inside the caller's transaction."""
    experiment_tables.load(con, recording, trace_id)
    calibration.load(con, recording, trace_id)
    if recording.trace is None:
        _load_untraced(con, recording, trace_id)
        return
    loader = _loader(recording, recording.trace, trace_id)
    held: dict[str, RowGroups] = {}
    for table, columns in _MENDS.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
    with loader:
        for table, batch in loader:
            groups = held.setdefault(table, RowGroups())
            groups.add(batch)
            if groups.full >= INSERT_ROW_GROUPS:
                _insert(con, table, groups.take_full())
            progress(loader.progress())
    for table, groups in held.items():
        _insert(con, table, groups.take_all())
    _mend(con, "wakeup", "effective = mend.effective, target_cpu = mend.target_cpu")
    _mend(con, "context_switch", "next_utid = mend.next_utid, next_priority = NULL")
    gaps.apply(con, trace_id)
    if recording.folder:
        core_type_counters.load(con, recording.folder, trace_id)
    # A new thread is read within some 25 ms of its start: what was read first holds from there on.
    con.execute(
        "UPDATE affinity SET valid_from_ns = NULL WHERE trace_id = $trace_id "
        "AND source = 'reading' AND valid_from_ns = ("
        "SELECT min(coalesce(first.valid_from_ns, -9223372036854775807)) FROM affinity AS first "
        "WHERE first.trace_id = $trace_id AND first.utid = affinity.utid)",
        {"trace_id": trace_id},
    )
    # Linux binds its per-CPU threads; their names end in the CPU's number.
    con.execute(
        r"""
        INSERT INTO affinity
        SELECT trace_id, utid, NULL, [regexp_extract(name, '/(\d+)$', 1)::INTEGER], 'kernel_thread'
        FROM thread
        WHERE trace_id = ? AND NOT is_idle AND regexp_full_match(name, '[^/]+/\d{1,5}')
          AND utid NOT IN (SELECT utid FROM affinity WHERE trace_id = ?)
          AND (SELECT source FROM trace WHERE trace_id = ?) <> 'etw'
        """,
        [trace_id, trace_id, trace_id],
    )


def _loader(
    recording: Recording, trace: Path, trace_id: int
) -> _decoders.Loader | tables_load.Loader:
    beside = session_context.tables(recording, trace_id, _decoders.schemas())
    if layout.is_one(trace):
        return tables_load.Loader(trace, trace_id, recording.label, beside.get("cpu"))
    return _decoders.load(
        recording.files,
        trace_id,
        beside,
        str(recording.samples) if recording.samples else None,
        recording.label,
    )


def _mend(con: duckdb.DuckDBPyConnection, table: str, assignments: str) -> None:
    """Applies what became known of a row after its batch had been handed over."""
    mends = con.execute(f"SELECT count(*) FROM {table}_mend").fetchone()
    if mends and mends[0]:
        con.execute(
            f"UPDATE {table} SET {assignments} FROM {table}_mend AS mend "
            f"WHERE {table}.trace_id = mend.trace_id AND {table}.cpu = mend.cpu "
            f"AND {table}.seq = mend.seq"
        )


def _load_untraced(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """A step that could not be recorded: the workload's own measurements and the snapshots.

    ns 0 is the begin of the step; what needs a thread of the trace stays NULL.
    """
    start = recording.step.get("begin_mono_ns")
    end = recording.step.get("end_mono_ns")
    if start is None or end is None:
        raise NothingToReadError(
            f"{recording.label} holds neither a recording nor a measured step: record it again"
        )
    con.execute(
        "INSERT INTO trace BY NAME SELECT ? AS trace_id, ? AS label, 'none' AS source, "
        "'monotonic' AS clock_name, ? AS start_clock, 1000000000 AS clock_hz, 0 AS first_ns, "
        "? AS duration_ns, ? AS schema_version, ? AS tool_version",
        [trace_id, recording.label, start, end - start, SCHEMA_VERSION, __version__],
    )
    for table, batch in session_context.tables(recording, trace_id, _decoders.schemas()).items():
        if table in ("affinity", "thread_cgroup"):  # of threads, and no thread is known
            continue
        _insert(con, table, [_shifted(batch, start)])
    if recording.samples:
        batch = _decoders.run_samples(str(recording.samples), trace_id, start)
        _insert(con, "run_sample", [batch])
    con.execute(
        "INSERT INTO problem VALUES (?, 'recording', "
        "'nothing was recorded, only measured by the workload itself and by snapshots', 1)",
        [trace_id],
    )


def _shifted(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """The batch with its clock times moved to ns 0."""
    columns = [
        pc.subtract(column, start) if name in session_context.TIMES else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _insert(con: duckdb.DuckDBPyConnection, table: str, batches: list[pa.RecordBatch]) -> None:
    if not batches:
        return
    # DuckDB finds the variable by its name. A registered view would keep its rows in memory until
    # the transaction ends.
    incoming = pa.Table.from_batches(batches)  # noqa: F841
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")


def _fill_windows(con: duckdb.DuckDBPyConnection, window: tuple[int | None, int | None]) -> None:
    """The default window of each recording, or the one asked for, cut to the recording."""
    con.execute(
        """
        INSERT INTO analysis_window
        WITH workers AS (
          SELECT trace_id, max(start_ns) AS start_ns, min(end_ns) AS end_ns
          FROM run_worker GROUP BY trace_id HAVING max(start_ns) < min(end_ns)
        )
        SELECT
          trace_id,
          greatest(first_ns, coalesce($from_ns, workers.start_ns, run.start_ns, first_ns)),
          least(duration_ns, coalesce($to_ns, workers.end_ns, run.end_ns, duration_ns)),
          CASE
            WHEN $from_ns IS NOT NULL OR $to_ns IS NOT NULL THEN 'asked'
            WHEN workers.start_ns IS NOT NULL THEN 'workers'
            WHEN run.start_ns IS NOT NULL THEN 'step'
            ELSE 'trace'
          END
        FROM trace
        LEFT JOIN workers USING (trace_id)
        LEFT JOIN run USING (trace_id)
        """,
        {"from_ns": window[0], "to_ns": window[1]},
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
