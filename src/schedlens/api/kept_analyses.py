"""Analyses of raw recordings in the user's cache, so that a recording is analyzed once.

The name of a kept file is a hash of all that determines its content: path, size and time of change
of each file of the recordings, the questions, and the version of schedlens with its queries and
analyzers. A changed recording therefore has a new name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

import duckdb

from schedlens import __version__, _decoders
from schedlens.ask.pipeline import Questions
from schedlens.errors import NothingToReadError
from schedlens.load import calibration, schema
from schedlens.load.recording import Recording
from schedlens.load.session_file import NAME
from schedlens.output import kept
from schedlens.output.whole_file import cannot_write

# The least recently opened analyses beyond these numbers are removed.
MOST_FILES = 20
MOST_BYTES = 10 << 30
# A database that lacks recordings which could not be read: made again by the next call.
PARTIAL = "-partial"


def folder() -> Path:
    """The folder of the kept analyses, which is made. Raises `SessionError`."""
    place = kept.folder() / "analyses"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(place, error) from None
    return place


def place(recordings: list[Recording], questions: Questions) -> Path:
    """The file of the analysis of these recordings, which may not exist yet."""
    digest = hashlib.sha256()
    for part in (*_program(), *map(repr, _questions(questions)), *_files(recordings)):
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    label = re.sub(r"[^\w.-]+", "_", recordings[0].label)[:40]
    return folder() / f"{label}-{digest.hexdigest()[:20]}.duckdb"


def used(file: Path) -> None:
    """Marks a kept analysis as used now, and removes those that were not used for longest."""
    with contextlib.suppress(OSError):
        os.utime(file)
        newest = sorted(
            (known for known in file.parent.glob("*.duckdb") if not known.name.startswith(".")),
            key=lambda known: (known != file, -known.stat().st_mtime_ns),
        )
        total = 0
        for number, known in enumerate(newest):
            total += known.stat().st_size
            if number and (number >= MOST_FILES or total > MOST_BYTES):
                # Who has it open keeps it; Windows refuses, and a later call removes it.
                with contextlib.suppress(OSError):
                    known.unlink()


def _program() -> Iterator[str]:
    """What the same recordings are analyzed by."""
    yield f"{__version__} {duckdb.__version__} {_decoders.SCHEMA_VERSION}"
    sources = [*schema.folder().rglob("*.sql")]
    analyzers = resources.files("schedlens.analyzers")
    sources += [Path(str(file)) for file in analyzers.iterdir() if file.name.endswith(".py")]
    for path in sorted(sources):
        yield f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _questions(questions: Questions) -> Iterator[object]:
    yield from (questions.process, questions.window, questions.only)


def _files(recordings: Iterable[Recording]) -> Iterator[str]:
    """Each file that a recording is read from: its path, size and time of change."""
    for recording in recordings:
        yield json.dumps([recording.label, repr(recording.topology)])
        roots = [recording.trace, recording.frames, recording.folder, *recording.more_files]
        if recording.folder is not None:
            roots.append(recording.folder.parent / NAME)
        machine = calibration.machine(recording)
        if machine is not None:
            roots.append(calibration.path(machine))
        for root in roots:
            if root is None:
                continue
            inside = sorted(root.rglob("*")) if root.is_dir() else [root]
            for path in inside:
                try:
                    found = path.stat()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise NothingToReadError(f"cannot read {path}: {error.strerror}") from None
                yield f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"
