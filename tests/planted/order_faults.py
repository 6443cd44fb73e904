"""Threads that delay each other: by priority, number, SMT sharing, quota, or host."""

from __future__ import annotations

from planted.background import WINDOW_NS, Setup
from planted.host import Quota
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.script import Present, Run, Script, Sleep, SleepUntil, Wait
from schedlens.simulate.thread import Thread


def inverted(setup: Setup) -> None:
    """Urgent threads wait in the queues of CPUs while other CPUs run less urgent ones."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("mixed.exe")
    cpus = len(setup.machine.cpus)
    high, low = chance.randrange(10, 13), chance.randrange(4, 7)
    for number in range(cpus + chance.randrange(1, cpus)):
        simulation.thread(
            process,
            f"Urgent {number}",
            engine.busy(chance.uniform(2.0, 6.0), pause_ms=chance.uniform(0.5, 4.0)),
            priority=high,
            ideal=chance.choice(setup.whole_cores()),
        )
    for number in range(cpus):
        simulation.thread(process, f"Lesser {number}", engine.busy(20.0), priority=low)


def background_on_p(setup: Setup) -> None:
    """Less urgent threads occupy the P cores, and urgent ones wake on E cores."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("occupy.exe")
    for cpu in setup.machine.of_type("P"):
        simulation.thread(
            process, f"Occupy {cpu}", engine.busy(20.0), priority=chance.randrange(4, 7), ideal=cpu
        )
    urgent = simulation.process("urgent.exe")
    e_cores = len(setup.machine.of_type("E"))
    for number in range(chance.randrange(1, e_cores)):
        simulation.thread(
            urgent,
            f"Urgent {number}",
            engine.busy(chance.uniform(2.0, 6.0), pause_ms=chance.uniform(1.0, 6.0)),
            priority=chance.randrange(9, 13),
        )


def starved_level(setup: Setup) -> None:
    """Several threads of one low priority on a CPU that another occupies half of the time."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("level.exe")
    cpu = chance.choice(setup.machine.cpus).cpu
    period_ms = chance.uniform(4.0, 20.0)
    simulation.thread(
        process, "Above", engine.busy(period_ms * 0.4, pause_ms=period_ms * 0.6),
        affinity=[cpu], priority=chance.randrange(10, 14),
    )  # fmt: skip
    priority = chance.randrange(2, 8)
    for number in range(chance.randrange(3, 6)):
        simulation.thread(
            process, f"Below {number}", engine.busy(chance.uniform(1.0, 5.0), pause_ms=0.1),
            affinity=[cpu], priority=priority,
        )  # fmt: skip


def wide_pool(setup: Setup) -> None:
    """A pool with as many workers as logical CPUs, other threads, and frames that need the pool."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("pool.exe")
    cpus = len(setup.machine.cpus)
    pool = engine.Pool("jobs")
    job_ms = chance.uniform(0.8, 2.0)

    def main(thread: Thread) -> Script:
        frame = 0
        while True:
            yield SleepUntil(int(frame * 16.6667 * MS))
            yield pool.submit([job_ms * chance.uniform(0.8, 1.2) * MS for _ in range(4 * cpus)])
            yield Wait(pool.done)
            yield Present(int(chance.uniform(1.0, 4.0) * MS))
            frame += 1

    simulation.thread(process, "Main", main, priority=10)
    for number in range(cpus + chance.randrange(-2, 4)):
        simulation.thread(process, f"Worker {number}", pool.worker(), priority=9)
    engine.background(
        simulation, max(2, cpus // 2), name="Frames", priority=9, work_ms=chance.uniform(2.0, 6.0),
        pause_ms=0.5,
    )  # fmt: skip


def taxed(setup: Setup) -> None:
    """A thread with many short runs on one sibling of a core, and a rare one on the other."""
    chance, simulation = setup.chance, setup.simulation
    process = simulation.process("taxed.exe")
    second = chance.choice([cpu for cpu in setup.machine.cpus if cpu.smt_index == 1])
    simulation.thread(
        process,
        "Taxed",
        engine.busy(chance.uniform(0.3, 0.8), pause_ms=chance.uniform(0.1, 0.6)),
        affinity=[second.core],
    )
    phase_ms = chance.uniform(30.0, 120.0)

    def body(thread: Thread) -> Script:
        while True:
            yield Sleep(int(phase_ms * MS))
            yield Run(phase_ms * MS)

    simulation.thread(process, "Aggressor", body, affinity=[second.cpu])


def throttled(setup: Setup) -> None:
    """A cgroup whose threads use up its quota early in each period."""
    chance = setup.chance
    period_ms = chance.choice([10, 20, 50, 100])
    threads = chance.randrange(2, 6)
    _limited(setup, "/limited", threads, period_ms, chance.uniform(0.2, 0.6) * threads)


def _limited(setup: Setup, cgroup: str, threads: int, period_ms: int, quota_cpus: float) -> None:
    simulation = setup.simulation
    setup.host.has_snapshots = True
    process = simulation.process(f"{cgroup[1:]}.exe")
    quota = Quota(cgroup, process, int(quota_cpus * period_ms * MS), period_ms * MS)
    setup.host.quotas.append(quota)

    def body(thread: Thread) -> Script:
        while thread.now_ns < WINDOW_NS:
            yield from quota.run(thread, 0.5 * MS)
            yield Sleep(MS // 20)

    for number in range(threads):
        simulation.thread(process, f"Limited {number}", body)


def stolen(setup: Setup) -> None:
    """A host that steals time from some CPUs, more from some than from others."""
    chance, host = setup.chance, setup.host
    host.has_snapshots = True
    cpus = range(len(setup.machine.cpus))
    for cpu in cpus:
        host.stolen_pct[cpu] = chance.uniform(0.0, 0.06)
    for cpu in chance.sample(cpus, chance.randrange(1, len(cpus))):
        host.stolen_pct[cpu] = chance.choice([0.2, 2.0, 15.0]) * chance.uniform(0.7, 1.3)
