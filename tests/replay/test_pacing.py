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


def test_few_frames_on_an_exact_grid_show_it() -> None:
    late: list[float | None] = [None] * 18
    made = pacing.completed(frames(10.0, *late, 200.0, 210.0, 220.0))
    assert made == frames(*[10.0 * number for number in range(1, 23)])


def test_frames_that_a_timer_hardly_paces_are_unchanged() -> None:
    ops = frames(10.0, *[None] * 18, 200.0, 215.0, 220.0)
    assert pacing.completed(ops) == ops
    regular = frames(10.0, 20.0, 30.0, 40.0)
    assert pacing.completed(regular) == regular


def test_loop_goes_on_after_the_recording() -> None:
    ops = [Op("until", 20.0)] + 3 * [Op("run", 5.0), Op("sleep", 15.0)]
    assert pacing.is_loop(ops)
    # 60 ns of the 100 of the recording: up to three times as long, six copies.
    made = pacing.continued(ops, 100, 3, 1000)
    assert made == ops + 6 * ops[1:]
    assert pacing.continued(ops, 100, 3, 13) == ops + 2 * ops[1:]
    assert pacing.continued(ops, 100, 3, 5) == ops


def test_times_of_a_loop_move_with_it() -> None:
    ops = [Op("run", 5.0), Op("until", 50.0), Op("run", 5.0), Op("until", 100.0)]
    assert not pacing.is_loop(ops)
    made = pacing.continued(ops, 100, 1, 4)
    assert made[4:] == [Op("run", 5.0), Op("until", 150.0), Op("run", 5.0), Op("until", 200.0)]


def test_program_that_wakes_others_is_no_loop() -> None:
    ops = 4 * [Op("run", 5.0), Op("sleep", 15.0)]
    assert not pacing.is_loop([*ops, Op("open", 0.0, (1,))])
    assert not pacing.is_loop([*ops, Op("wait", 0.0, (1,))])
