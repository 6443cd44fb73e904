"""session.json: the plan, the machine, and what was done to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from schedlens.load.measured_cell import Cell
from schedlens.machine.topology import SavedTopology
from schedlens.output import typed_json
from schedlens.output.typed_json import ABSENT_IF_NONE
from schedlens.output.whole_file import read_json

NAME = "session.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One planned run; `placements` are all placements with this plan.

    `repeat` counts from 1. `planned_cpus` has one CPU per worker; None: no mask. `why` says why it
    failed. `cell` is what an experiment measures.
    """

    name: str
    workload: str | None
    placements: tuple[str, ...]
    placement: str | None
    threads: int | None
    repeat: int
    oversubscribed: bool
    planned_cpus: tuple[int, ...] | None
    state: Literal["planned", "done", "failed"] = "planned"
    why: str | None = field(default=None, metadata=ABSENT_IF_NONE)
    cell: Cell | None = field(default=None, metadata=ABSENT_IF_NONE)


@dataclass(frozen=True, slots=True)
class SavedRequest:
    """The options of `collect` after they were checked; `seconds` None: until the program ends."""

    workload: str | None
    variant: str | None
    threads: str | None
    placements: tuple[str, ...]
    cpus: str | None
    seconds: float | None
    repeats: int
    pid: int | None
    process: str | None
    light: bool
    counters: tuple[str, ...]
    command: tuple[str, ...]
    depth: int | None = None
    how: str | None = None
    experiment: str | None = None
    full: bool = False
    pairs: tuple[str, ...] = ()
    seed: int = 0
    buffer_size: str | None = None
    warm_up: float = 0.0
    stacks: str | None = None
    samples_hz: int | None = None
    load_report: str | None = field(default=None, metadata=ABSENT_IF_NONE)
    sustain_s: float | None = field(default=None, metadata=ABSENT_IF_NONE)
    waits: bool | None = field(default=None, metadata=ABSENT_IF_NONE)
    affinity_calls: bool | None = field(default=None, metadata=ABSENT_IF_NONE)


@dataclass(frozen=True, slots=True)
class SavedOptions:
    """The options of `collect` that exist only on Windows; times in s and ms."""

    recorder: Literal["wpr", "xperf"] | None = None
    presents: bool = False
    presentmon: str | None = None
    ring_s: float | None = None
    stop_on_frame_ms: float | None = None


@dataclass(frozen=True, slots=True)
class SavedCapture:
    """What was recorded; `missing` are lines about what this mode lacks.

    `allow` is the command that would allow the best mode. `presents` exists only on Windows,
    `ring_s` only there and in incidents of a ring.
    """

    mode: str | None = None
    missing: tuple[str, ...] = ()
    allow: str | None = None
    perf_version: str | None = None
    counters: tuple[str, ...] = ()
    presents: bool | None = field(default=None, metadata=ABSENT_IF_NONE)
    ring_s: float | None = None


@dataclass(frozen=True, slots=True)
class SavedChange:
    """A change to the machine: what, the state before and after, and whether it was restored."""

    what: str
    before: str
    after: str
    restored: bool


@dataclass(frozen=True, slots=True)
class SavedExperiment:
    """`missing`: what this machine cannot measure. `other_users`: their number, None: unknown."""

    name: str | None = None
    missing: tuple[str, ...] = ()
    other_users: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """What the system that records contributes to session.json; `settings` None: not reported."""

    os: str
    kernel: str
    windows: SavedOptions | None = field(default=None, metadata=ABSENT_IF_NONE)
    settings: Mapping[str, str | None]
    capture: SavedCapture
    changed: tuple[SavedChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """The content of session.json; `created_utc` is ISO 8601, `host` the name of the machine."""

    schema: int = SCHEMA
    tool_version: str
    created_utc: str
    host: str
    command: tuple[str, ...]
    request: SavedRequest | None = field(default=None, metadata=ABSENT_IF_NONE)
    topology: SavedTopology
    os: str
    kernel: str
    windows: SavedOptions | None = field(default=None, metadata=ABSENT_IF_NONE)
    settings: Mapping[str, str | None]
    capture: SavedCapture
    changed: tuple[SavedChange, ...]
    experiment: SavedExperiment | None = field(default=None, metadata=ABSENT_IF_NONE)
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        row: dict[str, Any] = typed_json.written(self)
        if self.capture.presents is None and self.capture.ring_s is None:
            del row["capture"]["ring_s"]
        return row


def from_json(value: object, path: Path) -> SessionFile:
    """The content from a JSON object; `path` is named in the `SessionError` that it raises."""
    return typed_json.versioned(SessionFile, value, SCHEMA, path)


def read(path: Path) -> SessionFile:
    """The content of a file. Raises `SessionError`, which names the file and the field."""
    return from_json(read_json(path), path)
