"""The summaries equal what the same views compute without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import command
from fixture_files import fixture

from schedlens.ask import catalog
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

pytestmark = pytest.mark.slow

FIXTURES = ("plain", "sched_yield", "loss", "simulated")
SUMMARIES = {
    "fair_share_sum": "fair_share",
    "parallel_section_sum": "section_scaling",
    "concurrency_process_sum": "concurrency_process",
    "ready_obstacle_sum": "ready_obstacle",
}
"""The tables, and the question that reads each."""
POOLS = "parallel_section_sum"
"""Only the simulated game has worker pools."""


@pytest.fixture(scope="module", params=FIXTURES)
def analyzed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with summaries."""
    folder = tmp_path_factory.mktemp("analyzed")
    if request.param == "simulated":
        trace = tmp_path_factory.mktemp("game") / "recording"
        simulated.write_folder(cases.CASES[0].play(fixed=False, seed=1), trace, label="recording")
    else:
        trace = fixture(request.param, tmp_path_factory)
    command("analyze", str(trace), "-o", str(folder), "--no-report", check=False)
    return folder / "analysis.duckdb"


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


@pytest.mark.parametrize("table", SUMMARIES)
def test_the_answer_is_the_same_with_and_without_a_summary(analyzed: Path, table: str) -> None:
    question = f"FROM {SUMMARIES[table]} ORDER BY ALL"
    with duckdb.connect(str(analyzed)) as con:
        con.begin()
        pools = rows(con, "FROM worker_pool")
        assert rows(con, f"SELECT count(*) > 0 FROM {table}") == [(table != POOLS or pools != [],)]
        stored = rows(con, question)
        con.execute(f"DELETE FROM {table}")
        assert stored == rows(con, question)
        con.rollback()


@pytest.mark.parametrize("table", SUMMARIES)
def test_another_window_is_computed(analyzed: Path, table: str) -> None:
    name = SUMMARIES[table]
    with duckdb.connect(str(analyzed)) as con:
        con.begin()
        [(start_ns, end_ns)] = rows(con, "SELECT start_ns, end_ns FROM analysis_window")
        middle = f"{name}(p_from_ns := {start_ns + 1}, p_to_ns := {(start_ns + end_ns) // 2})"
        with_summary = rows(con, f"FROM {middle} ORDER BY ALL")
        whole = rows(con, f"FROM {name} ORDER BY ALL")
        assert with_summary != whole or not whole
        con.execute(f"DELETE FROM {table}")
        assert rows(con, f"FROM {middle} ORDER BY ALL") == with_summary
        con.rollback()


@pytest.mark.parametrize("table", SUMMARIES)
def test_changed_window_does_not_use_the_summary(analyzed: Path, table: str) -> None:
    question = f"FROM {SUMMARIES[table]} ORDER BY ALL"
    with duckdb.connect(str(analyzed)) as con:
        con.begin()
        con.execute("UPDATE analysis_window SET end_ns = (start_ns + end_ns) // 2")
        shorter = rows(con, question)
        con.execute(f"DELETE FROM {table}")
        assert rows(con, question) == shorter
        con.rollback()


def test_simulated_game_has_pools(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed), read_only=True) as con:
        [(label,)] = rows(con, "SELECT label FROM trace")
        assert (rows(con, "FROM worker_pool") != []) == (label == "recording")


def test_smaller_pools_are_computed(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed)) as con:
        pools = rows(con, "SELECT DISTINCT pool FROM section_scaling")
        smaller = rows(con, "SELECT DISTINCT pool FROM section_scaling(p_least := 2)")
        assert set(pools) <= set(smaller)
        known = rows(con, "SELECT DISTINCT upid, pool FROM parallel_section(p_least := 2)")
        assert len(known) >= len(smaller)


def test_every_summary_has_a_view_that_reads_it(analyzed: Path) -> None:
    with duckdb.connect(str(analyzed)) as con:
        tables = rows(con, "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%\\_sum' "
                           "ESCAPE '\\'")  # fmt: skip
    texts = [query.sql for query in catalog.load_all()]
    assert tables
    for (table,) in tables:
        assert any(f"FROM {table}" in text for text in texts)
