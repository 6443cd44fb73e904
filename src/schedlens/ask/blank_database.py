"""An empty database with all tables, macros and views, kept for later analyses.

Making the views takes longer than analyzing a short recording, and they are always the same. The
name of the kept file contains a hash of the SQL files and of DuckDB's version, so that a change of
either makes a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from pathlib import Path

import duckdb

from schedlens.ask import catalog
from schedlens.load import schema, store


def folder() -> Path:
    """The folder of the kept file: SCHEDLENS_CACHE_DIR, else the user's cache."""
    given = os.environ.get("SCHEDLENS_CACHE_DIR")
    if given:
        return Path(given)
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA")
        return (Path(cache) if cache else Path.home() / "AppData/Local") / "schedlens"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "schedlens"


def place(target: Path) -> None:
    """Makes `target` an empty database. Raises `OSError` or `duckdb.Error` where it cannot.

    Copies the kept file; without one, makes it first. If it cannot be kept, `target` is made
    directly.
    """
    kept = folder() / f"blank-{_key()}.duckdb"
    try:
        if not kept.exists():
            _keep(kept)
        shutil.copyfile(kept, target)
        # A damaged file is noticed here, and made again next time.
        with duckdb.connect(str(target), read_only=True) as con:
            if catalog.is_installed(con):
                return
    except (OSError, duckdb.Error):
        pass
    with contextlib.suppress(OSError):
        kept.unlink(missing_ok=True)
    store.remove(target)
    _make(target)


def _keep(kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside = kept.with_name(f".{kept.name}.{os.getpid()}")
    try:
        _make(aside)
        aside.replace(kept)
    finally:
        store.remove(aside)
    for other in kept.parent.glob("blank-*.duckdb"):
        if other != kept:
            with contextlib.suppress(OSError):
                other.unlink()


def _make(path: Path) -> None:
    with duckdb.connect(str(path), config=store.FILE_CONFIG) as con:
        schema.create(con)
        catalog.install(con)
        con.execute("CHECKPOINT")


def _key() -> str:
    digest = hashlib.sha256(f"{duckdb.__version__} {store.STORAGE_VERSION}".encode())
    for path in sorted(schema.folder().rglob("*.sql")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
