"""Threads in bad places: by affinity, by parking, or by a scheduler that leaves them there.

Each fault has a random strength above its analyzer's threshold.
"""

from __future__ import annotations

from planted.background import WINDOW_NS, Setup
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.script import Body, Gate, Run, Script, Signal, Spin
from schedlens.simulate.thread import Thread


def spin_chain(setup: Setup) -> None:
    """Threads that pass a token in a ring by spinning, all bound to one CPU."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("ring.exe")
    count = chance.randrange(2, 6)
    gates = [Gate(f"turn {number}", int(number == 0)) for number in range(count)]
    cpu = chance.choice(setup.machine.cpus).cpu
    work_ms = chance.uniform(0.01, 0.5)

    def body(number: int) -> Body:
        def script(thread: Thread) -> Script:
            while True:
                yield Spin(gates[number])
                yield Run(work_ms * MS)
                yield Signal(gates[(number + 1) % count])

        return script

    begin = int(chance.uniform(0, 0.3) * WINDOW_NS)
    for number in range(count):
        simulation.thread(
            process, f"Ring {number}", body(number), affinity=[cpu], priority=8, start_ns=begin
        )


def parked(setup: Setup) -> None:
    """More threads than CPUs bound to cores that are parked while others are idle."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("bound.exe")
    firsts = setup.machine.of_type("E") or setup.whole_cores()
    chosen = sorted(chance.sample(firsts, chance.randrange(2, min(4, len(firsts)) + 1)))
    begin, end = chance.uniform(0, 0.2) * WINDOW_NS, chance.uniform(0.7, 1.2) * WINDOW_NS
    for cpu in chosen:
        simulation.park(int(begin), cpu, True, "idle")
        simulation.park(int(end), cpu, False, "busy")
    for number in range(len(chosen)):
        simulation.thread(
            process,
            f"Bound {number}",
            engine.busy(chance.uniform(1.0, 6.0), pause_ms=chance.uniform(0.2, 2.0)),
            affinity=chosen,
            priority=chance.randrange(7, 10),
        )


def parked_tight(setup: Setup) -> None:
    """All cores but one or two are parked, and more unbound threads than remaining CPUs run."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("tight.exe")
    kept = chance.sample(setup.whole_cores(), chance.randrange(1, 3))
    begin = int(chance.uniform(0, 0.2) * WINDOW_NS)
    open_cpus = 0
    for cpu in setup.machine.cpus:
        if cpu.core in kept:
            open_cpus += 1
        else:
            simulation.park(begin, cpu.cpu, True, "idle")
    for number in range(open_cpus + chance.randrange(1, 4)):
        simulation.thread(
            process, f"Tight {number}", engine.busy(chance.uniform(2.0, 8.0), pause_ms=0.2)
        )


def siblings_pinned(setup: Setup) -> None:
    """Pairs of busy threads pinned to the two siblings of a core while other cores are idle."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("pairs.exe")
    cores = [cpu for cpu in setup.machine.cpus if cpu.smt_index == 1]
    for core in chance.sample(cores, chance.randrange(1, len(cores) // 2 + 1)):
        for cpu in (core.core, core.cpu):
            simulation.thread(
                process,
                f"Pair {cpu}",
                engine.busy(chance.uniform(1.0, 20.0), pause_ms=chance.uniform(0.0, 1.0)),
                affinity=[cpu],
            )


def keeps_sharing(setup: Setup) -> None:
    """Threads that started while every core was busy and keep sharing when cores become free.

    On a scheduler that never migrates a running thread.
    """
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("share.exe")
    held = chance.randrange(1, 3)
    for number, cpu in enumerate(setup.whole_cores()):
        work_ms = 2000.0 if number < held else chance.uniform(20.0, 60.0)
        simulation.thread(process, f"Early {number}", _once(work_ms), ideal=cpu, priority=12)
    for number in range(held):
        simulation.thread(
            process, f"Late {number}", _once(2000.0), start_ns=8 * MS, priority=12,
            ideal=2 * number + 1,
        )  # fmt: skip


def _once(work_ms: float) -> Body:
    def body(thread: Thread) -> Script:
        yield Run(work_ms * MS)

    return body


def on_e_cores(setup: Setup) -> None:
    """A thread that carries the load runs on E cores: by affinity, or because it is EcoQoS."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("carrier.exe")
    bound = chance.random() < 0.5
    simulation.thread(
        process,
        "Carrier",
        engine.busy(chance.uniform(3.0, 12.0), pause_ms=chance.uniform(0.2, 4.0)),
        priority=chance.randrange(8, 13),
        affinity=setup.machine.of_type("E") if bound else None,
        eco=not bound,
    )


def crowd(setup: Setup) -> None:
    """Many more busy threads than CPUs, for part of the time."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("crowd.exe")
    cpus = len(setup.machine.cpus)
    begin = chance.uniform(0, 0.4) * WINDOW_NS
    end = begin + chance.uniform(0.25, 0.6) * WINDOW_NS

    def body(thread: Thread) -> Script:
        while thread.now_ns < end:
            yield Run(chance.uniform(1.0, 8.0) * MS)

    for number in range(cpus + chance.randrange(3, cpus + 3)):
        simulation.thread(process, f"Crowd {number}", body, start_ns=int(begin))


def alone(setup: Setup) -> None:
    """One thread that works while nothing else does."""
    chance = setup.chance
    setup.simulation.thread(
        setup.simulation.process("alone.exe"),
        "Alone",
        engine.busy(chance.uniform(5.0, 50.0), pause_ms=chance.uniform(0.0, 0.3)),
    )


def starved(setup: Setup) -> None:
    """A thread of low priority bound to a CPU that one of higher priority occupies for long."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("starved.exe")
    cpu = chance.choice(setup.machine.cpus).cpu
    hog_ms = chance.uniform(12.0, 80.0)
    simulation.thread(
        process, "Hog", engine.busy(hog_ms, pause_ms=chance.uniform(1.0, 10.0)),
        affinity=[cpu], priority=chance.randrange(10, 14),
    )  # fmt: skip
    simulation.thread(
        process, "Starved", engine.busy(chance.uniform(0.5, 3.0), pause_ms=1.0),
        affinity=[cpu], priority=chance.randrange(4, 8),
    )  # fmt: skip


def visitor(setup: Setup) -> None:
    """Two services pinned to a CPU each, and a thread of higher priority that interrupts both."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("pinned.exe")
    cpus = chance.sample(setup.whole_cores(), 2)
    for cpu in cpus:
        simulation.thread(
            process,
            f"Service {cpu}",
            engine.busy(chance.uniform(5.0, 20.0), pause_ms=chance.uniform(0.0, 0.5)),
            affinity=[cpu],
        )
    simulation.thread(
        simulation.process("visitor.exe"),
        "Visitor",
        engine.busy(chance.uniform(0.3, 2.0), pause_ms=chance.uniform(5.0, 30.0)),
        affinity=cpus,
        priority=chance.randrange(11, 15),
    )


def stranded(setup: Setup) -> None:
    """Many short threads that a scheduler leaves on busy CPUs though others idle."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("stranded.exe")
    for number in range(len(setup.machine.cpus) // 2):
        simulation.thread(
            process,
            f"Short {number}",
            engine.busy(chance.uniform(1.0, 6.0), pause_ms=chance.uniform(1.0, 4.0)),
            ideal=setup.whole_cores()[number % 2],
        )
