"""What identifies a recording in a lake: the content of its files, not their names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from schedlens import __version__, _decoders
from schedlens.errors import LakeError
from schedlens.load import session_file
from schedlens.load.recording import Recording

UNKNOWN = "unknown"
# The decoders store the number of the recording in the upper half of every thread's number.
_MOST_TRACE_ID = (1 << 31) - 1
_LABEL = re.compile(r"(machine|build)=(.+)")


@dataclass(frozen=True)
class Source:
    """A file of a recording: its path, its size in bytes, and when it was written (ns)."""

    path: str
    size: int
    written_ns: int


@dataclass(frozen=True)
class Labels:
    """Where a recording belongs: `machine` None means the host that the recording names."""

    machine: str | None = None
    build: str | None = None


def files(recording: Recording) -> list[Path]:
    """All files that the tables of a recording are made from, in a fixed order."""
    named = [Path(name) for name in recording.files]
    if recording.folder is not None:
        named = [recording.folder, recording.folder.parent / session_file.NAME]
        # Counters of further core types, samples and snapshots are in the folder as well.
    if recording.frames is not None:
        named.append(recording.frames)
    found: list[Path] = []
    for path in named:
        found += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [path for path in dict.fromkeys(found) if path.exists()]


def sources(recording: Recording) -> list[Source]:
    """The files of a recording with what changes when they change."""
    found = []
    for path in files(recording):
        known = path.stat()
        found.append(Source(str(path.absolute()), known.st_size, known.st_mtime_ns))
    return found


def content_sha256(recording: Recording) -> str:
    """A hash of the content of all files of a recording, equal for a copy elsewhere."""
    digest = hashlib.sha256()
    for path in files(recording):
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise LakeError(f"cannot read {path}: {error.strerror or error}") from None
    if recording.scrubbed is not None:
        # Several recordings are in one file.
        digest.update(str(recording.scrubbed).encode())
    return digest.hexdigest()


def revision(sha256: str, labels: Labels, options: dict[str, object]) -> str:
    """A hash of all that the rows of a recording depend on: content, version, options."""
    text = json.dumps(
        [sha256, __version__, _decoders.SCHEMA_VERSION, labels.machine, labels.build, options],
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def trace_ids(sha256: str) -> Iterator[int]:
    """The numbers that a recording may have, best first: later ones if another has the first."""
    for attempt in range(64):
        digest = hashlib.sha256(f"{sha256} {attempt}".encode()).digest()
        yield int.from_bytes(digest[:8], "big") % _MOST_TRACE_ID + 1


def labels(paths: Iterable[Path], machine: str | None, build: str | None) -> Labels:
    """The given labels, else those in parts of the path such as `build=1.4.2`."""
    found: dict[str, str] = {}
    for path in paths:
        for part in path.absolute().parts:
            match = _LABEL.fullmatch(part)
            if match:
                found.setdefault(match[1], match[2])
    return Labels(machine or found.get("machine"), build or found.get("build"))
