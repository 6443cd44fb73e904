"""The figure of frames shows PresentMon's msUntilDisplayed, from each form of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import experiment_session
import pytest
from etl_bytes import START, Buffer, Log, switch
from etl_drawn import at, life, slices, two_cpus, written
from prepared_database import prepare

from schedlens.ask import analysis
from schedlens.load.recording import Recording

MS = 1000  # us
QPC_PER_MS = 10_000

# Times in ms; Present takes 1 ms:
#   frame   begin   Present   back   on screen   until displayed
#   1        0        9       10       20          11
#   2       10       24       25       40          16
#   3       25       34       35       never
#   4       35       44       45       46           2
FRAMES = [(0, 9, 10, 20), (10, 24, 25, 40), (25, 34, 35, None), (35, 44, 45, 46)]
FROM_PRESENT = [11, 16, None, 2]
FROM_START = [20, 30, None, 11]
NAME = ["drawn.exe", 100, "0x1", "DXGI"]


def clock(ms: int) -> int:
    """Ticks of the performance counter."""
    return START + QPC_PER_MS * ms


def version_1() -> tuple[str, list[list[Any]]]:
    names = (
        "Application,ProcessID,SwapChainAddress,Runtime,SyncInterval,PresentFlags,Dropped,"
        "TimeInSeconds,msInPresentAPI,msBetweenPresents,msUntilRenderComplete,msUntilDisplayed,"
        "msBetweenDisplayChange,QPCTime"
    )
    rows = [
        [*NAME, 0, 0, int(d is None), b / 1000, c - b, b - before, 1,
         0 if d is None else d - b, 0, clock(b)]
        for (_, b, c, d), before in zip(FRAMES, (-1, 9, 24, 34), strict=True)
    ]  # fmt: skip
    return names, rows


def version_2() -> tuple[str, list[list[Any]]]:
    names = (
        "Application,ProcessID,SwapChainAddress,PresentRuntime,CPUStartQPC,FrameTime,CPUBusy,"
        "CPUWait,GPULatency,GPUTime,GPUBusy,DisplayLatency,DisplayedTime"
    )
    rows = [
        [*NAME, clock(a), c - a, b - a, c - b, None, None, None,
         None if d is None else d - a, None if d is None else 16]
        for a, b, c, d in FRAMES
    ]  # fmt: skip
    return names, rows


def version_2_3() -> tuple[str, list[list[Any]]]:
    names = (
        "Application,ProcessID,SwapChainAddress,PresentRuntime,CPUStartQPC,MsBetweenAppStart,"
        "MsCPUBusy,MsCPUWait,MsGPUBusy,MsUntilDisplayed"
    )
    rows = [
        [*NAME, clock(a), c - a, b - a, c - b, None, None if d is None else d - b]
        for a, b, c, d in FRAMES
    ]
    return names, rows


def figure(names: str, rows: list[list[Any]], folder: Path) -> dict[str, Any]:
    """The figure `frames` of the report on a recording with this file."""
    frames = folder / "frames.csv"
    lines = [names, *(",".join("NA" if v is None else str(v) for v in row) for row in rows)]
    frames.write_text("\n".join(lines) + "\n", encoding="utf-8")
    first = Buffer([*life(), *slices(8, 0), switch(at(60 * MS), 0, 8, state=2)])
    path = written(folder, Log([first, two_cpus()[1]]))
    with duckdb.connect() as con:
        prepare(con)
        both = Recording("etl", path, frames=frames)
        assert analysis.load(con, [both], (None, None), lambda label, share: None) == []
        shown = experiment_session.section(con, "frame_time")
    found: dict[str, Any] = shown["figures"][0]
    return found


@pytest.mark.parametrize(
    ("form", "first"), [(version_1, 1), (version_2, 0), (version_2_3, 0)],
    ids=["1", "2", "2.3"],
)  # fmt: skip
def test_figure_contains_the_times_until_displayed(form: Any, first: int, tmp_path: Path) -> None:
    # A row of version 1 describes a call of Present: its first one has no frame before it.
    names, rows = form()
    plot = figure(names, rows, tmp_path)["plot"]
    drawn = {trace["name"]: (trace["x"], trace["y"]) for trace in plot["data"]}
    starts = [a for a, *_ in FRAMES][first:]
    assert drawn["until displayed, from Present"] == (starts, FROM_PRESENT[first:])
    assert drawn["until displayed, from its start"] == (starts, FROM_START[first:])
    assert drawn["frame"] == (starts, [c - a for a, _, c, _ in FRAMES][first:])


def test_no_line_if_nothing_says_when_frames_were_displayed(tmp_path: Path) -> None:
    names, rows = version_2()
    plot = figure(names, [[*row[:-2], None, None] for row in rows], tmp_path)["plot"]
    assert [trace["name"] for trace in plot["data"]] == ["frame", "stutter"]
