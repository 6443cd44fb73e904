"""Writes scrubbed recordings, analyzes them, and compares their findings with the original ones."""

from __future__ import annotations

import json
import math
import secrets
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.ask import analysis, blank_database, judging
from schedlens.ask.findings import Scope
from schedlens.errors import DatabaseError
from schedlens.export import excerpt
from schedlens.export.excerpt import Excerpt, Part
from schedlens.export.scrub_rules import Rules
from schedlens.load import query_threads, recording, scrubbed_file
from schedlens.load import store as database
from schedlens.output import whole_file, wording

Progress = Callable[[str, float], None]

_ROWS = 131_072
# The same for every file: when it was written is nobody's business.
_DATE = (1980, 1, 1, 0, 0, 0)
# What identifies a finding, and what must be equal for it to be the same.
_SUBJECT = ("analyzer", "kind", "recording", "thread", "cpu")
_COMPARED = ("severity", "cost_ns", "cost_pct", "start_ns", "end_ns", "bound")


@dataclass(frozen=True)
class Compared:
    """A finding of the original, in numbers, and the same finding of the scrubbed recording."""

    original: dict[str, Any]
    again: dict[str, Any] | None

    @property
    def is_same(self) -> bool:
        """Whether kind, thread, cost and times are equal."""
        return self.again is not None and all(
            _equal(self.original[name], self.again[name]) for name in (*_SUBJECT, *_COMPARED)
        )

    @property
    def line(self) -> str:
        """What differs, in one line."""
        row = self.original
        where = f"{row['analyzer']} {row['kind']} of recording {row['recording'] or 'all'}"
        if self.again is None:
            return f"{where}: not found in this file ({_cost(row)} in the original)"
        return f"{where}: {_cost(self.again)} here, {_cost(row)} in the original"


WHY = (
    "A cost that adds up time which this file leaves out is a lower bound in it, or is not found: "
    "keep more with --margin, --from and --to. If `analyze` was given --process, give it here, too."
)


def _cost(row: dict[str, Any]) -> str:
    if row["cost_ns"] is not None:
        cost = wording.cost(row["cost_ns"], row["bound"], row["cost_low_ns"], row["cost_high_ns"])
    else:
        cost = "no cost" if row["cost_pct"] is None else wording.percent(row["cost_pct"])
    return f"{row['severity']}, {cost}"


def _equal(one: object, other: object) -> bool:
    # Shares are sums in an order that the system chooses.
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


def write(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    chosen: Excerpt,
    *,
    salt: bytes | None = None,
    process: str | None = None,
    progress: Progress = lambda name, share: None,
) -> str | None:
    """Writes one file with the parts of the recordings; returns what stands for `process`.

    `salt` is the secret of the hashes, by default a random one that is forgotten. Raises
    `DatabaseError`, `NoSpaceError`, or `SessionError`, and leaves no half-written file.
    """
    rules = Rules(salt or secrets.token_bytes(32))
    hashed = None if process is None else rules.subject(process)

    def fill(out: BinaryIO) -> None:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            rows = [
                _write_part(con, archive, rules, part, _first_clock(con, chosen), progress,
                            len(chosen.parts))
                for part in chosen.parts
            ]  # fmt: skip
            text = json.dumps(_manifest(chosen, rows, hashed), indent=1)
            archive.writestr(zipfile.ZipInfo(scrubbed_file.MANIFEST, _DATE), text)

    try:
        whole_file.write(path, fill)
    except duckdb.Error as error:
        raise DatabaseError(str(error).splitlines()[0]) from None
    finally:
        excerpt.release(con)
    return hashed


def _first_clock(con: duckdb.DuckDBPyConnection, chosen: Excerpt) -> int:
    listed = ", ".join(str(part.trace_id) for part in chosen.parts)
    row = con.execute(
        f"SELECT coalesce(min(start_clock), 0) FROM trace WHERE trace_id IN ({listed})"
    ).fetchall()
    return int(row[0][0])


def _write_part(
    con: duckdb.DuckDBPyConnection,
    archive: zipfile.ZipFile,
    rules: Rules,
    part: Part,
    start_clock: int,
    progress: Progress,
    parts: int,
) -> dict[str, int]:
    """Writes the tables of a recording that have rows, or whose emptiness says something."""
    import pyarrow.parquet as pq

    excerpt.prepare(con, part)
    counts: dict[str, int] = {}
    tables = excerpt.tables()
    for number, table in enumerate(tables):
        progress(table, (part.number - 1 + number / len(tables)) / parts)
        wanted = _schema(con, table)
        batches = con.sql(excerpt.rows_of(con, table, part, start_clock)).to_arrow_reader(_ROWS)
        name = zipfile.ZipInfo(scrubbed_file.member(part.number, table), _DATE)
        first = next(batches, None)
        if first is None or not first.num_rows:
            continue
        rows = 0
        with (
            archive.open(name, "w", force_zip64=True) as out,
            pq.ParquetWriter(out, wanted, compression="zstd", store_schema=False) as file,
        ):
            while first is not None:
                made = rules.scrubbed(table, first).cast(wanted)
                rows += made.num_rows
                file.write_batch(made)
                first = next(batches, None)
        counts[table] = rows
    return counts


def _schema(con: duckdb.DuckDBPyConnection, table: str) -> pa.Schema:
    found = con.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
    return pa.schema([pa.field(field.name, field.type) for field in found])


def _manifest(chosen: Excerpt, rows: list[dict[str, int]], process: str | None) -> dict[str, Any]:
    return {
        "format": scrubbed_file.FORMAT,
        "format_version": scrubbed_file.VERSION,
        "schema_version": _decoders.SCHEMA_VERSION,
        "tool_version": __version__,
        "process": process,
        "recordings": [
            {
                "number": part.number,
                "name": part.name,
                "window": dict(zip(("start_ns", "end_ns", "kind"), part.window, strict=True)),
                "contains": {"from_ns": part.from_ns, "to_ns": part.to_ns},
                "is_whole": part.is_whole,
                "tables": counts,
            }
            for part, counts in zip(chosen.parts, rows, strict=True)
        ],
        "findings": _numbers(
            chosen.findings, {part.trace_id: part.number for part in chosen.parts}
        ),
    }


def _numbers(findings: Sequence[dict[str, Any]], numbers: dict[int, int]) -> list[dict[str, Any]]:
    """Findings without their words; threads by their number within their recording."""
    return [
        {
            "analyzer": row["analyzer"],
            "kind": row["kind"],
            "recording": numbers.get(row["trace_id"]),
            "thread": None if row["utid"] is None else row["utid"] & 0xFFFFFFFF,
            "cpu": row["cpu"],
            **{name: row[name] for name in _COMPARED},
            "cost_low_ns": row["cost_low_ns"],
            "cost_high_ns": row["cost_high_ns"],
        }
        for row in findings
    ]


def compare(
    path: Path,
    chosen: Excerpt,
    *,
    process: str | None = None,
    progress: Progress = lambda name, share: None,
    report: Callable[[Scope], None] | None = None,
) -> list[Compared]:
    """Analyzes a scrubbed recording, and finds in it the findings that it was written for.

    `report` is called with the finished analysis. Without it, only the analyzers of the findings
    run.
    """
    originals = _numbers(chosen.findings, {p.trace_id: p.number for p in chosen.parts})
    only = () if report is not None else sorted({row["analyzer"] for row in originals})
    recordings = recording.gather([path])
    with (
        tempfile.TemporaryDirectory(prefix="schedlens-") as folder,
        _blank(Path(folder) / "again.duckdb", query_threads.count(recordings)) as con,
    ):
        database.set_for_answers(con)
        failures = analysis.load(con, recordings, (None, None), progress)
        if failures:
            raise DatabaseError(f"cannot read {path} again: {failures[0].why}")
        again: list[dict[str, Any]] = []
        if originals or report is not None:
            scope = Scope(con, process)
            judging.store(con, judging.judge_all(scope, only, progress))
            again = _numbers(scope.rows("FROM finding"), {n: n for n in _recordings(con)})
            if report is not None:
                report(scope)
    return [_matched(row, again) for row in originals]


def _blank(path: Path, threads: int | None) -> duckdb.DuckDBPyConnection:
    blank_database.place(path)
    return duckdb.connect(str(path), config={"threads": threads} if threads else {})


def _recordings(con: duckdb.DuckDBPyConnection) -> list[int]:
    return [row[0] for row in con.execute("SELECT trace_id FROM trace").fetchall()]


def _matched(original: dict[str, Any], again: list[dict[str, Any]]) -> Compared:
    """The finding with the same subject, or else of the same kind in the same recording."""
    for names in (_SUBJECT + _COMPARED, _SUBJECT, _SUBJECT[:4], _SUBJECT[:3]):
        for row in again:
            if all(_equal(row[name], original[name]) for name in names):
                return Compared(original, row)
    return Compared(original, None)
