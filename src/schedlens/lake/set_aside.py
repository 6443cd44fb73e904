"""Recordings that could not be analyzed: set aside with their reason, and not tried again."""

from __future__ import annotations

import datetime
import hashlib
import json
from typing import Any

import duckdb

from schedlens.lake.file_access import LakeFiles
from schedlens.lake.identity import Source

FOLDER = "set_aside"

Note = dict[str, Any]


def _key(sources: list[Source]) -> str:
    """By path, size and time: a file that is replaced is tried again."""
    text = json.dumps([[s.path, s.size, s.written_ns] for s in sources])
    return f"{FOLDER}/{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def write(files: LakeFiles, sources: list[Source], reason: str, attempts: int) -> None:
    """Sets a recording aside."""
    note = {
        "source": sources[0].path if sources else "",
        "reason": " ".join(reason.split()),
        "attempts": attempts,
        "set_aside_utc": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}",
        "files": [[s.path, s.size, s.written_ns] for s in sources],
    }
    files.write(_key(sources), json.dumps(note).encode())


def clear(files: LakeFiles, sources: list[Source]) -> None:
    """Removes the note about a recording that has been analyzed after all."""
    files.delete(_key(sources))


def read_all(files: LakeFiles) -> list[Note]:
    """All notes, by the path of the recording."""
    notes: list[Note] = []
    for found in files.listed(FOLDER):
        data = files.read(found.key)
        if data is not None:
            notes.append(json.loads(data))
    return sorted(notes, key=lambda note: str(note["source"]))


def fill(con: duckdb.DuckDBPyConnection, files: LakeFiles) -> None:
    """Fills the table `set_aside`."""
    columns = ("source", "reason", "attempts", "set_aside_utc")
    rows = [[note[name] for name in columns] for note in read_all(files)]
    if rows:
        con.executemany("INSERT INTO set_aside VALUES (?, ?, ?, ?::TIMESTAMP)", rows)
