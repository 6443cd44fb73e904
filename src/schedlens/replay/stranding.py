"""How often the recorded scheduler leaves a woken thread on a busy CPU though another is idle."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from schedlens.replay.core_speeds import RecordedMachine
from schedlens.replay.ops import Program

# Fewer threads left on busy CPUs, or a smaller share of those with a choice, may be chance: where
# records were lost, a CPU seems idle.
LEAST_STRANDED, LEAST_SHARE = 3, 0.1
# So many wakeups are looked at, evenly from all.
MOST_WAKEUPS = 20_000

# When a thread was woken, when it ran then, and where; and where it ran before.
Wakeup = tuple[int, int, int, int | None]


class Cpus:
    """Which CPUs were busy, idle or parked at a time."""

    def __init__(
        self, machine: RecordedMachine, parking: Iterable[tuple[int, int, bool, bool]]
    ) -> None:
        self._machine = machine.machine
        self._busy = machine.busy
        self._parked: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for ts, cpu, parked, soft in parking:
            self._parked[cpu].append((ts, parked and not soft))

    def is_idle(self, cpu: int, start: int, end: int) -> bool:
        """Whether no thread ran from a time to another."""
        return self._busy[cpu].until(end) == self._busy[cpu].until(start)

    def is_busy(self, cpu: int, ts: int) -> bool:
        """Whether threads ran just before and just after a time."""
        return not self.is_idle(cpu, ts - 1, ts) and not self.is_idle(cpu, ts, ts + 1)

    def cores(self, usable: Iterable[int]) -> list[list[int]]:
        """The logical CPUs of each core of which some are usable."""
        every = self._machine.cpus
        return [
            [cpu.cpu for cpu in every if cpu.core == core]
            for core in sorted({every[index].core for index in usable})
        ]

    def is_free(self, core: Sequence[int], ts: int) -> bool:
        """Whether no CPU of a core was busy or parked just before and after a time."""
        return all(
            self.is_idle(cpu, ts - 1, ts + 1) and not self.is_parked(cpu, ts) for cpu in core
        )

    def is_parked(self, cpu: int, ts: int) -> bool:
        """Whether a CPU is parked at a time."""
        changes = self._parked.get(cpu, ())
        place = bisect_right(changes, (ts, True)) - 1
        return place >= 0 and changes[place][1]


def share(
    programs: Mapping[int, Program],
    states: Mapping[int, Sequence[Any]],
    place: Mapping[int, int],
    cpus: Cpus,
) -> float:
    """The share of wakeups after which a thread did not get an idle CPU, of those for which there
    was one while its own was busy: its ideal one or, without that, the one on which it ran last.

    `states`: start, end, state and CPU of those of each thread; `place`: index of each CPU.
    """
    every = sum(len(found) for found in states.values())
    step = max(every // (2 * MOST_WAKEUPS), 1)
    taken = stranded = 0
    for utid, program in programs.items():
        if len(program.affinity) < 2:
            continue
        for number, (woken, ran, on, last) in enumerate(_wakeups(states.get(utid, ()), place)):
            home = program.ideal if program.ideal in program.affinity else last
            if number % step or home is None or cpus.is_parked(home, woken):
                continue
            if not cpus.is_busy(home, woken):
                continue
            if cpus.is_idle(on, woken - 1, ran):
                taken += 1
            elif any(
                cpu != on
                and cpus.is_idle(cpu, woken - 1, woken + 1)
                and not cpus.is_parked(cpu, woken)
                for cpu in program.affinity
            ):
                stranded += 1
    found = stranded / max(taken + stranded, 1)
    return found if stranded >= LEAST_STRANDED and found >= LEAST_SHARE else 0.0


def _wakeups(states: Sequence[Any], place: Mapping[int, int]) -> Iterator[Wakeup]:
    """The wakeups of a thread after which it is known where it ran."""
    last: int | None = None
    woken: int | None = None
    for before, now in pairwise(states):
        if before[2] == "waiting" and before[0] > 0:
            woken = before[1]
        if before[2] == "running":
            last = place.get(before[3])
        if now[2] == "running" and woken is not None:
            if now[3] in place:
                yield woken, now[0], place[now[3]], last
            woken = None
        elif now[2] == "unknown":
            woken = None
