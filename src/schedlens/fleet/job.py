"""One task of a fleet: analyzes one recording or session and writes it to the lake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlens.ask import analysis, blank_database, judging
from schedlens.ask.findings import Scope
from schedlens.errors import LakeError, NoSpaceError, NothingToReadError, SchedlensError
from schedlens.lake import identity, set_aside, written
from schedlens.lake.file_access import LakeFiles
from schedlens.lake.identity import Source
from schedlens.load import recording, store
from schedlens.output.leftover import TemporaryFolder


@dataclass(frozen=True)
class Job:
    """What to analyze, where to write it, and with how much memory (bytes) and how many threads."""

    place: str
    paths: tuple[str, ...]
    sources: tuple[Source, ...]
    machine: str | None
    build: str | None
    memory: int
    threads: int


@dataclass(frozen=True)
class Done:
    """What a job did: recordings that are new in the lake, that were there, and failures."""

    written: int
    present: int
    set_aside: tuple[tuple[str, str], ...] = ()
    """Path and reason of each recording that cannot be analyzed."""


def run(job: Job) -> Done:
    """Analyzes and writes; sets aside what cannot be read.

    Raises `LakeError`, `NoSpaceError` or `OSError` if another attempt may succeed.
    """
    files = LakeFiles(job.place)
    try:
        return _run(job, files)
    except (LakeError, NoSpaceError):
        raise
    except SchedlensError as error:
        set_aside.write(files, list(job.sources), str(error), 1)
        return Done(0, 0, ((job.paths[0], str(error)),))


def _run(job: Job, files: LakeFiles) -> Done:
    found = recording.gather([Path(path) for path in job.paths])
    planned = written.planned(files, found, machine=job.machine, build=job.build)
    if all(known.is_present for known in planned):
        return Done(0, len(planned))
    with (
        TemporaryFolder() as folder,
        store.create(
            folder / "analysis.duckdb",
            max_memory=job.memory,
            place=blank_database.place,
            threads=job.threads,
        ) as con,
    ):
        failures = analysis.load(
            con,
            [known.recording for known in planned],
            (None, None),
            lambda *_: None,
            [known.trace_id for known in planned],
        )
        if len(failures) == len(planned):
            raise NothingToReadError(failures[0].line)
        judging.store(con, judging.judge_all(Scope(con)))
        new = written.write(con, files, planned)
    failed = {failure.label: failure for failure in failures}
    for known in planned:
        failure = failed.get(known.recording.label)
        if failure is not None:
            set_aside.write(files, identity.sources(known.recording), failure.line, 1)
    present = sum(known.is_present for known in planned)
    lines = tuple((failure.label, failure.line) for failure in failures)
    return Done(len(new), present, lines)
