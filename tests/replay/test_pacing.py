"""Late frames get the wait for the timer that they skipped."""

from __future__ import annotations

from schedlens.replay import pacing
from schedlens.replay.ops import Op


def frames(*untils: float | None) -> list[Op]:
    ops = []
    for until in untils:
        ops += [Op("run", 5.0), Op("present", 1.0)]
        if until is not None:
            ops.append(Op("until", until))
    return ops


def test_late_frames_wait_on_the_grid() -> None:
    made = pacing.completed(frames(10.0, 20.0, None, None, 50.0, 60.0))
    assert made == frames(10.0, 20.0, 30.0, 40.0, 50.0, 60.0)


def test_frames_that_a_timer_hardly_paces_are_unchanged() -> None:
    ops = frames(10.0, None, None, None, None, 60.0)
    assert pacing.completed(ops) == ops
    regular = frames(10.0, 20.0, 30.0, 40.0)
    assert pacing.completed(regular) == regular
