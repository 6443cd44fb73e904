"""Planted faults with a change made in the program itself, and what that gained."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planted import background
from planted.background import Setup
from planted.faults import FAULTS
from schedlens.replay import fidelity
from schedlens.replay import work as finished
from schedlens.replay.alterations import Change
from schedlens.replay.core_speeds import Busy
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Run, Script, Spin, Wait
from schedlens.simulate.thread import Thread

# Throughput is that share of the recorded work, by the time at which it was done.
SHARE = 0.9
# Quota of a cgroup that has none, ns.
NO_QUOTA = 1 << 60


@dataclass(frozen=True)
class Fix:
    """The process whose frames or work count, and changes that matter to it."""

    process: str
    changes: tuple[str, ...]


FIXES = {
    "spin_chain": Fix("ring.exe", ("sleep ring.exe/*",)),
    "parked": Fix("bound.exe", ("parking=off",)),
    "parked_tight": Fix("tight.exe", ("parking=off",)),
    "siblings_pinned": Fix("pairs.exe", ("affinity pairs.exe/*=any",)),
    "keeps_sharing": Fix("share.exe", ("work share.exe/*=-30%",)),
    "on_e_cores": Fix(
        "carrier.exe", ("affinity carrier.exe/Carrier=any", "qos carrier.exe/Carrier=high")
    ),
    "crowd": Fix("crowd.exe", ("work crowd.exe/*=-30%",)),
    "alone": Fix("alone.exe", ("work alone.exe/Alone=-30%",)),
    "starved": Fix("starved.exe", ("affinity starved.exe/*=any",)),
    "visitor": Fix("pinned.exe", ("remove visitor.exe",)),
    "stranded": Fix("stranded.exe", ("work stranded.exe/*=-30%",)),
    "inverted": Fix("mixed.exe", ("work mixed.exe/*=-30%",)),
    "background_on_p": Fix("urgent.exe", ("remove occupy.exe",)),
    "starved_level": Fix("level.exe", ("affinity level.exe/*=any",)),
    "wide_pool": Fix("pool.exe", ("remove services.exe",)),
    "taxed": Fix("taxed.exe", ("affinity taxed.exe/Aggressor=any",)),
    "throttled": Fix("limited.exe", ("quota /limited=none",)),
    "stolen": Fix("system.exe", ("work system.exe/*=-30%",)),
    "carrier": Fix("carry.exe", ("work carry.exe/Worker 0=-40%",)),
    "parked_frames": Fix("parked.exe", ("parking=off",)),
    "slow_presenter": Fix("eco.exe", ("qos eco.exe/Render=high",)),
    "stutter_run": Fix("run.exe", ("work run.exe/Render=-30%",)),
    "stutter_wait": Fix("wait.exe", ("work wait.exe/Render=-30%",)),
    "stutter_worker": Fix("worker.exe", ("work worker.exe/Loader=-50%",)),
    "stutter_ready": Fix("ready.exe", ("remove storm.exe",)),
    "stutter_parked": Fix("parked.exe", ("parking=off",)),
    "stutter_stranded": Fix("stranded.exe", ("remove storm.exe",)),
    "stutter_e": Fix("e.exe", ("remove storm.exe",)),
    "stutter_shared": Fix("shared.exe", ("remove storm.exe",)),
}


class _Nothing(list[Any]):
    """Records of a program with its change are not kept: without spins there are millions."""

    def append(self, value: Any) -> None:
        pass


def play(
    fault: str, seed: int, changes: Sequence[Change] = (), windows: float = 1.0
) -> tuple[Setup, random.Random]:
    """The program with its fault, and with changes if there are any, run; and the source of chance
    for the damage of its recording. `windows`: how long, of the planted ones."""
    planted = next(known for known in FAULTS if known.name == fault)
    chance = random.Random(seed)
    setup = background.draw(
        chance, hybrid=planted.hybrid, speeds=planted.speeds, **dict(planted.rules)
    )
    if any(change.kind == "parking" for change in changes):
        setup.simulation.park = lambda *args, **more: None  # type: ignore[method-assign]
    planted.plant(setup)
    for change in changes:
        _make(setup, change)
    if changes:
        setup.simulation.records = _Nothing()
    setup.simulation.run(int(windows * background.WINDOW_NS))
    return setup, chance


def _make(setup: Setup, change: Change) -> None:
    """Makes a change in the program itself."""
    if change.kind == "quota":
        for quota in setup.host.quotas:
            quota.quota_ns = NO_QUOTA
    every = frozenset(cpu.cpu for cpu in setup.machine.cpus)
    if change.kind == "remove":
        begin = setup.simulation._begin

        def begin_others(thread: Thread) -> None:
            if thread.process.name != change.pattern:
                begin(thread)

        setup.simulation._begin = begin_others  # type: ignore[method-assign]
        return
    for thread in setup.simulation.threads:
        name = f"{thread.process.name}/{thread.name}"
        if not fnmatch.fnmatchcase(name, change.pattern):
            continue
        if change.kind == "qos":
            thread.eco = change.value == "eco"
        elif change.kind == "affinity":
            thread.affinity = every
        elif change.kind in {"work", "sleep"} and thread.steps is not None:
            thread.steps = _rewritten(thread.steps, factor(change), change.kind == "sleep")


def factor(change: Change) -> float:
    """What remains of the work of the chosen threads."""
    return 1 + float(change.value[:-1]) / 100 if change.kind == "work" else 1.0


def _rewritten(steps: Script, factor: float, sleeps: bool) -> Script:
    for action in steps:
        if isinstance(action, Run):
            yield replace(action, work_ns=action.work_ns * factor)
        elif sleeps and isinstance(action, Spin):
            yield Wait(action.gate)
        else:
            yield action


def mean_frame(simulation: Simulation, process: str, count: int | None = None) -> float | None:
    """Mean length of the first frames of a process, ns; None without frames."""
    tids = {thread.tid for thread in simulation.threads if thread.process.name == process}
    frames = [frame.end - frame.start for frame in simulation.truth.frames if frame.tid in tids][
        :count
    ]
    return fidelity.summary(frames).mean if len(frames) >= 10 else None


def frame_count(simulation: Simulation, process: str) -> int:
    """Frames of a process."""
    tids = {thread.tid for thread in simulation.threads if thread.process.name == process}
    return sum(frame.tid in tids for frame in simulation.truth.frames)


def work(
    simulation: Simulation, process: str, changes: Sequence[Change] = ()
) -> list[tuple[int, int, float]]:
    """Start, end and progress of the slices of a process, in ns of unchanged work of the fastest
    core alone."""
    machine = simulation.machine
    slices: dict[int, list[tuple[int, int]]] = {cpu.cpu: [] for cpu in machine.cpus}
    for one in simulation.truth.slices:
        slices[one.cpu].append((one.start, one.end))
    busy = {cpu: Busy(sorted(found)) for cpu, found in slices.items()}
    own = {
        thread.tid: [
            factor(change)
            for change in changes
            if fnmatch.fnmatchcase(f"{process}/{thread.name}", change.pattern)
        ]
        for thread in simulation.threads
        if thread.process.name == process
    }
    parts = []
    for one in simulation.truth.slices:
        if one.tid not in own or one.end <= one.start:
            continue
        shared_ns = max(
            (busy[cpu].until(one.end) - busy[cpu].until(one.start)
             for cpu in machine.siblings(one.cpu)),
            default=0,
        )  # fmt: skip
        spent = (one.end - one.start) - (1 - machine.shared_speed) * shared_ns
        done = machine.cpus[one.cpu].speed * spent
        for left in own[one.tid]:
            done /= left
        parts.append((one.start, one.end, done))
    return sorted(parts, key=lambda part: part[1])


def reached(parts: Sequence[tuple[int, int, float]], wanted: float) -> float | None:
    """Time from the first work until so much was done, ns; None if it was not."""
    at = finished.reached(parts, wanted)
    if at is None:
        return None
    return at - min(part[0] for part in parts)
