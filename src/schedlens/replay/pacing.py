"""Frames that a timer paces: a late frame does not wait, but after a change it might."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from schedlens.replay.ops import Op

# Of the frames after which the recording shows a wait for the timer.
LEAST_SHARE = 0.2


def completed(ops: Sequence[Op]) -> list[Op]:
    """The program with the wait for the timer that each late frame skipped.

    The thread waits right after some of its frames, up to times on a grid. A wait whose time has
    passed takes no time.
    """
    ends = [place for place, op in enumerate(ops) if op.kind == "present"]
    paced = [place for place in ends if place + 1 < len(ops) and ops[place + 1].kind == "until"]
    if len(paced) < max(3, LEAST_SHARE * len(ends)) or len(paced) == len(ends):
        return list(ops)
    number = {place: count for count, place in enumerate(ends)}
    period = statistics.median(
        (ops[after + 1].value - ops[before + 1].value) / (number[after] - number[before])
        for before, after in itertools.pairwise(paced)
    )
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
