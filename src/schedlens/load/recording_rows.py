"""Reads recordings into the tables of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.errors import NothingToReadError, SchedlensError
from schedlens.load import (
    analysis_windows,
    calibration,
    converted,
    core_type_counters,
    experiment_tables,
    gaps,
    intervals,
    scrubbed_file,
    session_context,
    symbol_sources,
)
from schedlens.load.frames import capture
from schedlens.load.recording import Recording
from schedlens.load.row_groups import RowGroups
from schedlens.load.second_writer import SecondWriter

# Row groups to pass to DuckDB at once: its threads share them while the decoder continues.
INSERT_ROW_GROUPS = 8

# Half of the rows of a large recording. No other table's rows depend on them while it is read.
_BY_SECOND = {"sched_slice", "thread_state_other", "cpu_state_other"}

# What identifies a row that was passed on before the records that correct it, and the columns that
# the state machine corrects, by table.
_PLACE = ("trace_id", "cpu", "seq")
_CORRECTED = {"wakeup": ("effective", "target_cpu"), "context_switch": ("next_utid",)}

# Names say to which CPU Linux binds its own threads; where one ran says that it is one of them.
_KERNEL_BOUND = """
INSERT INTO affinity
SELECT bound.trace_id, bound.utid, NULL, [bound.cpu], 'kernel_thread'
FROM (
  SELECT thread.trace_id, thread.utid, kernel_bound_cpu(trace.source, thread.name) AS cpu
  FROM thread
  JOIN trace ON trace.trace_id = thread.trace_id
  WHERE thread.trace_id = $trace_id AND NOT thread.is_idle
) AS bound
WHERE bound.cpu IS NOT NULL
  AND bound.utid NOT IN (SELECT utid FROM affinity WHERE trace_id = $trace_id)
  AND NOT EXISTS (
    FROM sched_slice AS s
    WHERE s.trace_id = $trace_id AND s.utid = bound.utid AND s.cpu <> bound.cpu
  )
"""

# Parts of the time of loading, so that the time left is right: reading the recordings, then their
# interval tables; summaries take the rest.
_READ_SHARE = 0.65
_INTERVALS_SHARE = 0.25

Progress = Callable[[str, float], None]
Phase = Callable[[str], AbstractContextManager[object]]
"""Times a part of loading, by its name."""


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


def load_rows(
    con: duckdb.DuckDBPyConnection,
    recordings: list[Recording],
    window: tuple[int | None, int | None],
    progress: Progress,
    trace_ids: Sequence[int] | None = None,
    phase: Phase = nullcontext,
) -> list[Failure]:
    """Loads all recordings, each completely or not at all; returns those that failed.

    `window` is (from, to) in ns, None for the default end; it fills `analysis_window`. `trace_ids`
    are the numbers of the recordings, each between 1 and 2**31 - 1; by default from 1. `phase`
    times what it does for each recording.
    """
    failures: list[Failure] = []
    loaded: dict[int, str] = {}
    numbers = trace_ids or range(1, len(recordings) + 1)
    for place, (trace_id, recording) in enumerate(zip(numbers, recordings, strict=True)):
        progress(recording.label, _READ_SHARE * place / len(recordings))

        def part(share: float, label: str = recording.label, before: int = place) -> None:
            progress(label, _READ_SHARE * (before + share) / len(recordings))

        with phase("load: reading and storing"), SecondWriter(con, _insert) as second:
            con.begin()
            try:
                is_traced = _load(con, recording, trace_id, part, second)
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
        if is_traced:
            # In a transaction of its own: if one deletes rows that it has inserted, DuckDB writes
            # the whole table again. No error here is about one recording only.
            with phase("load: gaps"), _transaction(con):
                _conclude(con, trace_id)
        loaded[trace_id] = recording.label
    if not loaded:
        return failures
    analysis_windows.fill(con, window)
    for place, (trace_id, label) in enumerate(loaded.items()):
        progress(label, _READ_SHARE + _INTERVALS_SHARE * place / len(loaded))
        with phase("load: intervals"):
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
        is_traced = _load(con, recording, trace_id, progress, second)
        second.commit()
    if is_traced:
        _conclude(con, trace_id)


def _conclude(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Adds what only all rows of a recording show."""
    con.execute(_KERNEL_BOUND, {"trace_id": trace_id})
    gaps.apply(con, trace_id)


def _load(
    con: duckdb.DuckDBPyConnection,
    recording: Recording,
    trace_id: int,
    progress: Callable[[float], None],
    second: SecondWriter,
) -> bool:
    """Fills the tables; whether their rows come from a recording that was just decoded."""
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
            groups = buffered.setdefault(table, RowGroups(INSERT_ROW_GROUPS))
            groups.add(batch)
            if groups.are_due:
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
        if table in ("affinity", "thread_cgroup", "thread_policy"):
            # They refer to threads, which are unknown.
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
