"""`schedlens.open` and `schedlens.analyze`: from a path to an `Analysis`."""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path

from schedlens.api import kept_analyses
from schedlens.api.notebook import Analysis
from schedlens.ask import pipeline
from schedlens.ask.pipeline import Questions
from schedlens.errors import DatabaseError, WindowError
from schedlens.lake import reading
from schedlens.load import recording
from schedlens.load.recording import Recording
from schedlens.machine import memory
from schedlens.output.whole_file import cannot_write
from schedlens.report import page
from schedlens.timeline import preparation

Paths = str | Path | Sequence[str | Path]

# Two threads must not make the same file at once: they would write to the same place.
_making = threading.Lock()
# DuckDB gives a second connection to a path the database that is already open, not a newer file.
_open: weakref.WeakValueDictionary[str, Analysis] = weakref.WeakValueDictionary()


class UnreadWarning(UserWarning):
    """A part of a recording could not be read; the analysis is of the rest."""


def opened(path: str | Path) -> Analysis:
    """See `schedlens.open`."""
    if reading.is_lake(path):
        return Analysis(Path(path), reading.connect(path))
    place = Path(path)
    if place.suffix == ".duckdb" or (place / "analysis.duckdb").exists():
        return _of(place / "analysis.duckdb" if place.is_dir() else place)
    return _kept(recording.gather([place]), Questions(), None)


def analyzed(
    paths: Paths,
    *,
    output: str | Path | None = None,
    process: str | None = None,
    topology: str | Path | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
    only: Sequence[str] = (),
    max_memory: str | None = None,
    report: bool = False,
) -> Analysis:
    """See `schedlens.analyze`."""
    if from_s is not None and to_s is not None and not from_s < to_s:
        raise WindowError(f"from_s {from_s:g} is not before to_s {to_s:g}")
    try:
        window = (pipeline.nanoseconds(from_s), pipeline.nanoseconds(to_s))
    except (ValueError, OverflowError):
        raise WindowError("from_s and to_s must be seconds of the trace, such as 0.2") from None
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    recordings = recording.gather([Path(path) for path in listed])
    if topology is not None:
        from schedlens.load import described_machine

        described = described_machine.topology(Path(topology))
        recordings = [known.described(described) for known in recordings]
    questions = Questions(process, window, tuple(only))
    allowed = memory.size(max_memory) if max_memory else None
    if output is None:
        if report:
            raise DatabaseError("a report needs a folder: give one with output")
        return _kept(recordings, questions, allowed)
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    file = folder / "analysis.duckdb"
    if str(file.resolve()) in _open:
        raise DatabaseError(f"{file} is open here: close that analysis first")
    with (
        _making,
        page.saved(folder / "report.html") as save,
        preparation.saved(file) as prepared,
        pipeline.analyzed(
            recordings, file, questions, max_memory=allowed, meanwhile=prepared.meanwhile
        ) as run,
    ):
        if report:
            timelines = prepared.timelines(run.con)
            save(page.text(run.con, process=process, scope=run.scope, timelines=timelines))
        prepared.finish(run.con)
        unread = run.unread()
    _warn(unread)
    return _of(file)


def _kept(recordings: list[Recording], questions: Questions, allowed: int | None) -> Analysis:
    """The kept analysis of these recordings, made first where there is none."""
    file = kept_analyses.place(recordings, questions)
    with _making:
        if file.exists():
            # A damaged file is made again.
            with contextlib.suppress(DatabaseError):
                found = _of(file)
                kept_analyses.used(file)
                return found
        made = _make(recordings, questions, allowed, file)
        kept_analyses.used(made)
        return _of(made)


def _make(
    recordings: list[Recording], questions: Questions, allowed: int | None, file: Path
) -> Path:
    aside = file.with_stem(f"{file.stem}{kept_analyses.PARTIAL}")
    with pipeline.analyzed(recordings, aside, questions, max_memory=allowed) as run:
        unread, complete = run.unread(), not run.failures
    _warn(unread)
    return aside.replace(file) if complete else aside


def _of(file: Path) -> Analysis:
    found = Analysis(file)
    _open[str(file.resolve())] = found
    return found


def _warn(unread: Sequence[str]) -> None:
    for line in unread:
        warnings.warn(f"not all was read: {line}", UnreadWarning, stacklevel=4)
