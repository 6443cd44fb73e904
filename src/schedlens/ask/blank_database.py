"""An empty database with all tables, macros and views, kept for later analyses.

Making the views takes longer than analyzing a short recording, and they are always the same. So are
the types of their columns, which are kept as well. The key of the kept files is a hash of the SQL
files and of DuckDB's version, so that a change of either makes new ones.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import cast

import duckdb

from schedlens.ask import catalog
from schedlens.load import schema, store
from schedlens.output import kept


def place(target: Path) -> None:
    """Makes `target` an empty database. Raises `OSError` or `duckdb.Error` where it cannot.

    Copies the kept file; without one, makes it first, at `target`.
    """

    def made() -> bytes:
        store.remove(target)
        _make(target)
        return target.read_bytes()

    target.write_bytes(kept.content("blank", _key(), made))


def column_types() -> dict[str, dict[str, str]]:
    """The SQL type of each column of each question, by name. Raises as `place` does."""
    key = _key()

    def made() -> bytes:
        if key not in _TYPES:
            with tempfile.TemporaryDirectory(prefix="schedlens-blank-") as folder:
                _make(Path(folder) / "blank.duckdb")
        return json.dumps(_TYPES[key]).encode()

    return cast(dict[str, dict[str, str]], json.loads(kept.content("columns", key, made)))


def _make(path: Path) -> None:
    with duckdb.connect(str(path), config=store.FILE_CONFIG) as con:
        # Outside a transaction, each of the 2,000 comments would wait for the disk.
        con.begin()
        schema.create(con)
        catalog.install(con)
        con.commit()
        con.execute("CHECKPOINT")
        rows = con.execute(
            "SELECT if(schema_name = 'main', '', schema_name || '.') || table_name, column_name, "
            "data_type FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
    types = _TYPES[_key()] = {}
    for name, column, kind in rows:
        types.setdefault(name, {})[column] = kind


# The types of the columns of a database that this process has made, by key.
_TYPES: dict[str, dict[str, dict[str, str]]] = {}


def _key() -> str:
    versions = f"{duckdb.__version__} {store.STORAGE_VERSION} ".encode()
    return hashlib.sha256(versions + _declared()).hexdigest()[:16]


@cache
def _declared() -> bytes:
    """A hash of all that decides about the tables, views and macros."""
    digest = hashlib.sha256()
    # What makes the macros from the SQL decides as well.
    for path in (Path(catalog.__file__), *sorted(schema.folder().rglob("*.sql"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.digest()
