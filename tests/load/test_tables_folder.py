"""A folder of Arrow tables loads like its recording, or is refused in one line."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pytest
from conftest import command
from fixture_files import fixture
from tables_export import export, read_manifest, write_manifest, write_table

from schedlens import _decoders
from schedlens.errors import SchedlensError, UnsupportedTraceError
from schedlens.load import recording_rows, schema
from schedlens.load.arrow_folder import layout
from schedlens.load.recording import Recording, gather
from schedlens.machine.topology import Cpu, SavedTopology

pytestmark = pytest.mark.slow


def loaded(trace: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with the base and derived tables of one recording."""
    con = duckdb.connect()
    schema.create(con)
    recording_rows.load_base_and_derived(con, Recording("one", trace), 1)
    return con


def rows_that_differ(a: duckdb.DuckDBPyConnection, b: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """By table, the rows of one database that the other lacks, in both directions."""
    tables = a.sql(
        "SELECT table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY ALL"
    ).fetchall()
    found = {}
    con = duckdb.connect()
    for (table,) in tables:
        here, there = (side.sql(f"FROM {table}").to_arrow_table() for side in (a, b))
        if not here.num_rows and not there.num_rows:
            continue
        con.register("here", here)
        con.register("there", there)
        differing = con.sql(
            "SELECT count(*) FROM (FROM (FROM here EXCEPT ALL FROM there) UNION ALL "
            "FROM (FROM there EXCEPT ALL FROM here))"
        ).fetchall()
        if differing != [(0,)]:
            found[table] = differing[0][0]
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording `plain` as a folder of tables; copy it before changing it."""
    con = loaded(fixture("plain", tmp_path_factory))
    return export(con, tmp_path_factory.mktemp("tables") / "plain")


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(plain, tmp_path / "tables")
    return tmp_path / "tables"


@pytest.mark.parametrize("name", ["plain", "loss", "counters", "sched_yield", "switch_only"])
def test_folder_gives_every_row_of_its_recording(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    con = loaded(fixture(name, tmp_path_factory))
    found = rows_that_differ(con, loaded(export(con, tmp_path / "tables", batch_rows=67)))
    assert found == {"trace": 2}
    facts = "SELECT * EXCLUDE (label, path) FROM trace"
    again = loaded(tmp_path / "tables")
    assert con.sql(facts).fetchall() == again.sql(facts).fetchall()


def test_other_trace_id_shifts_every_id(plain: Path) -> None:
    con = duckdb.connect()
    schema.create(con)
    recording_rows.load_base_and_derived(con, Recording("five", plain), 5)
    assert con.sql("SELECT DISTINCT trace_id, utid >> 32 FROM thread").fetchall() == [(5, 5)]
    ids = "SELECT DISTINCT prev_utid >> 32, next_utid >> 32 FROM context_switch"
    assert con.sql(ids).fetchall() == [(5, 5)]


def test_plain_texts_and_missing_nullable_columns_are_accepted(folder: Path, plain: Path) -> None:
    rows = pa.ipc.open_file(folder / "context_switch.arrow").read_all()
    kept = rows.drop_columns(["prev_cstate", "source"])
    write_table(
        folder, "context_switch", kept.append_column("source", pc.cast(rows["source"], pa.string()))
    )
    assert rows_that_differ(loaded(plain), loaded(folder)) == {"trace": 2}


def test_analyze_reads_a_folder_and_writes_into_it(folder: Path) -> None:
    assert [recording.trace for recording in gather([folder])] == [folder]
    done = command("analyze", str(folder), "--json", "--no-report")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert [trace["source"] for trace in found["traces"]] == ["perf"]
    assert Path(found["database"]).parent == folder
    # Its own output does not prevent a second run.
    again = json.loads(_decoders.inspect(str(folder)))
    assert again["records_by_event"] == read_manifest(folder)["tables"]


def test_topology_option_replaces_cpus_of_the_folder(plain: Path) -> None:
    cpus = (Cpu(0, online=True, core=0, smt_index=0), Cpu(1, online=True, core=0, smt_index=1))
    recording = Recording("described", plain).described(SavedTopology(cpus=cpus))
    con = duckdb.connect()
    schema.create(con)
    recording_rows.load_base_and_derived(con, recording, 3)
    found = con.sql("SELECT trace_id, cpu, core, smt_index, llc FROM cpu ORDER BY cpu").fetchall()
    assert found == [(3, 0, 0, 0, None), (3, 1, 0, 1, None)]


def test_inspect_lists_content_and_answerable_questions_of_a_folder(folder: Path) -> None:
    done = command("schedlens", "inspect", str(folder), "--json", check=False)
    found = json.loads(done.stdout)
    rows = read_manifest(folder)["tables"]
    assert found["records_by_event"] == rows
    assert found["cpus"] == len(set(column(folder, "cpu", "cpu")))
    names = [process["name"] for process in found["processes"]]
    assert names == column(folder, "process", "name")
    answers = {answer["question"]: answer for answer in found["can_answer"]}
    assert answers["which thread ran where"]["answerable"]
    assert answers["frames"]["why"] == "the table frame is not in the folder"
    problems = [(row["place"], row["count"]) for row in found["problems"]]
    assert problems == list(
        zip(column(folder, "problem", "place"), column(folder, "problem", "count"), strict=True)
        if "problem" in rows
        else ()
    )
    assert done.returncode == (1 if problems else 0)


def refusal(folder: Path) -> str:
    """The error line for a folder."""
    with pytest.raises(SchedlensError) as refused:
        list(_decoders.load(str(folder), 1, None, None, "one"))
    line = str(refused.value)
    assert "\n" not in line
    assert str(folder) in line
    return line


def change(folder: Path, table: str, column: str, values: pa.ChunkedArray | pa.Array) -> None:
    """Replaces a column of a file."""
    rows = pa.ipc.open_file(folder / f"{table}.arrow").read_all()
    write_table(folder, table, rows.set_column(rows.schema.get_field_index(column), column, values))


def column(folder: Path, table: str, name: str) -> list[object]:
    """A column of a file as a list."""
    found: list[object] = pa.ipc.open_file(folder / f"{table}.arrow").read_all()[name].to_pylist()
    return found


def test_folder_without_manifest_is_refused_as_unfinished(folder: Path) -> None:
    (folder / layout.MANIFEST).unlink()
    assert "tables.json: the export is incomplete" in refusal(folder)
    done = command("analyze", str(folder), check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_missing_table_is_named(folder: Path) -> None:
    (folder / "wakeup.arrow").unlink()
    assert "lacks wakeup.arrow, which tables.json lists" in refusal(folder)


def test_missing_required_table_is_named(folder: Path) -> None:
    manifest = read_manifest(folder)
    del manifest["tables"]["context_switch"]
    write_manifest(folder, manifest)
    assert "lacks the table context_switch" in refusal(folder)


def test_unlisted_table_is_refused(folder: Path) -> None:
    manifest = read_manifest(folder)
    del manifest["tables"]["wakeup"]
    write_manifest(folder, manifest)
    assert "wakeup.arrow is not listed in tables.json" in refusal(folder)


def test_half_written_file_is_named(folder: Path) -> None:
    file = folder / "context_switch.arrow"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "context_switch.arrow is not a complete Arrow file" in refusal(folder)
    file.write_bytes(b"")
    assert "context_switch.arrow is not a complete Arrow file" in refusal(folder)


def test_compressed_file_is_unsupported(folder: Path) -> None:
    rows = pa.ipc.open_file(folder / "thread.arrow").read_all()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(folder / "thread.arrow", rows.schema, options=options) as writer:
        writer.write_table(rows)
    with pytest.raises(UnsupportedTraceError, match="is compressed: export it with"):
        list(_decoders.load(str(folder), 1, None, None, "one"))


def test_missing_rows_are_counted(folder: Path) -> None:
    rows = pa.ipc.open_file(folder / "wakeup.arrow").read_all()
    write_table(folder, "wakeup", rows.slice(0, 10))
    line = f"has 10 rows, but tables.json says {rows.num_rows}"
    assert line in refusal(folder)


def test_wrong_type_error_names_column_and_types(folder: Path) -> None:
    texts = [str(ts) for ts in column(folder, "context_switch", "ts")]
    change(folder, "context_switch", "ts", pa.array(texts))
    assert "column ts has type Utf8, expected Int64" in refusal(folder)


def test_unknown_column_is_named(folder: Path) -> None:
    rows = pa.ipc.open_file(folder / "thread.arrow").read_all()
    write_table(folder, "thread", rows.append_column("colour", pa.nulls(rows.num_rows)))
    assert "unknown column 'colour'" in refusal(folder)


def test_null_in_required_column_is_counted(folder: Path) -> None:
    cpus = column(folder, "context_switch", "cpu")
    change(folder, "context_switch", "cpu", pa.array([None, None, *cpus[2:]], pa.int32()))
    assert "column cpu must not be NULL, but is in 2 rows" in refusal(folder)


def test_unordered_rows_error_names_the_row(folder: Path) -> None:
    rows = pa.ipc.open_file(folder / "context_switch.arrow").read_all()
    times = rows["ts"].to_pylist()
    place = next(row for row in range(len(times) // 2, len(times)) if times[row] > times[row - 1])
    order = [*range(place - 1), place, place - 1, *range(place + 1, len(times))]
    write_table(folder, "context_switch", rows.take(order))
    line = f"row {place} has time {times[place - 1]} after {times[place]}"
    assert line in refusal(folder)


def test_repeated_positions_are_refused(folder: Path) -> None:
    count = len(column(folder, "wakeup", "seq"))
    change(folder, "wakeup", "seq", pa.array([0] * count, pa.int64()))
    assert "seq repeats or decreases on CPU" in refusal(folder)


def test_ids_of_another_recording_or_out_of_range_are_refused(folder: Path) -> None:
    utids = column(folder, "thread", "utid")
    change(folder, "thread", "utid", pa.array([*utids[:-1], (1 << 32) + (1 << 30)], pa.int64()))
    assert "utid ranges from" in refusal(folder)


def test_two_recordings_in_one_file_are_refused(folder: Path) -> None:
    ids = column(folder, "thread", "trace_id")
    change(folder, "thread", "trace_id", pa.array([2, *ids[1:]], pa.int64()))
    assert "contains recordings 1 to 2: export one" in refusal(folder)


@pytest.mark.parametrize(
    ("change_to", "line"),
    [
        ({"format": "other"}, "does not have the format schedlens-tables"),
        ({"format_version": 2}, "has version 2, but only 1 is supported"),
        ({"source": "dtrace"}, "source 'dtrace' is not perf, etw, perfetto, xperf or wpa"),
        ({"trace": []}, "lacks `trace` or `tables`"),
        ({"tables": {"no_table": 1}}, "there is no base table 'no_table'"),
        ({"tables": {"../thread": 1}}, "there is no base table '../thread'"),
        ({"tables": {"thread": -1}}, "thread has -1 rows"),
        ({"tables": {"thread": 1e99}}, "thread has 1e+99 rows"),
        ({"trace": {"duration_ns": "long"}}, "duration_ns is 'long', not a number"),
        ({"trace": {"duration_ns": 1 << 63}}, "duration_ns is 9223372036854775808, not a number"),
        ({"trace": {"host": 7}}, "host is 7, not a text"),
    ],
)
def test_invalid_manifest_is_refused(folder: Path, change_to: dict[str, object], line: str) -> None:
    write_manifest(folder, {**read_manifest(folder), **change_to})
    assert line in refusal(folder)


@pytest.mark.parametrize("text", ["", "[", "[]", "\x00", "[" * 100_000])
def test_manifest_without_object_is_refused(folder: Path, text: str) -> None:
    (folder / layout.MANIFEST).write_text(text, encoding="utf-8")
    assert "tables.json" in refusal(folder)


def test_damaged_file_is_refused_or_harmless(folder: Path) -> None:
    """Any other error of an Arrow reader would be a traceback for the user."""
    file = folder / "thread.arrow"
    whole = file.read_bytes()
    refused = 0
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        damaged = bytearray(whole)
        damaged[place : place + 8] = b"\xff" * len(damaged[place : place + 8])
        file.write_bytes(damaged)
        with contextlib.suppress(SchedlensError):
            list(_decoders.load(str(folder), 1, None, None, "one"))
            refused -= 1
        refused += 1
    assert refused >= 3  # the magic at both ends and the footer's length
