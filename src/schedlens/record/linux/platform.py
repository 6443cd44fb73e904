"""Recording on Linux with perf: what is permitted, what must be changed, and what is missing."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.errors import PlanError, SessionError
from schedlens.load.session_file import (
    SavedCapture,
    SavedChange,
    SessionFile,
    Step,
    SystemFacts,
)
from schedlens.load.step_file import Overhead, StepFile
from schedlens.machine import settings, topology
from schedlens.machine.topology import Topology
from schedlens.output.wording import minutes
from schedlens.record import alongside, cells, host, workload_program
from schedlens.record.changes import Changes
from schedlens.record.conductor import Conductor
from schedlens.record.host import Host
from schedlens.record.linux.runner import Job, Runner
from schedlens.record.platform import Platform
from schedlens.record.request import Request
from schedlens.record.session import Session

if TYPE_CHECKING:
    from collectors import perf
else:
    from schedlens.collectors import perf

# What a step takes in addition to its measured intervals, mostly starting and ending perf.
STEP_COST_S = 1.2


class Linux(Platform):
    """This machine, with the perf recordings that it permits."""

    def __init__(self, ring_s: float | None = None) -> None:
        """`ring_s`: keep only so many seconds in memory."""
        self._ring_s = ring_s
        self._changes = Changes()
        self._before: list[SavedChange] = []
        self._capture: perf.Capture | None = None

    @property
    def capture(self) -> perf.Capture:
        """The capture that `prepare` chose."""
        assert self._capture is not None
        return self._capture

    def use(self, capture: perf.Capture) -> None:
        """Replaces the capture that `prepare` chose."""
        self._capture = capture

    @cached_property
    def host(self) -> Host:
        return host.linux()

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._changes.undo()

    def resolved(self, request: Request) -> Request:
        return request

    def topology(self) -> Topology:
        return topology.read()

    def prepare(self, request: Request, machine: Topology) -> None:
        if perf.program() is not None:
            self._changes.mount_tracefs()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        online = sum(1 for cpu in machine.cpus if cpu.online)
        requested = request.buffers("linux")
        if requested is not None and requested.size * online > memory // 2:
            raise PlanError(
                f"--buffer-size: {perf.size_text(requested.size)} for each of {online} CPUs is "
                f"more than half of the memory ({perf.size_text(memory)}): use less"
            )
        capture = perf.best_capture(
            light=request.light,
            waits=bool(request.waits),
            affinity_calls=bool(request.affinity_calls),
            cpus=online,
            memory_bytes=memory,
            buffer_bytes=None if requested is None else requested.size,
        )
        capture = perf.add_counters(capture, request.counters, machine.pmus)
        capture = perf.add_stacks(
            capture,
            request.stacks,
            request.samples_hz,
            memory_bytes=memory,
            cpus=online,
            requested_buffer=requested is not None,
        )
        if capture.mode == "switch_events_own" and not (
            request.workload or request.command or request.followed()
        ):
            why = "the whole machine: you may record only your own programs here"
            capture = replace(capture, mode="none", missing=(why, perf.NOTHING))
        self._capture = replace(capture, ring_s=self._ring_s)

    def facts(self) -> SystemFacts:
        capture = self.capture
        return SystemFacts(
            os=_os_name(),
            kernel=platform.release(),
            settings=settings.read(),
            capture=SavedCapture(
                mode=capture.mode,
                missing=tuple(capture.missing),
                allow=capture.allow,
                perf_version=capture.version,
                counters=tuple(event for group in capture.groups for event in group.events),
                ring_s=capture.ring_s,
            ),
            changed=tuple(self._changed()),
        )

    def check_same(self, before: SessionFile, folder: Path) -> None:
        capture = self.capture
        if before.capture.mode != capture.mode:
            raise SessionError(
                f"{folder} contains recordings of mode '{before.capture.mode}', but now only "
                f"'{capture.mode}' is possible{f': {capture.allow}' if capture.allow else ''}"
            )

    def lacks(self) -> list[str]:
        capture = self.capture
        lines = [f"not recorded: {text}" for text in capture.missing]
        if capture.mode == "full":
            return lines
        if capture.allow:
            lines.append(f"to record everything: {capture.allow}")
        return [f"recording mode: {capture.mode}", *lines]

    def recorder(self, request: Request, session: Session) -> Runner:
        # Changes of earlier runs are kept; those of this run may change until it ends.
        own = self._changed()
        self._before = list(session.file.changed)
        if own and self._before[-len(own) :] == own:
            del self._before[-len(own) :]
        session.set_changes((*self._before, *own))
        if request.stacks:
            perf.keep_kernel_symbols(session.folder)
        job = Job(
            request.seconds, request.variant, request.command, request.pid, request.kernel_options,
            request.warm_up, request.group, request.load_report,
        )  # fmt: skip
        return Runner(job, self.capture)

    def cost_s(self, step: Step, request: Request) -> float:
        seconds = (alongside.seconds(step, request.seconds) or 10.0) + request.warm_up
        has_baseline = (
            request.experiment is None
            and request.workload is not None
            and self.capture.mode != "none"
            and step.repeat == 1
        )
        return STEP_COST_S + seconds * (2 if has_baseline else 1)

    def remarks(self, row: StepFile) -> list[str]:
        return [recorder_cost(row.overhead)] if row.overhead else []

    def summary(self, rows: list[StepFile]) -> list[str]:
        counts = [check.from_switch_records for row in rows for check in row.checks]
        missed = [count for count in counts if count]
        return [missed_switches(len(missed), sum(missed))] if missed else []

    def undo(self, session: Session) -> list[str]:
        self._changes.undo()
        session.set_changes((*self._before, *self._changed()))
        return [self._change_line(row) for row in session.file.changed]

    def quoted(self, folder: Path) -> str:
        return shlex.quote(str(folder))

    def preview(
        self, conductor: Conductor, machine: Topology, steps: list[Step], output: Path | None
    ) -> list[str]:
        request = conductor.request
        self.prepare(request, machine)
        lines = [*self.lacks(), *conductor.said_first()]
        steps = [conductor.preview(step, machine) for step in steps]
        lines += [_described(step) for step in steps]
        place = Path("STEP")
        if self.capture.mode != "none":
            commands = perf.commands(self.capture, place, request.followed())
            lines += [f"recorder: {shlex.join(command)}" for command in commands]
        first = steps[0]
        if first.cell is not None and first.workload is not None:
            command = workload_program.cell_command(
                cells.words(first), request.seconds or 0.0, place, request.warm_up
            )
            lines.append(f"workload: {shlex.join(command)}")
        elif first.workload is not None and first.threads is not None:
            command = workload_program.run_command(
                first.workload, request.variant, first.threads, first.planned_cpus,
                request.seconds or 0.0, place, request.kernel_options,
            )  # fmt: skip
            lines.append(f"workload: {shlex.join(command)}")
        elif request.command:
            lines.append(f"command: {shlex.join(request.command)}")
        took = minutes(sum(self.cost_s(step, request) for step in steps))
        return [*lines, f"{len(steps)} steps, about {took}"]

    def _changed(self) -> list[SavedChange]:
        return [
            SavedChange(change.what, change.before, change.after, change.restored)
            for change in self._changes.made
        ]

    def _change_line(self, row: SavedChange) -> str:
        if row.restored:
            state = "undone"
        elif self._changes.is_shared:
            state = "another run still uses it and will undo it"
        else:
            state = "not undone: run `schedlens doctor --restore`"
        return f"changed on this machine: {row.what} ({state})"


def _described(step: Step) -> str:
    """One line of the plan."""
    parts = [f"{step.name:<32}"]
    if step.workload is not None or step.planned_cpus is not None:
        parts.append(workload_program.shown(step.planned_cpus))
    if step.oversubscribed and step.cell is None:
        parts.append("more threads than CPUs")
    if len(step.placements) > 1:
        parts.append(f"same plan for {' and '.join(step.placements)}")
    return "  ".join(parts).rstrip()


def recorder_cost(overhead: Overhead) -> str:
    """What the recorder cost, or that it is too small to measure."""
    cost = 100 * (1 - overhead.recorded_per_s / overhead.baseline_per_s)
    spread = overhead.spread_pct
    if abs(cost) <= spread:
        return f"recorder's cost below the noise (spread {spread:.1f} %)"
    if cost < 0:
        behind = 100 * (1 - overhead.baseline_per_s / overhead.recorded_per_s)
        return f"recorder's cost unknown: the run without it was disturbed ({behind:.1f} % slower)"
    return f"recorder: {cost:.1f} % slower"


def missed_switches(steps: int, switches: int) -> str:
    """One line about switches that sched_switch missed."""
    return (
        f"{switches} context switches in {steps} step{'' if steps == 1 else 's'} came from "
        "PERF_RECORD_SWITCH because sched_switch missed them. No data was lost"
    )


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
