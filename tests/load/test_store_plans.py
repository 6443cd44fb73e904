"""DuckDB's plans for queries in a database that schedlens opened."""

from __future__ import annotations

from pathlib import Path

import duckdb

from schedlens.load import store

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
