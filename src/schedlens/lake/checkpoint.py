"""One copy of all entries and their small tables, so that a fleet query reads few files.

A checkpoint is only a copy: without it, or for recordings written after it, the reader opens the
files of each recording.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass

import duckdb

from schedlens.errors import LakeError
from schedlens.lake import manifest
from schedlens.lake.file_access import STAGING, Found, LakeFiles
from schedlens.lake.manifest import Entry
from schedlens.load.schema import literal

FOLDER = "checkpoint"
LATEST = f"{FOLDER}/latest.json"
FORMAT = 1
# The tables that a fleet query reads.
SMALL = ("trace", "finding", "analyzer_outcome", "analysis_window", "sketch")
# No reader or writer takes longer than this between two requests for related files.
_ABANDONED_NS = 24 * 3600 * 10**9


@dataclass(frozen=True)
class Checkpoint:
    """The names of its files by table, and the version of the entry of each recording in it."""

    tables: dict[str, str]
    versions: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Known:
    """All recordings of a lake: those in the checkpoint, and those to read one by one."""

    checkpoint: Checkpoint | None
    entries: dict[int, Entry]
    copied: frozenset[int]
    """The recordings whose small tables are in the checkpoint."""


def read(files: LakeFiles) -> Checkpoint | None:
    """The newest checkpoint; None if there is none."""
    data = files.read(LATEST)
    if data is None:
        return None
    try:
        value = json.loads(data)
        if value["format"] != FORMAT:
            return None
        versions = {int(name): (found[0], found[1]) for name, found in value["versions"].items()}
        return Checkpoint(value["tables"], versions)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise LakeError(
            f"cannot read {LATEST} in the lake {files.place} ({error}): delete it, it is a copy"
        ) from None


def known(files: LakeFiles) -> Known:
    """All recordings of a lake, with one request per entry that the checkpoint lacks."""
    found = manifest.listed(files)
    last = read(files)
    current = frozenset(
        trace_id
        for trace_id, version in (last.versions.items() if last else ())
        if trace_id in found and version == _version(found[trace_id])
    )
    entries = _copied_entries(files, last, current) if last and current else {}
    new = [trace_id for trace_id in found if trace_id not in entries]
    entries |= {entry.trace_id: entry for entry in manifest.read_all(files, new)}
    ordered = {trace_id: entries[trace_id] for trace_id in sorted(entries)}
    return Known(last, ordered, current)


def _version(found: Found) -> tuple[int, int]:
    return found.written_ns, found.size


def _copied_entries(
    files: LakeFiles, last: Checkpoint, current: frozenset[int]
) -> dict[int, Entry]:
    with duckdb.connect() as con:
        files.attach(con)
        place = files.location(last.tables["entry"])
        rows = con.execute(f"SELECT trace_id, entry FROM read_parquet({literal(place)})").fetchall()
    return {
        trace_id: manifest.parsed(text, last.tables["entry"])
        for trace_id, text in rows
        if trace_id in current
    }


def write(files: LakeFiles) -> None:
    """Writes a checkpoint of all recordings, and removes those that no reader uses any more."""
    versions = {trace_id: _version(found) for trace_id, found in manifest.listed(files).items()}
    lake = known(files)
    # An entry that was replaced in between has another version, and is read from its own file.
    versions = {trace_id: versions[trace_id] for trace_id in lake.entries if trace_id in versions}
    folder = f"{FOLDER}/{uuid.uuid4().hex}"
    tables = {"entry": f"{folder}/entry.parquet"}
    with duckdb.connect() as con, files.staging() as staging:
        files.attach(con)
        # The order of the recordings and of the rows in each is that of the reader.
        con.execute("SET preserve_insertion_order = true")
        con.execute("CREATE TABLE entry (trace_id BIGINT, entry VARCHAR)")
        rows = [(trace_id, entry.text()) for trace_id, entry in lake.entries.items()]
        if rows:
            incoming = _as_arrow(rows)  # noqa: F841
            con.execute("INSERT INTO entry FROM incoming")
        con.execute(_copy("FROM entry", staging / "entry.parquet"))
        files.put(staging / "entry.parquet", tables["entry"])
        for table in SMALL:
            sql = rows_of(files, lake, table)
            if sql is None:
                continue
            con.execute(_copy(sql, staging / f"{table}.parquet"))
            tables[table] = f"{folder}/{table}.parquet"
            files.put(staging / f"{table}.parquet", tables[table])
    text = json.dumps({"format": FORMAT, "tables": tables, "versions": versions})
    files.write(LATEST, text.encode())
    _clean(files, folder)


def _as_arrow(rows: list[tuple[int, str]]) -> object:
    import pyarrow as pa

    numbers, texts = zip(*rows, strict=True)
    return pa.table({"trace_id": pa.array(numbers, pa.int64()), "entry": pa.array(texts)})


def _copy(sql: str, file: object) -> str:
    return f"COPY ({sql}) TO {literal(str(file))} (FORMAT parquet, COMPRESSION zstd)"


def rows_of(
    files: LakeFiles, lake: Known, table: str, trace_ids: set[int] | None = None
) -> str | None:
    """The SQL of a small table with the column `owner`; None if no recording has rows.

    `owner` is the recording whose files contain the row; `trace_ids` limits the owners.
    """
    chosen = {t for t in lake.entries if trace_ids is None or t in trace_ids}
    parts = []
    if lake.checkpoint and table in lake.checkpoint.tables and chosen & lake.copied:
        place = literal(files.location(lake.checkpoint.tables[table]))
        listed = ", ".join(map(str, sorted(chosen & lake.copied)))
        parts.append(f"SELECT * FROM read_parquet({place}) WHERE owner IN ({listed})")
    own = [
        files.location(lake.entries[trace_id].key(table))
        for trace_id in sorted(chosen - lake.copied)
        if table in lake.entries[trace_id].tables
    ]
    if own:
        # A row about a whole session has no number of a recording, but its file has.
        parts.append(
            "SELECT * EXCLUDE (filename), "
            r"regexp_extract(filename, 'trace_id=(\d+)', 1)::BIGINT AS owner "
            f"FROM read_parquet([{', '.join(map(literal, own))}], hive_partitioning = false, "
            "filename = true)"
        )
    return " UNION ALL ".join(parts) or None


def _clean(files: LakeFiles, current: str) -> None:
    """Removes old checkpoints, and what killed writers left in the staging folder."""
    oldest = time.time_ns() - _ABANDONED_NS
    for found in [*files.listed(FOLDER), *files.listed(STAGING)]:
        if found.key == LATEST or found.key.startswith(f"{current}/"):
            continue
        if found.written_ns < oldest:
            files.delete(found.key)
