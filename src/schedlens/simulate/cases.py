"""The case studies of "Programming for Hybrid: Untangling your Threads", faulty and fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedlens.simulate import engine
from schedlens.simulate.codes import WR_QUEUE
from schedlens.simulate.engine import MS, Game
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import (
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
    """A program with a fault, and the same program with the fault fixed."""

    name: str
    fault: str
    fixed: str
    seconds: float
    build: Callable[[bool, int], Simulation]
    """(fixed, seed) -> the simulation, not yet run."""

    def play(
        self, *, fixed: bool = False, seed: int = 1, seconds: float | None = None
    ) -> Simulation:
        """Builds and runs the simulation."""
        simulation = self.build(fixed, seed)
        simulation.run(int((seconds or self.seconds) * S))
        return simulation


def symmetric() -> Machine:
    """8 cores with two siblings each."""
    return machine(8)


def hybrid() -> Machine:
    """8 P cores with two siblings each and 8 E cores."""
    return machine(8, 8)


def priority(fixed: bool, seed: int, on: Machine | None = None) -> Simulation:
    """Case 1: priorities alone should keep background work off the P cores.

    14 workers and 2 main threads fill 16 logical CPUs half the time; 8 background threads compute
    all the time. On the symmetric machine, the background threads are ready about as long as they
    run; on the hybrid machine they are hardly ever ready without running. There they occupy P cores
    when long high-priority threads wake, which therefore land on E cores. Fixed: background work is
    EcoQoS and runs on E cores.
    """
    simulation = Simulation(on or hybrid(), seed=seed)
    game = Game(game_ms=4.0, render_ms=4.0, job_ms=1.0, game_jobs=105, workers=14, gpu_ms=6.0)
    engine.play(simulation, game)
    engine.background(simulation, 10, work_ms=20.0, eco=fixed)
    engine.interlopers(simulation)
    return simulation


def critical_path(fixed: bool, seed: int) -> Simulation:
    """Case 2: one thread that looks like a worker determines the frame time.

    It has the workers' priority, and four of its five runs are short. The main thread waits for its
    long run, during which others take its P core. Fixed: ten workers instead of 22, and that thread
    gets the priority of the main thread.
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
            yield pool.submit([about(0.9) for _ in range(66)])
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
    simulation.thread(process, "Worker 0", carrier, priority=14 if fixed else 11)
    for number in range(1, 11 if fixed else 23):
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


def parked(fixed: bool, seed: int) -> Simulation:
    """Case 3: threads are bound to E cores that get parked, and spin to hand over work.

    For the middle third of the time, all E cores but the first and five logical CPUs of P cores are
    parked: 12 in all. Two AI threads may run only on E cores and have an ideal CPU elsewhere. Both
    end up on the first E core. They exchange three items a frame, and each exchange takes a
    quantum. Fixed: an ideal processor instead of the mask, and waiting instead of spinning.
    """
    simulation = Simulation(hybrid(), Rules(clock_tick_ns=MS, quantum_ticks=6), seed=seed)
    e_cores = simulation.machine.of_type("E")
    process = simulation.process("game.exe")
    plan, decided = Gate("plan"), Gate("decided")
    full, empty = Gate("full"), Gate("empty", 1)
    chance = simulation.random
    until = Wait if fixed else Spin

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
            affinity=None if fixed else e_cores,
            ideal=e_cores[number] if fixed else 2 * number,
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
        "a thread that looks like a worker determines the frame time",
        "it gets the priority of the main thread, and there are fewer workers",
        3.0,
        critical_path,
    ),
    Case(
        "parked",
        "threads bound to parked cores spin to hand over work",
        "an ideal processor instead of the mask, waiting instead of spinning",
        3.0,
        parked,
    ),
)


def symmetric_priority(seed: int, seconds: float | None = None) -> Simulation:
    """The first case on cores of one kind, run: to compare the hybrid machine with."""
    simulation = priority(False, seed, symmetric())
    simulation.run(int((seconds or CASES[0].seconds) * S))
    return simulation
