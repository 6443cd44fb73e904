"""step.json: what happened in a finished step."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlens.load.measured_cell import Cell
from schedlens.load.session_file import Step
from schedlens.machine.condition import Condition
from schedlens.output import typed_json
from schedlens.output.typed_json import ABSENT_IF_NONE
from schedlens.output.whole_file import read_json

NAME = "step.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a finished recording; `advice` None: nothing to do.

    `from_switch_records` counts the switches taken from PERF_RECORD_SWITCH.
    """

    check: str
    ok: bool
    detail: str
    advice: str | None
    from_switch_records: int | None = field(default=None, metadata=ABSENT_IF_NONE)


@dataclass(frozen=True, slots=True)
class Throughput:
    """Units a second of all workers, from the first start to the last end."""

    per_s: float
    unit: str


@dataclass(frozen=True, slots=True)
class Overhead:
    """Units a second without and with the recorder, and the spread of the batches in percent."""

    baseline_per_s: float
    recorded_per_s: float
    spread_pct: float
    unit: str


@dataclass(frozen=True, slots=True)
class ReportedCpu:
    """The load of a CPU as Windows reports it; utility is in percent of the nominal frequency."""

    cpu: int
    processor_time_pct: float | None = None
    processor_utility_pct: float | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The load that Windows reports between the snapshots; `missing` says what it does not."""

    cpus: tuple[ReportedCpu, ...] | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """What made a ring save its events: `kind` is enter, signal, ready, cpu, frame or command.

    It happened between the two times of the session's clock. `measured` exceeded `limit`, in ms,
    and in percent of a CPU for `cpu`. `tid` is the thread it happened to.
    """

    kind: str
    begin_mono_ns: int
    end_mono_ns: int
    tid: int | None = None
    measured: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What the user's service served in a cell: requests in `interval_ns`, and those by latency.

    `latency` has pairs of the upper end of a bucket in ns and its requests, None: unknown. `why`
    says why the requests are unknown. `pids` are the processes of the service.
    """

    requests: int | None = None
    interval_ns: int | None = None
    latency: tuple[tuple[int, ...], ...] | None = None
    why: str | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFile:
    """The content of step.json; `*_mono_ns` are times of the session's clock.

    The plan is that of `Step`. `seconds` is the requested time, None: until the program ends.
    `recorded`: there is a recording. `interrupted`: the user ended it early. `pid` is the recorded
    process. `command_ns` is the run time of the user's program, None: it did not finish. `served`
    exists in cells of a user's program or service that takes requests.
    `incident` exists in a session that a ring saved. `stopped_by` and the fields after it are those
    of Windows.
    """

    schema: int = SCHEMA
    name: str
    workload: str | None
    placement: str | None
    placements: tuple[str, ...]
    threads: int | None
    repeat: int
    oversubscribed: bool
    planned_cpus: tuple[int, ...] | None
    cell: Cell | None = None
    command: tuple[str, ...] | None = None
    seconds: float | None = None
    missing: tuple[str, ...] = ()
    recorded: bool
    begin_mono_ns: int
    end_mono_ns: int
    perf_command: tuple[str, ...] | None = None
    counters_commands: tuple[tuple[str, ...], ...] = ()
    overhead: Overhead | None = None
    interrupted: bool = False
    throughput: Throughput | None = None
    pid: int | None = None
    machine: Condition | None = None
    command_ns: int | None = None
    served: Served | None = None
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    stopped_by: str | None = None
    slow_frame_ms: float | None = None
    recorder_commands: tuple[tuple[str, ...], ...] = ()
    presentmon_command: tuple[str, ...] | None = None
    reported: Reported | None = None
    incident: Incident | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object, with the keys of the system and of the kind of step."""
        row: dict[str, Any] = typed_json.written(self)
        return {key: row[key] for key in self._keys()}

    def _keys(self) -> tuple[str, ...]:
        """The keys in the order in which each system writes them."""
        timed = self.cell is not None and self.cell.facts.command_cpu is not None
        if self.stopped_by is not None:
            took = ("command_ns",) if timed or (self.command and not self.workload) else ()
            return (*_PLAN, *_ON_WINDOWS, *took, *_LAST)
        if self.workload is None:
            saved = ("incident",) if self.incident is not None else ()
            served = ("served",) if self.served is not None else ()
            own = ("pid", "machine", "command_ns")
            return (*_PLAN, *_ON_LINUX, *own, *served, *saved, *_LAST)
        took = ("command_ns",) if timed else ()
        return (*_PLAN, *_ON_LINUX, "throughput", "machine", *took, *_LAST)


_PLAN = (
    "schema", "name", "workload", "placement", "placements", "threads", "repeat", "oversubscribed",
    "planned_cpus", "cell", "command", "seconds", "missing", "recorded",
)  # fmt: skip
_ON_LINUX = (
    "begin_mono_ns", "end_mono_ns", "perf_command", "counters_commands", "overhead", "interrupted",
)  # fmt: skip
_ON_WINDOWS = (
    "perf_command", "counters_commands", "begin_mono_ns", "end_mono_ns", "pid", "stopped_by",
    "slow_frame_ms", "recorder_commands", "presentmon_command", "reported", "overhead",
    "throughput",
)  # fmt: skip
_LAST = ("checks", "warnings")


def planned(step: Step, *, recorded: bool, begin_mono_ns: int, end_mono_ns: int) -> StepFile:
    """The content for a step of the plan; the other fields have their defaults."""
    return StepFile(
        name=step.name,
        workload=step.workload,
        placement=step.placement,
        placements=step.placements,
        threads=step.threads,
        repeat=step.repeat,
        oversubscribed=step.oversubscribed,
        planned_cpus=step.planned_cpus,
        cell=step.cell,
        recorded=recorded,
        begin_mono_ns=begin_mono_ns,
        end_mono_ns=end_mono_ns,
    )


def from_json(value: object, path: Path) -> StepFile:
    """The content from a JSON object; `path` is named in the `SessionError` that it raises."""
    return typed_json.versioned(StepFile, value, SCHEMA, path)


def read(path: Path) -> StepFile:
    """The content of a file. Raises `SessionError`, which names the file and the field."""
    return from_json(read_json(path), path)
