"""A random machine and the harmless programs on it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from planted.host import Host
from schedlens.simulate import engine
from schedlens.simulate.engine import MS, Game
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation

WINDOW_NS = 700 * MS
# P cores and E cores; without E cores all are of one type.
MACHINES = ((4, 0), (6, 0), (8, 0), (2, 4), (4, 4), (4, 8), (6, 8), (8, 8), (8, 16))


@dataclass(frozen=True)
class Expected:
    """A process whose frames stutter, the thread they wait for, and where its time goes."""

    process: str
    tid: int
    part: str


@dataclass
class Setup:
    """A simulation being set up, and the random source that draws it."""

    simulation: Simulation
    chance: random.Random
    host: Host = field(default_factory=Host)
    planted: list[Expected] = field(default_factory=list)
    """The part to which a planted stutter must be attributed."""

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.simulation.machine

    def is_hybrid(self) -> bool:
        """Whether it has P cores and E cores."""
        return bool(self.machine.of_type("E"))

    def whole_cores(self) -> list[int]:
        """The first logical CPU of each core."""
        return [cpu.cpu for cpu in self.machine.cpus if cpu.smt_index == 0]


def draw(
    chance: random.Random,
    *,
    hybrid: bool | None = None,
    speeds: tuple[float, float] | None = None,
    **rules: Any,
) -> Setup:
    """A machine with a few short threads and, in some runs, a game that leaves it mostly idle.

    `speeds`: of an E core, and of each sibling while both are busy.
    """
    fitting = [
        (p, e) for p, e in MACHINES if hybrid is None or hybrid == bool(e)
    ]  # fmt: skip
    tick_ms, ticks = chance.choice([(1, 4), (1, 12), (4, 2), (15.625, 2)])
    drawn = Rules(
        clock_tick_ns=int(tick_ms * MS),
        quantum_ticks=ticks,
        wake_boost=chance.choice([0, 1, 2]),
        interrupts_per_s=chance.uniform(20, 250),
        start_work_ns=2_000,
        replaced_share=chance.choice([0.0, 0.0, 0.3]),
        **rules,
    )
    p_cores, e_cores = chance.choice(fitting)
    e_speed, shared_speed = speeds or (chance.uniform(0.45, 0.7), chance.uniform(0.5, 0.75))
    made = replace(machine(p_cores, e_cores, e_speed=e_speed), shared_speed=shared_speed)
    simulation = Simulation(made, drawn, seed=chance.getrandbits(30))
    setup = Setup(simulation, chance)
    if chance.random() < 0.4:
        setup.host.draw(simulation, chance)
    engine.interlopers(simulation, chance.randrange(1, 6))
    for number in range(chance.randrange(3)):
        engine.background(
            simulation,
            1,
            name=f"Light {number}",
            priority=chance.randrange(4, 10),
            work_ms=chance.uniform(0.5, 3.0),
            pause_ms=chance.uniform(15.0, 60.0),
            eco=chance.random() < 0.5,
        )
    if chance.random() < 0.4:
        engine.play(
            simulation,
            Game(
                game_ms=chance.uniform(1.0, 3.0),
                render_ms=chance.uniform(1.0, 3.0),
                job_ms=chance.uniform(0.1, 0.3),
                game_jobs=chance.randrange(4),
                workers=chance.randrange(1, 4),
                gpu_ms=chance.uniform(2.0, 6.0),
            ),
            name="other.exe",
        )
    return setup
