"""The kept empty database that analyses start from."""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from conftest import command
from fixture_files import fixture

from schedlens.ask import blank_database, catalog
from schedlens.load import schema, store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the kept file, which takes seconds to make."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCHEDLENS_CACHE_DIR", str(folder / "cache"))
        blank_database.place(folder / "blank")
    return folder / "cache"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the kept file."""
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def declared(path: Path) -> list[tuple[object, ...]]:
    """All tables, views, macros and comments of a database."""
    with duckdb.connect(str(path), read_only=True) as con:
        parts = [
            "SELECT 'column', table_name, column_name, data_type, comment FROM duckdb_columns()",
            "SELECT 'view', schema_name, view_name, sql, comment FROM duckdb_views()",
            "SELECT 'macro', schema_name, function_name, macro_definition, comment "
            "FROM duckdb_functions()",
        ]
        found: list[tuple[object, ...]] = []
        for part in parts:
            found += con.execute(f"{part} WHERE NOT internal ORDER BY ALL").fetchall()
        return found


def test_kept_file_equals_a_new_database(cache: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        blank_database.place(tmp_path / name)
    (kept,) = cache.iterdir()
    made = tmp_path / "made"
    with duckdb.connect(str(made), config=store.FILE_CONFIG) as con:
        schema.create(con)
        catalog.install(con)
    assert declared(tmp_path / "first") == declared(tmp_path / "second") == declared(made)
    assert filecmp.cmp(tmp_path / "second", kept, shallow=False)


def test_other_sql_makes_another_file_and_removes_the_old(
    filled: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(filled, cache)
    blank_database.place(tmp_path / "first")
    (old,) = cache.iterdir()
    monkeypatch.setattr(duckdb, "__version__", "0.0.0")
    blank_database.place(tmp_path / "second")
    (new,) = cache.iterdir()
    assert new != old


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_damaged_kept_file_is_made_again(
    content: bytes | None, filled: Path, cache: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, cache)
    blank_database.place(tmp_path / "first")
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2] if content is None else content)
    blank_database.place(tmp_path / "second")
    assert declared(tmp_path / "second") == declared(tmp_path / "first")
    (made,) = cache.iterdir()
    assert declared(made) == declared(tmp_path / "first")


def test_unwritable_cache_is_no_error(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("own_tree", tmp_path_factory)
    done = command(
        "analyze", str(trace), "-o", str(tmp_path), "--no-report",
        env={**os.environ, "SCHEDLENS_CACHE_DIR": "/proc/none"},
    )  # fmt: skip
    assert done.stderr == ""
    assert (tmp_path / "analysis.duckdb").exists()


def test_unwritable_output_is_one_line(
    cache: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("own_tree", tmp_path_factory)
    done = command("analyze", str(trace), "-o", "/proc", "--no-report", check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("analyze: cannot write /proc/analysis.duckdb")
