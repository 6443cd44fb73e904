"""Plays runs: a random program with its faults, its damaged recording, and the findings."""

from __future__ import annotations

import os
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import duckdb
import pyarrow as pa
from prepared_database import FOR_FEW_ROWS, prepare

from planted import background, perturb, truth
from planted.background import Setup
from planted.detectors import DETECTORS, REFUSED, Case, Strengths, Subject
from planted.faults import FAULTS, Fault
from schedlens import _decoders
from schedlens.ask import judging
from schedlens.ask.findings import Finding, Scope
from schedlens.load import recording, recording_rows
from schedlens.load.arrow_folder import simulated

# Number of runs per task of a process.
_AT_A_TIME = 4


@dataclass
class Run:
    """A played run: planted faults, truth, findings."""

    seed: int
    planted: tuple[str, ...]
    damage: tuple[str, ...]
    strengths: dict[str, Strengths]
    doubts: dict[str, Strengths]
    found: dict[str, list[tuple[Subject, str]]]
    """By detector: subject and title of its findings."""
    relabelled: tuple[str, ...] = ()
    """Planted causes of stutters that another cause exceeded."""


class Bench:
    """A database with all queries, cleared after each run."""

    def __init__(self) -> None:
        self.con = duckdb.connect(":memory:", config=FOR_FEW_ROWS)
        # A process of a pool looks interactive, so DuckDB would draw its own progress bars. For so
        # few rows, the order of joins costs more to choose than it saves.
        self.con.execute("SET enable_progress_bar = false; SET disabled_optimizers = 'join_order'")
        prepare(self.con)
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

    def ask(self, spoilt: perturb.Spoilt, setup: Setup) -> list[Finding]:
        """Findings of the tested analyzers on base tables, with the snapshots of the host."""
        wanted = {detector.analyzer for detector in DETECTORS}
        with self.loaded(spoilt.tables, setup):
            return judging.judge_all(Scope(self.con), wanted).findings

    @contextmanager
    def loaded(self, tables: dict[str, pa.RecordBatch], setup: Setup) -> Iterator[None]:
        """The database with these base tables and the snapshots of the host; all tables are empty
        afterwards."""
        for table, rows in setup.host.tables(setup.simulation).items():
            if rows:
                batch = pa.RecordBatch.from_pylist(
                    [{"trace_id": 1, **row} for row in rows], schema=_decoders.schemas()[table]
                )
                self.con.register("batch_rows", batch)
                self.con.execute(f"INSERT INTO {table} BY NAME FROM batch_rows")
                self.con.unregister("batch_rows")
        folder = Path(self._folder.name) / "run"
        simulated.write_tables(tables, folder)
        failures = recording_rows.load_rows(
            self.con, recording.gather((folder,)), (None, None), lambda label, share: None
        )
        if failures:
            raise AssertionError(failures[0].why)
        yield
        for table in self._tables:
            self.con.execute(f"DELETE FROM {table}")
        for file in folder.iterdir():
            file.unlink()


def play(bench: Bench, seed: int, faults: Sequence[Fault]) -> Run:
    """A run with these faults, damaged, and its findings."""
    chance = random.Random(seed)
    hybrid = next((fault.hybrid for fault in faults if fault.hybrid is not None), None)
    speeds = next((fault.speeds for fault in faults if fault.speeds is not None), None)
    rules = {name: value for fault in faults for name, value in fault.rules.items()}
    setup = background.draw(chance, hybrid=hybrid, speeds=speeds, **rules)
    for fault in faults:
        fault.plant(setup)
    simulation = setup.simulation
    simulation.run(background.WINDOW_NS)
    spoilt = perturb.spoil(simulated.base_tables(simulation), chance)
    case = Case(setup, truth.measure(simulation, setup.host.held(simulation)), spoilt)
    strengths = {detector.name: detector.truth(case) for detector in DETECTORS}
    doubts = {detector.name: detector.doubt(case) for detector in DETECTORS}
    found: dict[str, list[tuple[Subject, str]]] = defaultdict(list)
    for finding in bench.ask(spoilt, setup):
        for detector in DETECTORS:
            if detector.finds(finding):
                subject = detector.subject(finding, simulation)
                if spoilt.lost_ns and detector.refuses(finding):
                    subject = REFUSED
                found[detector.name].append((subject, finding.title))
    causes = strengths["stutter_cause"]
    relabelled = tuple(
        label.part
        for label in setup.planted
        if causes.get((label.process, label.tid, label.part), 0.0) < max(causes.values(), default=0)
    )
    names = tuple(fault.name for fault in faults)
    return Run(seed, names, tuple(spoilt.done), strengths, doubts, dict(found), relabelled)


def plan(seeds: Iterator[int], each: int) -> Iterator[tuple[int, tuple[Fault, ...]]]:
    """Seeds and faults: every fault `each` times, and the same number of clean runs.

    Light faults come in pairs; each that combines with any other comes with one of the rest.
    """
    chance = random.Random(each)
    combining = [fault for fault in FAULTS if fault.combines]
    for _ in range(each):
        light = [fault for fault in FAULTS if fault.light]
        chance.shuffle(light)
        groups = [[fault] for fault in FAULTS if not fault.light and not fault.combines]
        groups += [light[at : at + 2] for at in range(0, len(light), 2)]
        for group, fault in zip(chance.sample(groups, len(combining)), combining, strict=True):
            group.append(fault)
        for group in groups:
            yield next(seeds), tuple(group)
        yield next(seeds), ()


_bench: Bench | None = None


def _played(task: tuple[int, tuple[str, ...]]) -> Run:
    global _bench
    if _bench is None:
        _bench = Bench()
    seed, names = task
    return play(_bench, seed, [fault for fault in FAULTS if fault.name in names])


def play_all(
    first_seed: int,
    each: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
) -> list[Run]:
    """All runs of a plan, in order, on as many processes as there are CPUs."""
    tasks = [
        (seed, tuple(fault.name for fault in faults))
        for seed, faults in plan(iter(range(first_seed, 1 << 62)), each)
    ]
    runs: list[Run] = []
    # Threads of a library do not survive a fork.
    context = get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as pool:
        for run in pool.map(_played, tasks, chunksize=_AT_A_TIME):
            runs.append(run)
            progress(len(runs), len(tasks))
    return runs
