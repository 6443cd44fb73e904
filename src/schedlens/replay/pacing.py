"""Frames that a timer paces: a late frame does not wait, but after a change it might."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from schedlens.replay.ops import Op

# Of the frames after which the recording shows a wait for the timer: fewer count only if their
# times are on a grid that exactly.
LEAST_SHARE, EXACT = 0.2, 0.002
LEAST_PACED = 4
# A loop has slept so many times.
LEAST_TURNS = 3


def is_loop(ops: Sequence[Op]) -> bool:
    """Whether a program only computes and sleeps in turn: it would go on like that."""
    kinds = {op.kind for op in ops} - {"gap"}
    turns = sum(op.kind in {"sleep", "until"} for op in ops)
    return kinds <= {"run", "sleep", "until"} and "run" in kinds and turns >= LEAST_TURNS


def continued(ops: Sequence[Op], duration_ns: int, times: int, most: int) -> list[Op]:
    """The program of a loop repeated, so that a thread which gets more time also does more: for
    `times` the length of the recording, but at most so many steps more. What it did in times of
    which nothing is known is not repeated: then it did what it does at other times."""
    made = list(ops)
    # A thread that began later waits for its beginning only once.
    again = [op for op in ops[ops[0].kind == "until" :] if op.kind != "gap"]
    length = sum(op.value for op in again if op.kind != "until") or duration_ns
    copies = min(int(times * duration_ns / length) + 1, most // len(again))
    for number in range(1, copies + 1):
        made += [
            Op("until", op.value + number * duration_ns) if op.kind == "until" else op
            for op in again
        ]
    return made


def completed(ops: Sequence[Op]) -> list[Op]:
    """The program with the wait for the timer that each late frame skipped.

    The thread waits right after some of its frames, up to times on a grid. A wait whose time has
    passed takes no time.
    """
    ends = [place for place, op in enumerate(ops) if op.kind == "present"]
    paced = [place for place in ends if place + 1 < len(ops) and ops[place + 1].kind == "until"]
    if len(paced) < LEAST_PACED or len(paced) == len(ends):
        return list(ops)
    number = {place: count for count, place in enumerate(ends)}
    periods = [
        (ops[after + 1].value - ops[before + 1].value) / (number[after] - number[before])
        for before, after in itertools.pairwise(paced)
    ]
    period = statistics.median(periods)
    is_exact = all(abs(one - period) < EXACT * period for one in periods)
    if len(paced) < LEAST_SHARE * len(ends) and not is_exact:
        return list(ops)
    made: list[Op] = []
    last: float | None = None
    for place, op in enumerate(ops):
        made.append(op)
        if op.kind != "present":
            continue
        if place + 1 < len(ops) and ops[place + 1].kind == "until":
            last = ops[place + 1].value
        elif last is not None:
            last += period
            made.append(Op("until", last))
    return made
