"""The scheduler simulation: its invariants, and the results of the three case studies."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlens.simulate import cases, engine
from schedlens.simulate.emitted import (
    Ready,
    Switch,
)
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Body, Run, Script, Signal, Sleep, Spin, Wait, Yield
from schedlens.simulate.script import Gate as Semaphore
from schedlens.simulate.thread import Thread

pytestmark = pytest.mark.slow

MS = 1_000_000
S = 1_000_000_000


def running(simulation: Simulation, name: str) -> int:
    return sum(
        simulation.truth.running_ns(thread.tid, 0, simulation.now)
        for thread in simulation.threads
        if thread.name.startswith(name)
    )


def ready(simulation: Simulation, name: str) -> int:
    return sum(
        simulation.truth.ready_ns(thread.tid, 0, simulation.now)
        for thread in simulation.threads
        if thread.name.startswith(name)
    )


def on_e(simulation: Simulation, name: str) -> float:
    """Share of the running time of the threads of that name on E cores."""
    tids = {thread.tid for thread in simulation.threads if thread.name.startswith(name)}
    cpus = set(simulation.machine.of_type("E"))
    slices = [slice_ for slice_ in simulation.truth.slices if slice_.tid in tids]
    slow = sum(slice_.end - slice_.start for slice_ in slices if slice_.cpu in cpus)
    return slow / sum(slice_.end - slice_.start for slice_ in slices)


def frame_times(simulation: Simulation) -> list[int]:
    return sorted(b.present - a.present for a, b in pairwise(simulation.truth.frames))


# A thread that needs 10 ms of work, alone on its core, then with its sibling busy from 4 ms on:
#   cpu 0  |A 4 ms at full speed|A at 0.6: the other 6 ms take 10 ms|
#   cpu 1                       |B ...
def test_busy_sibling_slows_both() -> None:
    simulation = Simulation(machine(1), Rules(interrupts_per_s=0))
    process = simulation.process("p")

    def work(ms: float) -> Body:
        def body(thread: Thread) -> Script:
            yield Run(ms * MS)

        return body

    first = simulation.thread(process, "A", work(10), affinity=[0])
    simulation.thread(process, "B", work(50), affinity=[1], start_ns=4 * MS)
    simulation.run(S)
    assert first.end_ns == 14 * MS


# Three threads of one priority on one CPU alternate by quantum; one of higher priority preempts.
def test_turns_last_a_quantum_and_priority_is_strict() -> None:
    rules = Rules(clock_tick_ns=MS, quantum_ticks=2, interrupts_per_s=0, wake_boost=0)
    simulation = Simulation(machine(1, smt=False), rules)
    process = simulation.process("p")
    for number in range(3):
        simulation.thread(process, f"T{number}", engine.busy(1000.0), priority=8)

    def urgent(thread: Thread) -> Script:
        yield Sleep(9 * MS)
        yield Run(MS)

    high = simulation.thread(process, "high", urgent, priority=12)
    simulation.run(20 * MS)
    slices = [slice_ for slice_ in simulation.truth.slices if slice_.end > slice_.start]
    (cut_in,) = [slice_ for slice_ in slices if slice_.tid == high.tid]
    assert (cut_in.start, cut_in.end) == (9 * MS, 10 * MS)
    whole = [slice_ for slice_ in slices if slice_.why == "quantum_end"]
    cut = next(slice_ for slice_ in slices if slice_.why == "preempted")
    # The preempted thread finishes its quantum first.
    rest = next(slice_ for slice_ in slices if slice_.tid == cut.tid and slice_.start >= cut_in.end)
    assert rest.start == cut_in.end
    assert (cut.end - cut.start) + (rest.end - rest.start) == 2 * MS
    assert {slice_.end - slice_.start for slice_ in whole if slice_ != rest} == {2 * MS}
    assert len(whole) == 9


def test_spinning_pair_on_one_cpu_alternates_by_quantum() -> None:
    rules = Rules(clock_tick_ns=MS, quantum_ticks=4, interrupts_per_s=0)
    simulation = Simulation(machine(2, smt=False), rules)
    process = simulation.process("p")
    there, back = Semaphore("there", 1), Semaphore("back")

    def body(own: Semaphore, other: Semaphore) -> Body:
        def script(thread: Thread) -> Script:
            while True:
                yield Spin(own)
                yield Run(1000)
                yield Signal(other)

        return script

    for name, own, other in (("ping", there, back), ("pong", back, there)):
        simulation.thread(process, name, body(own, other), affinity=[1])
    simulation.run(99 * MS)
    assert len(simulation.truth.handoffs) == 24
    assert {b.ts - a.ts for a, b in pairwise(simulation.truth.handoffs)} == {4 * MS}
    assert all(hand.cpu == 1 for hand in simulation.truth.handoffs)


@given(
    seed=st.integers(0, 10_000),
    p_cores=st.integers(1, 3),
    e_cores=st.integers(0, 3),
    threads=st.integers(1, 9),
    replaced=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=25, deadline=None)
def test_invariants_hold(
    seed: int, p_cores: int, e_cores: int, threads: int, replaced: float
) -> None:
    rules = Rules(clock_tick_ns=MS, replaced_share=replaced)
    simulation = Simulation(machine(p_cores, e_cores), rules, seed=seed)
    process = simulation.process("p")
    gate = Semaphore("gate")

    def body(thread: Thread) -> Script:
        chance = simulation.random
        while True:
            yield Run(chance.uniform(0.01, 3.0) * MS)
            choice = chance.random()
            if choice < 0.3:
                yield Sleep(int(chance.uniform(0, 2) * MS))
            elif choice < 0.5:
                yield Signal(gate)
            elif choice < 0.7:
                yield Wait(gate)
            elif choice < 0.8:
                yield Yield()

    for number in range(threads):
        simulation.thread(process, f"T{number}", body, priority=8 + number % 3)
    simulation.run(60 * MS)
    by_cpu, by_thread = defaultdict(list), defaultdict(list)
    for slice_ in simulation.truth.slices:
        by_cpu[slice_.cpu].append((slice_.start, slice_.end))
        by_thread[slice_.tid].append((slice_.start, slice_.end))
    for span in simulation.truth.ready:
        by_thread[span.tid].append((span.start, span.end))
    # A CPU runs one thread at a time; a thread is in one place, ready or running, at a time.
    for spans in (*by_cpu.values(), *by_thread.values()):
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))
    # Only the next record shows who ran: its outgoing thread.
    last: dict[int, int] = {}
    wrong = 0
    for record in simulation.records:
        assert record.ts % 100 == 0
        if isinstance(record, Switch):
            assert last.get(record.cpu, record.prev) == record.prev
            last[record.cpu] = record.entered
            wrong += record.planned != record.entered
    assert wrong == simulation.truth.replaced
    # Strict priority: no allowed thread is ready while a CPU is idle.
    for span in simulation.truth.ready:
        if span.end - span.start == 0:
            continue
        for cpu in range(len(simulation.machine.cpus)):
            covered = sum(
                max(0, min(end, span.end) - max(start, span.start)) for start, end in by_cpu[cpu]
            )
            assert covered == span.end - span.start
    assert any(isinstance(record, Ready) for record in simulation.records)


def test_same_seed_gives_the_same_records() -> None:
    def play(seed: int) -> object:
        return cases.CASES[2].play(seed=seed, seconds=0.2).records

    assert play(5) == play(5)
    assert play(5) != play(6)


def test_case_1_ready_time_falls_ten_times_on_the_hybrid_machine() -> None:
    symmetric = cases.priority(False, 1, cases.symmetric())
    symmetric.run(2 * S)
    (case,) = (case for case in cases.CASES if case.name == "priority")
    faulty, fixed = case.play(seconds=2.0), case.play(fixed=True, seconds=2.0)
    # As in the talk: on the symmetric machine threads are ready about as long as they run.
    assert 0.7 < ready(symmetric, "Background") / running(symmetric, "Background") < 1.4
    assert ready(faulty, "Background") * 10 <= ready(symmetric, "Background")
    # The price: the long thread of high priority is on E cores until the background moves there.
    assert on_e(faulty, "Render") > 0.4
    assert on_e(fixed, "Render") < 0.1
    assert on_e(fixed, "Background") > on_e(faulty, "Background")


def test_case_2_fewer_workers_and_higher_priority_for_the_critical_thread() -> None:
    (case,) = (case for case in cases.CASES if case.name == "critical_path")
    faulty, fixed = case.play(seconds=2.0), case.play(fixed=True, seconds=2.0)
    mean = [sum(frame_times(one)) / len(frame_times(one)) for one in (faulty, fixed)]
    # At least the 8 % that the talk reports.
    assert mean[0] >= 1.08 * mean[1]
    (carrier,) = (thread for thread in faulty.threads if thread.name == "Worker 0")
    slices = [slice_ for slice_ in faulty.truth.slices if slice_.tid == carrier.tid]
    short = sum(slice_.end - slice_.start < MS for slice_ in slices)
    assert short / len(slices) == pytest.approx(0.8, abs=0.1)
    assert any(slice_.why == "preempted" for slice_ in slices)


def test_case_3_parked_cores_and_spinning_make_frames_of_35_ms() -> None:
    (case,) = (case for case in cases.CASES if case.name == "parked")
    faulty, fixed = case.play(), case.play(fixed=True)
    parked = [
        b.present - a.present
        for a, b in pairwise(faulty.truth.frames)
        if S < a.present < b.present < 2 * S
    ]
    assert sorted(parked)[len(parked) // 2] == pytest.approx(35 * MS, rel=0.1)
    assert {hand.cpu for hand in faulty.truth.handoffs} == {16}
    assert max(frame_times(fixed)) < 20 * MS
    assert fixed.truth.handoffs == []
