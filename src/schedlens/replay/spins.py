"""Threads that compute until another thread acts: what looks like work and only waits."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from schedlens.replay.fractions import quantile
from schedlens.replay.ops import Program

# So many stretches of one kind, in which the thread spends this share of the recording.
LEAST_STRETCHES, LEAST_SHARE = 10, 0.01
# Their lengths differ by at least this share of the median: what always takes equally long ends
# at the same time as anything else that does.
LEAST_SPREAD = 0.01
# The other thread acts exactly once in this share of the stretches.
ACTS_SHARE = 0.9
# The time from there to the end differs by less than this share of what the stretches do, and does
# not grow with them: what does is work of two threads that have more to do together.
CLEARLY, UNRELATED = 0.3, 0.5
# Before an act, so that the act still counts as later; and between a Present and its wait.
BEFORE_NS, PRESENT_NS = 1, 500

Act = tuple[int, str, float]
# Time and kind; a kind names what a thread does there.
Point = tuple[int, str]


@dataclass(frozen=True)
class Spin:
    """A thread computes from `start_ns` on only until `by` acts at `end_ns`."""

    utid: int
    start_ns: float
    end_ns: int
    by: int


@dataclass(frozen=True)
class _Stretch:
    start: int
    end: int


def found(
    programs: Mapping[int, Program],
    acts: Mapping[int, Sequence[Act]],
    blocked: Mapping[int, Sequence[tuple[int, int]]],
    pools: Mapping[int, int],
    duration_ns: int,
    head: float,
) -> list[Spin]:
    """The spins of all threads, in order of thread and time.

    `acts`: time, kind and value of wakeups and Presents; `blocked`: waits; `pools`: the pool of
    each thread, of which some end together if they share jobs. Which part of a stretch
    before the other thread acts is work is not recorded: up to the shortest time to the act.
    `head`: the share of that time that counts as work.
    """
    points = {utid: _points(acts.get(utid, ()), blocked.get(utid, ())) for utid in programs}
    near: dict[int | None, list[int]] = defaultdict(list)
    times: dict[int, dict[str, list[int]]] = {}
    for utid, program in programs.items():
        near[program.upid].append(utid)
    made: list[Spin] = []
    for utid, program in programs.items():
        others = [one for one in near[program.upid] if pools[one] != pools[utid]]
        if not others:
            continue
        for stretches in _stretches(points[utid], blocked.get(utid, ()), duration_ns):
            best: tuple[float, int, list[tuple[_Stretch, int]]] | None = None
            for other in others:
                if other not in times:
                    times[other] = _by_kind(points[other])
                for known in times[other].values():
                    ended = _ended_by(stretches, known)
                    if ended is not None and (best is None or ended[0] < best[0]):
                        best = (ended[0], other, ended[1])
            if best is not None:
                work = head * min(at - stretch.start for stretch, at in best[2])
                made += [Spin(utid, s.start + work, at, best[1]) for s, at in best[2]]
    return sorted(made, key=lambda spin: (spin.utid, spin.end_ns))


def _points(acts: Sequence[Act], blocked: Sequence[tuple[int, int]]) -> list[Point]:
    """What a thread does, in order; wakeups at one time count once."""
    points: dict[int, str] = {}
    presents = sorted(ts for ts, kind, _ in acts if kind != "open")
    for start, _ in blocked:
        place = bisect_right(presents, start) - 1
        if place < 0 or start - presents[place] > PRESENT_NS:
            points[start] = "wait"
    for ts, kind, _ in acts:
        points[ts] = kind
    return sorted(points.items())


def _by_kind(points: Sequence[Point]) -> dict[str, list[int]]:
    """Times of what a thread does, by the kind of this and of what it did before."""
    times: dict[str, list[int]] = defaultdict(list)
    before = ""
    for ts, kind in points:
        times[f"{before} {kind}"].append(ts)
        before = kind
    return {kind: found for kind, found in times.items() if len(found) >= LEAST_STRETCHES}


def _stretches(
    points: Sequence[Point], blocked: Sequence[tuple[int, int]], duration_ns: int
) -> list[list[_Stretch]]:
    """Times between two acts of a thread in which it does not wait, by kinds of the acts, that are
    long, many, and of different lengths."""
    starts = [start for start, _ in blocked]
    kinds: dict[tuple[str, str], list[_Stretch]] = defaultdict(list)
    for (since, kind), (end, next_kind) in pairwise(points):
        place = bisect_left(starts, end) - 1
        begin = max(since, blocked[place][1]) if place >= 0 else since
        if begin < end:
            kinds[kind, next_kind].append(_Stretch(begin, end))
    chosen: list[list[_Stretch]] = []
    for found in kinds.values():
        lengths = [stretch.end - stretch.start for stretch in found]
        if len(found) < LEAST_STRETCHES or sum(lengths) < LEAST_SHARE * duration_ns:
            continue
        if _spread(lengths) >= LEAST_SPREAD * statistics.median(lengths):
            chosen.append(found)
    return chosen


def _spread(values: Sequence[float]) -> float:
    """Half of the distance between the quartiles."""
    return (quantile(values, 0.75) - quantile(values, 0.25)) / 2


def _ended_by(
    stretches: Sequence[_Stretch], times: Sequence[int]
) -> tuple[float, list[tuple[_Stretch, int]]] | None:
    """How much the time after these acts differs, and the act of each stretch; None if they do not
    end the stretches."""
    ended: list[tuple[_Stretch, int]] = []
    left = len(stretches) - max(ACTS_SHARE * len(stretches), LEAST_STRETCHES)
    for stretch in stretches:
        first = bisect_left(times, stretch.start)
        if bisect_left(times, stretch.end) == first + 1:
            ended.append((stretch, times[first]))
            continue
        left -= 1
        if left < 0:
            return None
    lengths = [stretch.end - stretch.start for stretch, _ in ended]
    after = [stretch.end - at for stretch, at in ended]
    spread = _spread(after)
    if spread >= CLEARLY * _spread(lengths):
        return None
    if spread and statistics.correlation(after, lengths) >= UNRELATED:
        return None
    return spread, ended
