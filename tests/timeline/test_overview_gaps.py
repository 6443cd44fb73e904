"""The page draws the losses of a recording, also of one with millions."""

from __future__ import annotations

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.timeline import inventory
from schedlens.timeline.prepared import Timelines

MS = 1_000_000


def test_losses_that_touch_are_one_and_the_longest_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "_MOST_GAPS", 3)
    with drawn_database() as con:
        trace = DrawnTrace(
            con, [Slice("game/A", 0, 0, MS)], [Cpu(0, 0, 0), Cpu(1, 1, 0), Cpu(2, 2, 0)], MS
        )
        for cpu, start, end in (
            (0, 10, 20), (0, 20, 30), (0, 25, 28), (0, 30, 31), (1, 20, 30), (1, 32, 33),
            (1, 40, 42), (None, 50, 55), (1, 70, 70), (2, None, None), (None, None, None),
        ):  # fmt: skip
            trace.add("loss", cpu=cpu, start_ns=start, end_ns=end, signalled_by="x")
        timelines = Timelines(con)
        found = inventory.overview(timelines, 1)["gaps"]
        timelines.detach()
    # One of a CPU without bounds lasts from the first to the last record. A loss of all CPUs is not
    # one of CPU 0, and those of 1 to 5 ns are shorter than three others.
    assert [tuple(gap.values()) for gap in found] == [(2, 0, MS), (0, 10, 31), (1, 20, 30)]
