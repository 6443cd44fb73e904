"""Plays runs, asks the analyzers, and counts who was right.

Every detector is judged on every run: a subject that reaches `SURE` times what the analyzer asks
for must be found, and a finding of a subject below `CLEAN` times that is false. What lies between
is not judged: loss and a coarse clock move numbers that are so near to the line.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

import duckdb

from planted import background, perturb, truth
from planted.detectors import DETECTORS, Detector, Subject
from planted.faults import FAULTS, Fault
from schedlens import findings, questions, recording, store
from schedlens.findings import Finding, Scope
from schedlens.simulate import tables
from schedlens.simulate.scheduler import Simulation

SURE = 1.3
CLEAN = 0.7
# Quantile of the normal distribution for an interval of 95 %.
Z = 1.959964


@dataclass
class Run:
    """A played run: what was planted, what is true, what was found."""

    seed: int
    planted: tuple[str, ...]
    damage: tuple[str, ...]
    strengths: dict[str, dict[Subject, float]]
    found: dict[str, list[tuple[Subject, str]]]
    """By detector: subject and title of its findings."""


@dataclass
class Count:
    """How a detector did."""

    hits: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    false: list[tuple[int, str]] = field(default_factory=list)
    silent: int = 0
    """Clean runs in which it rightly said nothing."""

    def recall(self) -> tuple[int, int]:
        """Found, of those that were there."""
        return len(self.hits), len(self.hits) + len(self.missed)

    def precision(self) -> tuple[int, int]:
        """Right, of those that were found."""
        return len(self.hits), len(self.hits) + len(self.false)


def wilson(right: int, of: int) -> tuple[float, float]:
    """Wilson's interval of 95 % of a share; (0, 1) of nothing."""
    if not of:
        return 0.0, 1.0
    share, z2 = right / of, Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


class Bench:
    """A database that has all questions, emptied after each run."""

    def __init__(self) -> None:
        self.con = duckdb.connect(":memory:")
        questions.create_schema(self.con)
        questions.install(self.con)
        self._folder = tempfile.TemporaryDirectory()
        rows = self.con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT temporary"
        ).fetchall()
        self._tables = [row[0] for row in rows]

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self.con.close()
        self._folder.cleanup()

    def ask(self, spoilt: perturb.Spoilt) -> list[Finding]:
        """What the analyzers under test say of base tables."""
        folder = Path(self._folder.name) / "run"
        tables.write_tables(spoilt.tables, folder)
        failures = store.load_rows(
            self.con, recording.gather((folder,)), (None, None), lambda label, share: None
        )
        if failures:
            raise AssertionError(failures[0].why)
        wanted = {detector.analyzer for detector in DETECTORS}
        found = list(findings.judge_all(Scope(self.con), wanted))
        for table in self._tables:
            self.con.execute(f"DELETE FROM {table}")
        for file in folder.iterdir():
            file.unlink()
        return found


def play(bench: Bench, seed: int, faults: Sequence[Fault]) -> Run:
    """A run with these faults, spoilt, and what is found in it."""
    chance = random.Random(seed)
    hybrid = next((fault.hybrid for fault in faults if fault.hybrid is not None), None)
    rules = {name: value for fault in faults for name, value in fault.rules.items()}
    scene = background.draw(chance, hybrid=hybrid, **rules)
    for fault in faults:
        fault.plant(scene)
    scene.simulation.run(background.WINDOW_NS)
    spoilt = perturb.spoil(tables.base_tables(scene.simulation), chance)
    facts = truth.measure(scene.simulation)
    strengths = {detector.name: detector.truth(facts, spoilt) for detector in DETECTORS}
    found: dict[str, list[tuple[Subject, str]]] = defaultdict(list)
    for finding in bench.ask(spoilt):
        for detector in DETECTORS:
            if detector.finds(finding):
                subject = _subject(detector, finding, scene.simulation)
                found[detector.name].append((subject, finding.title))
    names = tuple(fault.name for fault in faults)
    return Run(seed, names, tuple(spoilt.done), strengths, found)


def _subject(detector: Detector, finding: Finding, simulation: Simulation) -> Subject:
    subject = detector.subject(finding)
    if detector.of_thread and isinstance(subject, int):
        number = subject - (1 << 32) - len(simulation.machine.cpus)
        return simulation.threads[number].tid
    return subject


def judge(runs: Iterable[Run]) -> dict[str, Count]:
    """The count of each detector over all runs."""
    counts = {detector.name: Count() for detector in DETECTORS}
    for run in runs:
        for name, count in counts.items():
            strengths, found = run.strengths[name], run.found.get(name, [])
            worst = max(strengths.values(), default=0.0)
            wrong = [one for one in found if strengths.get(one[0], 0.0) < CLEAN]
            right = len(found) > len(wrong)
            count.false += [(run.seed, title) for _, title in wrong]
            if right:
                count.hits.append(run.seed)
            elif worst >= SURE:
                count.missed.append(run.seed)
            elif worst < CLEAN and not found:
                count.silent += 1
    return counts


def plan(seeds: Iterator[int], each: int) -> Iterator[tuple[int, tuple[Fault, ...]]]:
    """Seeds and faults: every fault `each` times, mostly alone, and as many clean runs as that."""
    for _ in range(each):
        for fault in FAULTS:
            yield next(seeds), (fault,)
        yield next(seeds), ()


def play_all(
    first_seed: int, each: int, told: Callable[[Run], None] = lambda run: None
) -> list[Run]:
    """All runs of a plan, one after another."""
    runs = []
    with Bench() as bench:
        for seed, faults in plan(iter(range(first_seed, 1 << 62)), each):
            run = play(bench, seed, faults)
            told(run)
            runs.append(run)
    return runs


def report(counts: dict[str, Count]) -> Iterator[str]:
    """A line for each detector."""
    yield f"{'detector':22}{'recall':>12}{'95 %':>16}{'precision':>14}{'95 %':>16}{'silent':>8}"
    for name, count in counts.items():
        parts = []
        for right, of in (count.recall(), count.precision()):
            low, high = wilson(right, of)
            parts.append(f"{right:5}/{of:<5}{100 * low:8.1f} to {100 * high:5.1f}")
        yield f"{name:22}{parts[0]:>28}{parts[1]:>30}{count.silent:>8}"


def damage(runs: Iterable[Run]) -> str:
    """How often each kind of damage was done."""
    done = Counter(kind for run in runs for kind in run.damage)
    return ", ".join(f"{kind} {count}" for kind, count in sorted(done.items()))
