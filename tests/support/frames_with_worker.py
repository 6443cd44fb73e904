"""A small simulated game: a main thread that waits for a worker in every frame."""

from __future__ import annotations

from schedlens.simulate.engine import MS
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Gate, Present, Run, Script, Signal, Wait
from schedlens.simulate.thread import Thread


def simulation(
    *,
    main_ms: float = 2.0,
    worker_ms: float = 6.0,
    rival_ms: float = 0.0,
    affinity: list[int] | None = None,
    priority: int = 8,
    on: Machine | None = None,
) -> Simulation:
    """Not yet run. The worker may use the CPUs of `affinity`; a rival with priority 9 computes
    `rival_ms` at a time on CPU 1."""
    made = Simulation(on or machine(2, smt=False), Rules(interrupts_per_s=0, wake_boost=0))
    process = made.process("game.exe")
    asked, done = Gate("asked"), Gate("done")

    def main(thread: Thread) -> Script:
        while True:
            yield Run(main_ms * MS)
            yield Signal(asked)
            yield Wait(done)
            yield Run(main_ms * MS)
            yield Present(MS)

    def worker(thread: Thread) -> Script:
        while True:
            yield Wait(asked)
            yield Run(worker_ms * MS)
            yield Signal(done)

    def rival(thread: Thread) -> Script:
        while True:
            yield Run(rival_ms * MS)

    made.thread(process, "Main", main, priority=10, affinity=[0])
    made.thread(process, "Worker", worker, priority=priority, affinity=affinity)
    if rival_ms:
        other = made.process("rival.exe")
        made.thread(other, "Rival", rival, priority=9, affinity=[1])
    return made
