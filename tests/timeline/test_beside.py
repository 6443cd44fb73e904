"""The file that `analyze` leaves next to a database is used as long as it describes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from fixture_files import fixture
from timeline_data import timeline_session

import schedlens
from schedlens.commands import analyze, cli
from schedlens.serve import session_tiles
from schedlens.timeline import beside, sums
from schedlens.timeline.prepared import Timelines


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with timeline_session(tmp_path_factory.mktemp("analyzed")) as folder:
        return folder


@pytest.fixture
def database(analyzed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with its file, as `analyze` leaves that of a large recording."""
    monkeypatch.setattr(beside, "LEAST_PARTS", 1)
    database = tmp_path / "analysis.duckdb"
    shutil.copy(analyzed / "analysis.duckdb", database)
    save(database)
    return database


def save(database: Path) -> None:
    with beside.saved(database) as prepared, duckdb.connect(str(database)) as con:
        timelines = prepared(con)
        for (trace_id,) in con.execute("SELECT trace_id FROM trace").fetchall():
            timelines.of(trace_id)
        timelines.detach()


@contextmanager
def served(database: Path) -> Iterator[tuple[Timelines, bool]]:
    """The recordings as the server reads them, and whether it uses the file as it is."""
    with session_tiles.opened(database) as timelines:
        found = timelines.con.execute(
            "SELECT readonly FROM duckdb_databases() WHERE database_name = 'tiles'"
        ).fetchall()
        yield timelines, found[0][0]


def totals(timelines: Timelines) -> list[dict[str, object]]:
    found: list[dict[str, object]] = sums.totals(timelines, 1, *timelines.of(1)).to_pylist()
    return found


def test_server_uses_the_file_of_analyze_by_several_and_after_a_move(
    database: Path, tmp_path: Path
) -> None:
    with served(database) as (first, as_it_is), served(database) as (second, also):
        assert as_it_is
        assert also
        assert totals(first) == totals(second) != []
    shutil.move(database, tmp_path / "moved.duckdb")
    shutil.copytree(tmp_path, tmp_path / "copy")
    shutil.move(tmp_path / "copy/moved.duckdb", tmp_path / "copy/analysis.duckdb")
    with served(tmp_path / "copy/analysis.duckdb") as (_, as_it_is):
        assert as_it_is


@pytest.mark.parametrize("how", ["command", "api", "api with a report"])
def test_analysis_without_a_report_leaves_the_file_as_well(
    how: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trace = fixture("plain", tmp_path_factory)
    for least, files in ((1, ["analysis.duckdb", beside.FILE]), (1 << 40, ["analysis.duckdb"])):
        monkeypatch.setattr(beside, "LEAST_PARTS", least)
        if how == "command":
            arguments = [str(trace), "-o", str(tmp_path), "--no-report"]
            assert cli.run(analyze.analyze, arguments, "analyze") == 0
        else:
            schedlens.analyze(trace, output=tmp_path, report=how != "api").close()
        assert sorted(path.name for path in tmp_path.glob("*.duckdb")) == files
        with served(tmp_path / "analysis.duckdb") as (timelines, as_it_is):
            assert as_it_is == (least == 1)
            assert totals(timelines) != []


def test_changed_database_makes_the_tables_again(database: Path) -> None:
    with served(database) as (timelines, _):
        before = totals(timelines)
    with duckdb.connect(str(database)) as con:
        con.execute("DELETE FROM thread_state_other WHERE state = 'waiting'")
    with served(database) as (timelines, as_it_is):
        assert not as_it_is
        assert 0 < len(totals(timelines)) < len(before)


@pytest.mark.parametrize("content", [b"", b"no database", b"DUCK" * 5000])
def test_damaged_file_is_no_error(database: Path, content: bytes) -> None:
    with served(database) as (timelines, _):
        before = totals(timelines)
    database.with_name(beside.FILE).write_bytes(content)
    with served(database) as (timelines, _):
        assert totals(timelines) == before


def test_small_database_has_no_file_and_an_old_one_is_removed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "LEAST_PARTS", 1 << 40)
    save(database)
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def fail(database: Path) -> None:
    with beside.saved(database) as prepared, duckdb.connect(str(database)) as con:
        prepared(con).of(1)
        raise RuntimeError("disk full")


def test_failed_analysis_keeps_the_earlier_file(database: Path) -> None:
    file = database.with_name(beside.FILE)
    before = file.read_bytes()
    with pytest.raises(RuntimeError, match="disk full"):
        fail(database)
    assert file.read_bytes() == before
    assert sorted(path.name for path in database.parent.iterdir()) == [database.name, file.name]
