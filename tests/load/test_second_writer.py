"""Rows that a second connection inserts are the same, and vanish with a recording that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from fixture_files import fixture

from schedlens.errors import NothingToReadError
from schedlens.load import intervals, recording_rows, store
from schedlens.load.recording import Recording
from schedlens.load.second_writer import SecondWriter

TABLES = (
    "thread_state_other", "cpu_state_other", "sched_slice", "ready_slice", "concurrency_slice",
)  # fmt: skip


def insert(con: duckdb.DuckDBPyConnection, table: str, batches: list[pa.RecordBatch]) -> None:
    con.from_arrow(pa.Table.from_batches(batches)).insert_into(table)


def numbers(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"x": pa.array(values, pa.int64())})]


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("CREATE TABLE number (x BIGINT NOT NULL CHECK (x < 100))")
    return made


def count(con: duckdb.DuckDBPyConnection) -> list[Any]:
    return con.execute("SELECT count(*), sum(x) FROM number").fetchall()


def test_rows_are_seen_once_they_are_committed(con: duckdb.DuckDBPyConnection) -> None:
    with SecondWriter(con, insert) as second:
        assert not second.started
        second.insert("number", numbers(1, 2))
        second.insert("number", numbers(3))
        assert second.started
        assert count(con) == [(0, None)]
        second.commit()
    assert count(con) == [(3, 6)]


def test_rows_of_a_block_without_a_commit_are_forgotten(con: duckdb.DuckDBPyConnection) -> None:
    with SecondWriter(con, insert) as second:
        second.insert("number", numbers(1, 2))
    assert count(con) == [(0, None)]


def test_error_of_a_statement_is_raised_by_the_next_one(con: duckdb.DuckDBPyConnection) -> None:
    with SecondWriter(con, insert) as second:
        second.insert("number", numbers(100))
        with pytest.raises(duckdb.ConstraintException):
            second.insert("number", numbers(1))
    assert count(con) == [(0, None)]


def loaded(trace: Path, database: Path) -> list[list[Any]]:
    with store.create(database) as con:
        failures = recording_rows.load_rows(
            con, [Recording("plain", trace)], (None, None), lambda label, share: None
        )
        assert failures == []
        return [con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES]


@pytest.fixture
def both_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection starts with the first rows, as with a large recording."""
    monkeypatch.setattr(recording_rows, "INSERT_ROW_GROUPS", 0)
    monkeypatch.setattr(intervals, "_INSERT_ROW_GROUPS", 0)


def test_tables_do_not_depend_on_who_writes_them(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    trace = fixture("plain", tmp_path_factory)
    alone = loaded(trace, tmp_path / "alone.duckdb")
    assert all(alone)
    request.getfixturevalue("both_write")
    assert loaded(trace, tmp_path / "both.duckdb") == alone


@pytest.mark.usefixtures("both_write")
def test_recording_that_fails_leaves_no_rows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = fixture("plain", tmp_path_factory)

    def fail_first(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
        if trace_id == 1:
            raise NothingToReadError("planned")

    monkeypatch.setattr(recording_rows, "_require_records", fail_first)
    recordings = [Recording("one", trace), Recording("two", trace)]
    with store.create(tmp_path / "x.duckdb") as con:
        failures = recording_rows.load_rows(
            con, recordings, (None, None), lambda label, share: None
        )
        assert [failure.label for failure in failures] == ["one"]
        for table in TABLES:
            ids = con.execute(f"SELECT DISTINCT trace_id FROM {table}").fetchall()
            assert (table, ids) == (table, [(2,)])
