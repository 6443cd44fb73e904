"""Changes of processors and of what may run where, against simulations with the change made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
import simulated

from schedlens.replay import alterations, fidelity, prediction, windows_rules
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Gate, Present, Run, Script, Signal, Wait
from schedlens.simulate.thread import Thread

ROOT = Path(__file__).resolve().parents[2]
LENGTH_NS = 600 * MS


def simulation(on: Machine) -> Simulation:
    return Simulation(on, Rules(interrupts_per_s=0, wake_boost=0), seed=3)


def frame(work_ms: float, made: Simulation, **how: object) -> Thread:
    """A thread whose frames take so much work."""
    process = made.process("game.exe")

    def main(thread: Thread) -> Script:
        while True:
            yield Run(work_ms * made.random.uniform(0.9, 1.1) * MS)
            yield Present(int(0.2 * MS))

    return made.thread(process, "Main", main, priority=10, **how)  # type: ignore[arg-type]


def hybrid(
    *, ideal: int = 1, eco: bool = False, work_ms: float = 8.0, affinity: list[int] | None = None,
    rival: bool = False,
) -> Simulation:  # fmt: skip
    """One P and one E core; a rival computes on the P core."""
    made = simulation(machine(1, 1, smt=False))
    frame(work_ms, made, ideal=ideal, eco=eco, affinity=affinity)
    if rival:
        process = made.process("rival.exe")
        made.thread(process, "Rival", engine.busy(5.0), priority=12, affinity=[0])
    return made


def siblings(
    other: tuple[int, ...] = (1,), *, smt: bool = True, rivals: int = 1, work_ms: float = 8.0
) -> Simulation:
    """Two cores: the frames have CPU 0, and another process computes on `other` ones."""
    made = simulation(machine(2, smt=smt))
    frame(work_ms, made, affinity=[0], ideal=0)
    process = made.process("rival.exe")
    for number in range(rivals):
        body = engine.busy(5.0, pause_ms=3.0)
        made.thread(process, f"Rival {number}", body, priority=8, affinity=list(other))
    return made


def pool(parked: list[int], *, job_ms: float = 1.0) -> Simulation:
    """Eight CPUs, of which some are parked, and four workers of each frame."""
    made = simulation(machine(8, smt=False))
    process = made.process("game.exe")
    jobs = engine.Pool("jobs")

    def main(thread: Thread) -> Script:
        while True:
            yield Run(1.0 * MS)
            yield jobs.submit([job_ms * made.random.uniform(0.8, 1.2) * MS for _ in range(24)])
            yield Wait(jobs.done)
            yield Present(int(0.5 * MS))

    made.thread(process, "Main", main, priority=10)
    for number in range(4):
        made.thread(process, f"Worker {number}", jobs.worker(), priority=9)
    for cpu in parked:
        made.park(0, cpu, True, "idle")
    return made


def chain(*, hop_ms: float = 4.0) -> Simulation:
    """Two threads in turn, of which both may use both cores."""
    made = simulation(machine(2, smt=False))
    process = made.process("game.exe")
    asked, done = Gate("asked"), Gate("done")

    def main(thread: Thread) -> Script:
        while True:
            yield Signal(asked)
            yield Wait(done)
            yield Run(MS)
            yield Present(int(0.2 * MS))

    def helper(thread: Thread) -> Script:
        while True:
            yield Wait(asked)
            yield Run(hop_ms * made.random.uniform(0.9, 1.1) * MS)
            yield Signal(done)

    made.thread(process, "Main", main, priority=10)
    made.thread(process, "Helper", helper, priority=10)
    return made


def cramped(cpu: int) -> Simulation:
    """One P core with a rival on its first CPU, and a fast E core: neither speed is recorded."""
    made = simulation(replace(machine(1, 1, e_speed=0.68), shared_speed=0.52))
    frame(8.0, made, affinity=[cpu], ideal=cpu)
    made.thread(made.process("rival.exe"), "Rival", engine.busy(5.0), affinity=[0])
    return made


# The changes, the program without them and with them, and the least true change of the mean
# frame, percent.
PAIRS: dict[str, tuple[Callable[[], Simulation], Callable[[], Simulation], float]] = {
    "ideal Main=0": (hybrid, lambda: hybrid(ideal=0), 30),
    "qos Main=high": (lambda: hybrid(ideal=0, eco=True), lambda: hybrid(ideal=0), 30),
    "qos Main=eco": (lambda: hybrid(ideal=0), lambda: hybrid(ideal=0, eco=True), -30),
    # Main runs on the E core alone because the P core is never idle: that is no EcoQoS.
    "remove rival.exe": (lambda: hybrid(ideal=0, rival=True), lambda: hybrid(ideal=0), 30),
    "affinity Main=any": (
        lambda: hybrid(ideal=0, affinity=[1]), lambda: hybrid(ideal=0), 30,
    ),
    "ideal Main=0 + work Main=-25%": (hybrid, lambda: hybrid(ideal=0, work_ms=6.0), 50),
    # Siblings are slower and E cores are faster than assumed.
    "affinity Main=2": (lambda: cramped(1), lambda: cramped(2), 20),
    "affinity Rival*=2-3": (siblings, lambda: siblings((2, 3)), 15),
    "alone Main": (
        lambda: siblings((1, 2, 3), rivals=3), lambda: siblings((2, 3), rivals=3), 15,
    ),
    "alone Main + work Main=-50%": (
        lambda: siblings((1, 2, 3), rivals=3),
        lambda: siblings((2, 3), rivals=3, work_ms=4.0), 50,
    ),
    "smt=off": (siblings, lambda: siblings((0,), smt=False), 15),
    "parking=off": (lambda: pool([2, 3, 4, 5, 6, 7]), lambda: pool([]), 30),
    "unparked=4": (lambda: pool([2, 3, 4, 5, 6, 7]), lambda: pool([2, 3, 4, 5]), 30),
    "unparked=4 + work Worker *=-50%": (
        lambda: pool([2, 3, 4, 5, 6, 7]), lambda: pool([2, 3, 4, 5], job_ms=0.5), 50,
    ),
    "work Helper=-50%": (chain, lambda: chain(hop_ms=2.0), 30),
}  # fmt: skip


def mean(made: Simulation) -> float:
    if not made.truth.frames:
        made.run(LENGTH_NS)
    return fidelity.summary([frame.end - frame.start for frame in made.truth.frames]).mean


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    every = []
    for number, (faulty, _, _) in enumerate(PAIRS.values()):
        made = faulty()
        made.run(LENGTH_NS)
        every.append((f"pair-{number}", made))
    with simulated.simulated_database(tmp_path_factory.mktemp("changes"), every) as con:
        yield con


@pytest.mark.parametrize("text", PAIRS)
def test_interval_contains_the_true_frames_after_the_change(
    con: duckdb.DuckDBPyConnection, text: str
) -> None:
    base = prediction.baseline(con, 1 + list(PAIRS).index(text))
    assert isinstance(base, prediction.Baseline), base
    made = prediction.predict(base, [alterations.parse(one) for one in text.split(" + ")])
    assert made.frames is not None, made.why
    found = made.frames["mean"]
    assert found is not None
    faulty, fixed, least = PAIRS[text]
    true, before = mean(fixed()), mean(faulty())
    assert found.low <= true <= found.high, (before, true, found)
    gain = 100 * (1 - true / before)
    assert gain >= least if least > 0 else gain <= least


def test_floor_of_parking_keeps_that_many_cpus_unparked() -> None:
    # Of four CPUs, 3, 2 and 1 park in turn; then 3 is needed again.
    changes = [(10, 3, True, False), (20, 2, True, False), (30, 1, True, False),
               (40, 3, False, False)]  # fmt: skip
    assert windows_rules.with_floor(changes, 4, 1) == changes
    assert windows_rules.with_floor(changes, 4, 3) == [
        (10, 3, True, False), (40, 3, False, False), (40, 2, True, False),
    ]  # fmt: skip
    assert windows_rules.with_floor(changes, 4, 4) == []
    # Soft parking only makes a CPU a last choice.
    assert windows_rules.with_floor([(10, 3, True, True)], 4, 1) == []


def test_lost_records_of_parking_leave_cpus_as_they_were() -> None:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE cpu_parking AS FROM (VALUES (1, 20, 5, true, false), (1, 30, 5, NULL, NULL), "
        "(1, 40, 5, false, false), (1, NULL, 7, true, false)) "
        "AS t(trace_id, ts, cpu, parked, soft_parked)"
    )
    assert windows_rules.parking(con, 1, {5: 0, 7: 1}) == [
        (0, 1, True, False), (20, 0, True, False), (40, 0, False, False),
    ]  # fmt: skip


def test_every_form_of_a_change_is_explained() -> None:
    page = (ROOT / "docs" / "what-if.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", page, re.MULTILINE)
    named = [form for cell in listed for form in re.findall(r"`([^`]+)`", cell)]
    assert sorted(named) == sorted(alterations.FORMS)
