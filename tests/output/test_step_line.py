"""The line for a finished step: throughput and recorder overhead."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from schedlens.load.step_file import Overhead, Throughput
from schedlens.record import batches, work_done
from schedlens.record.linux.platform import missed_switches, recorder_cost


def _overhead(recorded: float, spread: float) -> Overhead:
    return Overhead(1000.0, recorded, spread, "bytes")


@pytest.mark.parametrize(
    ("recorded", "spread", "says"),
    [
        (988.0, 0.5, "recorder: 1.2 % slower"),
        (988.0, 8.0, "recorder's cost below the noise (spread 8.0 %)"),
        (1020.0, 8.0, "recorder's cost below the noise (spread 8.0 %)"),
        (
            2480.0,
            8.0,
            "recorder's cost unknown: the run without it was disturbed (59.7 % slower)",
        ),
    ],
)
def test_step_line_states_recorder_overhead(recorded: float, spread: float, says: str) -> None:
    assert recorder_cost(_overhead(recorded, spread)) == says


def test_throughput_spans_first_start_to_last_end() -> None:
    # 3 workers on 2 CPUs: 600 bytes in 2 us, however fast each batch was.
    workers = [
        {"start_mono_ns": 1000, "end_mono_ns": 2500, "bytes": 200, "iterations": 2},
        {"start_mono_ns": 1100, "end_mono_ns": 3000, "bytes": 300, "iterations": 3},
        {"start_mono_ns": 1200, "end_mono_ns": 2900, "bytes": 100, "iterations": 1},
    ]
    assert work_done.throughput({"workers": workers}) == Throughput(3e8, "bytes")
    counted = [dict(worker, bytes=0) for worker in workers]
    assert work_done.throughput({"workers": counted}) == Throughput(3e6, "iterations")
    idle = [dict(worker, iterations=0) for worker in counted]
    assert work_done.throughput({"workers": idle}) is None


def test_spread_is_the_interquartile_range_of_a_worker(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    # Worker 0: 100, 200, 300, 400 and 500 bytes in 1 us each; worker 1: always 100.
    rows = [(0, n, 100 * n) for n in range(1, 6)] + [(1, n, 100) for n in range(1, 6)]
    path.write_bytes(
        b"SLSAMP1\0"
        + b"".join(
            struct.pack("<IHHIIqqQQ", worker, 0, 0, 0, 0, n * 1000, (n + 1) * 1000, 1, size)
            for worker, n, size in rows
        )
    )
    # Quartiles 200 and 400 of median 300: 66.7 %, and 0: 33.3 % on average.
    assert batches.spread_pct(path, "bytes") == pytest.approx(100 / 3)
    assert batches.spread_pct(path, "iterations") == 0.0
    assert batches.throughput(path, "bytes") == pytest.approx(4e8)


def test_missed_switches_print_one_line_per_session() -> None:
    assert missed_switches(1, 7).startswith("7 context switches in 1 step came from PERF_RECORD")
    assert missed_switches(8, 211).endswith("No data was lost")
