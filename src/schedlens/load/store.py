"""Writes the database, atomically and readable by released DuckDB shells."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.errors import (
    DatabaseError,
    NoSpaceError,
    NothingToReadError,
    SchedlensError,
    SizeError,
)
from schedlens.load import (
    analysis_windows,
    calibration,
    converted,
    core_type_counters,
    experiment_tables,
    gaps,
    intervals,
    schema,
    scrubbed_file,
    session_context,
    symbol_sources,
)
from schedlens.load.frames import capture
from schedlens.load.recording import Recording
from schedlens.load.row_groups import RowGroups
from schedlens.load.second_writer import SecondWriter
from schedlens.machine import memory
from schedlens.output import leftover
from schedlens.output.whole_file import cannot_write

# The newest format that DuckDB 1.5 shells can read; they cannot read DuckDB 2's default.
STORAGE_VERSION = "v1.5.0"


# Most columns are numbers that change from row to row. DuckDB chooses this for them anyway, after
# trying others. Columns that hardly change specify their own, and texts cannot use this.
_COMPRESSION = "bitpacking"

FILE_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "storage_compatibility_version": STORAGE_VERSION,
    "force_compression": _COMPRESSION,
}

# DuckDB uses a nested loop for an ASOF join if it expects few rows on the left, and it expects few
# even if there are millions. What a query joins last is hard to foresee.
_ANSWERING = "SET asof_loop_join_threshold = 0"

# Where each database says that it is one.
_MAGIC_AT, _MAGIC = 8, b"DUCK"

# Row groups to pass to DuckDB at once: its threads share them while the decoder continues.
INSERT_ROW_GROUPS = 8

# Half of the rows of a large recording. No other table's rows depend on them while it is read.
_BY_SECOND = {"thread_state", "cpu_state"}

# What identifies a row that was passed on before the records that correct it, and the columns that
# the state machine corrects, by table.
_PLACE = ("trace_id", "cpu", "seq")
_CORRECTED = {"wakeup": ("effective", "target_cpu"), "context_switch": ("next_utid",)}

# Parts of the time of loading, so that the time left is right: reading the recordings, then their
# interval tables; summaries take the rest.
_READ_SHARE = 0.65
_INTERVALS_SHARE = 0.25

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


# DuckDB takes this share of the memory of the machine or of its cgroup, if nothing else is set.
_DUCKDB_SHARE = 0.8
# What the decoder, Python, and Arrow use next to the database: buffered batches and row groups.
_BESIDES = 400 << 20
# DuckDB cannot sort or join with less.
LEAST_MEMORY = _BESIDES + (200 << 20)
# By default: this, and for each byte of a recording a part of one. More makes few queries faster,
# and a studio analyzes on machines that have other work.
_USUAL_MEMORY = 1750 << 20
_BYTES_READ_PER_BYTE = 6


@contextmanager
def create(
    path: Path,
    *,
    max_memory: int | None = None,
    temp_folder: Path | None = None,
    place: Callable[[Path], None] | None = None,
    to_read: int = 0,
    threads: int | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A new database with all tables; it gets its name only when the block succeeds.

    `max_memory` is what this process may use, in bytes; by default 1.75 GiB and a sixth of
    `to_read`, the bytes of the recordings, but at most half of what is installed. Queries that need
    more spill to `temp_folder`, by default next to the database. `place` makes an empty database
    that already has the tables. `threads` answer the queries, by default one for each CPU. A shell
    that has the old file open keeps it.
    Raises `DatabaseError`, `NoSpaceError` or `SizeError`.
    """
    allowed = LEAST_MEMORY if max_memory is None else max_memory
    if allowed < LEAST_MEMORY:
        raise SizeError(f"--max-memory must be at least {LEAST_MEMORY >> 20}M")
    aside = leftover.unfinished(path)
    leftover.remove_unfinished(path)
    try:
        remove(aside)
        if place is not None:
            place(aside)
        con = duckdb.connect(
            str(aside),
            config={
                **FILE_CONFIG,
                **({"temp_directory": str(temp_folder)} if temp_folder else {}),
                **({"threads": threads} if threads else {}),
            },
        )
        if max_memory is None:
            usual = _USUAL_MEMORY + to_read // _BYTES_READ_PER_BYTE
            allowed = max(LEAST_MEMORY, min(usual, installed_memory(con) // 2))
        con.execute(f"SET memory_limit = '{(allowed - _BESIDES) >> 10}KiB'")
    except (OSError, duckdb.Error) as error:
        _discard(aside)
        raise _failure(path, aside, allowed, error) from None
    try:
        con.execute(_ANSWERING)
        if place is None:
            schema.create(con)
        yield con
        con.execute("CHECKPOINT")
        con.close()
        aside.replace(path)
    except (OSError, duckdb.Error) as error:
        raise _failure(path, aside, allowed, error) from None
    finally:
        con.close()
        _discard(aside)


def _discard(aside: Path) -> None:
    # On a read-only disk this fails as well, and must not hide why the file was not written.
    with contextlib.suppress(OSError):
        remove(aside)


def _failure(
    path: Path, aside: Path, allowed: int, error: OSError | duckdb.Error
) -> SchedlensError:
    """The error to raise for a database that could not be written as `aside`."""
    text = str(error)
    if isinstance(error, OSError) and error.errno != errno.ENOSPC:
        named = Path(error.filename) if error.filename else path
        return cannot_write(path if named == aside else named, error)
    # DuckDB reports a full disk for spilled data in the same way as a full memory.
    full = "No space left" in text or "max_temp_directory_size" in text
    if full and isinstance(error, duckdb.OutOfMemoryException):
        return NoSpaceError(
            f"cannot analyze {path}: no space left for temporary files; choose another place "
            "with --temp-folder. An existing file is unchanged"
        )
    if full:
        return NoSpaceError(
            f"cannot write {path}: no space left on its disk; free some, or choose another "
            "place with -o. An existing file is unchanged"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return DatabaseError(
            f"cannot analyze {path}: loading needs more than {allowed >> 20} MiB; allow more with "
            "--max-memory. An existing file is unchanged"
        )
    return DatabaseError(
        f"cannot write {path}: {_first_line(error)}; choose another place with -o. An existing "
        "file is unchanged"
    )


def installed_memory(con: duckdb.DuckDBPyConnection | None = None) -> int:
    """The memory of this machine in bytes, or less where a cgroup limits it.

    `con` is a database whose limit has not been set; without it, one is opened.
    """
    if con is None:
        with duckdb.connect(":memory:") as own:
            return installed_memory(own)
    limit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    return int(memory.size(limit) / _DUCKDB_SHARE)


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
        if not _is_database(file):
            command = "`analyze` on its recordings again" if path.is_dir() else f"`analyze {path}`"
            raise DatabaseError(
                f"{file} is not an analyzed session: run {command}, and name the folder it wrote"
            ) from None
        raise DatabaseError(
            f"cannot open {file}: {_first_line(error)} Name a folder that `analyze` wrote, or the "
            "analysis.duckdb in it"
        ) from None
    try:
        _check_version(con, file)
    except BaseException:
        con.close()
        raise
    # Not in the configuration, which must be the same for all connections to this file.
    con.execute(_ANSWERING)
    return con


def _is_database(file: Path) -> bool:
    """Whether it begins as a database of DuckDB does; also if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_MAGIC_AT + len(_MAGIC)).endswith(_MAGIC)
    except OSError:
        return True


def set_for_answers(con: duckdb.DuckDBPyConnection) -> None:
    """Sets a connection that was opened elsewhere as `open_database` does."""
    con.execute(_ANSWERING)


def _check_version(con: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Raises `DatabaseError` for a database of another program or of another version."""
    again = f"run `analyze` on its recordings again, into {file.parent} or elsewhere with -o"
    try:
        rows = con.execute("SELECT DISTINCT schema_version, tool_version FROM trace").fetchall()
    except duckdb.Error:
        raise DatabaseError(f"{file} is no analysis of schedlens: {again}") from None
    for version, tool in rows:
        if version != _decoders.SCHEMA_VERSION:
            raise DatabaseError(
                f"{file} has schema version {version} (schedlens {tool}), but this version reads "
                f"{_decoders.SCHEMA_VERSION}: {again}"
            )


def load_rows(
    con: duckdb.DuckDBPyConnection,
    recordings: list[Recording],
    window: tuple[int | None, int | None],
    progress: Progress,
    trace_ids: Sequence[int] | None = None,
) -> list[Failure]:
    """Loads all recordings, each completely or not at all; returns those that failed.

    `window` is (from, to) in ns, None for the default end; it fills `analysis_window`. `trace_ids`
    are the numbers of the recordings, each between 1 and 2**31 - 1; by default from 1.
    """
    failures: list[Failure] = []
    loaded: dict[int, str] = {}
    numbers = trace_ids or range(1, len(recordings) + 1)
    for place, (trace_id, recording) in enumerate(zip(numbers, recordings, strict=True)):
        progress(recording.label, _READ_SHARE * place / len(recordings))

        def part(share: float, label: str = recording.label, before: int = place) -> None:
            progress(label, _READ_SHARE * (before + share) / len(recordings))

        with SecondWriter(con, _insert) as second:
            con.begin()
            try:
                has_gaps = _load(con, recording, trace_id, part, second)
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
            second.commit()
        if has_gaps:
            # In a transaction of its own: if one deletes rows that it has inserted, DuckDB writes
            # the whole table again. No error here is about one recording only.
            with _transaction(con):
                gaps.apply(con, trace_id)
        loaded[trace_id] = recording.label
    if not loaded:
        return failures
    analysis_windows.fill(con, window)
    for place, (trace_id, label) in enumerate(loaded.items()):
        progress(label, _READ_SHARE + _INTERVALS_SHARE * place / len(loaded))
        intervals.build(con, [trace_id])
        capture.build_paths(con, trace_id)
    progress(label, _READ_SHARE + _INTERVALS_SHARE)
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
    with SecondWriter(con, _insert) as second:
        has_gaps = _load(con, recording, trace_id, progress, second)
        second.commit()
    if has_gaps:
        gaps.apply(con, trace_id)


def _load(
    con: duckdb.DuckDBPyConnection,
    recording: Recording,
    trace_id: int,
    progress: Callable[[float], None],
    second: SecondWriter,
) -> bool:
    """Fills the tables; whether the gaps of the recording must still be applied."""
    if recording.trace is not None and recording.scrubbed is not None:
        scrubbed_file.load(con, recording.trace, recording.scrubbed, trace_id, recording.label)
        return False
    experiment_tables.load(con, recording, trace_id)
    calibration.load(con, recording, trace_id)
    if recording.trace is None:
        _load_untraced(con, recording, trace_id)
        return False
    with converted.made(recording.trace, lambda share: progress(share / 2)) as found:
        if found is None:
            _load_traced(con, recording, trace_id, progress, second)
            return True
        tables = replace(recording, trace=found.path)
        _load_traced(con, tables, trace_id, lambda share: progress((1 + share) / 2), second)
        con.execute(
            "UPDATE trace SET path = ?, source = coalesce(?, source) WHERE trace_id = ?",
            [str(recording.trace), found.source, trace_id],
        ).fetchall()
        for problem in found.problems:
            con.execute(
                "INSERT INTO problem (trace_id, place, what, count) VALUES (?, ?, ?, ?)",
                [trace_id, problem.place, problem.what, problem.count],
            ).fetchall()
    return True


@contextmanager
def _transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    con.begin()
    try:
        yield
    except BaseException:
        con.rollback()
        raise
    con.commit()


def _load_traced(
    con: duckdb.DuckDBPyConnection,
    recording: Recording,
    trace_id: int,
    progress: Callable[[float], None],
    second: SecondWriter,
) -> None:
    loader = _decoders.load(
        recording.files,
        trace_id,
        session_context.tables(recording, trace_id, _decoders.schemas()),
        str(recording.samples) if recording.samples else None,
        recording.label,
        symbol_sources.of(recording),
    )
    buffered: dict[str, RowGroups] = {}
    for table, columns in _CORRECTED.items():
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE {table}_mend AS "
            f"SELECT {', '.join(_PLACE + columns)} FROM {table} LIMIT 0"
        )
    with loader:
        for table, batch in loader:
            groups = buffered.setdefault(table, RowGroups())
            groups.add(batch)
            if groups.full >= INSERT_ROW_GROUPS:
                if table in _BY_SECOND:
                    second.insert(table, groups.take_full())
                else:
                    _insert(con, table, groups.take_full())
            progress(loader.progress())
    for table, groups in buffered.items():
        if table in _BY_SECOND and second.started:
            second.insert(table, groups.take_all())
        else:
            _insert(con, table, groups.take_all())
    for table in _CORRECTED:
        _correct(con, table)
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
          AND NOT (SELECT is_windows_source(source) FROM trace WHERE trace_id = ?)
        """,
        [trace_id, trace_id, trace_id],
    )


def _correct(con: duckdb.DuckDBPyConnection, table: str) -> None:
    """Applies what was learned about rows after their batches had been passed on."""
    corrections = con.execute(f"SELECT count(*) FROM {table}_mend").fetchone()
    if not corrections or not corrections[0]:
        return
    changes = [f"{column} = correction.{column}" for column in _CORRECTED[table]]
    if "next_utid" in _CORRECTED[table]:
        # The recorded priority is that of the thread that did not switch in.
        changes.append("next_priority = NULL")
    same = " AND ".join(f"{table}.{column} = correction.{column}" for column in _PLACE)
    con.execute(
        f"UPDATE {table} SET {', '.join(changes)} FROM {table}_mend AS correction WHERE {same}"
    )


def _load_untraced(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """Loads a step without a recording: the workload's own measurements and the snapshots.

    ns 0 is the start of the step; columns that need a thread of the trace are NULL.
    """
    step = recording.step
    if step is None:
        raise NothingToReadError(
            f"{recording.label} has neither a recording nor a measured step: record it again"
        )
    start, end = step.begin_mono_ns, step.end_mono_ns
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
    # Imported here because that takes 0.1 s, and few recordings need it.
    import pyarrow.compute as pc

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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
