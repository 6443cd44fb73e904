"""Writes the database, atomically and readable by released DuckDB shells."""

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

# The newest format that DuckDB 1.5 shells can read; they cannot read DuckDB 2's default.
STORAGE_VERSION = "v1.5.0"


# Most columns are numbers that change from row to row. DuckDB chooses this for them anyway, after
# trying others. Columns that hardly change specify their own, and texts cannot use this.
_COMPRESSION = "bitpacking"

# DuckDB uses a nested loop for an ASOF join if it expects few rows on the left, and it expects few
# even if there are millions. What a query joins last is hard to foresee.
_ANSWERING = "SET asof_loop_join_threshold = 0"

# Row groups to pass to DuckDB at once: its threads share them while the decoder continues.
INSERT_ROW_GROUPS = 8

# Tables of corrections to rows of the named table; the state machine declares them.
_CORRECTIONS = {
    "wakeup_mend": (
        "trace_id BIGINT, cpu INTEGER, seq BIGINT, effective BOOLEAN, target_cpu INTEGER"
    ),
    "context_switch_mend": "trace_id BIGINT, cpu INTEGER, seq BIGINT, next_utid BIGINT",
}

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Failure:
    """A recording that could not be loaded, and the reason in one line."""

    label: str
    why: str

    @property
    def line(self) -> str:
        """Both; the label only if the reason does not start with a file of that name."""
        path = self.why.partition(": ")[0]
        named = Path(path).name == Path(self.label).name
        return self.why if named else f"{self.label}: {self.why}"


@contextmanager
def create(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A new database with all tables; it gets its name only when the block succeeds.

    A shell that has the old file open keeps it. Raises `DatabaseError`.
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
                "place with -o. An existing file is unchanged"
            ) from None
        raise DatabaseError(
            f"cannot write {path}: {_first_line(error)}; an existing file is unchanged"
        ) from None
    finally:
        con.close()
        remove(aside)


def remove(path: Path) -> None:
    """Deletes an unwanted database with its log."""
    for file in (path, path.with_name(path.name + ".wal")):
        file.unlink(missing_ok=True)


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Opens the database at `path`, or in the session folder `path`, read-only."""
    file = path / "analysis.duckdb" if path.is_dir() else path
    if not file.exists():
        raise NothingToReadError(f"{file} does not exist: create it with `analyze {path}`")
    try:
        con = duckdb.connect(str(file), read_only=True)
    except duckdb.Error as error:
        raise DatabaseError(
            f"cannot open {file}: {_first_line(error)} Name a folder that `analyze` wrote, or the "
            "analysis.duckdb in it"
        ) from None
    # Not in the configuration, which must be the same for all connections to this file.
    con.execute(_ANSWERING)
    return con


def load_rows(
    con: duckdb.DuckDBPyConnection,
    recordings: list[Recording],
    window: tuple[int | None, int | None],
    progress: Progress,
) -> list[Failure]:
    """Loads all recordings, each completely or not at all; returns those that failed.

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
    """Raises `NothingToReadError` for a recording without any record that has a time."""
    row = con.execute("SELECT duration_ns FROM trace WHERE trace_id = ?", [trace_id]).fetchone()
    if row is not None and row[0] is None:
        raise NothingToReadError(
            f"{recording.trace}: contains no records: the recorded process did not run. Record "
            "the whole machine (collect --seconds 10, or perf record -a)"
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
    buffered: dict[str, RowGroups] = {}
    for table, columns in _CORRECTIONS.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
    with loader:
        for table, batch in loader:
            groups = buffered.setdefault(table, RowGroups())
            groups.add(batch)
            if groups.full >= INSERT_ROW_GROUPS:
                _insert(con, table, groups.take_full())
            progress(loader.progress())
    for table, groups in buffered.items():
        _insert(con, table, groups.take_all())
    _correct(con, "wakeup", "effective = correction.effective, target_cpu = correction.target_cpu")
    _correct(con, "context_switch", "next_utid = correction.next_utid, next_priority = NULL")
    gaps.apply(con, trace_id)
    if recording.folder:
        core_type_counters.load(con, recording.folder, trace_id)
    # A new thread is read within about 25 ms of its start, so its first reading applies from there.
    con.execute(
        "UPDATE affinity SET valid_from_ns = NULL WHERE trace_id = $trace_id "
        "AND source = 'reading' AND valid_from_ns = ("
        "SELECT min(coalesce(first.valid_from_ns, -9223372036854775807)) FROM affinity AS first "
        "WHERE first.trace_id = $trace_id AND first.utid = affinity.utid)",
        {"trace_id": trace_id},
    )
    # Linux pins its per-CPU threads; their names end in the CPU's number.
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
    context = session_context.tables(recording, trace_id, _decoders.schemas())
    if layout.is_one(trace):
        return tables_load.Loader(trace, trace_id, recording.label, context.get("cpu"))
    return _decoders.load(
        recording.files,
        trace_id,
        context,
        str(recording.samples) if recording.samples else None,
        recording.label,
    )


def _correct(con: duckdb.DuckDBPyConnection, table: str, assignments: str) -> None:
    """Applies what was learned about rows after their batches had been passed on."""
    corrections = con.execute(f"SELECT count(*) FROM {table}_mend").fetchone()
    if corrections and corrections[0]:
        con.execute(
            f"UPDATE {table} SET {assignments} FROM {table}_mend AS correction "
            f"WHERE {table}.trace_id = correction.trace_id AND {table}.cpu = correction.cpu "
            f"AND {table}.seq = correction.seq"
        )


def _load_untraced(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """Loads a step without a recording: the workload's own measurements and the snapshots.

    ns 0 is the start of the step; what needs a thread of the trace stays NULL.
    """
    start = recording.step.get("begin_mono_ns")
    end = recording.step.get("end_mono_ns")
    if start is None or end is None:
        raise NothingToReadError(
            f"{recording.label} has neither a recording nor a measured step: record it again"
        )
    con.execute(
        "INSERT INTO trace BY NAME SELECT ? AS trace_id, ? AS label, 'none' AS source, "
        "'monotonic' AS clock_name, ? AS start_clock, 1000000000 AS clock_hz, 0 AS first_ns, "
        "? AS duration_ns, ? AS schema_version, ? AS tool_version",
        [trace_id, recording.label, start, end - start, _decoders.SCHEMA_VERSION, __version__],
    )
    for table, batch in session_context.tables(recording, trace_id, _decoders.schemas()).items():
        if table in ("affinity", "thread_cgroup"):  # They refer to threads, which are unknown.
            continue
        _insert(con, table, [_shifted(batch, start)])
    if recording.samples:
        batch = _decoders.run_samples(str(recording.samples), trace_id, start)
        _insert(con, "run_sample", [batch])
    con.execute(
        "INSERT INTO problem VALUES (?, 'recording', "
        "'no recording: only the workload''s own measurements and snapshots', 1)",
        [trace_id],
    )


def _shifted(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """The batch with its clock times shifted to ns 0."""
    columns = [
        pc.subtract(column, start) if name in session_context.TIMES else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _insert(con: duckdb.DuckDBPyConnection, table: str, batches: list[pa.RecordBatch]) -> None:
    if not batches:
        return
    # DuckDB finds the variable by name. A registered view would keep its rows in memory until
    # the transaction ends.
    incoming = pa.Table.from_batches(batches)  # noqa: F841
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")


def _fill_windows(con: duckdb.DuckDBPyConnection, window: tuple[int | None, int | None]) -> None:
    """The default window of each recording, or the requested one, limited to the recording."""
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
