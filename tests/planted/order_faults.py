"""Threads in each other's way: by priority, by number, beside a sibling, by a quota or a host."""

from __future__ import annotations

from planted.background import WINDOW_NS, Scene
from planted.host import Quota
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.script import Present, Run, Script, Sleep, SleepUntil, Wait
from schedlens.simulate.thread import Thread


def inverted(scene: Scene) -> None:
    """Urgent threads wait in the queues of CPUs while others take lesser ones from their own."""
    chance, simulation = scene.chance, scene.simulation
    process = simulation.process("mixed.exe")
    cpus = len(scene.machine.cpus)
    high, low = chance.randrange(10, 13), chance.randrange(4, 7)
    for number in range(cpus + chance.randrange(1, cpus)):
        simulation.thread(
            process,
            f"Urgent {number}",
            engine.busy(chance.uniform(2.0, 6.0), pause_ms=chance.uniform(0.5, 4.0)),
            priority=high,
            ideal=chance.choice(scene.whole_cores()),
        )
    for number in range(cpus):
        simulation.thread(process, f"Lesser {number}", engine.busy(20.0), priority=low)


def background_on_p(scene: Scene) -> None:
    """Lesser threads hold the P cores all the time, and urgent ones wake on E cores."""
    chance, simulation = scene.chance, scene.simulation
    process = simulation.process("holds.exe")
    for cpu in scene.machine.of_type("P"):
        simulation.thread(
            process, f"Holds {cpu}", engine.busy(20.0), priority=chance.randrange(4, 7), ideal=cpu
        )
    urgent = simulation.process("urgent.exe")
    e_cores = len(scene.machine.of_type("E"))
    for number in range(chance.randrange(1, e_cores)):
        simulation.thread(
            urgent,
            f"Urgent {number}",
            engine.busy(chance.uniform(2.0, 6.0), pause_ms=chance.uniform(1.0, 6.0)),
            priority=chance.randrange(9, 13),
        )


def starved_level(scene: Scene) -> None:
    """Several threads of one low priority on a CPU that another holds half of the time."""
    chance, simulation = scene.chance, scene.simulation
    process = simulation.process("level.exe")
    cpu = chance.choice(scene.machine.cpus).cpu
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


def wide_pool(scene: Scene) -> None:
    """A pool with as many workers as logical CPUs, others beside it, and frames that need it."""
    chance, simulation = scene.chance, scene.simulation
    process = simulation.process("pool.exe")
    cpus = len(scene.machine.cpus)
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
        simulation, max(2, cpus // 2), name="Beside", priority=9, work_ms=chance.uniform(2.0, 6.0),
        pause_ms=0.5,
    )  # fmt: skip


def taxed(scene: Scene) -> None:
    """A thread of many short runs on one sibling of a core, and one on the other now and then."""
    chance, simulation = scene.chance, scene.simulation
    process = simulation.process("taxed.exe")
    second = chance.choice([cpu for cpu in scene.machine.cpus if cpu.smt_index == 1])
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


def throttled(scene: Scene) -> None:
    """A cgroup whose threads use up its quota early in each period."""
    chance = scene.chance
    period_ms = chance.choice([10, 20, 50, 100])
    threads = chance.randrange(2, 6)
    _limited(scene, "/limited", threads, period_ms, chance.uniform(0.2, 0.6) * threads)


def _limited(scene: Scene, cgroup: str, threads: int, period_ms: int, quota_cpus: float) -> None:
    simulation = scene.simulation
    scene.host.told = True
    process = simulation.process(f"{cgroup[1:]}.exe")
    quota = Quota(cgroup, process, int(quota_cpus * period_ms * MS), period_ms * MS)
    scene.host.quotas.append(quota)

    def body(thread: Thread) -> Script:
        while thread.now_ns < WINDOW_NS:
            yield from quota.run(thread, 0.5 * MS)
            yield Sleep(MS // 20)

    for number in range(threads):
        simulation.thread(process, f"Limited {number}", body)


def stolen(scene: Scene) -> None:
    """A host that takes some CPUs away, of some more than of others."""
    chance, host = scene.chance, scene.host
    host.told = True
    cpus = range(len(scene.machine.cpus))
    for cpu in cpus:
        host.stolen_pct[cpu] = chance.uniform(0.0, 0.06)
    for cpu in chance.sample(cpus, chance.randrange(1, len(cpus))):
        host.stolen_pct[cpu] = chance.choice([0.2, 2.0, 15.0]) * chance.uniform(0.7, 1.3)
