"""Frames that stutter, each for its own reason; frames that suffer from parking or placement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planted.background import WINDOW_NS, Expected, Setup
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.script import Body, Gate, Present, Run, Script, Signal, Sleep, SleepUntil
from schedlens.simulate.script import Wait as Await
from schedlens.simulate.thread import Process, Thread

FRAME_MS = 16.6667


@dataclass
class _Frames:
    """A render loop of 60 frames a second, some of which take longer."""

    setup: Setup
    process: Process
    slow: frozenset[int]
    longer_ms: float

    def loop(
        self, longer: Callable[[], Script], part: str, *, affinity: list[int] | None = None,
        ideal: int | None = None,
    ) -> Thread:  # fmt: skip
        """Frames that take about a third of their interval; slow ones also do `longer`."""
        chance = self.setup.chance
        work_ms = chance.uniform(3.0, 7.0)

        def body(thread: Thread) -> Script:
            frame = 0
            while True:
                yield SleepUntil(int(frame * FRAME_MS * MS))
                yield Run(work_ms * chance.uniform(0.9, 1.1) * MS)
                if frame in self.slow:
                    yield from longer()
                yield Present(int(chance.uniform(2.0, 5.0) * MS))
                frame += 1

        return self._presents(body, part, affinity, ideal)

    def steady(self, work_ms: float, part: str) -> Thread:
        """Consecutive frames with a constant amount of work."""
        chance = self.setup.chance

        def body(thread: Thread) -> Script:
            while True:
                yield Run(work_ms * chance.uniform(0.95, 1.05) * MS)
                yield Present(int(chance.uniform(1.0, 2.0) * MS))

        return self._presents(body, part, None, None)

    def _presents(
        self, body: Body, part: str, affinity: list[int] | None, ideal: int | None
    ) -> Thread:
        thread = self.setup.simulation.thread(
            self.process, "Render", body, priority=10, affinity=affinity, ideal=ideal
        )
        if part:
            self.setup.planted.append(Expected(self.process.name, thread.tid, part))
        return thread

    def storm(self, cpus: list[int], early_ms: float = -1.0) -> None:
        """Threads of higher priority that occupy these CPUs in the slow frames."""
        process = self.setup.simulation.process("storm.exe")
        machine = self.setup.machine
        for cpu in cpus:
            shared = any(other in cpus for other in machine.siblings(cpu))
            speed = machine.cpus[cpu].speed * (machine.shared_speed if shared else 1.0)

            def body(thread: Thread, speed: float = speed) -> Script:
                for frame in sorted(self.slow):
                    yield SleepUntil(int((frame * FRAME_MS - early_ms) * MS))
                    yield Run(self.longer_ms * MS * speed)

            self.setup.simulation.thread(process, f"Storm {cpu}", body, affinity=[cpu], priority=20)


def _frames(setup: Setup, name: str) -> _Frames:
    chance = setup.chance
    slow = frozenset(chance.sample(range(4, 38), chance.randrange(1, 5)))
    return _Frames(setup, setup.simulation.process(name), slow, chance.uniform(26.0, 60.0))


def stutter_run(setup: Setup) -> None:
    """Frames whose own work is sometimes too long."""
    frames = _frames(setup, "run.exe")

    def longer() -> Script:
        yield Run(frames.longer_ms * MS)

    frames.loop(longer, "run_p_alone")


def stutter_wait(setup: Setup) -> None:
    """Frames that sometimes wait for a disk."""
    frames = _frames(setup, "wait.exe")

    def longer() -> Script:
        yield Sleep(int(frames.longer_ms * MS))

    frames.loop(longer, "wait")


def _brief() -> Script:
    yield Run(MS)


def stutter_ready(setup: Setup) -> None:
    """Frames delayed by threads of higher priority on every CPU at once."""
    frames = _frames(setup, "ready.exe")
    frames.storm([cpu.cpu for cpu in setup.machine.cpus])
    frames.loop(_brief, "ready_all_busy")


def stutter_worker(setup: Setup) -> None:
    """Frames that wait for a worker whose part is sometimes too long."""
    frames, chance = _frames(setup, "worker.exe"), setup.chance
    asked, done = Gate("asked"), Gate("done")

    def longer() -> Script:
        yield Signal(asked)
        yield Await(done)

    def worker(thread: Thread) -> Script:
        while True:
            yield Await(asked)
            yield Run(frames.longer_ms * chance.uniform(0.9, 1.1) * MS)
            yield Signal(done)

    helper = setup.simulation.thread(frames.process, "Loader", worker, priority=9)
    frames.loop(longer, "")
    setup.planted.append(Expected(frames.process.name, helper.tid, "run_p_alone"))


def stutter_parked(setup: Setup) -> None:
    """Frames of a thread with two CPUs: in slow frames one is occupied, the other parked."""
    frames = _frames(setup, "parked.exe")
    held, parked = setup.chance.sample(setup.whole_cores(), 2)
    for frame in frames.slow:
        setup.simulation.park(int(frame * FRAME_MS * MS), parked, True, "idle")
        end = int((frame * FRAME_MS + frames.longer_ms + 2.0) * MS)
        setup.simulation.park(end, parked, False, "busy")
    frames.storm([held])
    frames.loop(_brief, "ready_parked_available", affinity=[held, parked], ideal=held)


def stutter_stranded(setup: Setup) -> None:
    """Frames of a thread that remains queued on an occupied CPU though others idle."""
    frames = _frames(setup, "stranded.exe")
    held = setup.chance.choice(setup.whole_cores())
    frames.storm([held], early_ms=1.0)
    frames.loop(_brief, "ready_idle_available", ideal=held)


def stutter_e(setup: Setup) -> None:
    """Frames of constant work that run on E cores while P cores are occupied."""
    frames = _frames(setup, "e.exe")
    frames.storm(setup.machine.of_type("P"))
    frames.steady(setup.chance.uniform(10.0, 14.0), "run_e")


def stutter_shared(setup: Setup) -> None:
    """Frames of constant work that sometimes find only one CPU free: an SMT sibling."""
    frames = _frames(setup, "shared.exe")
    spared = setup.chance.choice([cpu.cpu for cpu in setup.machine.cpus if cpu.smt_index == 1])
    frames.storm([cpu.cpu for cpu in setup.machine.cpus if cpu.cpu != spared])
    frames.steady(setup.chance.uniform(10.0, 14.0), "run_p_shared")


def parked_frames(setup: Setup) -> None:
    """A pool that serves every frame, with too few CPUs while most are parked."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("parked.exe")
    pool = engine.Pool("jobs")
    cores = setup.whole_cores()
    count = min(len(cores), chance.randrange(4, 9))
    job_ms = chance.uniform(30.0, 40.0) / (3 * count)

    def main(thread: Thread) -> Script:
        frame = 0
        while True:
            yield SleepUntil(int(frame * FRAME_MS * MS))
            yield pool.submit([job_ms * chance.uniform(0.9, 1.1) * MS for _ in range(3 * count)])
            yield Await(pool.done)
            yield Present(int(chance.uniform(1.0, 4.0) * MS))
            frame += 1

    simulation.thread(process, "Main", main, priority=10)
    for number in range(count):
        simulation.thread(process, f"Job {number}", pool.worker(), priority=9)
    kept = chance.choice([cpu.core for cpu in setup.machine.cpus if cpu.smt_index == 1])
    begin, end = chance.uniform(0.2, 0.3) * WINDOW_NS, chance.uniform(0.8, 0.9) * WINDOW_NS
    for cpu in setup.machine.cpus:
        if cpu.core != kept:
            simulation.park(int(begin), cpu.cpu, True, "idle")
            simulation.park(int(end), cpu.cpu, False, "busy")


def slow_presenter(setup: Setup) -> None:
    """A thread that presents and is EcoQoS: it runs on E cores while P cores idle."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("eco.exe")
    work_ms = chance.uniform(2.0, 5.0)

    def body(thread: Thread) -> Script:
        frame = 0
        while True:
            yield SleepUntil(int(frame * FRAME_MS * MS))
            yield Run(work_ms * MS)
            yield Present(2 * MS)
            frame += 1

    simulation.thread(process, "Render", body, priority=chance.randrange(8, 13), eco=True)


def carrier(setup: Setup) -> None:
    """A thread with mostly short runs and one long run that every frame waits for."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("carry.exe")
    asked, answered = Gate("asked"), Gate("answered")
    turns, long_ms = chance.randrange(4, 8), chance.uniform(4.0, 9.0)
    work_ms = chance.uniform(0.5, 2.0)

    def main(thread: Thread) -> Script:
        while True:
            yield Run(work_ms * chance.uniform(0.9, 1.1) * MS)
            for _ in range(turns - 1):
                yield Signal(asked)
                yield Sleep(int(chance.uniform(0.2, 0.5) * MS))
            yield Signal(asked)
            yield Await(answered)
            yield Present(int(chance.uniform(1.0, 3.0) * MS))

    def body(thread: Thread) -> Script:
        while True:
            for turn in range(turns):
                yield Await(asked)
                yield Run((long_ms if turn == turns - 1 else chance.uniform(0.02, 0.2)) * MS)
            yield Signal(answered)

    simulation.thread(process, "Main", main, priority=chance.randrange(9, 13))
    simulation.thread(process, "Worker 0", body, priority=chance.randrange(8, 11))
