"""The subject of a row, in words that two recordings of the same schedule share."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

import duckdb

Name = tuple[Any, ...]

_LIVES = """
SELECT utid, tid, is_idle, start_ns FROM thread
ORDER BY is_idle, tid, coalesce(start_ns, -9223372036854775808), utid
"""
_PROCESSES = """
SELECT upid, pid, name FROM process
ORDER BY pid, coalesce(start_ns, -9223372036854775808), upid
"""


class Names:
    """Names of the threads and processes of the one recording in a database."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.threads: dict[int, Name] = {}
        self.processes: dict[int, Name] = {}
        self.lives: dict[Any, int] = defaultdict(int)
        for utid, tid, is_idle, _ in con.execute(_LIVES).fetchall():
            key = ("idle" if is_idle else "thread", 0 if is_idle else tid)
            self.threads[utid] = (*key, self.lives[key])
            self.lives[key] += 1
        self.named: dict[str | None, set[Name]] = defaultdict(set)
        """The processes of each name."""
        for upid, pid, name in con.execute(_PROCESSES).fetchall():
            key = ("process", pid)
            self.processes[upid] = (*key, self.lives[key])
            self.named[name].add(self.processes[upid])
            self.lives[key] += 1

    def renamed(self, old: int, new: int) -> Names:
        """The same with the thread of id `old` as a second life of `new`."""
        found = copy.copy(self)
        was, becomes = ("thread", old, 0), ("thread", new, 1)
        found.threads = {
            utid: becomes if name == was else name for utid, name in self.threads.items()
        }
        found.lives = defaultdict(int, self.lives)
        found.lives["thread", old] -= 1
        found.lives["thread", new] += 1
        return found

    def of(self, column: str, value: Any) -> Any:
        """The value of an identity column in these words."""
        if value is None:
            return None
        if column.endswith("utid"):
            return self.threads.get(value)
        if column.endswith("upid"):
            return self.processes.get(value)
        return value


def is_certain_process(name: str, ours: Names, theirs: Names) -> bool:
    """Whether that name means the same processes in both recordings."""
    return ours.named.get(name) == theirs.named.get(name)


def is_certain(name: Any, ours: Names, theirs: Names) -> bool:
    """Whether both recordings know the same number of threads with that id."""
    if not isinstance(name, tuple):
        return True
    key = (name[0], name[1])
    return ours.lives.get(key) == theirs.lives.get(key)
