"""Questions that read each other: without the order of rows that only a reader needs."""

from __future__ import annotations

import duckdb
import pytest
from prepared_database import prepare

from schedlens.ask import catalog


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    """An empty database with all questions."""
    empty = duckdb.connect()
    prepare(empty)
    return empty


def sorts(con: duckdb.DuckDBPyConnection, statement: str) -> int:
    # Empty tables would simplify the plan away.
    con.execute("SET disabled_optimizers = 'statistics_propagation,empty_result_pullup'")
    [(_, plan)] = con.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()
    return str(plan).count('"ORDER_BY"')


def test_question_sorts_only_its_own_rows(con: duckdb.DuckDBPyConnection) -> None:
    assert sorts(con, "FROM ready_obstacle_slice()") == 1
    assert sorts(con, "FROM ready_obstacle_total()") == 1


def test_macro_and_its_unordered_form_have_the_same_columns(
    con: duckdb.DuckDBPyConnection,
) -> None:
    names = [
        name
        for (name,) in con.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE schema_name = 'unordered' ORDER BY 1"
        ).fetchall()
    ]
    assert {"ready_obstacle_slice", "thread_with_process", "analysis_span"} <= set(names)
    for name in names:
        described = [
            con.execute(f"DESCRIBE FROM {place}{name}()").fetchall() for place in ("", "unordered.")
        ]
        assert described[0] == described[1], name


def test_rows_that_are_limited_keep_their_order() -> None:
    cut = "SELECT a\nFROM b\nORDER BY a\nLIMIT 5"
    assert catalog.without_order(cut) == cut
    assert catalog.without_order("SELECT a\nFROM b\nORDER BY\n  a,\n  c") == "SELECT a\nFROM b"
