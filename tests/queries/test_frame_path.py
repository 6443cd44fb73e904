"""Wakeups and one frame: which thread the frame waited for."""

from __future__ import annotations

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.load.frames import capture

MS = 1_000_000
CPUS = [Cpu(0, 0), Cpu(1, 1)]

# Main presents at 10 ms. It waits from 2 ms to 6 ms; at 6 ms B runs on the CPU that writes the
# waking:   cpu 0  |main 0..2|        |main 6..10|
#           cpu 1  |B 0..8             |
SLICES = [
    Slice("game/main", 0, 0, 2 * MS),
    Slice("game/B", 1, 0, 8 * MS),
    Slice("game/main", 0, 6 * MS, 4 * MS, wait=4 * MS, waker="game/B"),
]


@pytest.mark.parametrize("in_interrupt", [False, True])
def test_timer_wakeup_has_no_waker(in_interrupt: bool) -> None:
    with drawn_database() as con:
        trace = DrawnTrace(con, SLICES, CPUS, 10 * MS)
        main, other = trace.utid("game/main"), trace.utid("game/B")
        trace.add("frame", frame=1, upid=7, utid=main, process="game", start_ns=0, dur_ns=10 * MS)
        trace.add(
            "wakeup", ts=6 * MS, cpu=1, seq=1, utid=main, waker_utid=other, kind="waking",
            in_interrupt=in_interrupt, effective=True,
        )  # fmt: skip
        capture.build_paths(con, 1)
        path = con.execute("SELECT utid, ts, dur FROM frame_path ORDER BY ts").fetchall()
    own = [(main, 0, 10 * MS)]
    assert path == (own if in_interrupt else [(other, 0, 6 * MS), (main, 6 * MS, 4 * MS)])
