"""Keeps what just-in-time compilers wrote about their code: perf maps, and dumps they mapped."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import perf_file
from .perf_command import MEBI

# The folder in a step. In it, dumps of other names than their process are in a folder of its
# number: in a container, each compiler may write jit-1.dump.
PERF_MAPS = "perf-maps"

_MAP_NAME = re.compile(r"perf-(\d+)\.map")
_DUMP_NAME = re.compile(r"jit-(\d+)\.dump")
_DUMP_PART = b"/jit-"
# JITHEADER_MAGIC of either byte order.
_MAGICS = (b"JiTD", b"DTiJ")
_MOST_MAP_BYTES = 64 * MEBI
_MOST_DUMP_BYTES = 512 * MEBI
_MOST_DUMPS = 1 << 10


def keep_generated_code(folder: Path, trace: Path, begin_s: float) -> list[str]:
    """Copies perf maps and the dumps of `trace` into the folder of a step.

    `begin_s` is the wall time at which recording began: maps of processes that have ended are kept
    if they changed since then. Returns at most one line about what could not be kept.
    """
    kept = _Kept(folder / PERF_MAPS)
    for path in sorted(Path("/tmp").glob("perf-*.map")):
        found = _MAP_NAME.fullmatch(path.name)
        with contextlib.suppress(OSError):
            runs = found is not None and Path("/proc", found[1]).exists()
            if found is not None and (runs or path.lstat().st_mtime >= begin_s):
                kept.map(path)
    for pid, name in mapped_dumps(trace):
        kept.dump(pid, name)
    return kept.lines()


def mapped_dumps(trace: Path) -> list[tuple[int, str]]:
    """Process and path of each dump of a just-in-time compiler that a recording's processes mapped.

    A file that is cut off or no recording has those up to there.
    """
    found: dict[tuple[int, str], None] = {}
    with (
        contextlib.suppress(OSError, ValueError, struct.error),
        trace.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        # Most recordings have none, which one search finds out.
        for pid, name in perf_file.mapped(data) if data.find(_DUMP_PART) >= 0 else ():
            base = name.rpartition("/")[2]
            if _DUMP_NAME.fullmatch(base) and len(found) < _MOST_DUMPS:
                found[pid, name] = None
    return list(found)


@dataclass
class _Kept:
    """What was copied into a folder, and what was not."""

    folder: Path
    failed: list[str] = field(default_factory=list)
    """Path and reason."""
    _map_bytes: int = field(default_factory=lambda: _MOST_MAP_BYTES)
    _dump_bytes: int = field(default_factory=lambda: _MOST_DUMP_BYTES)
    _dumps: dict[tuple[int, int], Path] = field(default_factory=dict)
    """Copies by device and inode."""

    def map(self, path: Path) -> None:
        """Copies a perf map."""
        with self._noting(str(path)), _opened(path) as (handle, state):
            if state.st_size > self._map_bytes:
                raise _NotKept(f"{_MOST_MAP_BYTES // MEBI} MB of maps are kept")
            self._map_bytes -= self._copied(handle, state.st_size, path.name)

    def dump(self, pid: int, name: str) -> None:
        """Copies a dump that a process mapped, unless it was copied for another one."""
        base = name.rpartition("/")[2]
        number = _DUMP_NAME.fullmatch(base)
        assert number is not None
        inside = base if int(number[1]) == pid else f"{pid}/{base}"
        # As the process sees it, which may be in a container.
        seen = Path(f"/proc/{pid}/root{name}")
        with (
            self._noting(name),
            _opened(seen if os.path.lexists(seen) else Path(name)) as (handle, state),
        ):
            same = self._dumps.get((state.st_dev, state.st_ino))
            if same is not None:
                target = self.folder / inside
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.link(same, target)
                return
            # What is not a dump is not read for whoever names a file like one.
            if os.pread(handle, 4, 0) not in _MAGICS:
                raise _NotKept("not a jitdump file")
            if state.st_size > self._dump_bytes:
                size = f"{state.st_size / MEBI:.1f} MB"
                most = f"{_MOST_DUMP_BYTES // MEBI} MB of dumps are kept for a step"
                raise _NotKept(f"{size}, and {most}")
            self._dump_bytes -= self._copied(handle, state.st_size, inside)
            self._dumps[state.st_dev, state.st_ino] = self.folder / inside

    def lines(self) -> list[str]:
        """One line about all that was not kept; none if everything was."""
        if not self.failed:
            return []
        more = f" and {len(self.failed) - 1} more" if len(self.failed) > 1 else ""
        return [
            f"not kept in the session: {self.failed[0]}{more}. Code that its compiler generated "
            f"has no names on other machines unless you copy the file to {self.folder}"
        ]

    @contextlib.contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        try:
            yield
        except _NotKept as why:
            self.failed.append(f"{name} ({why})")
        except OSError as error:
            self.failed.append(f"{name} ({error.strerror or error})")

    def _copied(self, handle: int, size: int, inside: str) -> int:
        """Copies at most `size` bytes of a file, which may still grow; returns their number."""
        target = self.folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}")
        try:
            with aside.open("wb") as copy, os.fdopen(os.dup(handle), "rb") as file:
                left = size
                while left > 0 and (part := file.read(min(left, MEBI))):
                    copy.write(part)
                    left -= len(part)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        return size - left


class _NotKept(Exception):
    """Why a file is not copied."""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file, not through a link, which another user could have made."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise _NotKept("not a file")
        yield handle, state
    finally:
        os.close(handle)
