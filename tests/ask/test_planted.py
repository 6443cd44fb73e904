"""What the analyzers find of faults planted in random programs, against what is true of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from planted import perturb, runs, score, truth
from planted.detectors import DETECTORS
from planted.faults import FAULTS

from schedlens.load.arrow_folder import simulated
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Gate, Present, Run, Script, Signal, Sleep, Wait
from schedlens.simulate.thread import Thread
from schedlens.simulate.truth import Slice

pytestmark = pytest.mark.slow

MS = 1_000_000

# Beside the seeds that thresholds were tuned on, and beside those of `make detectors`.
FIRST_SEED = 2_000_000
EACH = 1


def test_wilson_interval_is_that_of_the_textbook() -> None:
    # 48 of 50: Brown, Cai, DasGupta (2001) give the formula; computed by hand to four digits.
    low, high = score.wilson(48, 50)
    assert (round(low, 4), round(high, 4)) == (0.8654, 0.9890)
    assert score.wilson(0, 0) == (0.0, 1.0)
    assert score.wilson(50, 50)[1] == pytest.approx(1.0)


def judged(strength: float, found: bool, doubt: float = 0.0) -> score.Count:
    """A run in which CPU 3 has this strength, and what is said of it."""
    run = runs.Run(
        seed=1,
        planted=(),
        damage=(),
        strengths={detector.name: {3: strength} for detector in DETECTORS},
        doubts={detector.name: {3: doubt} for detector in DETECTORS},
        found={"pinned_visitor": [(3, "a visitor")]} if found else {},
    )
    return score.judge([run])["pinned_visitor"]


def test_what_is_found_is_right_false_or_open() -> None:
    assert judged(1.3, found=True).hits == [1]
    assert judged(1.3, found=False).missed == [1]
    assert judged(0.69, found=True).false == [(1, "a visitor")]
    assert judged(0.69, found=False).silent == 1
    # Between the marks nothing is missed, and a finding is right.
    assert judged(1.0, found=False) == score.Count()
    assert judged(1.0, found=True).hits == [1]
    # A lost switch may bear it out; what is there must be found all the same.
    assert judged(0.5, found=True, doubt=0.3).undecided == [(1, "a visitor")]
    assert judged(0.5, found=True, doubt=0.1).false == [(1, "a visitor")]
    assert judged(1.3, found=False, doubt=0.3).missed == [1]


# Main 0..2 ms, waits for W, which runs 2..8 ms (beside X from 4 ms on) and wakes it; main 8..10 ms.
def test_the_path_of_a_frame_goes_through_whom_it_waited_for() -> None:
    simulation = Simulation(machine(2), Rules(interrupts_per_s=0, wake_boost=0))
    process = simulation.process("game.exe")
    asked, done = Gate("asked"), Gate("done")

    def main(thread: Thread) -> Script:
        yield Run(2 * MS)
        yield Signal(asked)
        yield Wait(done)
        yield Run(2 * MS)
        yield Present(MS)

    def worker(thread: Thread) -> Script:
        yield Wait(asked)
        yield Run(6 * MS)
        yield Signal(done)

    first = simulation.thread(process, "Main", main, affinity=[0])
    second = simulation.thread(process, "W", worker, affinity=[2])
    simulation.run(20 * MS)
    facts = truth.measure(simulation)
    pieces = facts.frames.paths("game.exe")[0]
    assert pieces == [
        (first.tid, 8 * MS, 10 * MS),
        (second.tid, 2 * MS, 8 * MS),
        (first.tid, 0, 2 * MS),
    ]
    assert facts.frames.path_share("game.exe")[second.tid] == pytest.approx(60, abs=0.1)


# One CPU: A 0..4 ms, X 50 us in its midst; B 4..8 ms, A, B: three turns by the clock.
def test_a_stay_that_is_cut_in_two_is_one_turn() -> None:
    def stay(tid: int, start: float, end: float, why: str) -> Slice:
        return Slice(tid, 0, int(start * MS), int(end * MS), why)

    cut = [
        stay(1, 0, 2, "preempted"), stay(9, 2, 2.05, "blocked"), stay(1, 2.05, 4, "quantum_end"),
        stay(2, 4, 8, "quantum_end"),
    ]  # fmt: skip
    assert truth.whole(cut) == [stay(1, 0, 4, "quantum_end"), stay(2, 4, 8, "quantum_end")]
    # The second short one begins as the first blocks: it was in line.
    in_line = [cut[0], cut[1], stay(8, 2.05, 2.1, "blocked")]
    assert [kept.tid for kept in truth.whole(in_line)] == [1, 8]


def test_a_lost_switch_leaves_open_who_ran() -> None:
    simulation = Simulation(machine(2), Rules(interrupts_per_s=0))
    process = simulation.process("p")

    def body(thread: Thread) -> Script:
        for _ in range(2):
            yield Run(3 * MS)
            yield Sleep(5 * MS)

    thread = simulation.thread(process, "T", body, affinity=[0])
    simulation.run(20 * MS)
    made = perturb.Spoilt(simulated.base_tables(simulation))
    # In at 0, out at 3 ms, in at 8 ms, out at 11 ms: the second is lost.
    perturb.dropped_switches(made, _Nth(1))
    utid = (1 << 32) + len(simulation.machine.cpus)
    assert (made.dropped, thread.tid) == (1, simulation.threads[0].tid)
    assert made.doubtful[utid] == 8 * MS


class _Nth(random.Random):
    """Chance that leaves out one row by its place."""

    def __init__(self, place: int) -> None:
        super().__init__(0)
        self._left = place

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def random(self) -> float:
        self._left -= 1
        return 0.0 if self._left == -1 else 1.0


def test_planted_faults_are_found_and_nothing_else() -> None:
    played = runs.play_all(FIRST_SEED, EACH)
    counts = score.judge(played)
    told = "\n".join(score.report(counts))
    missed = [(name, seed) for name, count in counts.items() for seed in count.missed]
    false = [(name, *one) for name, count in counts.items() for one in count.false]
    for name, count in counts.items():
        # Each detector was asked: there was something to find, and something to be silent about.
        assert count.recall()[1] >= EACH, (name, told)
        assert count.silent >= EACH, (name, told)
        # A sample so small allows one mistake of each where 95 % are asked.
        mistakes = len(count.missed) + len(count.false)
        assert mistakes <= max(1, 0.05 * count.recall()[1]), (name, missed, false, told)
    judged = sum(count.recall()[1] for count in counts.values())
    assert len(missed) + len(false) <= 0.05 * judged, (missed, false, told)
    assert {fault for run in played for fault in run.planted} == {fault.name for fault in FAULTS}
    assert len(counts) == len(DETECTORS)
