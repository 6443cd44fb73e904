"""Programs under the rules of Linux: how long each runs and waits."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from schedlens import _decoders

MS = 1_000_000
SECOND = 1000 * MS
# Parent, shares, quota and period.
Group = tuple[int | None, float, tuple[float, int] | None]
ROOT: Group = (None, 1024.0, None)
Steps = list[tuple[bytes, float]]
BUSY: Steps = [(b"r", 30.0 * SECOND)]
# (priority, CPUs, group, steps)
Drawn = tuple[int, list[int], int, Steps]


def replay(
    threads: list[Drawn],
    groups: list[Group],
    *,
    cpus: int = 1,
    seconds: float = 10,
    turns: bool = False,
    **more: Any,
) -> tuple[list[int], list[int], list[list[int]]]:
    """Running and ready time by thread, and responses of watched ones; a slice of 3 ms, a tick of
    4 ms."""
    _, _, running, ready, responses, _, _ = outcome(
        threads, groups, cpus=cpus, seconds=seconds, turns=turns, **more
    )
    return [sum(spent) for spent in running], ready, responses


def reached(threads: list[Drawn], goal_ns: float) -> tuple[int, int]:
    """When the first of the threads began, and when all had done so much work."""
    watched = list(range(len(threads)))
    found = outcome(threads, [ROOT], cpus=len(threads), watched=watched, goal_ns=goal_ns)[5]
    begun_ns, done_ns = found
    return begun_ns, done_ns


def outcome(
    threads: list[Drawn],
    groups: list[Group],
    *,
    cpus: int,
    seconds: float = 10,
    turns: bool = False,
    background: tuple[int, ...] = (),
    **more: Any,
) -> Any:
    """All that a replay returns; the threads with the numbers in `background` have SCHED_IDLE."""
    known = [
        (group, turns, number in background) for number, (_, _, group, _) in enumerate(threads)
    ]
    rules = (3.0 * MS, 4 * MS, groups, known)
    return _decoders.replay(
        [(cpu, False, False, 1.0) for cpu in range(cpus)],
        1.0,
        [
            (
                0,
                priority,
                mask,
                None,
                False,
                (
                    b"".join(kind for kind, _ in steps),
                    b"".join(struct.pack("<d", value) for _, value in steps),
                    b"",
                ),
            )
            for priority, mask, _, steps in threads
        ],
        [0],
        [],
        [],
        quantum_ns=31 * MS,
        wake_boost=0,
        starved_ns=SECOND,
        until_ns=round(seconds * SECOND),
        linux=rules,
        **more,
    )


def shares(running: list[int]) -> list[float]:
    return [round(ran / sum(running), 2) for ran in running]


def test_nice_5_gets_a_quarter_beside_nice_0() -> None:
    running, ready, _ = replay([(120, [0], 0, BUSY), (125, [0], 0, BUSY)], [ROOT])
    # Each nice value is a factor of 1.25 in weight: 1 to 3.05.
    assert running[0] / running[1] == pytest.approx(1.25**5, rel=0.01)
    assert [ran + waited for ran, waited in zip(running, ready, strict=True)] == [10 * SECOND] * 2


def test_background_gets_what_is_left_in_its_group_only() -> None:
    # Its nice value of -20 does not count.
    threads: list[Drawn] = [(120, [0], 0, BUSY), (100, [0], 0, BUSY)]
    running, _, _ = replay(threads, [ROOT], background=(1,))
    # A few ticks of 4 ms in 10 s. At nice 19 it would be 69 times as much.
    assert running[0] / running[1] == pytest.approx(1024 / 3, rel=0.15)
    threads = [(120, [0], 1, BUSY), (100, [0], 2, BUSY)]
    running, _, _ = replay(threads, [ROOT, *[(0, 1024.0, None)] * 2], background=(1,))
    assert shares(running) == [0.5, 0.5]


def test_groups_share_before_their_threads_do() -> None:
    groups: list[Group] = [ROOT, (0, 2048.0, None), (0, 1024.0, None)]
    threads: list[Drawn] = [(120, [0], 1, BUSY), *[(120, [0], 2, BUSY)] * 3]
    running, _, _ = replay(threads, groups)
    assert shares(running) == [0.67, 0.11, 0.11, 0.11]


def test_groups_nest() -> None:
    groups: list[Group] = [ROOT, (0, 1024.0, None), (1, 1024.0, None), (1, 3072.0, None)]
    threads: list[Drawn] = [(120, [0], 0, BUSY), (120, [0], 2, BUSY), (120, [0], 3, BUSY)]
    running, _, _ = replay(threads, groups)
    parts = [ran / (10 * SECOND) for ran in running]
    assert parts == pytest.approx([0.5, 0.125, 0.375], abs=0.01)


@pytest.mark.parametrize(("quota_ms", "part"), [(20.0, 0.2), (50.0, 0.5), (200.0, 1.0)])
def test_a_quota_limits_a_group_to_its_part_of_a_cpu(quota_ms: float, part: float) -> None:
    groups: list[Group] = [ROOT, (0, 1024.0, (quota_ms * MS, 100 * MS))]
    running, ready, _ = replay([(120, [0, 1], 1, BUSY)], groups, cpus=2)
    assert running[0] == pytest.approx(part * 10 * SECOND, rel=0.01)
    assert ready[0] == 10 * SECOND - running[0]


def test_a_quota_is_shared_by_the_threads_of_a_group() -> None:
    groups: list[Group] = [ROOT, (0, 1024.0, (60.0 * MS, 100 * MS))]
    running, _, _ = replay([(120, [0, 1], 1, BUSY)] * 2, groups, cpus=2)
    assert sum(running) == pytest.approx(6 * SECOND, rel=0.02)


def test_three_threads_take_turns_on_two_cpus() -> None:
    running, _, _ = replay([(120, [0, 1], 0, BUSY)] * 3, [ROOT], cpus=2)
    assert sum(running) == 20 * SECOND
    assert min(running) > 0.85 * max(running)


def test_goal_is_reached_while_several_threads_run() -> None:
    threads: list[Drawn] = [(120, [cpu], 0, [(b"r", 1.0 * SECOND)]) for cpu in range(2)]
    # Nine tenths of the work of both, half-way through slices of one second.
    assert reached(threads, 1.8 * SECOND) == (0, 900 * MS)


def test_an_affinity_keeps_threads_on_one_cpu() -> None:
    running, _, _ = replay([(120, [0], 0, BUSY)] * 2 + [(120, [0, 1], 0, BUSY)], [ROOT], cpus=2)
    assert running[2] == pytest.approx(10 * SECOND, rel=0.05)
    assert running[0] + running[1] == pytest.approx(10 * SECOND, rel=0.05)


def test_real_time_threads_preempt_at_once() -> None:
    # 1 ms of work each 10 ms.
    periodic: Steps = [(b"s", 9.0 * MS), (b"r", 1.0 * MS)] * 1000
    running, ready, responses = replay(
        [(120, [0], 0, BUSY), (49, [0], 0, periodic)], [ROOT], watched=[1]
    )
    assert ready[1] == 0
    assert running == [9 * SECOND, SECOND]
    assert set(responses[1][1:]) == {MS}


def test_real_time_threads_of_one_priority_take_turns_only_round_robin() -> None:
    pair: list[Drawn] = [(49, [0], 0, BUSY)] * 2
    assert shares(replay(pair, [ROOT])[0]) == [1.0, 0.0]
    assert shares(replay(pair, [ROOT], turns=True)[0]) == [0.5, 0.5]


def test_a_thread_that_sleeps_most_of_the_time_waits_for_a_slice_at_most() -> None:
    nap: Steps = [(b"s", 5.0 * MS), (b"r", 0.02 * MS)] * 500
    _, _, responses = replay([(120, [0], 0, BUSY), (120, [0], 0, nap)], [ROOT], watched=[1])
    # It preempts once the slice of the other one is over, or waits for a tick.
    assert max(responses[1][1:]) <= (3 + 4 + 0.02) * MS
    assert min(responses[1][1:]) == 0.02 * MS


def test_an_idle_cpu_takes_a_waiting_thread() -> None:
    short: Steps = [(b"r", 100.0 * MS)]
    threads: list[Drawn] = [(120, [0, 1], 0, BUSY), (120, [0], 0, BUSY), (120, [1], 0, short)]
    _, ready, _ = replay(threads, [ROOT], cpus=2)
    # From the end of the short one on, each of the two has a CPU.
    assert ready[0] + ready[1] <= 110 * MS


def test_replays_are_deterministic() -> None:
    nap: Steps = [(b"s", 3.0 * MS), (b"r", 1.0 * MS)] * 500
    threads: list[Drawn] = [(120 + n % 3, [0, 1, 2], 0, BUSY) for n in range(6)]
    threads += [(120, [0, 1, 2], 0, nap)] * 4
    assert replay(threads, [ROOT], cpus=3) == replay(threads, [ROOT], cpus=3)


@pytest.mark.parametrize(
    ("groups", "priority"),
    [
        ([], 120),
        ([(0, 1024.0, None)], 120),
        ([ROOT, (1, 1024.0, None)], 120),
        ([ROOT, (0, 0.0, None)], 120),
        ([(None, 1024.0, (1e6, 0))], 120),
        ([ROOT], 140),
    ],
)
def test_invalid_groups_and_priorities_are_refused(groups: Any, priority: int) -> None:
    with pytest.raises(ValueError, match=r"group|priority"):
        replay([(priority, [0], 0, BUSY)], groups)
