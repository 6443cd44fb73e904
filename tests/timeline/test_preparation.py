"""The file that `analyze` leaves next to a database is used as long as it describes it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from fixture_files import fixture
from timeline_data import timeline_session

import schedlens
from schedlens.commands import analyze, cli
from schedlens.serve import session_tiles
from schedlens.timeline import parts, preparation, sums
from schedlens.timeline.prepared import Timelines

Fill = Callable[[Timelines, int], tuple[int, int]]


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with timeline_session(tmp_path_factory.mktemp("analyzed")) as folder:
        return folder


@pytest.fixture
def database(analyzed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with its file, as `analyze` leaves that of a large recording."""
    monkeypatch.setattr(preparation, "LEAST_PARTS", 1)
    database = tmp_path / "analysis.duckdb"
    shutil.copy(analyzed / "analysis.duckdb", database)
    save(database)
    return database


def save(database: Path) -> None:
    with (
        preparation.saved(database) as prepared,
        duckdb.connect(str(database)) as con,
        prepared.meanwhile(con),
    ):
        prepared.finish(con)


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
    for least, files in (
        (1, ["analysis.duckdb", preparation.FILE]),
        (1 << 40, ["analysis.duckdb"]),
    ):
        monkeypatch.setattr(preparation, "LEAST_PARTS", least)
        if how == "command":
            arguments = [str(trace), "-o", str(tmp_path), "--no-report"]
            assert cli.run(analyze.analyze, arguments, "analyze") == 0
        else:
            schedlens.analyze(trace, output=tmp_path, report=how != "api").close()
        assert sorted(path.name for path in tmp_path.glob("*.duckdb")) == files
        with served(tmp_path / "analysis.duckdb") as (timelines, as_it_is):
            assert as_it_is == (least == 1)
            assert totals(timelines) != []


def known(con: duckdb.DuckDBPyConnection) -> list[int]:
    return [row[0] for row in con.execute("SELECT trace_id FROM tiles.recording").fetchall()]


def test_recordings_are_prepared_while_questions_are_asked(database: Path) -> None:
    with served(database) as (timelines, _):
        expected = totals(timelines)
    with (
        preparation.saved(database) as prepared,
        duckdb.connect(str(database)) as con,
        prepared.meanwhile(con),
    ):
        end = time.monotonic() + 60
        while known(con) != [1]:
            assert time.monotonic() < end, "the thread prepared no recording"
            time.sleep(0.01)
        assert totals(prepared.timelines(con)) == expected


def test_recording_that_the_thread_could_not_prepare_is_prepared_when_shown(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fill(timelines: Timelines, trace_id: int, of: Fill = Timelines._fill) -> tuple[int, int]:
        tried.append(threading.current_thread())
        if len(tried) == 1:
            raise duckdb.OutOfMemoryException("too little")
        return of(timelines, trace_id)

    monkeypatch.setattr(Timelines, "_fill", fill)
    save(database)
    assert tried[0] != tried[1] == threading.main_thread()
    with served(database) as (timelines, as_it_is):
        assert as_it_is
        assert totals(timelines) != []


@pytest.mark.parametrize("where", ["statement", "columns"])
def test_interrupted_analysis_stops_the_thread(
    where: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "SELECT 1::BIGINT AS lane, range AS ts, range + 1 AS end_ns, 1::BIGINT AS key FROM "
    endless += "range(1000000000000)"
    if where == "statement":
        monkeypatch.setattr(parts, "fill", lambda one: [f"SELECT max(key) FROM ({endless})"])
    else:
        monkeypatch.setattr(Timelines, "_worth_preparing", lambda *_: [1_000_000])
        monkeypatch.setattr(parts, "fill", lambda one: [])
        monkeypatch.setattr(parts, "sql", of_range(endless))
    before = database.with_name(preparation.FILE).read_bytes()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupt_after(0.5, database)
    assert time.monotonic() - started < 20
    assert database.with_name(preparation.FILE).read_bytes() == before


def of_range(endless: str) -> Callable[..., str]:
    """Parts without an end for the columns, and none for what is read before them."""

    def sql(kind: str, one: int, start: int, end: int, near: str = "") -> str:
        return f"{endless} WHERE false" if near else endless

    return sql


def interrupt_after(seconds: float, database: Path) -> None:
    with (
        preparation.saved(database) as prepared,
        duckdb.connect(str(database)) as con,
        prepared.meanwhile(con),
    ):
        time.sleep(seconds)
        raise KeyboardInterrupt


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
    database.with_name(preparation.FILE).write_bytes(content)
    with served(database) as (timelines, _):
        assert totals(timelines) == before


def test_small_database_has_no_file_and_an_old_one_is_removed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "LEAST_PARTS", 1 << 40)
    save(database)
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def fail(database: Path) -> None:
    with preparation.saved(database) as prepared, duckdb.connect(str(database)) as con:
        prepared.timelines(con).of(1)
        raise RuntimeError("disk full")


def test_failed_analysis_keeps_the_earlier_file(database: Path) -> None:
    file = database.with_name(preparation.FILE)
    before = file.read_bytes()
    with pytest.raises(RuntimeError, match="disk full"):
        fail(database)
    assert file.read_bytes() == before
    assert sorted(path.name for path in database.parent.iterdir()) == [database.name, file.name]
