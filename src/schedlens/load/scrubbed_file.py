"""Reads scrubbed recordings: one zip file with the tables of each recording as Parquet.

`schedlens export --scrub` writes them (docs/scrubbed-recordings.md). They contain what the state
machine made, so that the same rows give the same findings. Nothing in a file is trusted.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens import _decoders
from schedlens.errors import DamagedTraceError, UnsupportedTraceError
from schedlens.load.schema import literal

if TYPE_CHECKING:
    import duckdb

MANIFEST = "scrubbed.json"
FORMAT, VERSION = "schedlens-scrubbed", 1
SUFFIX = ".schedlens"
# Tables that analysis makes again, or that say what another analysis concluded.
NOT_CONTAINED = (
    "finding", "analyzer_outcome", "analysis_window", "replay_error", "predicted_gain",
)  # fmt: skip
# Columns with numbers of threads and processes: the number of the recording is above 32 bits.
IDS = ("utid", "prev_utid", "next_utid", "waker_utid", "upid")
_MOST_LIVES = 1 << 22
_MOST_RECORDINGS = 10_000
_MOST_MANIFEST = 16 << 20
# Rows that fit in a byte of a file: more is a file made to exhaust memory.
_ROWS_PER_BYTE = 64
_SMALL_ROWS = 100_000
_LONGEST_NS = 1 << 60
_MOST_CPUS = 1 << 16
_WINDOWS = ("workers", "step", "trace", "asked")
# The rows of one CPU or thread follow each other.
_TILES = {"cpu_state": "cpu", "thread_state": "utid"}
# The second part says which of several versions of one thing it is.
_NAME = re.compile(r"recording[0-9]{1,5}(-([a-z]{1,12}|[0-9]{1,5}))?")
_BEGIN = b"PK\x03\x04"


@dataclass(frozen=True)
class Contained:
    """A recording in a file: its number, its name, its window, and the rows of its tables."""

    number: int
    name: str
    window: tuple[int, int, str]
    rows: dict[str, int]


def is_one(path: Path) -> bool:
    """Whether a file is a scrubbed recording, complete or not."""
    try:
        with path.open("rb") as file:
            if file.read(len(_BEGIN)) != _BEGIN:
                return False
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        # Without its end, a zip file has no list of its parts.
        return path.suffix == SUFFIX and path.is_file()


def member(number: int, table: str) -> str:
    """The name of the part of a file that contains a table of a recording."""
    return f"{number}/{table}.parquet"


def contained(path: Path) -> list[Contained]:
    """The recordings in a file. Raises `DamagedTraceError` or `UnsupportedTraceError`."""
    value = manifest(path)
    try:
        found = [_recording(row) for row in value["recordings"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedTraceError(
            f"{path}: {MANIFEST} is malformed ({type(error).__name__}: {error}): export again"
        ) from None
    numbers = [one.number for one in found]
    if not 0 < len(found) <= _MOST_RECORDINGS or numbers != list(range(1, len(found) + 1)):
        raise DamagedTraceError(f"{path}: {MANIFEST} does not list its recordings: export again")
    return found


def _recording(row: dict[str, Any]) -> Contained:
    """A recording as the manifest lists it. Raises `ValueError` for values that none has."""
    window = row["window"]
    start, end, kind = window["start_ns"], window["end_ns"], window["kind"]
    numbers = [row["number"], start, end, *row["tables"].values()]
    is_plain = all(type(one) is int and abs(one) < _LONGEST_NS for one in numbers)
    name = row["name"]
    if kind not in _WINDOWS or not is_plain or not _NAME.fullmatch(name):
        raise ValueError(f"recording {str(row['number'])[:9]!a}")
    return Contained(row["number"], name, (start, end, kind), dict(row["tables"]))


def process(path: Path) -> str | None:
    """The process that the original analysis was about, as the file names it; None: all."""
    found = manifest(path).get("process")
    return found if isinstance(found, str) else None


def facts(path: Path) -> dict[str, Any]:
    """What a file contains, for `schedlens inspect`. Raises like `contained`."""
    recordings = contained(path)
    rows: dict[str, int] = {}
    for one in recordings:
        for table, count in one.rows.items():
            rows[table] = rows.get(table, 0) + count
    known = manifest(path)
    return {
        "format": "scrubbed recording",
        "written_by": f"schedlens {known.get('tool_version')}",
        "recordings": len(recordings),
        "whole_recordings": sum(bool(one.get("is_whole")) for one in known["recordings"]),
        "records_by_event": rows,
        "findings": known.get("findings", []),
    }


def manifest(path: Path) -> dict[str, Any]:
    """The description of a file. Raises `DamagedTraceError` or `UnsupportedTraceError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path)
            value = json.loads(archive.read(MANIFEST))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, NotImplementedError,
            RuntimeError, RecursionError) as error:  # fmt: skip
        raise DamagedTraceError(
            f"{path}: not a whole scrubbed recording ({error}): copy it again"
        ) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise DamagedTraceError(f"{path}: {MANIFEST} does not have the format {FORMAT}")
    versions = (value.get("format_version"), value.get("schema_version"))
    if versions != (VERSION, _decoders.SCHEMA_VERSION):
        raise UnsupportedTraceError(
            f"{path}: written by schedlens {str(value.get('tool_version'))[:20]!a} with version "
            f"{str(versions[0])[:9]!a} of the format and {str(versions[1])[:9]!a} of the tables; "
            f"this version reads {VERSION} and {_decoders.SCHEMA_VERSION}: use that schedlens, or "
            "export again with this one"
        )
    return value


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    """Raises `ValueError` for parts that are compressed, repeated, or larger than the file."""
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise ValueError("parts of the same name")
    infos = archive.infolist()
    if any(one.compress_type != zipfile.ZIP_STORED or one.flag_bits & 1 for one in infos):
        raise ValueError("a part is compressed or encrypted")
    if archive.getinfo(MANIFEST).file_size > _MOST_MANIFEST:
        raise ValueError(f"{MANIFEST} is too large")
    if sum(one.file_size for one in infos) > path.stat().st_size:
        raise ValueError("parts overlap")


def load(con: duckdb.DuckDBPyConnection, path: Path, number: int, trace_id: int,
         label: str) -> None:  # fmt: skip
    """Inserts the rows of a recording, and its window, inside the caller's transaction.

    Raises `DamagedTraceError` or `UnsupportedTraceError` with a line that names the table.
    """
    import duckdb

    recording = next((one for one in contained(path) if one.number == number), None)
    if recording is None:
        raise DamagedTraceError(f"{path}: there is no recording {number}")
    known = {row[0] for row in con.execute("SHOW TABLES").fetchall()} - set(NOT_CONTAINED)
    with tempfile.TemporaryDirectory(prefix="schedlens-") as folder:
        for table, rows in recording.rows.items():
            if table not in known or not re.fullmatch(r"\w+", table):
                raise DamagedTraceError(f"{path}: there is no table {table[:40]!a}")
            file = _extracted(path, number, table, Path(folder))
            try:
                _insert(con, path, table, file, (number, trace_id), rows)
            except duckdb.Error as error:
                raise DamagedTraceError(
                    f"{path}: cannot read {table} ({str(error).splitlines()[0]}): copy it again"
                ) from None
            file.unlink()
    _check_rows(con, path, trace_id)
    con.execute(
        "UPDATE trace SET label = ?, path = ? WHERE trace_id = ?", [label, str(path), trace_id]
    ).fetchall()
    con.execute("INSERT INTO analysis_window VALUES (?, ?, ?, ?)", [trace_id, *recording.window])


def _extracted(path: Path, number: int, table: str, folder: Path) -> Path:
    file = folder / "table.parquet"
    try:
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(member(number, table)) as part,
            file.open("wb") as out,
        ):
            shutil.copyfileobj(part, out)
    except (OSError, zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DamagedTraceError(f"{path}: cannot read {table} ({error}): copy it again") from None
    return file


def _insert(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    table: str,
    file: Path,
    moved: tuple[int, int],
    rows: int,
) -> None:
    number, trace_id = moved
    source = f"read_parquet({literal(str(file))})"
    counted = con.execute(
        f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({literal(str(file))})"
    ).fetchall()[0][0]
    most = _SMALL_ROWS + _ROWS_PER_BYTE * file.stat().st_size
    if counted != rows or not 0 <= rows <= most:
        raise DamagedTraceError(f"{path}: {table} does not have {rows} rows: copy it again")

    def described(what: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in con.execute(f"DESCRIBE {what}").fetchall()]

    found, wanted = described(f"FROM {source}"), described(table)
    plain = [(name, kind.replace("TIMESTAMP_NS", "TIMESTAMP")) for name, kind in wanted]
    if [(name, kind.replace("TIMESTAMP_NS", "TIMESTAMP")) for name, kind in found] != plain:
        raise DamagedTraceError(f"{path}: {table} has other columns than this version reads")
    ids = [name for name, _ in wanted if name in IDS]
    first = number << 32
    outside = [f"(min({name}) < {first} OR max({name}) >= {first + _MOST_LIVES})" for name in ids]
    times = [name for name, kind in wanted
             if kind == "BIGINT" and (name in ("ts", "dur") or name.endswith("_ns"))
             and not table.startswith("snapshot_")]  # fmt: skip
    outside += [f"(min({name}) <= {-_LONGEST_NS} OR max({name}) >= {_LONGEST_NS})"
                for name in times]  # fmt: skip
    outside += ["min(dur) < 0"] if "dur" in dict(wanted) else []
    outside += [f"(min({name}) < 0 OR max({name}) >= {_MOST_CPUS})"
                for name in ("cpu", "core") if dict(wanted).get(name) == "INTEGER"]  # fmt: skip
    outside.append(f"count(*) FILTER (WHERE trace_id IS DISTINCT FROM {number}) > 0")
    if con.execute(f"SELECT {' OR '.join(outside)} FROM {source}").fetchall()[0][0]:
        raise DamagedTraceError(f"{path}: {table} has values that no recording has: copy it again")
    shift = (trace_id - number) << 32
    replaced = [f"{trace_id}::BIGINT AS trace_id", *(f"{name} + {shift} AS {name}" for name in ids)]
    con.execute(
        f"INSERT INTO {table} SELECT * REPLACE ({', '.join(replaced)}) FROM {source}"
    ).fetchall()


def _check_rows(con: duckdb.DuckDBPyConnection, path: Path, trace_id: int) -> None:
    """Raises `DamagedTraceError` for states that overlap or that are outside the recording."""
    traces = con.execute(
        "SELECT coalesce(first_ns, 0), coalesce(duration_ns, 0), schema_version FROM trace "
        "WHERE trace_id = ?",
        [trace_id],
    ).fetchall()
    if len(traces) != 1 or traces[0][0] > traces[0][1]:
        raise DamagedTraceError(f"{path}: there is no description of a recording: copy it again")
    first, last, version = traces[0]
    wrong = version != _decoders.SCHEMA_VERSION
    for table, key in _TILES.items():
        found = con.execute(
            f"SELECT count(*) FROM (SELECT ts < {first} OR ts + dur > {last} "
            f"OR ts < lag(ts + dur) OVER (PARTITION BY {key} ORDER BY ts, ts + dur) AS wrong "
            f"FROM {table} WHERE trace_id = ?) WHERE wrong",
            [trace_id],
        ).fetchall()
        wrong = wrong or found[0][0] > 0
    found = con.execute(
        f"SELECT count(*) FROM sched_slice WHERE trace_id = ? AND (ts < {first} "
        f"OR ts + dur > {last})",
        [trace_id],
    ).fetchall()
    if wrong or found[0][0]:
        raise DamagedTraceError(
            f"{path}: states overlap or are outside the recording: export it again"
        )
