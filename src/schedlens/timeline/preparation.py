"""The file with the timeline's tables next to a session's database."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schedlens.ask import interruptible
from schedlens.output import leftover
from schedlens.timeline.prepared import LEAST_PARTS, Timelines

FILE = "timeline.duckdb"
# The headers of a DuckDB file: one of them changes with each checkpoint.
_HEADERS = 3 * 4096


def stamp_of(database: Path) -> str:
    """Identifies the content of a database, also after the file was copied or moved."""
    with database.open("rb") as file:
        headers = file.read(_HEADERS)
    log = database.with_name(f"{database.name}.wal")
    pending = log.stat().st_size if log.exists() else 0
    return f"{hashlib.sha256(headers).hexdigest()[:32]}-{pending}"


def is_large(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the timeline of a database is prepared in a file: else it is as fast without one."""
    rows: int = con.execute("SELECT count(*) FROM thread_state").fetchall()[0][0]
    return rows >= LEAST_PARTS


class Preparation:
    """The timeline of a database that is being written; of a large one (`is_large`), in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._made: Timelines | None = None
        self._pending: Future[None] | None = None

    @contextmanager
    def meanwhile(self, con: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """While the block runs, prepares the recordings of a large database in a second thread.

        That reads rows in their stored order and keeps sums only, so it takes little of the memory
        that the questions need which are asked meanwhile. What it could not prepare is prepared
        when it is shown.
        """
        if not is_large(con):
            yield
            return
        with self.timelines(con).cursor() as own, ThreadPoolExecutor(1) as pool:
            self._pending = pool.submit(own.prepare_all)
            with interruptible.stopped(self._pending, own.stop):
                yield

    def timelines(self, con: duckdb.DuckDBPyConnection) -> Timelines:
        """The timelines of the database; recordings that are not prepared yet are, when shown."""
        if self._made is None:
            self._made = Timelines(con, self._file if is_large(con) else None)
        return self._made

    def finish(self, con: duckdb.DuckDBPyConnection) -> None:
        """Completes the file of a large database, also with recordings that were not shown."""
        if self._pending is not None:
            wait([self._pending])
            self.timelines(con).prepare_all()
        if self._made is not None:
            self._made.detach()


@contextmanager
def saved(database: Path) -> Iterator[Preparation]:
    """What prepares the timeline of a database that is being written.

    The file of a large one gets its name when the block succeeds: only then, the database is
    complete. A file of an earlier database is removed in any case.
    """
    file = database.with_name(FILE)
    aside = leftover.unfinished(file)
    leftover.remove_unfinished(file)
    try:
        yield Preparation(aside)
        file.unlink(missing_ok=True)
        if aside.exists():
            with duckdb.connect(str(aside), config={"threads": 1}) as con:
                con.execute("UPDATE source SET stamp = ?", [stamp_of(database)])
            aside.replace(file)
    finally:
        for path in (aside, aside.with_name(f"{aside.name}.wal")):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
