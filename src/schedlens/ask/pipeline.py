"""From recordings to a database with findings: what the command `analyze` and Python share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import duckdb

from schedlens.ask import analysis, blank_database, gains, judging, thread_groups
from schedlens.ask.findings import Scope, ordered
from schedlens.ask.timings import Timings
from schedlens.errors import NothingLoadedError, UnknownNameError, WindowError
from schedlens.load import query_threads, recording_rows, store
from schedlens.load.recording import Recording
from schedlens.output.progress import bar
from schedlens.output.wording import count

Window = tuple[int | None, int | None]
Meanwhile = Callable[[duckdb.DuckDBPyConnection], AbstractContextManager[None]]


@dataclass(frozen=True)
class Questions:
    """What an analysis is asked: about which process, in which window (ns), by which analyzers.

    `step` is the recording whose timeline a report shows.
    """

    process: str | None = None
    window: Window = (None, None)
    only: tuple[str, ...] = ()
    step: str | None = None

    def check(self) -> None:
        """Raises `UnknownNameError` for an analyzer that does not exist."""
        for name in self.only:
            if name not in judging.analyzers():
                raise UnknownNameError("analyzer", name, sorted(judging.analyzers()))


@dataclass(frozen=True)
class Run:
    """An analysis whose database is still open for writing."""

    con: duckdb.DuckDBPyConnection
    scope: Scope
    judgement: judging.Judgement
    failures: list[recording_rows.Failure]

    def unread(self) -> tuple[str, ...]:
        """What could not be read: recordings, record forms, and damaged parts, a line each."""
        return (
            *(failure.line for failure in self.failures),
            *_refused(self.con),
            *_damaged(self.con),
        )


@contextmanager
def analyzed(
    recordings: list[Recording],
    database: Path,
    questions: Questions,
    *,
    max_memory: int | None = None,
    temp_folder: Path | None = None,
    trace_ids: Sequence[int] = (),
    timings: Timings | None = None,
    quiet: bool = False,
    meanwhile: Meanwhile = lambda con: nullcontext(),
) -> Iterator[Run]:
    """Loads the recordings and runs the analyzers; `database` appears when the block succeeds.

    `meanwhile` is what a second thread does with the loaded database up to the end of the block.
    Raises `NothingLoadedError` if no recording can be read, `UnknownNameError` for an analyzer, a
    process or a step that does not exist, `WindowError`, and what `store.create` raises.
    """
    questions.check()
    timings = timings or Timings()
    with (
        store.create(
            database,
            max_memory=max_memory,
            temp_folder=temp_folder,
            place=blank_database.place,
            to_read=max((each.size for each in recordings), default=0),
            threads=query_threads.count(recordings),
        ) as con,
        ExitStack() as behind,
    ):
        with bar(quiet=quiet) as progress, timings.phase("load"):
            failures = analysis.load(
                con,
                recordings,
                questions.window,
                progress,
                trace_ids,
                timings.phase,
                before_summaries=lambda: behind.enter_context(meanwhile(con)),
            )
        if len(failures) == len(recordings):
            raise NothingLoadedError([failure.line for failure in failures])
        _check_window(con, questions.window)
        if questions.process is not None:
            _check_process(con, questions.process)
        if questions.step is not None:
            _check_step(con, questions.step)
        with store.written_behind(con, database):
            scope = Scope(con, questions.process, timings=timings)
            with bar(quiet=quiet) as progress, timings.phase("analyzers"):
                judgement = judging.judge_all(scope, questions.only, progress)
            with bar(quiet=quiet) as progress, timings.phase("what-if"):
                weighed, replays = gains.weighed(scope, judgement.findings, progress)
                judgement = judging.Judgement(ordered(weighed), judgement.outcomes)
                judging.store(con, judgement, replays)
            yield Run(con, scope, judgement, failures)


def nanoseconds(seconds: float | None) -> int | None:
    """Seconds of a trace as whole ns; None for None."""
    return None if seconds is None else round(seconds * 1_000_000_000)


def _check_window(con: duckdb.DuckDBPyConnection, window: Window) -> None:
    empty = con.execute(
        "SELECT label, first_ns, duration_ns FROM analysis_window JOIN trace USING (trace_id) "
        "WHERE start_ns >= end_ns ORDER BY trace_id LIMIT 1"
    ).fetchone()
    if empty and window != (None, None):
        raise WindowError(
            f"the window is outside {empty[0]}, which covers {empty[1] / 1e9:.3f} s "
            f"to {empty[2] / 1e9:.3f} s"
        )


def _check_process(con: duckdb.DuckDBPyConnection, process: str) -> None:
    if thread_groups.is_one(process):
        thread_groups.check(con, process)
        return
    names = [
        row[0]
        for row in con.execute(
            "SELECT DISTINCT name FROM process WHERE name IS NOT NULL ORDER BY name"
        ).fetchall()
    ]
    if process not in names:
        raise UnknownNameError(
            "process", process, names, '`schedlens sql SESSION "FROM process"` after analyze'
        )


def _check_step(con: duckdb.DuckDBPyConnection, step: str) -> None:
    labels = [row[0] for row in con.execute("SELECT label FROM trace ORDER BY 1").fetchall()]
    if step not in labels:
        raise UnknownNameError("step", step, labels, "the session folder")


def _damaged(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Parts of the recordings that are truncated or damaged (corrected rows do not count)."""
    rows = con.execute(
        "SELECT label, signalled_by, count(*) FROM loss JOIN trace USING (trace_id) "
        "WHERE signalled_by IN ('truncated', 'damaged') GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return [f"{label} has {count(parts, f'{kind} part')}" for label, kind, parts in rows]


def _refused(con: duckdb.DuckDBPyConnection) -> list[str]:
    """What was recorded in a form that is not read, a line each."""
    rows = con.execute(
        "SELECT label, count, what FROM problem JOIN trace USING (trace_id) "
        "WHERE place = 'CompactCSwitch' ORDER BY trace_id"
    ).fetchall()
    return [f"{label}: {count} {what}" for label, count, what in rows]
