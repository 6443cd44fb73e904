"""The folders that a server may read, and the paths inside them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedlens.errors import AccessError, NothingToReadError

DATABASE = "analysis.duckdb"
# Folders below a root that a listing descends into, and entries that it looks at.
_DEPTH = 6
_MOST_ENTRIES = 20_000


class Folders:
    """Folders with everything below them; links that lead outside are outside."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.roots = tuple(dict.fromkeys(folder.resolve(strict=True) for folder in folders))

    def path(self, given: str) -> Path:
        """The file or folder of that name, absolute or relative to a root, links resolved.

        Raises `AccessError` for a path outside, whether or not it exists, and
        `NothingToReadError` for one inside that does not exist.
        """
        if not given.strip() or "\0" in given:
            raise AccessError("give a path, such as one that list_sessions returns")
        missing = False
        for root in self.roots:
            try:
                found = Path(os.path.realpath(root / given))
                if not self.contains(found):
                    continue
                if found.exists():
                    return found
            except OSError:
                continue
            missing = True
        if missing:
            raise NothingToReadError(f"{given} does not exist: list_sessions lists what does")
        raise AccessError(
            f"{given} is outside the folders of this server: list_sessions lists them"
        )

    def database(self, given: str) -> Path:
        """The database of a session. Raises like `path`, and `NothingToReadError` without one."""
        found = self.path(given)
        if found.is_dir():
            if not (found / DATABASE).exists():
                raise NothingToReadError(
                    f"{given} is not analyzed: the user can run `analyze {found}`; inspect_trace "
                    "works without"
                )
            found = self.path(str(found / DATABASE))
        # DuckDB also reads the log next to a database.
        log = found.with_name(f"{found.name}.wal")
        if log.is_symlink():
            self.path(str(log))
        return found

    def recording(self, given: str) -> Path:
        """A recording: a file, or a folder of which no link leads outside. Raises like `path`."""
        found = self.path(given)
        for inside in found.rglob("*") if found.is_dir() else ():
            if inside.is_symlink():
                self.path(str(inside))
        return found

    def contains(self, path: Path) -> bool:
        """Whether an absolute path without links is a root or below one."""
        return any(path == root or root in path.parents for root in self.roots)

    def name(self, path: Path) -> str:
        """The path as the tools take and return it: short if there is one root."""
        if len(self.roots) == 1 and self.contains(path):
            return str(path.relative_to(self.roots[0]))
        return str(path)

    def walk(self) -> Iterator[tuple[Path, list[str]]]:
        """Each folder with its file names, in order; links are not followed."""
        looked = 0
        for root in self.roots:
            for folder, below, files in os.walk(root):
                depth = len(Path(folder).relative_to(root).parts)
                below[:] = sorted(name for name in below if not name.startswith("."))
                if depth >= _DEPTH:
                    below.clear()
                looked += len(below) + len(files)
                if looked > _MOST_ENTRIES:
                    return
                yield Path(folder), sorted(files)
