"""Finds files and folders of killed runs by a lock that ended with their process.

A run locks its temporary folder as long as it lives, so a folder that can be locked has no owner.
This also works across containers, where process ids mean nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

_PREFIX = "schedlens-run-"
# Another run must not mistake a folder for an old one before it is locked.
_YOUNG_S = 5.0


class TemporaryFolder:
    """A folder of this run: removed by `remove`, or by the next run if this one is killed."""

    def __init__(self) -> None:
        remove_folders()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = _lock(self.path)

    def remove(self) -> None:
        """Removes the folder with all it contains."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def remove_folders() -> None:
    """Removes the temporary folders of killed runs of this user."""
    now = time.time()
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if now - found.st_mtime < _YOUNG_S or not folder.is_dir() or folder.is_symlink():
                continue
            if sys.platform != "win32" and found.st_uid != os.geteuid():
                continue
            lock = _lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def unfinished(path: Path) -> Path:
    """Where this process writes a file until it is complete; `remove_unfinished` finds it.

    Two runs that write the same file must not write to the same place: the first to finish would
    give the other's half-written content its final name.
    """
    return path.with_name(f".{path.name}.{os.getpid()}")


def remove_unfinished(path: Path) -> None:
    """Removes the parts of a file that killed runs wrote under `.NAME.PID`.

    A part is kept while its process lives or anyone has DuckDB's lock on it, so that a run in
    another container keeps its database.
    """
    for file in path.parent.glob(f".{path.name}.*"):
        pid = file.name.removeprefix(f".{path.name}.").partition(".")[0]
        if not pid.isdigit() or int(pid) == os.getpid() or _runs(int(pid)):
            continue
        database = path.with_name(f".{path.name}.{pid}")
        if database.exists() and not _unlocked(database):
            continue
        with contextlib.suppress(OSError):
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()


def _runs(pid: int) -> bool:
    if sys.platform == "win32":
        # Windows does not delete an open file, so trying is safe.
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _lock(folder: Path) -> int | None:
    """A descriptor with the lock of a folder; None if another process has it."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _unlocked(database: Path) -> bool:
    """Whether no process has the database open: DuckDB locks its file."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        with database.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
