"""Writes the recordings of an analyzed database into a lake."""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from schedlens import __version__, _decoders
from schedlens.errors import LakeError
from schedlens.lake import identity, manifest, sketches
from schedlens.lake.file_access import LakeFiles
from schedlens.lake.identity import Labels, Source
from schedlens.lake.manifest import Entry, Part
from schedlens.load import schema
from schedlens.load.recording import Recording
from schedlens.output.pseudonyms import keyed

# Rows are sorted by these columns as far as a table has them, then in the order of the database:
# of rows with equal times, the later one counts in some queries.
_SORT = ("ts", "valid_from_ns", "start_ns", "cpu", "core", "seq", "utid")
# Tables that `--retain` keeps.
KEPT = ("trace", "finding", "analyzer_outcome", "analysis_window", "sketch", "extract")
_SECRET = "secret"


@dataclass(frozen=True)
class Planned:
    """A recording that is to be written: its number in the lake, and what identifies it."""

    recording: Recording
    trace_id: int
    sha256: str
    revision: str
    labels: Labels
    sources: tuple[Source, ...]
    is_present: bool
    """The lake has exactly these rows already."""


def options(
    process: str | None,
    only: Sequence[str],
    window: tuple[int | None, int | None],
    topology: Path | None,
) -> dict[str, object]:
    """The options of an analysis that change its rows, as `planned` takes them."""
    described = hashlib.sha256(topology.read_bytes()).hexdigest() if topology else None
    given = {
        "process": process,
        "only": sorted(only) or None,
        "window": list(window) if window != (None, None) else None,
        "topology": described,
    }
    return {name: value for name, value in given.items() if value is not None}


def planned(
    files: LakeFiles,
    recordings: Sequence[Recording],
    *,
    machine: str | None = None,
    build: str | None = None,
    options: dict[str, object] | None = None,
) -> list[Planned]:
    """What to write for recordings that are analyzed together; equal ones appear once.

    `options` are those of the analysis that change its rows. Raises `LakeError`.
    """
    found: list[Planned] = []
    taken: dict[int, str] = {}
    for recording in recordings:
        paths = identity.files(recording)
        labels = identity.labels(paths, machine, build)
        sha256 = identity.content_sha256(recording)
        if sha256 in taken.values():
            continue
        revision = identity.revision(sha256, labels, options or {})
        trace_id, entry = _number(files, sha256, taken)
        taken[trace_id] = sha256
        known = tuple(identity.sources(recording))
        same = entry is not None and entry.revision == revision
        found.append(Planned(recording, trace_id, sha256, revision, labels, known, same))
    return found


def _number(files: LakeFiles, sha256: str, taken: dict[int, str]) -> tuple[int, Entry | None]:
    """The number of a recording and its entry: the first that no other recording has."""
    for trace_id in identity.trace_ids(sha256):
        entry = manifest.read(files, trace_id)
        if trace_id not in taken and (entry is None or entry.sha256 == sha256):
            return trace_id, entry
    raise LakeError(f"the lake {files.place} has no free number for a recording: start another")


def write(
    con: duckdb.DuckDBPyConnection, files: LakeFiles, recordings: Sequence[Planned]
) -> list[Entry]:
    """Writes the rows of loaded and judged recordings; returns the entries that are new.

    Each recording becomes visible as a whole when its entry is written, which comes last. Files
    are named by their content, so a repeated or concurrent write changes nothing that is visible.
    Raises `LakeError`.
    """
    loaded = {row[0] for row in con.execute("SELECT trace_id FROM trace").fetchall()}
    present = [known for known in recordings if known.trace_id in loaded]
    written = []
    for known in present:
        if not known.is_present:
            written.append(_write_one(con, files, known, present[0].trace_id))
    return written


def _write_one(
    con: duckdb.DuckDBPyConnection, files: LakeFiles, known: Planned, session: int
) -> Entry:
    facts = _facts(con, known)
    entry = Entry(
        trace_id=known.trace_id,
        revision=known.revision,
        sha256=known.sha256,
        label=facts.pop("label"),
        machine=known.labels.machine or facts["host"] or identity.UNKNOWN,
        build=known.labels.build or identity.UNKNOWN,
        date=facts.pop("date"),
        session=session,
        tool_version=__version__,
        schema_version=_decoders.SCHEMA_VERSION,
        written_utc=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S"),
        sources=[list(asdict(source).values()) for source in known.sources],
        source_bytes=sum(source.size for source in known.sources),
        tables={},
        facts=facts,
    )
    with files.staging() as folder:
        _add_lake_tables(con, files, known.trace_id)
        for table, rows in _filled(con, known.trace_id, is_first=known.trace_id == session):
            file = folder / f"{table}.parquet"
            con.execute(_copy(con, table, rows[1], file))
            name = f"{hash_of(file)}.parquet"
            entry.tables[table] = Part(name, rows[0], file.stat().st_size)
            files.put(file, entry.key(table))
    before = manifest.read(files, entry.trace_id)
    if before is not None and before.sha256 != entry.sha256:
        raise LakeError(
            f"{entry.label}: another recording took its number {entry.trace_id} in the lake "
            f"{files.place}: analyze it again"
        )
    manifest.write(files, entry)
    for unused in before.file_keys() - entry.file_keys() if before else ():
        files.delete(unused)
    return entry


def _facts(con: duckdb.DuckDBPyConnection, known: Planned) -> dict[str, Any]:
    row = con.execute(
        "SELECT label, host, cpu_model, os, duration_ns, start_time_utc::TIMESTAMP "
        "FROM trace WHERE trace_id = ?",
        [known.trace_id],
    ).fetchall()[0]
    found = dict(
        zip(("label", "host", "cpu_model", "os", "duration_ns", "start"), row, strict=True)
    )
    start = found.pop("start")
    if start is None:
        newest = max((source.written_ns for source in known.sources), default=0)
        day = datetime.datetime.fromtimestamp(newest / 1e9, datetime.UTC)
    else:
        day = start
    found["date"] = f"{day:%Y-%m-%d}"
    found["start_time_utc"] = None if start is None else f"{start:%Y-%m-%d %H:%M:%S.%f}"
    kinds = con.execute(
        "SELECT core_type, count(DISTINCT cpu), count(DISTINCT core) FROM cpu "
        "WHERE trace_id = ? GROUP BY core_type ORDER BY core_type DESC NULLS LAST",
        [known.trace_id],
    ).fetchall()
    found["cpus"] = sum(kind[1] for kind in kinds) or None
    named = [f"{cores} {name}" for name, _, cores in kinds if name is not None and cores]
    found["cores"] = " + ".join(named) or None
    return found


def _filled(
    con: duckdb.DuckDBPyConnection, trace_id: int, *, is_first: bool
) -> list[tuple[str, tuple[int, str]]]:
    """The tables with rows of a recording: their number, and the condition that selects them."""
    tables = [
        row[0]
        for row in con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND schema_name = 'main' "
            "AND (NOT temporary OR table_name IN ('sketch', 'extract')) "
            "AND database_name IN (current_database(), 'temp') ORDER BY table_name"
        ).fetchall()
    ]
    conditions = {
        table: f"trace_id = {trace_id}"
        # Conclusions about the whole session are stored with its first recording.
        + (" OR trace_id IS NULL" if is_first and table in ("finding", "analyzer_outcome") else "")
        for table in tables
    }
    counts = con.execute(
        " UNION ALL ".join(
            f"SELECT {schema.literal(table)}, count(*) FROM {table} WHERE {condition}"
            for table, condition in conditions.items()
        )
    ).fetchall()
    return [(table, (rows, conditions[table])) for table, rows in sorted(counts) if rows]


def _copy(con: duckdb.DuckDBPyConnection, table: str, condition: str, file: Path) -> str:
    columns = [row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()]
    order = ", ".join(f"{name} NULLS FIRST" for name in _SORT if name in columns)
    return (
        f"COPY (SELECT * FROM {table} WHERE {condition} ORDER BY {order}{', ' * bool(order)}rowid) "
        f"TO {schema.literal(str(file))} (FORMAT parquet, COMPRESSION zstd)"
    )


def _add_lake_tables(con: duckdb.DuckDBPyConnection, files: LakeFiles, trace_id: int) -> None:
    """The temporary tables `sketch` and `extract` of one recording."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE sketch (trace_id BIGINT, metric VARCHAR, count BIGINT, "
        "sum_ns BIGINT, min_ns BIGINT, max_ns BIGINT, sketch BLOB)"
    )
    sketched = sketches.rows(con, trace_id)
    if sketched:
        con.executemany("INSERT INTO sketch VALUES (?, ?, ?, ?, ?, ?, ?)", sketched)
    con.execute(
        "CREATE OR REPLACE TEMP TABLE extract (trace_id BIGINT, process_key VARCHAR, "
        "thread_key VARCHAR, threads BIGINT, run_ns BIGINT, ready_ns BIGINT, wait_ns BIGINT, "
        "slices BIGINT)"
    )
    secret = make_secret(files)
    rows = [
        (trace_id, _scrubbed(secret, process), _scrubbed(secret, thread), *numbers)
        for process, thread, *numbers in con.execute(
            "SELECT process, thread, count(*), sum(run_ns)::BIGINT, sum(ready_ns)::BIGINT, "
            "sum(wait_ns)::BIGINT, sum(switches_in)::BIGINT "
            f"FROM thread_summary(p_trace_id := {trace_id}) GROUP BY ALL"
        ).fetchall()
    ]
    if rows:
        con.executemany(
            "INSERT INTO extract VALUES (?, ?, ?, ?, ?, ?, ?, ?)", sorted(rows, key=str)
        )


def _scrubbed(secret: bytes, name: str | None) -> str | None:
    """A name that can be compared within a lake, and not be guessed without its secret."""
    if name is None:
        return None
    return keyed(secret, name)[:16]


def make_secret(files: LakeFiles) -> bytes:
    """The secret of the lake, which the first recording that is written makes."""
    found = files.read(_SECRET)
    if found is None:
        files.write(_SECRET, secrets.token_bytes(32))
        # Another process may have written its own meanwhile: the one that is there counts.
        found = files.read(_SECRET)
    return found or b""


def hash_of(file: Path) -> str:
    """The first 16 digits of the SHA-256 of a file: its name in a lake."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:16]
