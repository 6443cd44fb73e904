"""The exporter's table side under Mono: rows as text in, a folder of Arrow files out."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shared_files
from tables_export import write_table

ROOT = Path(__file__).resolve().parents[2]
EXPORTER = ROOT / "collectors" / "etw_export"
STAND_INS = ROOT / "tests" / "etw_export"
TRACEPROCESSOR = shared_files.folder() / "tools" / "traceprocessor_api" / "TraceProcessorApi.cs"
# Code for the command line and TraceProcessor; the rest is the table side.
OUTSIDE = ("Program.cs", "Options.cs", "ExportException.cs", "TraceProcessorReader.cs")

_TYPES = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "bool": pa.bool_(),
    "utf8": pa.string(),
    "list<int32>": pa.list_(pa.int32()),
}

Line = Sequence[object]


def compiled(sources: Sequence[Path], program: Path) -> Path:
    """A program of these sources, without a warning; skips if there is no compiler."""
    for tool in ("mcs", "mono"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: Debian has it in mono-mcs and mono-runtime")
    done = subprocess.run(
        ["mcs", "-langversion:latest", "-warnaserror", "-warn:4", "-r:System.Core.dll",
         f"-out:{program}", *map(str, sources)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return program


def table_side(program: Path) -> Path:
    """The table side with the program that feeds it from a text file."""
    sources = [file for file in sorted(EXPORTER.glob("*.cs")) if file.name not in OUTSIDE]
    return compiled([*sources, *sorted(STAND_INS.glob("*.cs"))], program)


def run(program: Path, lines: Sequence[Line], folder: Path) -> Path:
    """Exports rows; each line is a kind of row and its values, None for null."""
    text = "\n".join("\t".join("" if v is None else str(v) for v in line) for line in lines)
    rows = folder.with_suffix(".rows")
    rows.write_text(text + "\n", encoding="utf-8")
    subprocess.run(["mono", str(program), str(rows), str(folder)], check=True, timeout=120)
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []
    for file in sorted(folder.glob("*.arrow")):
        write_table(folder, file.stem, _table(file))
    return folder


def _table(file: Path) -> pa.Table:
    """The JSON lines that the stand-in for Apache.Arrow wrote."""
    first, *batches, last = map(json.loads, file.read_text("utf-8").splitlines())
    assert last == "end"
    schema = pa.schema([pa.field(name, _TYPES[kind], nullable) for name, kind, nullable in first])
    return pa.Table.from_batches([_batch(columns, schema) for columns in batches], schema)


def _batch(columns: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(folder: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a table of the folder, row by row."""
    found = pa.ipc.open_file(folder / f"{table}.arrow").read_all().select(list(columns))
    return list(zip(*(found[name].to_pylist() for name in columns), strict=True))
