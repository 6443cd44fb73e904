"""The case studies of "Programming for Hybrid: Untangling your Threads", faulty and mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedlens.simulate import engine
from schedlens.simulate.engine import MS, Game
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import (
    WR_QUEUE,
    Gate,
    Present,
    Run,
    Script,
    Signal,
    SleepUntil,
    Spin,
    Wait,
)
from schedlens.simulate.thread import Thread

S = 1_000_000_000


@dataclass(frozen=True)
class Case:
    """A program with a fault, and the same with the fault mended."""

    name: str
    fault: str
    mended: str
    seconds: float
    build: Callable[[bool, int], Simulation]
    """(mended, seed) -> the simulation, not yet run."""

    def play(
        self, *, mended: bool = False, seed: int = 1, seconds: float | None = None
    ) -> Simulation:
        """Builds and runs it."""
        simulation = self.build(mended, seed)
        simulation.run(int((seconds or self.seconds) * S))
        return simulation


def symmetric() -> Machine:
    """8 cores with two siblings each."""
    return machine(8)


def hybrid() -> Machine:
    """8 P cores with two siblings each and 8 E cores."""
    return machine(8, 8)


def priority(mended: bool, seed: int, on: Machine | None = None) -> Simulation:
    """Case 1: priorities alone shall keep background work off.

    14 workers and 2 main threads fill 16 logical CPUs half the time; 8 background threads compute
    without end. On the symmetric machine these are ready about as long as they run, on the hybrid
    one hardly ever; there they hold P cores when long high priority threads wake, which land on E.
    Mended: background work is EcoQoS and so goes to E cores.
    """
    simulation = Simulation(on or hybrid(), seed=seed)
    game = Game(game_ms=4.0, render_ms=4.0, job_ms=1.0, game_jobs=105, workers=14, gpu_ms=6.0)
    engine.play(simulation, game)
    engine.background(simulation, 10, work_ms=20.0, eco=mended)
    engine.interlopers(simulation)
    return simulation


def critical_path(mended: bool, seed: int) -> Simulation:
    """Case 2: one thread that looks like a worker carries the frame.

    It has the workers' priority and runs briefly four times out of five; the main thread waits for
    its long run, in the middle of which others take its P core. Mended: ten workers instead of 22,
    and the priority of the main thread for the one that carries the frame.
    """
    simulation = Simulation(hybrid(), seed=seed)
    process = simulation.process("game.exe")
    pool = engine.Pool("jobs")
    asked, answered = Gate("simulate"), Gate("simulated")

    def about(ms: float) -> float:
        return ms * MS * simulation.random.uniform(0.85, 1.15)

    def main(thread: Thread) -> Script:
        while True:
            yield Run(about(0.5))
            for _ in range(4):
                yield Signal(asked)
                yield Run(about(0.05))
            yield Signal(asked)
            yield pool.give([about(0.9) for _ in range(66)])
            yield Wait(answered)
            yield Wait(pool.done)
            yield Run(about(0.5))
            yield Present(int(about(6.0)))

    def carrier(thread: Thread) -> Script:
        while True:
            for turn in range(5):
                yield Wait(asked, WR_QUEUE)
                yield Run(about(8.0 if turn == 4 else 0.03))
            yield Signal(answered)

    simulation.thread(process, "Main", main, priority=14)
    simulation.thread(process, "Worker 0", carrier, priority=14 if mended else 11)
    for number in range(1, 11 if mended else 23):
        simulation.thread(process, f"Worker {number}", pool.worker(), priority=11)
    for number in range(4):
        simulation.thread(
            process,
            f"Physics {number}",
            engine.busy(1.5, pause_ms=6.0),
            priority=13,
            ideal=2 * number,
        )
    engine.interlopers(simulation)
    return simulation


def parked(mended: bool, seed: int) -> Simulation:
    """Case 3: threads bound to E cores that are parked, and that hand over by spinning.

    For the middle third of the time all E cores but the first are parked, and five logical CPUs of
    P cores: 12 in all. Two AI threads may run on E cores only and have their ideal CPU outside;
    both end up on the first E core, they exchange three pieces a frame, and each hand-over takes
    a quantum. Mended: an ideal processor instead of the mask, and waiting instead of spinning.
    """
    simulation = Simulation(hybrid(), Rules(clock_tick_ns=MS, quantum_ticks=6), seed=seed)
    e_cores = simulation.machine.of_type("E")
    process = simulation.process("game.exe")
    plan, decided = Gate("plan"), Gate("decided")
    full, empty = Gate("full"), Gate("empty", 1)
    chance = simulation.random
    until = Wait if mended else Spin

    def about(ms: float) -> float:
        return ms * MS * chance.uniform(0.9, 1.1)

    def main(thread: Thread) -> Script:
        frame = 0
        while True:
            yield SleepUntil(int(frame * 16.6667 * MS))
            yield Run(about(2.0))
            yield Signal(plan)
            yield Run(about(2.0))
            yield Wait(decided)
            yield Run(about(1.0))
            yield Present(int(about(5.0)))
            frame += 1

    def producer(thread: Thread) -> Script:
        while True:
            yield until(plan)
            for _ in range(3):
                yield until(empty)
                yield Run(about(0.3))
                yield Signal(full)

    def consumer(thread: Thread) -> Script:
        while True:
            for _ in range(3):
                yield until(full)
                yield Run(about(0.3))
                yield Signal(empty)
            yield Signal(decided)

    simulation.thread(process, "Main", main, priority=12)
    for number, body in enumerate((producer, consumer)):
        simulation.thread(
            process,
            f"AI {number}",
            body,
            priority=10,
            affinity=None if mended else e_cores,
            ideal=e_cores[number] if mended else 2 * number,
        )
    engine.background(simulation, 2, process=process, name="Worker", priority=11, pause_ms=5.0)
    engine.interlopers(simulation, 2)
    for cpu in [*e_cores[1:], 9, 11, 13, 14, 15]:
        simulation.park(S, cpu, True, "idle")
        simulation.park(2 * S, cpu, False, "busy")
    return simulation


CASES = (
    Case(
        "priority",
        "priorities alone do not keep background work off the P cores",
        "background work is EcoQoS",
        4.0,
        priority,
    ),
    Case(
        "critical_path",
        "a thread that looks like a worker carries the frame",
        "its priority is that of the main thread, and there are fewer workers",
        3.0,
        critical_path,
    ),
    Case(
        "parked",
        "threads bound to parked cores hand over by spinning",
        "an ideal processor instead of the mask, waiting instead of spinning",
        3.0,
        parked,
    ),
)
