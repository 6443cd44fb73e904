"""Findings on random programs with planted faults, against what is true of them."""

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

# Other seeds than those used for tuning thresholds and for `make detectors`.
FIRST_SEED = 2_000_000
EACH = 1


def test_wilson_interval_matches_textbook() -> None:
    # 48 of 50: Brown, Cai, DasGupta (2001) give the formula; computed by hand to four digits.
    low, high = score.wilson(48, 50)
    assert (round(low, 4), round(high, 4)) == (0.8654, 0.9890)
    assert score.wilson(0, 0) == (0.0, 1.0)
    assert score.wilson(50, 50)[1] == pytest.approx(1.0)


def judged(strength: float, found: bool, doubt: float = 0.0) -> score.Count:
    """A run in which CPU 3 has this strength, and the findings about it."""
    run = runs.Run(
        seed=1,
        planted=(),
        damage=(),
        strengths={detector.name: {3: strength} for detector in DETECTORS},
        doubts={detector.name: {3: doubt} for detector in DETECTORS},
        found={"pinned_visitor": [(3, "a visitor")]} if found else {},
    )
    return score.judge([run])["pinned_visitor"]


def test_each_finding_is_right_false_or_undecided() -> None:
    assert judged(1.3, found=True).hits == [1]
    assert judged(1.3, found=False).missed == [1]
    assert judged(0.69, found=True).false == [(1, "a visitor")]
    assert judged(0.69, found=False).silent == 1
    # Between the marks a miss does not count, and a finding is right.
    assert judged(1.0, found=False) == score.Count()
    assert judged(1.0, found=True).hits == [1]
    # A lost switch may support it; faults that exist must still be found.
    assert judged(0.5, found=True, doubt=0.3).undecided == [(1, "a visitor")]
    assert judged(0.5, found=True, doubt=0.1).false == [(1, "a visitor")]
    assert judged(1.3, found=False, doubt=0.3).missed == [1]


# Main 0..2 ms, waits for W, which runs 2..8 ms (X alongside from 4 ms) and wakes it; main 8..10 ms.
def test_frame_path_includes_threads_it_waited_for() -> None:
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


# One CPU: A 0..4 ms with X for 50 us inside; B 4..8 ms, A, B: three quantum ends.
def test_slice_cut_in_two_counts_as_one_turn() -> None:
    def slice_(tid: int, start: float, end: float, why: str) -> Slice:
        return Slice(tid, 0, int(start * MS), int(end * MS), why)

    cut = [
        slice_(1, 0, 2, "preempted"), slice_(9, 2, 2.05, "blocked"),
        slice_(1, 2.05, 4, "quantum_end"), slice_(2, 4, 8, "quantum_end"),
    ]  # fmt: skip
    assert truth.whole(cut) == [slice_(1, 0, 4, "quantum_end"), slice_(2, 4, 8, "quantum_end")]
    # The second short one begins as the first blocks: it was queued.
    in_line = [cut[0], cut[1], slice_(8, 2.05, 2.1, "blocked")]
    assert [kept.tid for kept in truth.whole(in_line)] == [1, 8]


def test_lost_switch_leaves_running_thread_undecided() -> None:
    simulation = Simulation(machine(2), Rules(interrupts_per_s=0))
    process = simulation.process("p")

    def body(thread: Thread) -> Script:
        for _ in range(2):
            yield Run(3 * MS)
            yield Sleep(5 * MS)

    thread = simulation.thread(process, "T", body, affinity=[0])
    simulation.run(20 * MS)
    made = perturb.Spoilt(simulated.base_tables(simulation))
    # In at 0, out at 3 ms, in at 8 ms, out at 11 ms: the second record is lost.
    perturb.dropped_switches(made, _Nth(1))
    utid = (1 << 32) + len(simulation.machine.cpus)
    assert (made.dropped, thread.tid) == (1, simulation.threads[0].tid)
    assert made.doubtful[utid] == 8 * MS


class _Nth(random.Random):
    """Chance that drops one row by its position."""

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
    report = "\n".join(score.report(counts))
    missed = [(name, seed) for name, count in counts.items() for seed in count.missed]
    false = [(name, *one) for name, count in counts.items() for one in count.false]
    for name, count in counts.items():
        # Each detector had something to find, and something to ignore.
        assert count.recall()[1] >= EACH, (name, report)
        assert count.silent >= EACH, (name, report)
        # So small a sample allows one mistake of each kind where 95 % is the target.
        mistakes = len(count.missed) + len(count.false)
        assert mistakes <= max(1, 0.05 * count.recall()[1]), (name, missed, false, report)
    judged = sum(count.recall()[1] for count in counts.values())
    assert len(missed) + len(false) <= 0.05 * judged, (missed, false, report)
    assert {fault for run in played for fault in run.planted} == {fault.name for fault in FAULTS}
    assert len(counts) == len(DETECTORS)
