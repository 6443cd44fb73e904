"""Opens the recordings of a side: analyzed sessions as they are, anything else analyzed first."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from schedlens.ask import analysis, blank_database, bounds, catalog, judging
from schedlens.ask.findings import Scope
from schedlens.differences.quantities import ANSWERED
from schedlens.errors import DatabaseError, NothingToReadError
from schedlens.load import query_threads, recording, store
from schedlens.load.arrow_folder import layout
from schedlens.output.leftover import TemporaryFolder
from schedlens.output.whole_file import cannot_write
from schedlens.output.wording import count

_DATABASE = "analysis.duckdb"
# Not stored in the databases of earlier versions, so each connection gets its own.
_QUESTIONS = ("time_block", *ANSWERED, "request_quantile", "machine_fact")

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Recorded:
    """One recording of a side; `step` is what it is aligned by, the same in every repeat."""

    con: duckdb.DuckDBPyConnection
    database: Path
    trace_id: int
    label: str
    step: str
    is_lossy: bool
    window: tuple[int, int]
    """Start of the first block and length of a block, ns."""


@dataclass(frozen=True)
class Side:
    """All recordings of a side, and what could not be read of it."""

    name: str
    recordings: tuple[Recorded, ...]
    failures: tuple[str, ...]

    @property
    def databases(self) -> list[tuple[Path, duckdb.DuckDBPyConnection]]:
        """Each database once."""
        return list({one.database: (one.database, one.con) for one in self.recordings}.values())


@contextmanager
def opened(
    paths: Sequence[Path],
    name: str,
    *,
    judged: bool = False,
    keep: Path | None = None,
    progress: Progress = lambda label, share: None,
) -> Iterator[Side]:
    """The recordings of a side, open while the block runs.

    A path is an analysis.duckdb, a folder that contains one, or what `analyze` reads. The latter is
    analyzed into `keep`/`name`.duckdb, or into a temporary file; if `judged`, its findings are
    stored as well. Raises `NothingToReadError`, `DatabaseError` or `SessionError`.
    """
    analyzed: list[Path] = []
    raw: list[Path] = []
    for path in paths:
        if not path.exists():
            raise NothingToReadError(
                f"{path} does not exist: name a recording, a session folder, or an analysis.duckdb"
            )
        (analyzed if _is_analyzed(path) else raw).append(path)
    with contextlib.ExitStack() as stack:
        files = [path / _DATABASE if path.is_dir() else path for path in analyzed]
        failures: list[str] = []
        if raw:
            file = stack.enter_context(_place(keep, name))
            failures = _analyze(raw, file, progress, judged=judged)
            files.append(file)
        found: list[Recorded] = []
        for file in dict.fromkeys(file.absolute() for file in files):
            con = stack.enter_context(contextlib.closing(store.open_database(file)))
            found += _recordings(con, file)
        if not found:
            raise NothingToReadError(f"side {name} contains no recordings: name others")
        yield Side(name, tuple(found), tuple(failures))


def _is_analyzed(path: Path) -> bool:
    if path.is_dir():
        return (path / _DATABASE).exists() and not layout.is_one(path)
    return path.suffix == ".duckdb"


@contextmanager
def _place(keep: Path | None, name: str) -> Iterator[Path]:
    if keep is None:
        with TemporaryFolder() as folder:
            yield folder / f"{name}.duckdb"
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(keep, error) from None
    yield keep / f"{name}.duckdb"


def _analyze(paths: list[Path], file: Path, progress: Progress, *, judged: bool) -> list[str]:
    recordings = recording.gather(paths)
    threads = query_threads.count(recordings)
    with store.create(file, place=blank_database.place, threads=threads) as con:
        failures = analysis.load(con, recordings, (None, None), progress)
        if len(failures) == len(recordings):
            raise NothingToReadError(failures[0].line)
        if judged:
            judging.store(con, judging.judge_all(Scope(con), (), progress))
    return [failure.line for failure in failures]


def _recordings(con: duckdb.DuckDBPyConnection, file: Path) -> list[Recorded]:
    lossy = bounds.lossy_traces(con)
    try:
        _answer(con)
        rows = con.execute(
            # A repeat of a step differs from it in the number of the repeat only.
            "SELECT t.trace_id, t.label, c.experiment || ' ' || c.cell, r.workload, r.variant, "
            "r.placement, r.threads, coalesce(b.start_ns, 0), coalesce(b.dur_ns, 1) "
            "FROM trace AS t "
            "LEFT JOIN run AS r USING (trace_id) "
            "LEFT JOIN experiment_cell AS c USING (trace_id) "
            "LEFT JOIN time_block() AS b ON b.trace_id = t.trace_id AND b.block = 0 "
            "ORDER BY t.trace_id"
        ).fetchall()
    except duckdb.Error as error:
        raise DatabaseError(
            f"cannot compare {file}: {str(error).splitlines()[0]}. Run `analyze` on its "
            "recordings again"
        ) from None
    found = []
    for trace_id, label, cell, workload, variant, placement, threads, start, width in rows:
        parts = (
            [workload, variant, placement, count(threads, "thread") if threads else None]
            if workload
            else []
        )
        step = cell or ", ".join(part for part in parts if part) or _plain(label)
        found.append(Recorded(con, file, trace_id, label, step, trace_id in lossy, (start, width)))
    return found


def _plain(label: str) -> str:
    """The label without what `gather` adds to equal ones: their folder, or a number."""
    return re.sub(r" \(\d+\)$", "", label.rpartition("/")[2])


def _answer(con: duckdb.DuckDBPyConnection) -> None:
    """The questions about blocks as macros of this connection, and their answers as tables."""
    for query in catalog.load_all():
        if query.full_name in _QUESTIONS:
            arguments = ", ".join(f"{p.name} := {p.default}" for p in query.parameters)
            con.execute(
                f"CREATE OR REPLACE TEMP MACRO {query.name}({arguments}) AS TABLE {query.sql}"
            )
    for name in ANSWERED:
        con.execute(f"CREATE TEMP TABLE {name} AS FROM {name}()")
    for name in ("request_quantile", "machine_fact"):
        con.execute(f"CREATE TEMP TABLE {name} AS FROM {name}()")
