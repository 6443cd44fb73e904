"""Which workers a thread waited for, compared with the definition, on random waits."""

from __future__ import annotations

import random

import pytest

from schedlens.replay.joins import Pools
from schedlens.replay.ops import Program

MAIN, WORKERS = 1, range(2, 8)


def thread(utid: int, name: str) -> Program:
    return Program(utid, utid, name, "game.exe", 1, 8, [0], None)


def waits(random_: random.Random, number: int) -> list[tuple[int, int]]:
    times = sorted(random_.sample(range(1000), 2 * number))
    return list(zip(times[::2], times[1::2], strict=True))


def expected(
    blocked: dict[int, list[tuple[int, int]]],
    by_end: dict[tuple[int, int], tuple[int | None, bool]],
    waker: int,
    before: int,
    end: int,
) -> list[tuple[int, int]]:
    """Mates whose last wait before `end` is not over, and whose wait before that ended later than
    `before` by a thread of these."""
    found = []
    for mate in WORKERS:
        past = [wait for wait in blocked[mate] if wait[0] < end]
        if mate == waker or len(past) < 2 or past[-1][1] < end:
            continue
        woken = past[-2][1]
        if woken > before and by_end.get((mate, woken), (None, True))[0] in {MAIN, *WORKERS}:
            found.append((mate, past[-1][0]))
    return sorted(found)


# Few waits in a pool of many workers, and many in which the thread seldom waits.
@pytest.mark.parametrize("number", [3, 40])
def test_workers_are_those_of_the_definition(number: int) -> None:
    joined = 0
    for seed in range(100):
        random_ = random.Random(seed)
        threads = [thread(MAIN, "Main"), *(thread(utid, f"Worker {utid}") for utid in WORKERS)]
        blocked = {program.utid: waits(random_, number) for program in threads}
        by_end = {
            (utid, end): (random_.choice([MAIN, *WORKERS, 99, None]), False)
            for utid, found in blocked.items()
            for _, end in found
            # So that no worker wakes the thread much more often than the others.
            if utid != MAIN
        }
        pools = Pools({program.utid: program for program in threads}, blocked, by_end)
        for _ in range(20):
            before, end = sorted(random_.sample(range(1000), 2))
            waker = random_.choice(WORKERS)
            if waker in pools._leaders:
                continue
            found = sorted(pools.joined(MAIN, waker, before, end))
            wanted = expected(blocked, by_end, waker, before, end)
            assert found == [one for one in wanted if one[0] not in pools._leaders]
            joined += len(found)
    assert joined > 500


def test_worker_that_wakes_the_thread_much_more_often_leads() -> None:
    threads = [thread(MAIN, "Main"), *(thread(utid, f"Worker {utid}") for utid in WORKERS)]
    by_end: dict[tuple[int, int], tuple[int | None, bool]] = {
        (MAIN, 10 * number): (WORKERS[0] if number % 10 else WORKERS[1], False)
        for number in range(1, 60)
    }
    blocked = {program.utid: [(5, 8), (20, 900)] for program in threads}
    by_end |= {(utid, 8): (MAIN, False) for utid in WORKERS}
    pools = Pools({program.utid: program for program in threads}, blocked, by_end)
    assert pools.joined(MAIN, WORKERS[0], 0, 590) == []
    assert [worker for worker, _ in pools.joined(MAIN, WORKERS[1], 0, 590)] == list(WORKERS[2:])
