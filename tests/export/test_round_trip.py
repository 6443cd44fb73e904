"""An exported trace, read back by trace_processor, contains the same schedule row by row."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import duckdb
import fixture_files
import pytest
import shared_files
from random_schedule import RandomSchedule
from recording_writer import write
from round_trip import Read, Written

from schedlens.ask import analysis, blank_database
from schedlens.load import recording, store
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

pytestmark = pytest.mark.slow

PERF = sorted(path.name.split(".")[0] for path in (fixture_files.FIXTURES / "perf").glob("*.xz"))
ETL = (
    "synth_cycle64", "synth_lznt1", "synth_qpc32", "synth_qpc64", "synth_systime64",
    "synth_xpress", "synth_xpresshuff",
)  # fmt: skip


def check(path: Path, folder: Path) -> int:
    """Compares all recordings with a schedule; returns how many slices were compared."""
    compared = 0
    with store.create(folder / "analysis.duckdb", place=blank_database.place) as con:
        assert analysis.load(con, recording.gather([path]), (None, None), lambda *_: None) == []
        for trace_id in with_schedule(con):
            written = Written(con, trace_id, folder)
            read = Read(written)
            assert read.sched == written.sched()
            assert read.thread_state == written.thread_state()
            assert read.gaps == written.gaps()
            # An unknown state is no error of the trace, but trace_processor counts it as one.
            assert set(read.errors) <= {"task_state_invalid"}
            compared += sum(read.sched.values())
    return compared


def with_schedule(con: duckdb.DuckDBPyConnection) -> Iterator[int]:
    rows = con.execute("SELECT DISTINCT trace_id FROM sched_slice ORDER BY trace_id").fetchall()
    return (trace_id for (trace_id,) in rows)


@pytest.mark.parametrize("name", PERF)
def test_perf_recording(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    compared = check(fixture_files.fixture(name, tmp_path_factory), tmp_path)
    assert (compared == 0) == (name == "no_sched")


def test_session_of_20_cpus(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert check(fixture_files.qemu_session(tmp_path_factory), tmp_path)


@pytest.mark.parametrize("name", ETL)
def test_windows_recording(name: str, tmp_path: Path) -> None:
    packed = shared_files.need(f"etw/synthetic/{name}.etl.xz") / f"etw/synthetic/{name}.etl.xz"
    path = tmp_path / f"{name}.etl"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    assert check(path, tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_random_schedule_in_both_formats(seed: int, tmp_path: Path) -> None:
    schedule = RandomSchedule(seed, length_ns=20_000_000, threads=32)
    etl, perf = tmp_path / "x.etl", tmp_path / "x.data"
    write(schedule.head(), schedule.lines, etl, perf)
    for file in (etl, perf):
        assert check(file, tmp_path)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_simulated_windows_recording(case: cases.Case, tmp_path: Path) -> None:
    simulated.write_folder(case.play(fixed=False, seed=1), tmp_path / "simulated")
    assert check(tmp_path / "simulated", tmp_path)
