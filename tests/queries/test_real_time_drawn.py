"""A real-time thread that is switched out and in several times at one time of its clock."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import command

IDLE, AUDIO, GAME = ("swapper/0", 0, 120), ("audio", 8, 50), ("game", 9, 120)


def line(task: tuple[str, int, int], seconds: float, event: str) -> str:
    return f"{task[0]} {task[1]} [000] {seconds:.6f}: {event}"


def switch(
    seconds: float, prev: tuple[str, int, int], following: tuple[str, int, int], state: str
) -> str:
    return line(
        prev,
        seconds,
        f"sched:sched_switch: prev_comm={prev[0]} prev_pid={prev[1]} prev_prio={prev[2]} "
        f"prev_state={state} ==> next_comm={following[0]} next_pid={following[1]} "
        f"next_prio={following[2]}",
    )


def test_slice_is_counted_once_if_its_thread_leaves_several_times(tmp_path: Path) -> None:
    lines = [
        switch(1.0, IDLE, AUDIO, "R"),
        line(AUDIO, 1.1, "sched:sched_waking: comm=game pid=9 prio=120 success=1 target_cpu=000"),
        *[
            text
            for _ in range(3)
            for text in (switch(1.3, AUDIO, IDLE, "R"), switch(1.3, IDLE, AUDIO, "R"))
        ],
        switch(1.4, AUDIO, GAME, "S"),
        switch(2.0, GAME, IDLE, "S"),
    ]
    file = tmp_path / "tied.txt"
    file.write_text("\n".join(lines) + "\n")
    output = command("analyze", str(file), "--only", "real_time", "--no-report", "--json")
    (hog,) = json.loads(output.stdout)["findings"]
    assert hog["kind"] == "hog"
    # From 1.1 to 1.4 s.
    assert hog["cost_ns"] == 300_000_000
    assert "ran 40\xa0% of the window, 300\xa0ms at a time on CPU 0" in hog["detail"]
