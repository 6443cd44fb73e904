"""A lake answers every query and every analyzer as the database of the same recordings does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import lakes
import pytest
from s3_server import s3_server

from schedlens.ask import judging
from schedlens.ask.findings import Finding, Scope
from schedlens.lake import checkpoint, reading
from schedlens.lake.file_access import LakeFiles
from schedlens.lake.manifest import Entry

pytestmark = pytest.mark.slow


@dataclass
class Written:
    place: str
    entries: list[Entry]
    findings: list[Finding]
    database: duckdb.DuckDBPyConnection
    lake: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Written]]:
    """Two recordings in a database, in a lake on the local disk, and in one on an S3 server."""
    folder = tmp_path_factory.mktemp("lake-queries")
    paths = lakes.recordings(folder, tmp_path_factory)
    database = folder / "analysis.duckdb"
    with pytest.MonkeyPatch.context() as patch, s3_server(patch) as options:
        places = {"local": str(folder / "lake"), "s3": f"s3://fleet/all/lake?{options}"}
        entries, findings = lakes.add(places["local"], paths, database, other=places["s3"], only=())
        with duckdb.connect(str(database), read_only=True) as con:
            yield {
                name: Written(place, entries, findings, con, reading.connect(place))
                for name, place in places.items()
            }


@pytest.fixture(params=["local", "s3"])
def both(request: pytest.FixtureRequest, pair: dict[str, Written]) -> Written:
    """The database, and each of the lakes in turn."""
    return pair[request.param]


def test_every_table_has_the_same_rows(both: Written) -> None:
    names = lakes.tables(both.database)
    assert {"sched_slice", "cpu_parking", "frame", "finding"} <= set(names)
    for name in names:
        if name == "finding":
            continue
        assert lakes.rows(both.lake, name) == lakes.rows(both.database, name), name


def test_findings_have_the_same_rows_and_numbers_of_their_own(both: Written) -> None:
    sql = "(SELECT * EXCLUDE (finding_id) FROM finding)"
    assert lakes.rows(both.lake, sql) == lakes.rows(both.database, sql)
    numbers = "SELECT list(finding_id ORDER BY finding_id) FROM finding"
    assert both.lake.execute(numbers).fetchall() == both.database.execute(numbers).fetchall()


def test_every_query_has_the_same_rows(both: Written) -> None:
    # The same SQL as on the local disk: a few are enough to read every table from the server.
    step = 1 if "://" not in both.place else 12
    different = [
        name
        for name in lakes.views()[::step]
        if lakes.rows(both.lake, name) != lakes.rows(both.database, name)
    ]
    assert different == []


def test_every_analyzer_finds_the_same(both: Written) -> None:
    assert judging.judge_all(Scope(both.lake)).findings == both.findings
    assert both.findings


def test_columns_have_their_comments(both: Written) -> None:
    sql = (
        "SELECT comment FROM duckdb_columns() "
        "WHERE table_name = 'sched_slice' AND column_name = 'ready_ns'"
    )
    assert both.lake.execute(sql).fetchall() == [("From ready to switch-in.",)]


def test_one_recording_can_be_opened_alone(both: Written) -> None:
    only = both.entries[1].trace_id
    with reading.connect(both.place, [only]) as con:
        assert con.execute("SELECT trace_id FROM trace").fetchall() == [(only,)]
        sql = f"(SELECT * FROM sched_slice WHERE trace_id = {only})"
        assert lakes.rows(con, sql) == lakes.rows(both.database, sql)


def test_a_condition_on_the_recording_leaves_out_the_files_of_others(
    pair: dict[str, Written], tmp_path: Path
) -> None:
    # DuckDB takes the columns from the first file, so that one has to be whole.
    first, second = sorted(pair["local"].entries, key=lambda entry: entry.trace_id)
    copy = tmp_path / "lake"
    shutil.copytree(pair["local"].place, copy)
    with reading.connect(copy) as con:
        (copy / second.key("sched_slice")).write_bytes(b"damaged")
        sql = "SELECT count(*) FROM sched_slice"
        counted = con.execute(f"{sql} WHERE trace_id = {first.trace_id}").fetchall()
        assert counted == [(first.tables["sched_slice"].rows,)]
        with pytest.raises(duckdb.Error, match="sched_slice"):
            con.execute(sql).fetchall()


def test_a_checkpoint_changes_no_row(both: Written) -> None:
    checkpoint.write(LakeFiles(both.place))
    with reading.connect(both.place) as con:
        for name in [*checkpoint.SMALL, "lake_finding", "manifest"]:
            assert lakes.rows(con, name) == lakes.rows(both.lake, name), name
