"""Two readings of one recording: only planted differences are found."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
import shared_files
from click.testing import CliRunner
from fixture_files import fixture
from tables_export import export, read_manifest, write_manifest

from schedlens.commands import cli
from schedlens.commands.compare_decoders import compare_decoders
from schedlens.errors import NotATraceError
from schedlens.load import recording_rows, schema
from schedlens.load.comparison import rows
from schedlens.load.comparison.known import TRACEPROCESSOR, Known, known
from schedlens.load.comparison.rows import FOLDER, KEYS, TRACE, Table
from schedlens.load.recording import Recording

pytestmark = pytest.mark.slow

# Three switches of the recording `plain` that are not adjacent.
THREE = (
    "SELECT rowid FROM context_switch WHERE prev_priority IS NOT NULL "
    "ORDER BY ts, cpu, seq LIMIT 3 OFFSET 40"
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording that both readers read."""
    return fixture("plain", tmp_path_factory)


@pytest.fixture
def con(trace: Path) -> duckdb.DuckDBPyConnection:
    """Its rows, to plant differences before they are exported."""
    con = duckdb.connect()
    schema.create(con)
    recording_rows.load_base_and_derived(con, Recording("plain", trace), 1)
    return con


def compared(folder: Path, trace: Path, exit_code: int) -> dict[str, Any]:
    """Output of the command, as JSON."""
    done = CliRunner().invoke(
        compare_decoders, [str(folder), str(trace), "--json"], standalone_mode=False
    )
    assert done.return_value == exit_code
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(found: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """By table that differs: rows only in the folder, only in the trace, and different."""
    counts = {
        table["table"]: (table["only_folder"], table["only_trace"], table["differing"])
        for table in found["tables"]
    }
    return {table: count for table, count in counts.items() if any(count)}


def test_faithful_folder_has_no_differences(
    con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path
) -> None:
    found = compared(export(con, tmp_path / "tables"), trace, 0)
    assert differences(found) == {}
    assert found["shift_ns"] == 0
    assert [table["table"] for table in found["tables"]] == list(KEYS)
    [switches] = [t for t in found["tables"] if t["table"] == "context_switch"]
    [(count,)] = con.sql("SELECT count(*) FROM context_switch").fetchall()
    assert switches["equal"] == switches["rows_folder"] == switches["rows_trace"] == count


def test_only_planted_differences_are_found(
    con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path
) -> None:
    con.execute(
        f"UPDATE context_switch SET prev_priority = prev_priority + 1 WHERE rowid IN ({THREE})"
    )
    con.execute("DELETE FROM thread_name WHERE rowid IN (SELECT min(rowid) FROM thread_name)")
    con.execute("INSERT INTO cpu_frequency VALUES (1, 5, 0, 1000), (1, 5, 0, 1000)")
    con.execute("UPDATE process SET name = name || '!' WHERE pid = (SELECT max(pid) FROM process)")
    con.execute("UPDATE trace SET events_lost = 99")
    found = compared(export(con, tmp_path / "tables"), trace, 1)
    assert differences(found) == {
        "trace": (0, 0, 1),
        "process": (0, 0, 1),
        "thread_name": (0, 1, 0),
        "context_switch": (0, 0, 3),
        "cpu_frequency": (2, 0, 0),
    }
    assert found["unexplained"] == 8
    tables = {table["table"]: table for table in found["tables"]}
    switches = tables["context_switch"]
    assert list(switches["columns"]) == ["prev_priority"]
    column = switches["columns"]["prev_priority"]
    assert (column["differing"], column["known"]) == (3, 0)
    example = column["example"]
    assert example["folder"] == example["trace"] + 1
    assert tables["cpu_frequency"]["examples_folder"] == 2 * [{"ts": 5, "cpu": 0, "khz": 1000}]
    assert tables["trace"]["columns"]["events_lost"]["example"]["folder"] == 99


def test_row_at_another_time_is_one_missing_and_one_extra(
    con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path
) -> None:
    con.execute("DELETE FROM wakeup WHERE rowid NOT IN (SELECT min(rowid) FROM wakeup)")
    con.execute("UPDATE wakeup SET ts = ts + 1")
    [(count,)] = duckdb_rows(trace, "SELECT count(*) FROM wakeup")
    found = compared(export(con, tmp_path / "tables"), trace, 1)
    assert differences(found) == {"wakeup": (1, count, 0)}


def duckdb_rows(trace: Path, sql: str) -> list[tuple[Any, ...]]:
    """An answer of the untouched recording."""
    con = duckdb.connect()
    schema.create(con)
    recording_rows.load_base_and_derived(con, Recording("plain", trace), 1)
    return con.sql(sql).fetchall()


def test_other_time_origin_and_ids_are_no_difference(
    con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path
) -> None:
    columns = con.sql(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal "
        "AND table_name NOT IN (SELECT view_name FROM duckdb_views())"
    ).fetchall()
    times = ("ts", "start_ns", "end_ns", "valid_from_ns", "first_ns", "duration_ns")
    for table, column in columns:
        if column in times:
            con.execute(f"UPDATE {table} SET {column} = {column} - 12345")
        elif column.endswith("utid"):
            con.execute(f"UPDATE {table} SET {column} = {column} + 1000")
    con.execute("UPDATE trace SET start_clock = start_clock + 12345")
    found = compared(export(con, tmp_path / "tables"), trace, 0)
    assert differences(found) == {}
    assert found["shift_ns"] == 12345


def test_missing_table_counts_all_rows_as_missing(
    con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path
) -> None:
    folder = export(con, tmp_path / "tables")
    manifest = read_manifest(folder)
    count = manifest["tables"].pop("thread_name")
    (folder / "thread_name.arrow").unlink()
    write_manifest(folder, manifest)
    assert differences(compared(folder, trace, 1)) == {"thread_name": (0, count, 0)}


def both(trace: Path, *changes: str) -> duckdb.DuckDBPyConnection:
    """One recording twice, the first changed as another reader would return it."""
    con = duckdb.connect()
    schema.create(con)
    for number in (FOLDER, TRACE):
        recording_rows.load_base_and_derived(con, Recording("plain", trace), number)
    for change in changes:
        con.execute(change)
    return con


def table_of(con: duckdb.DuckDBPyConnection, table: str, reasons: tuple[Known, ...]) -> Table:
    """The comparison of one table."""
    return next(t for t in rows.compare(con, reasons, 0) if t.table == table)


def test_only_exporter_limits_are_known_differences(trace: Path) -> None:
    con = both(
        trace,
        "UPDATE cpu SET core = NULL, smt_index = NULL WHERE trace_id = 1",
        "UPDATE cpu SET package = 5 WHERE trace_id = 1 AND cpu = 0",
        "DELETE FROM migration WHERE trace_id = 1",
        "UPDATE wakeup SET waker_utid = utid WHERE trace_id = 1",
    )
    cpus = table_of(con, "cpu", TRACEPROCESSOR)
    assert cpus.differing == cpus.rows_trace
    assert (cpus.differing_known, cpus.unexplained) == (cpus.differing - 1, 1)
    assert cpus.columns["core"].known == cpus.columns["core"].differing == cpus.rows_trace
    assert (cpus.columns["package"].known, cpus.columns["package"].differing) == (0, 1)
    assert cpus.columns["package"].example["folder"] == 5
    moves = table_of(con, "migration", TRACEPROCESSOR)
    [(count,)] = con.sql("SELECT count(*) FROM migration").fetchall()
    assert (moves.only_trace, moves.only_trace_known, moves.unexplained) == (count, count, 0)
    wakeups = table_of(con, "wakeup", TRACEPROCESSOR)
    assert list(wakeups.columns) == ["waker_tid"]
    assert wakeups.differing == wakeups.differing_known
    assert wakeups.unexplained == 0
    assert table_of(con, "wakeup", ()).unexplained == wakeups.differing


def test_known_rows_match_their_reason(trace: Path) -> None:
    con = both(
        trace,
        "INSERT INTO cpu_parking VALUES (2, 1, 0, true, true, NULL), (2, 2, 0, true, false, 'x')",
        "INSERT INTO cpu_parking VALUES (1, 3, 0, NULL, NULL, NULL), (1, 4, 0, true, NULL, NULL)",
    )
    parking = table_of(con, "cpu_parking", TRACEPROCESSOR)
    assert (parking.only_trace, parking.only_trace_known) == (2, 1)
    assert (parking.only_folder, parking.only_folder_known) == (2, 1)
    assert parking.examples_trace[0]["ts"] == 2
    assert parking.examples_folder[0]["ts"] == 4
    assert parking.unexplained == 2


def test_counters_are_compared_by_their_growth(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    con = both(
        fixture("counters", tmp_path_factory),
        "UPDATE counter_sample SET value = value + 7000 WHERE trace_id = 1 AND cpu = 0",
        "UPDATE counter_sample SET value = value + 1 WHERE trace_id = 1 AND cpu = 1 AND rowid = "
        "(SELECT rowid FROM counter_sample WHERE trace_id = 1 AND cpu = 1 ORDER BY ts LIMIT 1 "
        "OFFSET 3)",
    )
    samples = table_of(con, "counter_sample", ())
    assert (samples.only_folder, samples.only_trace) == (0, 0)
    # One sample is off: the growth up to it and the growth from it.
    assert samples.differing == 2
    assert list(samples.columns) == ["growth"]


def test_omitted_optional_tables_are_known_differences() -> None:
    everything = frozenset(KEYS)
    assert known("perf", everything) == ()
    assert known("etw", everything) == TRACEPROCESSOR
    more = [reason.table for reason in known("etw", everything - {"frame", "wakeup"})]
    assert more == [*(reason.table for reason in TRACEPROCESSOR), "frame"]


def test_known_differences_name_existing_columns() -> None:
    con = duckdb.connect()
    schema.create(con)
    for reason in TRACEPROCESSOR:
        column = {"waker_tid": "waker_utid"}.get(reason.column or "", reason.column)
        con.sql(f"SELECT {column or '*'} FROM {reason.table} WHERE {reason.where}").fetchall()
        assert reason.table in KEYS


WINDOWS = "etw/corpus/airbus_ShutdownPerfDiagLogger.etl.xz"


def test_windows_recording_uses_traceprocessor_limits(
    tmp_path: Path,
) -> None:
    packed = shared_files.need(WINDOWS) / WINDOWS
    trace = tmp_path / "windows.etl"
    trace.write_bytes(lzma.decompress(packed.read_bytes()))
    con = duckdb.connect()
    schema.create(con)
    try:
        recording_rows.load_base_and_derived(con, Recording("windows", trace), 1)
    except NotATraceError:
        pytest.skip("this build cannot read .etl files")
    assert differences(compared(export(con, tmp_path / "whole"), trace, 0)) == {}
    [(masks,)] = con.sql("SELECT count(*) FROM affinity").fetchall()
    con.execute("DELETE FROM affinity")
    con.execute("UPDATE thread SET base_priority = NULL WHERE NOT is_idle")
    found = compared(export(con, tmp_path / "known"), trace, 0)
    assert set(differences(found)) <= {"affinity", "thread"}
    assert differences(found)["affinity"] == (0, masks, 0)
    con.execute("DELETE FROM process WHERE rowid = (SELECT max(rowid) FROM process)")
    assert compared(export(con, tmp_path / "lacking"), trace, 1)["unexplained"] >= 1


def test_command_runs_by_name() -> None:
    found = cli.group.get_command(click.Context(cli.group), "compare-decoders")
    assert found is compare_decoders


@pytest.mark.parametrize("swapped", [True, False])
def test_uncomparable_input_prints_one_line(
    swapped: bool, con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder = export(con, tmp_path / "tables")
    paths = [str(trace), str(folder)] if swapped else [str(folder), str(tmp_path / "gone")]
    assert cli.run(compare_decoders, paths, "compare-decoders") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1


def test_missing_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.etl"
    trace.write_bytes(b"")
    gone, bare = tmp_path / "gone", tmp_path / "bare"
    bare.mkdir()
    for folder, why in [
        (gone, "does not exist: name a folder of tables and its trace"),
        (trace, "is a file: name the folder of tables first, then its trace"),
        (bare, "contains no tables: name the folder that an export wrote"),
    ]:
        assert cli.run(compare_decoders, [str(folder), str(trace)], "compare") == 2
        assert capsys.readouterr().err == f"compare: {folder} {why}\n"


def test_text_names_new_and_known_differences(
    con: duckdb.DuckDBPyConnection, trace: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    con.execute("UPDATE thread SET is_idle = NOT is_idle WHERE tid = (SELECT max(tid) FROM thread)")
    folder = export(con, tmp_path / "tables")
    assert cli.run(compare_decoders, [str(folder), str(trace)], "compare-decoders") == 1
    text = capsys.readouterr().out
    assert "is_idle differs in 1 rows" in text
    assert "1 rows differ for no known reason" in text
