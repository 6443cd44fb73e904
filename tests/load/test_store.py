"""Databases that schedlens creates and opens."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from schedlens.errors import NoSpaceError, SchedlensError
from schedlens.load import store
from schedlens.output import leftover, whole_file

FEW_BY_ITS_ESTIMATE = """
EXPLAIN (FORMAT json)
SELECT * FROM range(5) AS slice (ts) ASOF JOIN range(5) AS spell (ts) ON slice.ts >= spell.ts
"""


def plan(con: duckdb.DuckDBPyConnection) -> str:
    """The physical plan of an ASOF join whose left side DuckDB estimates as short."""
    return str(con.execute(FEW_BY_ITS_ESTIMATE).fetchall()[0][1])


def test_asof_join_never_plans_a_nested_loop(tmp_path: Path) -> None:
    path = tmp_path / "analysis.duckdb"
    with store.create(path) as con:
        assert "ASOF_JOIN" in plan(con)
    with store.open_database(path) as con:
        assert "ASOF_JOIN" in plan(con)
    with duckdb.connect(":memory:") as con:
        assert "NESTED_LOOP_JOIN" in plan(con)


def test_database_can_be_opened_twice(tmp_path: Path) -> None:
    path = tmp_path / "analysis.duckdb"
    with store.create(path):
        pass
    with store.open_database(path), duckdb.connect(str(path), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM trace").fetchall() == [(0,)]


def test_database_gets_its_name_only_when_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "analysis.duckdb"
    with store.create(path) as con:
        con.execute("INSERT INTO problem VALUES (1, 'here', 'something', 1)")
        # DuckDB itself waits for the disk at none of its commits.
        assert con.execute("SELECT current_setting('fsync_mode')").fetchall() == [("NONE",)]

    def fail(file: Path) -> None:
        assert file.exists()
        assert file != path
        raise OSError(5, "Input/output error", str(file))

    monkeypatch.setattr(whole_file, "flush", fail)
    with (
        pytest.raises(SchedlensError, match=r"analysis\.duckdb: Input/output error"),
        store.create(path),
    ):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["analysis.duckdb"]
    with store.open_database(path) as con:
        assert con.execute("SELECT count(*) FROM problem").fetchall() == [(1,)]


def test_database_is_written_behind_while_its_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "analysis.duckdb"
    flushed: list[bool] = []

    def note(file: Path) -> None:
        flushed.append(path.exists())
        with file.open("rb"):
            pass

    monkeypatch.setattr(whole_file, "flush", note)
    with store.create(path) as con, store.written_behind(con, path):
        pass
    # On Windows, DuckDB opens its file for itself alone: it is flushed once, when it is closed.
    assert flushed == [False] * (1 if os.name == "nt" else 2)

    def fail(file: Path) -> None:
        raise OSError(28, "No space left on device", str(file))

    # The second flush would succeed: the disk reports an error once.
    path.unlink()
    attempts = iter((fail, note))

    def flush(file: Path) -> None:
        next(attempts)(file)

    monkeypatch.setattr(whole_file, "flush", flush)
    with (
        pytest.raises(NoSpaceError, match="no space left"),
        store.create(path) as con,
        store.written_behind(con, path),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_large_database_has_its_checkpoint_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "analysis.duckdb"
    log = leftover.unfinished(path).with_name(f"{leftover.unfinished(path).name}.wal")
    # On Windows, nothing is written behind.
    for limit, left in ((store._CHECKPOINT_BYTES, True), (0, os.name == "nt")):
        monkeypatch.setattr(store, "_CHECKPOINT_BYTES", limit)
        with store.create(path) as con:
            con.execute("INSERT INTO problem VALUES (1, 'a', 'b', 1)")
            with store.written_behind(con, path):
                pass
            assert (log.exists() and log.stat().st_size > 0) == left
        with store.open_database(path) as found:
            assert found.execute("SELECT count(*) FROM problem").fetchall() == [(1,)]


def test_failed_checkpoint_behind_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(con: duckdb.DuckDBPyConnection, file: Path) -> None:
        raise duckdb.IOException("Could not write: No space left on device")

    monkeypatch.setattr(store, "_write_behind", full)
    path = tmp_path / "analysis.duckdb"
    # On Windows, nothing is written behind.
    reason = "invalidated" if os.name == "nt" else "no space left"
    with (
        pytest.raises(SchedlensError, match=reason),
        store.create(path) as con,
        store.written_behind(con, path),
    ):
        # What DuckDB answers from then on.
        raise duckdb.FatalException("database has been invalidated")
    assert not list(tmp_path.iterdir())
