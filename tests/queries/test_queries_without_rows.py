"""A query that says "No rows without: TABLE" has no rows if that table is empty."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from prepared_database import prepare

from schedlens.ask import catalog
from schedlens.ask.findings import Scope

STATED = [
    (query.full_name, table) for query in catalog.load_all() for table in query.needs
]  # fmt: skip
# A value of each type. All keys are equal, so that every join finds a row.
VALUES = {
    "VARCHAR": "'x'",
    "BOOLEAN": "true",
    "DOUBLE": "1.0",
    "TIMESTAMP": "TIMESTAMP '2026-01-01'",
    "TIMESTAMP_NS": "TIMESTAMP_NS '2026-01-01'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2026-01-01'",
}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with one row in every table."""
    with duckdb.connect(":memory:") as made:
        prepare(made)
        columns: dict[str, list[str]] = {}
        for table, kind in made.execute(
            "SELECT table_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' "
            "AND table_name IN (SELECT table_name FROM duckdb_tables()) "
            "ORDER BY table_name, column_index"
        ).fetchall():
            one = VALUES.get(kind.removesuffix("[]"), "1")
            columns.setdefault(table, []).append(f"[{one}]" if kind.endswith("[]") else one)
        for table, values in columns.items():
            made.execute(f"INSERT INTO {table} VALUES ({', '.join(values)})")
        made.execute("UPDATE analysis_window SET start_ns = 0, end_ns = 100")
        yield made


@pytest.mark.parametrize(("query", "table"), STATED)
def test_query_has_no_rows_if_its_table_is_empty(
    con: duckdb.DuckDBPyConnection, query: str, table: str
) -> None:
    con.begin()
    try:
        con.execute(f"DELETE FROM {table}")
        assert con.execute(f"FROM {query}").fetchall() == []
    finally:
        con.rollback()


COMPARING = [query.full_name for query in catalog.load_all() if query.compares]


@pytest.mark.parametrize("query", COMPARING)
def test_query_that_compares_recordings_has_no_rows_about_one(
    con: duckdb.DuckDBPyConnection, query: str
) -> None:
    assert con.execute("SELECT count(*) FROM trace").fetchone() == (1,)
    assert con.execute(f"FROM {query}").fetchall() == []


def test_it_is_answered_without_the_query_about_one_recording_only(
    con: duckdb.DuckDBPyConnection,
) -> None:
    one = Scope(con)
    assert one.rows(one.call("recording_pair")) == []
    con.begin()
    try:
        con.execute(
            "INSERT INTO trace SELECT * REPLACE (2 AS trace_id, 'x-2' AS label, 'x' AS host) "
            "FROM trace; UPDATE trace SET label = 'x-1' WHERE trace_id = 1; "
            "DELETE FROM run"
        )
        two = Scope(con)
        pairs = two.rows(two.call("recording_pair"))
    finally:
        con.rollback()
    assert [(row["first_trace_id"], row["second_trace_id"]) for row in pairs] == [(1, 2)]


def test_most_of_these_queries_have_rows_with_it(con: duckdb.DuckDBPyConnection) -> None:
    found = {query for query, _ in STATED if con.execute(f"FROM {query}").fetchall()}
    assert {"run_throughput", "step_disturbance", "frame_time", "idle_state"} <= found


def test_empty_table_answers_without_the_query() -> None:
    with duckdb.connect(":memory:") as empty:
        prepare(empty)
        scope = Scope(empty)
        asked = scope.call("frame_time")
        names, rows = scope.named_rows(asked)
        assert (names, rows) == (
            tuple(column[0] for column in empty.execute("DESCRIBE frame_time").fetchall()),
            [],
        )
        assert scope.timings.queries == []


def test_question_without_rows_is_not_planned_inside_another_one() -> None:
    """Its columns keep their types, so that the other one can compute with them."""
    with duckdb.connect(":memory:") as empty:
        prepare(empty)
        scope = Scope(empty)
        asked = f"SELECT sum(dur_ns) AS n, count(*) AS rows FROM ({scope.call('frame_time')})"
        assert scope.rows(asked) == [{"n": None, "rows": 0}]
        assert scope.rows("SELECT t.* FROM workload_thread AS t") == []
        made = {
            name: [column[1] for column in empty.execute(f"DESCRIBE {name}").fetchall()]
            for (name,) in empty.execute(
                "SELECT table_name FROM duckdb_tables() WHERE temporary ORDER BY table_oid"
            ).fetchall()
        }
        declared = [
            [column[1] for column in empty.execute(f"DESCRIBE {name}").fetchall()]
            for name in ("frame_time", "workload_thread")
        ]
        assert list(made.values()) == declared


def test_question_about_a_filled_table_is_asked(con: duckdb.DuckDBPyConnection) -> None:
    scope = Scope(con)
    assert scope.rows(scope.call("frame_time")) != []
