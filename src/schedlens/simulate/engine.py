"""Programs to simulate: a game's main, render and worker threads, and background load."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from schedlens.simulate.codes import WR_QUEUE
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import (
    Body,
    Gate,
    Present,
    Run,
    Script,
    Signal,
    Sleep,
    SleepUntil,
    Wait,
)
from schedlens.simulate.thread import Process, Thread

MS = 1_000_000
# The length of each job differs from the mean by at most this share.
SPREAD = 0.15


@dataclass
class Pool:
    """A queue of jobs and the workers that take them."""

    name: str
    ready: Gate = field(default_factory=lambda: Gate("jobs"))
    done: Gate = field(default_factory=lambda: Gate("done"))
    jobs: list[float] = field(default_factory=list)
    open_jobs: int = 0

    def submit(self, jobs: list[float]) -> Signal:
        """Queues jobs of this many ns each; yield the returned signal, then wait for `done`."""
        self.jobs.extend(jobs)
        self.open_jobs += len(jobs)
        return Signal(self.ready, len(jobs))

    def worker(self) -> Body:
        """A thread that takes jobs; the one that finishes the last job signals `done`."""

        def body(thread: Thread) -> Script:
            while True:
                yield Wait(self.ready, WR_QUEUE)
                yield Run(self.jobs.pop(0))
                self.open_jobs -= 1
                if self.open_jobs == 0:
                    yield Signal(self.done)

        return body


@dataclass(frozen=True)
class Game:
    """How a frame spends its time, in ms of work on the fastest core alone."""

    frame_ms: float = 16.6667
    """Target length of a frame; 0: as fast as possible."""
    game_ms: float = 3.0
    render_ms: float = 4.0
    job_ms: float = 0.5
    game_jobs: int = 16
    render_jobs: int = 8
    gpu_ms: float = 8.0
    workers: int = 6
    main_priority: int = 12
    worker_priority: int = 11


@dataclass
class Studio:
    """A running game: its process, threads and pools."""

    process: Process
    game: Thread
    render: Thread
    workers: list[Thread]
    jobs: Pool


def play(simulation: Simulation, game: Game, *, name: str = "game.exe") -> Studio:
    """Starts a game: a main thread, a render thread one frame behind, and workers for both."""
    process = simulation.process(name)
    chance = random.Random(simulation.random.random())
    jobs, drawing = Pool("game jobs"), Pool("render jobs")
    drawing.ready = jobs.ready
    drawing.jobs = jobs.jobs
    frame_ready, frame_taken = Gate("frame ready"), Gate("frame taken", 1)

    def about(ms: float) -> float:
        return ms * MS * chance.uniform(1 - SPREAD, 1 + SPREAD)

    def main(thread: Thread) -> Script:
        frame = 0
        while True:
            yield SleepUntil(int(frame * game.frame_ms * MS))
            yield Run(about(game.game_ms) / 2)
            if game.game_jobs:
                yield jobs.submit([about(game.job_ms) for _ in range(game.game_jobs)])
                yield Wait(jobs.done)
            yield Run(about(game.game_ms) / 2)
            yield Wait(frame_taken)
            yield Signal(frame_ready)
            frame += 1

    def render(thread: Thread) -> Script:
        while True:
            yield Wait(frame_ready)
            yield Run(about(game.render_ms) * 0.6)
            yield Signal(frame_taken)
            yield Run(about(game.render_ms) * 0.4)
            yield Present(int(about(game.gpu_ms)))

    def thread(name: str, body: Body, priority: int) -> Thread:
        return simulation.thread(process, name, body, priority=priority)

    return Studio(
        process=process,
        game=thread("Game", main, game.main_priority),
        render=thread("Render", render, game.main_priority),
        workers=[
            thread(f"Worker {number}", jobs.worker(), game.worker_priority)
            for number in range(game.workers)
        ],
        jobs=jobs,
    )


def busy(work_ms: float, *, pause_ms: float = 0.0) -> Body:
    """Computes in pieces of `work_ms`, with or without pauses."""

    def body(thread: Thread) -> Script:
        while True:
            yield Run(work_ms * MS)
            if pause_ms:
                yield Sleep(int(pause_ms * MS))

    return body


def background(
    simulation: Simulation,
    count: int,
    *,
    name: str = "Background",
    process: Process | None = None,
    priority: int = 9,
    work_ms: float = 8.0,
    pause_ms: float = 0.0,
    eco: bool = False,
) -> list[Thread]:
    """Threads that compute while the game runs."""
    owner = process or simulation.process("services.exe")
    return [
        simulation.thread(
            owner,
            f"{name} {number}",
            busy(work_ms, pause_ms=pause_ms),
            priority=priority,
            eco=eco,
        )
        for number in range(count)
    ]


def interlopers(simulation: Simulation, count: int = 4) -> list[Thread]:
    """The short runs of system threads, which keep the machine from being fully idle."""
    owner = simulation.process("system.exe")
    chance = random.Random(simulation.random.random())

    def body(thread: Thread) -> Script:
        while True:
            yield Sleep(int(chance.expovariate(1 / 9.0) * MS) + MS // 10)
            yield Run(chance.uniform(0.02, 0.3) * MS)

    return [
        simulation.thread(owner, f"System {number}", body, priority=chance.choice([8, 8, 9, 13]))
        for number in range(count)
    ]


def audio(simulation: Simulation, process: Process) -> Thread:
    """A short run every 5 ms at high priority."""

    def body(thread: Thread) -> Script:
        while True:
            yield Sleep(5 * MS)
            yield Run(0.25 * MS)

    return simulation.thread(process, "Audio", body, priority=15)
