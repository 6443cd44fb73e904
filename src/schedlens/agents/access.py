"""What tools work with: the folders, and the analyses that are open."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from schedlens.agents.folders import Folders
from schedlens.agents.guarded_sql import Answer, GuardedDatabase

# Analyses that remain open; the one that was used least recently is closed.
_MOST_OPEN = 4

_Version = tuple[int, int, int]


@dataclass
class Access:
    """The folders of a server, with open analyses; `seconds` limits each statement.

    Not for several threads at once.
    """

    folders: Folders
    seconds: float = 30.0
    _open: OrderedDict[Path, tuple[_Version, GuardedDatabase]] = field(default_factory=OrderedDict)

    def database(self, session: str) -> GuardedDatabase:
        """The analysis of a session. Raises `AccessError` and what opening it raises."""
        path = self.folders.database(session)
        found = path.stat()
        version = (found.st_ino, found.st_size, found.st_mtime_ns)
        known = self._open.pop(path, None)
        if known is not None and known[0] != version:
            # Written again by `analyze`. DuckDB would return the old one while it is open.
            known[1].close()
            known = None
        if known is None:
            known = version, GuardedDatabase(path, self.seconds)
        self._open[path] = known
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1][1].close()
        return known[1]

    def select(self, session: str, sql: str) -> Answer:
        """The rows of a SELECT statement about a session. Raises like `GuardedDatabase.select`."""
        return self.database(session).select(sql)
