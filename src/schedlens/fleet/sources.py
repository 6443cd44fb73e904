"""What a fleet run reads: each recording or session below the given folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlens.errors import NothingToReadError, SchedlensError
from schedlens.lake import identity
from schedlens.lake.identity import Source
from schedlens.lake.manifest import Entry
from schedlens.lake.set_aside import Note
from schedlens.load import etl_parts, recording, session_file, step_file
from schedlens.load.arrow_folder import layout

_RECORDINGS = (".data", ".etl", ".etl.zip", ".perfetto-trace", ".pftrace")


@dataclass(frozen=True)
class Unit:
    """What is analyzed together: a session folder, or the files of one recording.

    `sources` are the files of each of its recordings; empty if it cannot be read, so that its task
    reports why. `size` is in bytes.
    """

    paths: tuple[Path, ...]
    sources: tuple[tuple[Source, ...], ...]

    @property
    def size(self) -> int:
        """The size of its largest recording in bytes."""
        return max((sum(s.size for s in files) for files in self.sources), default=0)

    @property
    def all_sources(self) -> list[Source]:
        """The files of all its recordings, each once; the paths if it cannot be read."""
        found = list(dict.fromkeys(source for files in self.sources for source in files))
        return found or [_source(path) for path in self.paths]


def find(paths: Sequence[Path]) -> list[Unit]:
    """The units at or below the given paths, in order. Raises `NothingToReadError`."""
    groups: dict[tuple[Path, ...], None] = {}
    for path in paths:
        if not path.exists():
            raise NothingToReadError(f"{path} does not exist: name a recording or a folder of them")
        found = [(path,)] if path.is_file() else list(_below(path))
        if not found:
            raise NothingToReadError(
                f"{path} contains no session folder and no *.data, *.etl, *.etl.zip, "
                "*.perfetto-trace or *.pftrace recording"
            )
        groups |= dict.fromkeys(found)
    return [Unit(group, _sources(group)) for group in groups]


def _below(folder: Path) -> Iterator[tuple[Path, ...]]:
    names = sorted(path.name for path in folder.iterdir())
    whole = {session_file.NAME, step_file.NAME, "data"} & set(names)
    if whole or layout.is_one(folder):
        yield (folder,)
        return
    files = [folder / name for name in names if name.endswith(_RECORDINGS)]
    yield from (tuple(group) for group in etl_parts.together([f for f in files if f.is_file()]))
    for name in names:
        if not name.startswith(".") and (folder / name).is_dir():
            yield from _below(folder / name)


def _sources(paths: tuple[Path, ...]) -> tuple[tuple[Source, ...], ...]:
    try:
        return tuple(tuple(identity.sources(one)) for one in recording.gather(paths))
    except (SchedlensError, OSError):
        return ()


def _source(path: Path) -> Source:
    known = path.stat()
    return Source(str(path.absolute()), known.st_size, known.st_mtime_ns)


class Finished:
    """The recordings that need no task: in the lake with the same rows, or set aside."""

    def __init__(self, entries: Iterable[Entry], notes: Iterable[Note]) -> None:
        self._entries = {_key(entry.sources): entry for entry in entries}
        self._set_aside = {_key(note["files"]) for note in notes}

    def contains(self, unit: Unit, machine: str | None, build: str | None) -> bool:
        """Whether each recording of a unit is finished, as it would be with these labels."""
        if _key(unit.all_sources) in self._set_aside:
            return True
        return bool(unit.sources) and all(
            self._has(files, machine, build) for files in unit.sources
        )

    def _has(self, files: tuple[Source, ...], machine: str | None, build: str | None) -> bool:
        key = _key(files)
        if key in self._set_aside:
            return True
        entry = self._entries.get(key)
        if entry is None:
            return False
        labels = identity.labels((Path(source.path) for source in files), machine, build)
        # The hash of the content is that of the entry, as the files have not changed.
        return entry.revision == identity.revision(entry.sha256, labels, {})


def _key(sources: Iterable[Source | list[object]]) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (s.path, s.size, s.written_ns) if isinstance(s, Source) else tuple(s) for s in sources
    )
