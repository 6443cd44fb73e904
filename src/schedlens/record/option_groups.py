"""The options of `collect` in groups, before they are checked.

Each field has the name of its parameter in `commands/collect.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is recorded: a kernel, a program, a process, or else the machine."""

    workload: str | None = None
    variant: str | None = None
    depth: int | None = None
    how: str | None = None
    command: tuple[str, ...] = ()
    pid: int | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Thread counts, placements or CPUs, the length of a recording and of the warm-up before it in
    seconds, and the repeats."""

    threads: str | None = None
    placements: tuple[str, ...] = ()
    cpus: str | None = None
    seconds: float | None = None
    warm_up: float | None = None
    repeats: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentChoice:
    """The experiment, which pairs of kernels `pairs` measures, what counts the requests of a
    service, and how long sustained turbo is measured, in seconds."""

    experiment: str | None = None
    full: bool = False
    pairs: tuple[str, ...] = ()
    load_report: str | None = None
    sustain_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """What the recorder records, and its buffers."""

    light: bool = False
    waits: bool = False
    affinity_calls: bool = False
    counters: tuple[str, ...] = ()
    buffer_size: str | None = None
    stacks: str | None = None
    samples_hz: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """All groups that apply on every system."""

    subject: Subject = Subject()
    sweep: Sweep = Sweep()
    choice: ExperimentChoice = ExperimentChoice()
    recorder: RecorderSettings = RecorderSettings()
