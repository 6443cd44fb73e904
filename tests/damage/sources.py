"""Recordings with known truth: drawn schedules written as files, and real recordings."""

from __future__ import annotations

import lzma
import random
import shutil
import tarfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import recording_writer
import simulated_events
from random_schedule import RandomSchedule, machine_cpus

from damage.etl_file import EtlFile
from damage.perf_file import PerfFile
from damage.stream import File
from schedlens.load import recording
from schedlens.load.recording import Recording
from schedlens.simulate import engine
from schedlens.simulate.engine import MS, Game
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
FORMATS = ("etl", "perf", "real")
# Recorded completely, with one set of fields for all events.
PERF_FIXTURES = ("plain", "counters", "host_plain", "own_tree", "sched_yield")
US = 1_000

Line = dict[str, Any]


@dataclass
class Source:
    """A recording in memory, and how to load it."""

    name: str
    format: str
    file: File
    recording: Recording
    """With the undamaged file as its trace."""
    schedule: RandomSchedule | None = None
    reused: tuple[File, tuple[int, int]] | None = None
    """The same with one thread id fewer: a thread reuses the id of one that ended, (removed id,
    id used instead)."""


def draw(seed: int, format_: str, folder: Path) -> Source:
    """The source of that seed; files are written to `folder`."""
    if format_ == "real":
        return _real(seed, folder)
    chance = random.Random(seed)
    schedule = None
    if chance.random() < 0.6:
        schedule = random_schedule(seed)
        head, lines = schedule.head, schedule.lines
        script = head(etl={"buffer_size": 4096}, perf={"shuffle": seed})
    else:
        simulation = game(seed)
        lines = simulated_events.lines(simulation)
        script = simulated_events.head(
            simulation, etl={"buffer_size": 4096}, perf={"shuffle": seed}
        )
    path = folder / f"{seed}.{'etl' if format_ == 'etl' else 'perf.data'}"
    file = _written(script, lines, format_, path, seed)
    source = Source(f"schedule {seed}", format_, file, Recording(path.name, path), schedule)
    ids = _reusable(schedule) if schedule else None
    if ids:
        twice = folder / f"reused-{path.name}"
        source.reused = _written(script, _renamed(lines, *ids), format_, twice, seed), ids
    return source


def _written(script: Line, lines: list[Line], format_: str, path: Path, seed: int) -> File:
    recording_writer.write(script, lines, **{format_: path})
    data = path.read_bytes()
    return EtlFile(data, seed) if format_ == "etl" else PerfFile(data, seed)


def _reusable(schedule: RandomSchedule) -> tuple[int, int] | None:
    """A thread that starts in the recording, and another that ended before it."""
    starts = {
        line["tid"]: line["ts"]
        for line in schedule.lines
        if line["event"] == "thread" and line["phase"] == "start"
    }
    ends = {
        slice_.tid: slice_.ts + slice_.dur
        for slice_ in schedule.slices
        if slice_.end_reason == "exit"
    }
    pairs = [
        (tid, other)
        for tid, start in starts.items()
        for other, end in ends.items()
        if end + 100 * US < start
    ]
    return pairs[len(pairs) // 2] if pairs else None


def _renamed(lines: list[Line], old: int, new: int) -> list[Line]:
    return [
        {
            key: new if key in ("tid", "old", "new", "planned") and value == old else value
            for key, value in line.items()
        }
        for line in lines
    ]


def random_schedule(seed: int) -> RandomSchedule:
    """12 or 8 CPUs for 30 ms."""
    chance = random.Random(seed)
    cpus = machine_cpus(*chance.choice([(4, 4), (4, 0), (2, 4)]))
    return RandomSchedule(
        seed, length_ns=30_000 * US, threads=chance.choice([16, 24, 36]), cpus=cpus
    )


def game(seed: int) -> Simulation:
    """A game, background threads and a system for 150 ms on 2 P cores and 4 E cores."""
    chance = random.Random(seed)
    rules = Rules(clock_tick_ns=MS, quantum_ticks=4, start_work_ns=2_000)
    simulation = Simulation(machine(2, 4), rules, seed=seed)
    engine.play(simulation, Game(game_jobs=6, workers=3, render_ms=2.0, gpu_ms=4.0))
    engine.background(
        simulation, chance.randrange(2, 7), work_ms=7.0, pause_ms=chance.choice([1.0, 10.0])
    )
    engine.interlopers(simulation, chance.randrange(2, 6))
    if chance.random() < 0.5:
        simulation.park(40 * MS, 7, True, "idle")
        simulation.park(90 * MS, 7, False, "busy")
    simulation.run(150 * MS)
    return simulation


def _real(seed: int, folder: Path) -> Source:
    chance = random.Random(seed)
    sessions = _sessions(folder)
    choice = chance.choice([*PERF_FIXTURES, *range(len(sessions))])
    if isinstance(choice, int):
        found = sessions[choice]
        name = found.label
    else:
        path = folder / f"{choice}.perf.data"
        if not path.exists():
            packed = FIXTURES / "perf" / f"{choice}.perf.data.xz"
            path.write_bytes(lzma.decompress(packed.read_bytes()))
        found, name = Recording(choice, path), choice
    assert found.trace is not None
    return Source(name, "real", PerfFile(found.trace.read_bytes(), seed), found)


@cache
def _sessions(folder: Path) -> list[Recording]:
    """The recorded session of 20 logical CPUs, unpacked."""
    source, target = FIXTURES / "qemu", folder / "session"
    if not target.exists():
        for path in sorted(source.rglob("*")):
            to = target / path.relative_to(source)
            if path.is_dir() or tarfile.is_tarfile(path):
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".xz":
                to.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
            else:
                shutil.copyfile(path, to)
    return [found for found in recording.gather([target]) if found.trace is not None]


def with_trace(source: Source, path: Path, snapshots: bool) -> Recording:
    """The same recording with another file, with or without its snapshots."""
    changes: dict[str, Any] = {"trace": path}
    if not snapshots:
        changes["edges"] = {}
    return replace(source.recording, **changes)
