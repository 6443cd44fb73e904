"""An empty database with all tables, macros and views, kept for later analyses.

Making the views takes longer than analyzing a short recording, and they are always the same. The
key of the kept file is a hash of the SQL files and of DuckDB's version, so that a change of either
makes a new one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

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


def _make(path: Path) -> None:
    with duckdb.connect(str(path), config=store.FILE_CONFIG) as con:
        # Outside a transaction, each of the 2,000 comments would wait for the disk.
        con.begin()
        schema.create(con)
        catalog.install(con)
        con.commit()
        con.execute("CHECKPOINT")


def _key() -> str:
    digest = hashlib.sha256(f"{duckdb.__version__} {store.STORAGE_VERSION}".encode())
    # What makes the macros from the SQL decides as well.
    for path in (Path(catalog.__file__), *sorted(schema.folder().rglob("*.sql"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
