"""The manifest: one entry per recording, and a recording exists only if it has one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import quote

from schedlens.errors import LakeError
from schedlens.lake.file_access import Found, LakeFiles

FOLDER = "manifest"
TABLES = "tables"
FORMAT = 1
# Requests to a remote file system in flight at once.
_AT_ONCE = 16


@dataclass(frozen=True)
class Part:
    """The file of one table of one recording: its name, its rows, and its size in bytes."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True)
class Entry:
    """A recording in a lake; `date` is YYYY-MM-DD, `sources` are [path, size, written_ns].

    `session` is the number of the first recording that was analyzed together with this one:
    findings about all of them are in its files. `is_raw` is false after retention has removed the
    tables of records and states.
    """

    trace_id: int
    revision: str
    sha256: str
    label: str
    machine: str
    build: str
    date: str
    session: int
    tool_version: str
    schema_version: int
    written_utc: str
    sources: list[list[Any]]
    source_bytes: int
    tables: dict[str, Part]
    is_raw: bool = True
    facts: dict[str, Any] = field(default_factory=dict)
    """Host, CPU model, system, number of CPUs by core type, length in ns."""

    @property
    def partition(self) -> str:
        """The folders that every table has for this recording."""
        return (
            f"machine={quote(self.machine, safe='')}/build={quote(self.build, safe='')}/"
            f"date={self.date}/trace_id={self.trace_id}"
        )

    def key(self, table: str) -> str:
        """The key of the file of a table."""
        return f"{TABLES}/{table}/{self.partition}/{self.tables[table].name}"

    def file_keys(self) -> set[str]:
        """The keys of all files of this recording."""
        return {self.key(table) for table in self.tables}

    def text(self) -> str:
        """The entry as JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)

    def without(self, tables: set[str]) -> Entry:
        """The entry without these tables."""
        kept = {name: part for name, part in self.tables.items() if name not in tables}
        return replace(self, tables=kept, is_raw=False)


def parsed(text: str | bytes, where: str) -> Entry:
    """The entry in a JSON text. Raises `LakeError`."""
    try:
        value = json.loads(text)
        form = value.pop("format")
        if form == FORMAT:
            value["tables"] = {name: Part(**part) for name, part in value["tables"].items()}
            return Entry(**value)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LakeError(f"{where} is no entry of a manifest: {error}") from None
    raise LakeError(f"{where} has format {form}, but this version reads {FORMAT}: update schedlens")


def key(trace_id: int) -> str:
    """The key of the entry of a recording."""
    return f"{FOLDER}/{trace_id}.json"


def read(files: LakeFiles, trace_id: int) -> Entry | None:
    """The entry of a recording; None if it is not in the lake."""
    data = files.read(key(trace_id))
    return None if data is None else parsed(data, f"{files.place}: {key(trace_id)}")


def write(files: LakeFiles, entry: Entry) -> None:
    """Makes a recording visible, or replaces its entry, in one step."""
    files.write(key(entry.trace_id), entry.text().encode())


def listed(files: LakeFiles) -> dict[int, Found]:
    """The file of each entry, by the number of the recording."""
    found = {}
    for file in files.listed(FOLDER):
        stem = file.key.rpartition("/")[2].removesuffix(".json")
        if stem.isdigit():
            found[int(stem)] = file
    return found


def read_all(files: LakeFiles, trace_ids: list[int]) -> list[Entry]:
    """The entries of these recordings; without those that were removed meanwhile."""
    if len(trace_ids) < _AT_ONCE or files.is_local:
        return [entry for trace_id in trace_ids if (entry := read(files, trace_id))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda trace_id: read(files, trace_id), trace_ids)
        return [entry for entry in found if entry is not None]
