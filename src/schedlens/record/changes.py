"""Changes that recording makes to the machine: written down first, undone afterwards.

One file lists the changes and the programs that need them. The last program to end undoes them;
if all were killed, the next one does, or `schedlens doctor --restore`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from schedlens.errors import RecorderError
from schedlens.machine import operating_system
from schedlens.output.whole_file import write_json
from schedlens.record.former_settings import put_back

TRACEFS = Path("/sys/kernel/tracing")
_SET = "set "


@dataclass
class Change:
    """One change: what, the state before and after, and whether it was restored."""

    what: str
    before: str
    after: str
    restored: bool = False


@dataclass
class _State:
    """The file's content; `users` are (process id, its start time), because ids are reused."""

    users: list[tuple[int, str]] = field(default_factory=list)
    pending: list[Change] = field(default_factory=list)


def state_folder() -> Path:
    """The folder of the file, which a restart empties because it also undoes the changes.

    On Windows it survives a restart, as does the power plan.
    """
    given = os.environ.get("SCHEDLENS_STATE_DIR")
    if given:
        return Path(given)
    if operating_system.name() == "windows":
        return Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "schedlens"
    return Path("/run/schedlens")


class Changes:
    """The changes that this program makes or relies on. Only root can make any."""

    def __init__(self, folder: Path | None = None) -> None:
        self.made: list[Change] = []
        self.is_shared = False
        """After `undo`: whether another run still needs the changes and will undo them."""
        self._folder = folder or state_folder()
        self._me = (os.getpid(), _start_time(os.getpid()))

    def mount_tracefs(self) -> bool:
        """Mounts the file system of the tracepoints; returns whether it is mounted now.

        When perf runs as root, it would mount the file system itself and leave it mounted. Raises
        `RecorderError` if the change cannot be written down first.
        """
        if os.geteuid() != 0:
            return tracefs_mount() is not None
        with _locked(self._folder) as state:
            if self._me not in state.users:
                state.users.append(self._me)
            # This run will also undo what a killed run left behind.
            self.made.extend(change for change in state.pending if change not in self.made)
            if tracefs_mount() is not None:
                return True
            change = Change(f"mount {TRACEFS}", "not mounted", "mounted")
            if change not in state.pending:
                state.pending.append(change)
            _save(self._folder, state)
            if not TRACEFS.is_dir() or not _run("mount", "-t", "tracefs", "nodev", str(TRACEFS)):
                state.pending.remove(change)
                return False
            if change not in self.made:
                self.made.append(change)
            return True

    def undo(self) -> list[Change]:
        """Undoes the changes unless another program still records; returns those that remain."""
        if os.geteuid() != 0 or not _file(self._folder).exists():
            return []
        with _locked(self._folder) as state:
            if self._me in state.users:
                state.users.remove(self._me)
            self.is_shared = bool(_alive(state))
            if not self.is_shared:
                _undo_all(state)
            for change in self.made:
                change.restored = change not in state.pending
        return [change for change in self.made if not change.restored]


def remember(contents: Sequence[tuple[str, str]], folder: Path | None = None) -> None:
    """Writes down settings and their values before an experiment changes them.

    A setting is a file or belongs to a Windows power plan. Raises `RecorderError` if it cannot be
    written down.
    """
    with _locked(folder or state_folder()) as state:
        for name, text in contents:
            change = Change(f"{_SET}{name}", text, "as an experiment sets it")
            if change not in state.pending:
                state.pending.append(change)


def forget(contents: Sequence[tuple[str, str]], folder: Path | None = None) -> None:
    """Deletes the record of settings that have been restored."""
    known = {(f"{_SET}{name}", text) for name, text in contents}
    with _locked(folder or state_folder()) as state:
        state.pending = [c for c in state.pending if (c.what, c.before) not in known]


def left_behind(folder: Path | None = None) -> list[Change]:
    """Changes of programs that no longer run."""
    try:
        state = _load(folder or state_folder())
    except OSError:
        return []
    return [] if _alive(state) else state.pending


def restore(folder: Path | None = None) -> tuple[list[Change], list[Change]]:
    """Undoes what was left behind; returns what was undone, and what could not be."""
    before = left_behind(folder)
    if not before:
        return [], []
    with _locked(folder or state_folder()) as state:
        if not _alive(state):
            _undo_all(state)
        left = list(state.pending)
    return [change for change in before if change not in left], left


def tracefs_mount(mountinfo: Path = Path("/proc/self/mountinfo")) -> Path | None:
    """Where the tracepoints' file system is mounted, by itself or inside debugfs."""
    try:
        lines = mountinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = [line.split(" ") for line in lines]
    folders = [row[4] for row in found if "-" in row and row[row.index("-") + 1] == "tracefs"]
    return Path(min(folders, key=len)) if folders else None


def _undo_all(state: _State) -> None:
    """Undoes each change that is still in force and that nothing uses."""
    for change in reversed(list(state.pending)):
        if change.what.startswith(_SET):
            if not put_back([(change.what.removeprefix(_SET), change.before)]):
                state.pending.remove(change)
            continue
        mounted = change.what == f"mount {TRACEFS}" and _is_mounted(TRACEFS)
        if not mounted or _run("umount", str(TRACEFS)):
            state.pending.remove(change)


def _is_mounted(folder: Path) -> bool:
    return os.path.ismount(folder)


def _alive(state: _State) -> list[tuple[int, str]]:
    return [(pid, started) for pid, started in state.users if _start_time(pid) == started]


def _start_time(pid: int) -> str:
    """Start of a process in ticks since boot; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat[stat.rindex(")") + 2 :].split()[19]


def _file(folder: Path) -> Path:
    return folder / "changes.json"


@contextmanager
def _locked(folder: Path) -> Iterator[_State]:
    """The state, locked against other programs until it is written back."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise RecorderError(
            f"cannot write {folder} ({error.strerror}). schedlens changes this machine only if it "
            "can write the change down first: set SCHEDLENS_STATE_DIR to a writable folder"
        ) from None
    with lock:
        _lock(lock)
        state = _load(folder)
        state.users = _alive(state)
        yield state
        if state.users or state.pending:
            _save(folder, state)
        else:
            _file(folder).unlink(missing_ok=True)


def _lock(file: IO[str]) -> None:
    """Waits until no other program has the lock, which closing the file releases."""
    # Not at the top: each system lacks the other's module.
    if sys.platform == "win32":
        import msvcrt

        # msvcrt gives up after ten seconds, although the other program may need longer.
        while True:
            with contextlib.suppress(OSError):
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                return
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)


def _save(folder: Path, state: _State) -> None:
    write_json(
        _file(folder),
        {"users": state.users, "pending": [asdict(change) for change in state.pending]},
    )


def _load(folder: Path) -> _State:
    """The file's content; a damaged file counts as empty, because writes are atomic."""
    try:
        value = json.loads(_file(folder).read_text(encoding="utf-8"))
        return _State(
            [(int(pid), str(started)) for pid, started in value["users"]],
            [Change(**row) for row in value["pending"]],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return _State()


def _run(*command: str) -> bool:
    """Whether a system command succeeded; its output does not help the user here."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
