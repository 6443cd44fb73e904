"""The summaries equal what the same views compute without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import command
from fixture_files import fixture

from schedlens.ask import catalog

pytestmark = pytest.mark.slow

FIXTURES = ("own_tree", "sched_yield", "loss")


@pytest.fixture(scope="module", params=FIXTURES)
def analyzed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with summaries."""
    folder = tmp_path_factory.mktemp("analyzed")
    trace = fixture(request.param, tmp_path_factory)
    command("analyze", str(trace), "-o", str(folder), "--no-report", check=False)
    return folder / "analysis.duckdb"


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


def test_fair_share_is_the_same_with_and_without_its_summary(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed)) as con:
        assert rows(con, "SELECT count(*) > 0 FROM fair_share_sum") == [(True,)]
        stored = rows(con, "FROM fair_share ORDER BY utid")
        con.execute("DELETE FROM fair_share_sum")
        computed = rows(con, "FROM fair_share ORDER BY utid")
        assert stored == computed
        assert stored


def test_another_window_is_computed(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed)) as con:
        [(start_ns, end_ns)] = rows(con, "SELECT start_ns, end_ns FROM analysis_window")
        middle = f"fair_share(p_from_ns := {start_ns + 1}, p_to_ns := {(start_ns + end_ns) // 2})"
        with_summary = rows(con, f"FROM {middle} ORDER BY utid")
        assert with_summary != rows(con, "FROM fair_share ORDER BY utid")
        con.execute("DELETE FROM fair_share_sum")
        assert rows(con, f"FROM {middle} ORDER BY utid") == with_summary


def test_changed_window_does_not_use_the_summary(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed)) as con:
        con.begin()
        con.execute("UPDATE analysis_window SET end_ns = (start_ns + end_ns) // 2")
        shorter = rows(con, "FROM fair_share ORDER BY utid")
        con.execute("DELETE FROM fair_share_sum")
        assert rows(con, "FROM fair_share ORDER BY utid") == shorter
        con.rollback()


def test_every_summary_has_a_view_that_reads_it(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed)) as con:
        tables = rows(con, "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%\\_sum' "
                           "ESCAPE '\\'")  # fmt: skip
    texts = [query.sql for query in catalog.load_all()]
    assert tables
    for (table,) in tables:
        assert any(f"FROM {table}" in text for text in texts)
