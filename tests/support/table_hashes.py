"""Writes or compares hashes of every table and view of analyzed recordings.

`python tests/support/table_hashes.py write FILE [--shared DIR]` analyzes all fixtures, the demo
and the recordings in a folder with more of them; `compare OLD NEW` lists where two such files
differ. A pure refactoring must leave every hash unchanged. For findings only the analyzer,
severity, cost, thread and times count: their wording may change.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from schedlens.commands import demo
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import plays

BIN = Path(sysconfig.get_path("scripts"))
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FINDING = "SELECT analyzer, severity, cost_ns, utid, start_ns, end_ns FROM finding ORDER BY ALL"
# Rows, and a number that does not depend on their order.
HASH = "SELECT count(*), coalesce(sum(hash(row)::HUGEINT), 0)::VARCHAR FROM ({}) AS row"
# Columns that state where and with which version it was read.
OF_THE_RUN = {"main.trace": " EXCLUDE (path, tool_version)"}

Hashes = dict[str, Any]


def main() -> int:
    """Runs a command; 1 if two files differ."""
    parser = argparse.ArgumentParser(description=__doc__, prog="table_hashes")
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="analyze everything, and write the hashes")
    write.add_argument("file", type=Path)
    write.add_argument("--shared", type=Path, help="folder with more recordings")
    write.add_argument("--only", default="", help="recordings with this in their name")
    compare = commands.add_parser("compare", help="compare two files")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        lines = list(differences(_read(options.old), _read(options.new)))
        print("\n".join(lines) if lines else "every table and view is the same")
        return int(bool(lines))
    found: Hashes = {}
    with tempfile.TemporaryDirectory() as home:
        for name, path in recordings(Path(home), options.shared):
            if options.only in name:
                print(name, file=sys.stderr, flush=True)
                found[name] = hashes(path, Path(home) / "out")
    options.file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def _read(path: Path) -> Hashes:
    found: Hashes = json.loads(path.read_text(encoding="utf-8"))
    return found


def recordings(
    home: Path, shared: Path | None, only: tuple[str, ...] = ()
) -> Iterator[tuple[str, Path]]:
    """Name and path of each recording, unpacked into a folder; `only`: these fixtures alone."""
    for packed in sorted((FIXTURES / "perf").glob("*.xz")):
        if not only or packed.name in only:
            yield packed.name, _unpacked(packed, home)
    if only:
        return
    session = home / "session"
    for packed in sorted((FIXTURES / "qemu").rglob("*")):
        if packed.is_dir() or packed.name.endswith(".tar.xz"):
            continue
        target = session / packed.relative_to(FIXTURES / "qemu")
        target.parent.mkdir(parents=True, exist_ok=True)
        if packed.suffix == ".xz":
            target.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        else:
            shutil.copyfile(packed, target)
    yield "session", session
    # Those of `schedlens demo`, without its analysis.
    for name, play in sorted(plays.GAME.plays):
        simulated.write_folder(play(demo.SEED), home / "demo" / name, label=name)
        yield f"demo {name}", home / "demo" / name
    if shared is not None:
        for pattern in ("*.etl.xz", "*.dat.xz", "*.pftrace", "*.perfetto-trace"):
            for path in sorted(shared.rglob(pattern)):
                unpacked = _unpacked(path, home) if path.suffix == ".xz" else path
                yield str(path.relative_to(shared)), unpacked


def _unpacked(packed: Path, home: Path) -> Path:
    if packed.name.endswith(".tar.xz"):
        with tarfile.open(packed) as tar:
            tar.extractall(home, filter="data")
        return home / packed.name.removesuffix(".tar.xz")
    target = home / packed.name.removesuffix(".xz")
    target.write_bytes(lzma.decompress(packed.read_bytes()))
    return target


def hashes(path: Path, out: Path) -> Hashes:
    """By table or view: columns with types, rows, and a hash; or why it cannot be analyzed."""
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run(
        [BIN / "analyze", path, "-o", out, "--no-report"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    database = out / "analysis.duckdb"
    if not database.exists():
        return {"refused": done.stderr.replace(str(path), path.name)}
    found: Hashes = {}
    with duckdb.connect(database, read_only=True) as con:
        names = con.execute(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables() "
            "UNION ALL SELECT schema_name || '.' || view_name FROM duckdb_views() "
            "WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        for (name,) in names:
            if name == "main.finding":
                found[name] = [list(map(str, row)) for row in con.execute(FINDING).fetchall()]
                continue
            columns = [
                f"{column[0]} {column[1]}" for column in con.execute(f"DESCRIBE {name}").fetchall()
            ]
            rows, total = con.execute(
                HASH.format(f"SELECT *{OF_THE_RUN.get(name, '')} FROM {name}")
            ).fetchall()[0]
            found[name] = [", ".join(columns), rows, total]
    return found


def differences(old: Hashes, new: Hashes) -> Iterator[str]:
    """A line for each table or view that differs."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield f"{name}: only in the {'new' if before is None else 'old'} file"
            continue
        for table in sorted(before.keys() | after.keys()):
            if before.get(table) != after.get(table):
                yield f"{name}: {table} differs"


if __name__ == "__main__":
    sys.exit(main())
