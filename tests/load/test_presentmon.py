"""PresentMon files: three dialects, and their clock against the trace's."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from shared_files import need

from schedlens.errors import DamagedTraceError, NotATraceError, UnsupportedTraceError
from schedlens.load.frames import clock as frame_clock
from schedlens.load.frames import presentmon

MS = 1_000_000

# One schedule in three dialects. Times in ms from the capture's start; Present takes 1 ms:
#   frame   begin   Present   back   GPU busy   on screen
#   1        0        9       10       7          20
#   2       10       24       25      12          40
#   3       25       34       35       8          never
FRAMES = [(0, 9, 10, 7, 20), (10, 24, 25, 12, 40), (25, 34, 35, 8, None)]
WANTED = [
    # time in the dialects with begins, length, CPU, GPU, displayed after, dropped
    (0, 10, 9, 7, 20, False),
    (10, 15, 14, 12, 30, False),
    (25, 10, 9, 8, None, True),
]


def write(path: Path, names: str, rows: list[list[object]]) -> Path:
    lines = [names, *(",".join("NA" if v is None else str(v) for v in row) for row in rows)]
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def found(capture: presentmon.Capture) -> list[tuple[float | bool | None, ...]]:
    def ms(value: int | None) -> float | None:
        return None if value is None else value / MS

    return [
        (
            (frame.time - frame.ahead_ns) / MS, ms(frame.dur_ns), ms(frame.cpu_busy_ns),
            ms(frame.gpu_busy_ns), ms(frame.displayed_after_ns), frame.dropped,
        )
        for frame in capture.frames
    ]  # fmt: skip


def test_version_2(tmp_path: Path) -> None:
    path = write(
        tmp_path / "2.csv",
        "Application,ProcessID,SwapChainAddress,PresentRuntime,CPUStartTime,FrameTime,CPUBusy,"
        "CPUWait,GPUBusy,DisplayLatency,DisplayedTime",
        [
            ["g.exe", 7, "0x1", "DXGI", a, c - a, b - a, c - b, g,
             None if d is None else d - a, None if d is None else 16]
            for a, b, c, g, d in FRAMES
        ],
    )  # fmt: skip
    capture = presentmon.read(path)
    assert (capture.dialect, capture.clock, capture.skipped) == ("presentmon2", "relative", 0)
    assert found(capture) == WANTED
    assert presentmon.is_presentmon(path)


def test_version_2_3(tmp_path: Path) -> None:
    path = write(
        tmp_path / "2.3.csv",
        "Application,ProcessID,SwapChainAddress,MsUntilDisplayed,CPUStartQPCTimeInMs,"
        "MsBetweenAppStart,MsCPUBusy,MsCPUWait,MsGPUBusy",
        [
            ["g.exe", 7, "0x1", None if d is None else d - b, a + 500, c - a, b - a, c - b, g]
            for a, b, c, g, d in FRAMES
        ],
    )
    capture = presentmon.read(path)
    assert (capture.dialect, capture.clock) == ("presentmon2.3", "qpc_ns")
    assert found(capture) == [(row[0] + 500, *row[1:]) for row in WANTED]


def test_negative_length_is_unknown(tmp_path: Path) -> None:
    names = "Application,ProcessID,SwapChainAddress,CPUStartTime,FrameTime,CPUBusy,GPUBusy"
    path = write(tmp_path / "negative.csv", names, [["g.exe", 7, "0x1", 0, -10, -9, -7]])
    (frame,) = presentmon.read(path).frames
    assert (frame.dur_ns, frame.cpu_busy_ns, frame.gpu_busy_ns) == (None, None, None)


def test_version_1_derives_a_frame_from_the_previous_one(tmp_path: Path) -> None:
    path = write(
        tmp_path / "1.csv",
        "Application,ProcessID,SwapChainAddress,Runtime,Dropped,TimeInSeconds,msInPresentAPI,"
        "msBetweenPresents,msUntilDisplayed,msGPUActive",
        [
            ["g.exe", 7, "0x1", "DXGI", int(d is None), b / 1000, c - b, b - before,
             0 if d is None else d - b, g]
            for (a, b, c, g, d), before in zip(FRAMES, (-1, 9, 24), strict=True)
        ],
    )  # fmt: skip
    capture = presentmon.read(path)
    assert (capture.dialect, capture.clock) == ("presentmon1", "relative")
    assert found(capture) == WANTED[1:]


def test_snake_case_is_version_1(tmp_path: Path) -> None:
    path = write(
        tmp_path / "snake.csv",
        "application,process_id,SwapChainAddress,Runtime,Dropped,time_in_seconds,"
        "ms_in_present_api,ms_between_presents,ms_until_displayed,ms_gpu_active",
        [
            ["g.exe", 7, "0x1", "DXGI", int(d is None), b / 1000, c - b, b - before,
             0 if d is None else d - b, g]
            for (a, b, c, g, d), before in zip(FRAMES, (-1, 9, 24), strict=True)
        ],
    )  # fmt: skip
    assert presentmon.is_presentmon(path)
    capture = presentmon.read(path)
    assert (capture.dialect, capture.clock) == ("presentmon1", "relative")
    assert found(capture) == WANTED[1:]


def test_a_real_file_in_snake_case_is_read_completely() -> None:
    name = "traces/presentmon/presentmon_r6.csv"
    path = need(name) / name
    capture = presentmon.read(path)
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    # The first row has no row before it.
    assert (len(capture.frames), capture.skipped) == (len(rows) - 1, 0)
    for frame, row, before in zip(capture.frames, rows[1:], rows, strict=False):
        assert frame.time == float(row["QPCTime"])
        busy = float(row["ms_between_presents"]) - float(before["ms_in_present_api"])
        assert frame.cpu_busy_ns == pytest.approx(busy * MS, abs=1)
        assert frame.gpu_busy_ns == pytest.approx(float(row["ms_gpu_active"]) * MS, abs=1)


def test_missing_values_are_none_and_unreadable_rows_are_counted(tmp_path: Path) -> None:
    names = "Application,ProcessID,SwapChainAddress,CPUStartQPC,FrameTime,CPUBusy,GPUBusy"
    rows: list[list[object]] = [
        ["g.exe", 7, "0x1", 1000, 0, 0, None],
        ["g.exe", "x", "0x1", 1000, 1, 1, 1],
        ["g.exe", 7, "0x1", "nan", 1, 1, 1],
        ["g.exe", 7],
        ["Application", "ProcessID", "SwapChainAddress", "CPUStartQPC", 0, 0, 0],
    ]
    capture = presentmon.read(write(tmp_path / "p.csv", names, rows))
    (frame,) = capture.frames
    assert (frame.dur_ns, frame.cpu_busy_ns, frame.gpu_busy_ns) == (None, None, None)
    assert (frame.dropped, frame.displayed_after_ns) == (None, None)
    assert capture.skipped == 3


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", NotATraceError, "its first line lacks Application"),
        ("a,b,c\n", NotATraceError, "its first line lacks Application"),
        ("Application,ProcessID,Other\n", NotATraceError, "no column MsBetweenAppStart"),
        ("Application,ProcessID,FrameTime\n", NotATraceError, "--qpc_time"),
        ("Application,ProcessID,FrameTime,CPUStartTime\n", DamagedTraceError, "no readable frame"),
        (
            "Application,ProcessID,FrameTime,CPUStartDateTime\ng,1,2,2026-1-1\n",
            NotATraceError,
            "--qpc_time",
        ),
    ],
)
def test_other_files_are_refused_in_one_line(
    text: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(error) as refused:
        presentmon.read(path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def rhythm(count: int, seed: int) -> list[int]:
    """Times of presents, ns, as irregular as a game's."""
    chance = random.Random(seed)
    times, now = [], 5 * MS
    for _ in range(count):
        times.append(now)
        now += int(chance.gauss(16.6, 1.2) * MS)
    return times


@pytest.mark.parametrize("drift", [0.0, 4e-5])
@pytest.mark.parametrize(("first", "last"), [(0, 400), (37, 400), (0, 300), (100, 260)])
def test_clock_offset_is_solved_from_present_times(drift: float, first: int, last: int) -> None:
    trace = rhythm(400, 1)
    chance = random.Random(2)
    # The capture began 3 s before the trace, runs faster, jitters by 0.05 ms, and missed a frame.
    own = [
        (time + 3e9) / (1 + drift) + chance.uniform(-5e4, 5e4)
        for number, time in enumerate(trace[first:last])
        if number != 20
    ]
    joined = frame_clock.solve(own, trace)
    assert joined.drift == pytest.approx(drift, abs=1e-5)
    middle = own[len(own) // 2]
    assert joined.ns(middle) == pytest.approx(middle * (1 + drift) - 3e9, abs=1e5)
    assert joined.residual_ns <= 1e5
    assert joined.matched == len(own)


def test_clocks_that_cannot_be_matched_are_refused() -> None:
    with pytest.raises(UnsupportedTraceError, match="run PresentMon with --qpc_time"):
        frame_clock.solve([1.0] * 3, rhythm(100, 1))
    with pytest.raises(UnsupportedTraceError, match="cannot join the capture's clock"):
        frame_clock.solve([time * 3.7 for time in rhythm(100, 8)], rhythm(100, 1))


def test_raw_ticks_are_joined_as_integers() -> None:
    assert frame_clock.qpc_ns(10_000_000_000_001, 10_000_000_000_000, 10_000_000) == 100
    assert frame_clock.qpc_ns(1, 3, 3_579_545) == -559
