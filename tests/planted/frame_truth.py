"""The truth about frames: stutters, their causes, parking, and concurrency. Times in ns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median

from planted.moments import INTERRUPT, Moment
from schedlens.simulate import emitted
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.truth import Frame

NEIGHBOURS = 15
LEAST_FRAMES = 5
SHORT_NS = 1_000_000

Part = tuple[int, str]
"""A thread and how its time was spent."""


@dataclass
class _Watched:
    """A sum over time of a number that changes from moment to moment."""

    begins: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    end: int = 0

    def add(self, begin: int, end: int, value: int) -> None:
        last = self.sums[-1] + self.values[-1] * (begin - self.begins[-1]) if self.sums else 0
        self.begins.append(begin)
        self.values.append(value)
        self.sums.append(last)
        self.end = end

    def until(self, ts: int) -> int:
        at = bisect_right(self.begins, ts) - 1
        return self.sums[at] + self.values[at] * (ts - self.begins[at]) if at >= 0 else 0

    def average(self, start: int, end: int) -> float:
        return (self.until(end) - self.until(start)) / (end - start)


class Frames:
    """What happened in the frames of each process."""

    def __init__(self, simulation: Simulation) -> None:
        owner = {thread.tid: thread.process.name for thread in simulation.threads}
        self._simulation = simulation
        self._allowed = {thread.tid: thread.affinity for thread in simulation.threads}
        self._owner = owner
        self._siblings = {
            cpu.cpu: simulation.machine.siblings(cpu.cpu) for cpu in simulation.machine.cpus
        }
        self._slow = set(simulation.machine.of_type("E"))
        self.of: dict[str, list[Frame]] = defaultdict(list)
        for frame in simulation.truth.frames:
            if frame.end > frame.start:
                self.of[owner[frame.tid]].append(frame)
        self._parked = _Watched()
        self._busy = _Watched()
        self._own = {process: _Watched() for process in self.of}
        self._parts: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self._paths: dict[str, list[list[tuple[int, int, int]]]] = {}

    def see(self, begin: int, end: int, now: Moment) -> None:
        """A moment."""
        if not self.of:
            return
        self._parked.add(begin, end, len(now.parked))
        self._busy.add(begin, end, len(now.running))
        own = dict.fromkeys(self.of, 0)
        for cpu, tid in now.running.items():
            process = self._owner.get(tid) if tid != INTERRUPT else None
            if process in own:
                own[process] += 1
                self._part(tid, begin, end, self._place(cpu, now))
        for process, running in own.items():
            self._own[process].add(begin, end, running)
        for tid in now.ready:
            if self._owner[tid] in own:
                self._part(tid, begin, end, self._obstacle(tid, now))

    def _part(self, tid: int, begin: int, end: int, part: str) -> None:
        parts = self._parts[tid]
        if parts and parts[-1][1:] == (begin, part):
            parts[-1] = (parts[-1][0], end, part)
        else:
            parts.append((begin, end, part))

    def _place(self, cpu: int, now: Moment) -> str:
        if cpu in self._slow:
            return "run_e"
        shared = any(other in now.running for other in self._siblings[cpu])
        return "run_p_shared" if shared else "run_p_alone"

    def _obstacle(self, tid: int, now: Moment) -> str:
        idle = self._allowed[tid] & now.idle
        if idle - now.parked:
            return "ready_idle_available"
        return "ready_parked_available" if idle else "ready_all_busy"

    def crowding(self, process: str) -> tuple[list[float], list[float]]:
        """Busy CPUs in each of its frames, and those that run the process itself."""
        spans = [(frame.start, frame.end) for frame in self.of[process]]
        return (
            [self._busy.average(*span) for span in spans],
            [self._own[process].average(*span) for span in spans],
        )

    def parting(self, process: str) -> float:
        """How closely its frames reach the thresholds for frames lengthened by parked CPUs.

        The thresholds: 5 frames with few CPUs parked, 5 with many, 25 % and 1 ms longer on average.
        """
        lengths: dict[int, list[int]] = defaultdict(list)
        for frame in self.of[process]:
            parked = round(self._parked.average(frame.start, frame.end))
            lengths[parked].append(frame.end - frame.start)
        best = 0.0
        for least in sorted(lengths)[1:]:
            few = [ns for parked, all_ns in lengths.items() if parked < least for ns in all_ns]
            many = [ns for parked, all_ns in lengths.items() if parked >= least for ns in all_ns]
            reached = min(
                len(few) / LEAST_FRAMES,
                len(many) / LEAST_FRAMES,
                (mean(many) / mean(few) - 1) / 0.25,
                (mean(many) - mean(few)) / 1e6,
            )
            best = max(best, reached)
        return best

    def paths(self, process: str) -> list[list[tuple[int, int, int]]]:
        """For each frame: (thread, start, end) of the pieces of its critical path."""
        if process not in self._paths:
            lives = _lives(self._simulation)
            self._paths[process] = [path(frame, lives) for frame in self.of[process]]
        return self._paths[process]

    def path_share(self, process: str) -> dict[int, float]:
        """Percent of the time on the critical paths, by thread."""
        spent: dict[int, int] = defaultdict(int)
        for pieces in self.paths(process):
            for tid, begin, end in pieces:
                spent[tid] += end - begin
        whole = sum(spent.values())
        return {tid: 100 * ns / whole for tid, ns in spent.items()} if whole else {}

    def growth(self, process: str) -> dict[Part, float]:
        """Extra time of stutters on their paths over ordinary frames, by part, ns."""
        frames = self.of[process]
        slow = [reach(frames, at) >= 1 for at in range(len(frames))]
        sums: dict[Part, list[int]] = defaultdict(lambda: [0, 0])
        for shaky, pieces in zip(slow, self.paths(process), strict=True):
            for tid, begin, end in pieces:
                for part, ns in self._split(tid, begin, end).items():
                    sums[tid, part][shaky] += ns
        even, shaken = slow.count(False), slow.count(True)
        if not even or not shaken:
            return {}
        return {part: more - less * shaken / even for part, (less, more) in sums.items()}

    def _split(self, tid: int, begin: int, end: int) -> dict[str, int]:
        parts = self._parts[tid]
        split: dict[str, int] = defaultdict(int)
        at = max(0, bisect_right(parts, begin, key=lambda part: part[0]) - 1)
        while at < len(parts) and parts[at][0] < end:
            ns = min(end, parts[at][1]) - max(begin, parts[at][0])
            if ns > 0:
                split[parts[at][2]] += ns
            at += 1
        split["wait"] = end - begin - sum(split.values())
        return split


@dataclass
class _Life:
    """A thread's periods on a CPU or ready, and who woke it when."""

    spells: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of being runnable."""
    woken: dict[int, int] = field(default_factory=dict)


def _lives(simulation: Simulation) -> dict[int, _Life]:
    lives = {thread.tid: _Life() for thread in simulation.threads}
    runnable = [(slice_.start, slice_.end, slice_.tid) for slice_ in simulation.truth.slices]
    runnable += [(span.start, span.end, span.tid) for span in simulation.truth.ready]
    for start, end, tid in sorted(runnable):
        spells = lives[tid].spells
        if spells and spells[-1][1] >= start:
            spells[-1] = (spells[-1][0], max(spells[-1][1], end))
        elif end > start:
            spells.append((start, end))
    for record in simulation.records:
        # A wakeup by a timer or a device has no waking thread.
        if not isinstance(record, emitted.Ready) or record.in_interrupt:
            continue
        if record.waker != emitted.IDLE:
            lives[record.tid].woken[record.ts] = record.waker
    return lives


def path(frame: Frame, lives: dict[int, _Life]) -> list[tuple[int, int, int]]:
    """The pieces of a frame's critical path, last first.

    Backwards from the end: on the presenting thread; if it waited until another woke it, on the
    other one before that moment.
    """
    pieces: list[tuple[int, int, int]] = []
    tid, at = frame.tid, frame.end
    seen: set[tuple[int, int]] = set()
    while at > frame.start:
        life = lives[tid]
        # The last period that starts before this moment; a wait separates two.
        place = bisect_left(life.spells, at, key=lambda spell: spell[0]) - 1
        begin = life.spells[place][0] if place >= 0 else 0
        ended = life.spells[place][1] if place >= 0 else 0
        waker = life.woken.get(at) if ended < at else None
        if waker is not None and (waker, at) not in seen and lives[waker].spells:
            seen.add((tid, at))
            tid = waker
            continue
        back = max(frame.start, ended if ended < at else begin)
        pieces.append((tid, back, at))
        at = back
    return pieces


def short_share(simulation: Simulation, tid: int) -> float:
    """Percent of a thread's runs from a wakeup to its next wait that are shorter than 1 ms."""
    runs: list[int] = []
    fresh = True
    own = sorted(
        (s for s in simulation.truth.slices if s.tid == tid), key=lambda slice_: slice_.start
    )
    for slice_ in own:
        if slice_.end == slice_.start and not fresh:
            continue
        if fresh:
            runs.append(0)
        runs[-1] += slice_.end - slice_.start
        fresh = slice_.why == "blocked"
    runs = [run for run in runs if run]
    return 100 * sum(run < SHORT_NS for run in runs) / len(runs) if runs else 0.0


def reach(frames: Sequence[Frame], at: int) -> float:
    """How closely a frame reaches the two thresholds of a stutter, the lesser of both.

    The thresholds are 1.5 times and 4 ms above the median of the surrounding frames, or of all
    frames if there are fewer.
    """
    lengths = [frame.end - frame.start for frame in frames]
    near = lengths[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]
    usual = min(median(lengths), median(near))
    return min(lengths[at] / (1.5 * usual), (lengths[at] - usual) / 4e6)


def worst_frame(frames: Sequence[Frame]) -> float:
    """How closely the worst frame reaches the thresholds of a stutter."""
    return max((reach(frames, at) for at in range(len(frames))), default=0.0)
