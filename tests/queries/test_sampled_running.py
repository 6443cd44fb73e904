"""These samples without context switches: who ran, approximately, and what is reported."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from etl_bytes import Buffer, Log, perfinfo, sampled_profile, switch
from etl_drawn import at, life, written
from loaded_recording import loaded

from schedlens.ask import judging
from schedlens.ask.findings import Scope

MS = 1_000_000
# Samples every 1 ms, in units of 100 ns.
INTERVAL = perfinfo(0x0F49, 2, at(0), struct.pack("<III", 0, 10_000, 10_000))


def samples(tid: int, first_ms: int, count: int) -> list[bytes]:
    """One a ms."""
    return [sampled_profile(at(1000 * ms), tid, 0x1000) for ms in range(first_ms, first_ms + count)]


# ms      0                 150      200             400
# CPU 0   8: 150 samples    9: 50    idle: 200
# CPU 1   idle: 400
FIRST = [*life(), INTERVAL, *samples(8, 0, 150), *samples(9, 150, 50), *samples(0, 200, 200)]
BUFFERS = [Buffer(FIRST, cpu=0, sequence=1), Buffer(samples(0, 0, 400), cpu=1, sequence=2)]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("sampled")
    path = written(folder, Log(BUFFERS, buffer_size=1 << 16))
    with loaded(path, folder) as database:
        yield database


def test_each_sample_stands_for_an_interval(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT tid, samples, cpus, running_ns, error_ns, cpu_pct FROM sampled_running"
    ).fetchall()
    # 1.96 times the root of the samples.
    assert rows == [
        (8, 150, 1, 150 * MS, 24_004_999, 100 * 150 / 800),
        (9, 50, 1, 50 * MS, 13_859_293, 100 * 50 / 800),
    ]


def test_the_busiest_thread_is_reported_as_approximate(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = judging.judge_all(Scope(con), only=["sampled_running"]).findings
    assert (found.kind, found.severity) == ("approximate_running", "info")
    title, detail = (text.replace("\xa0", " ") for text in (found.title, found.detail))
    assert title == "Approximate: the busiest thread has 75 % of the samples"
    assert "ran for about 150 ms (± 24 ms), 18.8 % of the time of all CPUs" in detail


def test_context_switches_are_not_guessed_from_samples(tmp_path: Path) -> None:
    path = written(tmp_path, Log([Buffer([*life(), *samples(8, 0, 120), switch(at(200_000), 8, 0)])]
                                 , buffer_size=1 << 16))  # fmt: skip
    with loaded(path, tmp_path) as con:
        outcome = judging.judge_all(Scope(con), only=["sampled_running"])
        assert outcome.findings == []
