"""Services: request loops pinned to siblings, SMT and boost under one load, and a shared queue."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace

from schedlens.simulate import engine
from schedlens.simulate.codes import WR_QUEUE
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Body, Gate, Run, Script, Signal, SleepUntil, Wait
from schedlens.simulate.thread import Thread

US = 1_000
S = 1_000_000_000

SHARDS = 8
# Of one core alone; with the sibling busy as well, a core serves 1.2 times as much.
SHARD_LOAD = 0.5
REQUEST_US = 40.0

# What a published comparison of SMT and boost measured in its lab, as properties of the machine.
BOOST = 1.4
SMT_YIELD = 1.43
BASE_KHZ = 2_300_000
SERVICE_CORES = 8
# Of all cores with SMT and boost off.
SERVICE_LOAD = 0.8

QUEUE_WORKERS = 8
JOB_US = 20.0
TAKE_US = 4.0
BATCH = 16


def pinning(fixed: bool, seed: int) -> Simulation:
    """Eight request loops on 8 cores with siblings (2N, 2N + 1), each pinned to a logical CPU.

    By number they get CPUs 0 to 7, which are four cores. Fixed: by topology, one on each core.
    """
    simulation = Simulation(machine(SHARDS), Rules(interrupts_per_s=50.0), seed=seed)
    process = simulation.process("cache")
    chance = simulation.random
    gap_ns = REQUEST_US * US / SHARD_LOAD

    def body(thread: Thread) -> Script:
        due = 0.0
        while True:
            due += chance.expovariate(1 / gap_ns)
            yield SleepUntil(int(due))
            yield Run(REQUEST_US * US * chance.uniform(0.8, 1.2))
            simulation.truth.requests.append((int(due), thread.now_ns))

    for number in range(SHARDS):
        cpu = 2 * number if fixed else number
        simulation.thread(process, f"Shard {number}", body, affinity=[cpu], ideal=cpu)
    engine.interlopers(simulation, 2)
    return simulation


def service_machine(*, smt: bool, boost: bool) -> Machine:
    """The machine of `service`, in one of its four states."""
    made = machine(SERVICE_CORES, smt=smt)
    factor = BOOST if boost else 1.0
    return replace(
        made,
        name=f"{made.name}, SMT {'on' if smt else 'off'}, boost {'on' if boost else 'off'}",
        cpus=tuple(replace(cpu, speed=factor, khz=int(BASE_KHZ * factor)) for cpu in made.cpus),
        shared_speed=SMT_YIELD / 2,
    )


def service(seed: int, *, smt: bool, boost: bool) -> Simulation:
    """A server with one worker for each logical CPU; the same requests arrive in every state.

    They arrive at random, 0.8 of what the cores can serve with SMT and boost off.
    """
    simulation = Simulation(
        service_machine(smt=smt, boost=boost), Rules(interrupts_per_s=50.0), seed=seed
    )
    process = simulation.process("server")
    arrived = Gate("arrived")
    queue: deque[tuple[int, float]] = deque()
    # Of its own, so that every state gets the same requests.
    chance = random.Random(seed)
    work_ns = 4 * REQUEST_US * US
    gap_ns = work_ns / (SERVICE_LOAD * SERVICE_CORES)

    def arrive() -> None:
        queue.append((simulation.now, work_ns * chance.expovariate(1.0)))
        simulation.open(arrived, 0, 0, in_interrupt=True)
        simulation.at(simulation.now + int(chance.expovariate(1 / gap_ns)), arrive)

    def worker(thread: Thread) -> Script:
        while True:
            yield Wait(arrived, WR_QUEUE)
            due, work = queue.popleft()
            yield Run(work)
            simulation.truth.requests.append((due, thread.now_ns))

    for number in range(len(simulation.machine.cpus)):
        simulation.thread(process, f"Worker {number}", worker)
    simulation.at(US, arrive)
    return simulation


def queues(fixed: bool, seed: int) -> Simulation:
    """Eight workers take jobs of 20 us one by one from one queue, whose lock takes 4 us.

    The lock, not the workers, limits the throughput. Fixed: each takes 16 jobs at once.
    """
    simulation = Simulation(machine(SHARDS), Rules(interrupts_per_s=50.0), seed=seed)
    process = simulation.process("pipeline")
    lock = Gate("queue lock", 1)
    chance = simulation.random

    def worker() -> Body:
        def body(thread: Thread) -> Script:
            while True:
                yield Wait(lock, WR_QUEUE)
                yield Run(TAKE_US * US)
                yield Signal(lock)
                for _ in range(BATCH if fixed else 1):
                    begin = thread.now_ns
                    yield Run(JOB_US * US * chance.uniform(0.8, 1.2))
                    simulation.truth.requests.append((begin, thread.now_ns))

        return body

    for number in range(QUEUE_WORKERS):
        simulation.thread(process, f"Worker {number}", worker())
    engine.interlopers(simulation, 2)
    return simulation
