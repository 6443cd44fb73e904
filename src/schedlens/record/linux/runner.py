"""Records one step, from its folder to its step.json: gate, recorder, snapshots, checks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens.errors import NoSpaceError, RecorderError
from schedlens.load import step_file
from schedlens.load.session_file import Step
from schedlens.load.step_file import Check, Served, StepFile
from schedlens.machine import condition, process_groups, stop_signals
from schedlens.output.whole_file import cannot_write, write_json
from schedlens.record import alongside, cells, gate, work_done, workload_program
from schedlens.record.linux import live_service, snapshot
from schedlens.record.linux.followed import Followed
from schedlens.record.linux.watch import Watch

if TYPE_CHECKING:
    from collectors import perf
else:
    from schedlens.collectors import perf

Json = dict[str, Any]

# If a hypervisor takes more than this share of a step's CPU time, warn.
STEAL_PCT = 5.0
# How often to check whether a recorded process still runs.
WATCH_S = 0.05
# Refuse to start below this much free space; perf would stop midway.
FREE_BYTES = 4 << 20


@dataclass(frozen=True)
class Job:
    """What all steps of a session have in common; `seconds` None: until the program ends."""

    seconds: float | None
    variant: str | None = None
    command: tuple[str, ...] = ()
    pid: int | None = None
    kernel_options: tuple[str, ...] = ()
    warm_up: float = 0.0
    group: process_groups.Group | None = None
    load_report: str | None = None


class Runner:
    """Runs the steps of one session with one capture."""

    def __init__(self, job: Job, capture: perf.Capture) -> None:
        self._job = job
        self._capture = capture

    def run(self, step: Step, folder: Path) -> StepFile:
        """Runs a step in its empty folder and writes step.json last; returns its content.

        If the user interrupts a recording, it is kept (`interrupted` in step.json); in the step
        of a workload or an experiment, KeyboardInterrupt is raised instead. Raises `NoSpaceError`
        for a full disk, `WorkloadError` or `RecorderError` for a failed step, which has no
        step.json.
        """
        try:
            return self._run(step, folder)
        except OSError as error:
            # The file may be a temporary one, on another disk than the session.
            raise cannot_write(Path(error.filename or folder), error) from None

    def _run(self, step: Step, folder: Path) -> StepFile:
        free = os.statvfs(folder)
        if free.f_bavail * free.f_frsize < FREE_BYTES:
            raise NoSpaceError(f"no space left on the disk of {folder.parent}")
        baseline = self._baseline(step, folder)
        run = self._workload if step.workload else self._program
        row, stolen_pct = run(step, folder)
        if baseline is not None:
            row = replace(row, overhead=work_done.overhead(folder, baseline))
        try:
            checks = self._checks(folder, row)
        except RecorderError:
            if row.interrupted:
                # The user stopped it before anything was recorded, so this is not a failure.
                raise KeyboardInterrupt from None
            raise
        warnings = [*row.warnings, *(f"{c.detail}: {c.advice}" for c in checks if not c.ok)]
        if stolen_pct is not None and stolen_pct > STEAL_PCT:
            warnings.append(f"the hypervisor took {stolen_pct:.0f} % of the CPU time")
        row = replace(row, checks=checks, warnings=tuple(warnings))
        write_json(folder / step_file.NAME, row.to_json())
        return row

    def _baseline(self, step: Step, folder: Path) -> Json | None:
        """Runs the same plan without a recorder, in the first repeat; returns its workload.json."""
        if step.workload is None or step.repeat != 1 or self._capture.mode == "none":
            return None
        if step.cell is not None:
            return None
        place = folder / "baseline"
        place.mkdir()
        with _workload(self._command(step, place)) as program:
            program.go()
            with stop_signals.waiting():
                program.wait_done((self._job.seconds or 0.0) + self._job.warm_up)
            return work_done.result(program.finish(), program.said, place)

    def _command(self, step: Step, folder: Path) -> list[str]:
        if step.cell is not None:
            seconds = alongside.seconds(step, self._job.seconds)
            words = cells.words(step)
            warm_up = alongside.warm_up(step, self._job.warm_up)
            return workload_program.cell_command(words, seconds or 0.0, folder, warm_up)
        assert step.workload is not None
        assert step.threads is not None
        return workload_program.run_command(
            step.workload,
            self._job.variant,
            step.threads,
            step.planned_cpus,
            self._job.seconds or 0.0,
            folder,
            self._job.kernel_options,
        )

    def _workload(self, step: Step, folder: Path) -> tuple[StepFile, float | None]:
        """What is known about a step of a workload, and the share of stolen CPU time in percent."""
        with (
            _workload(self._command(step, folder)) as program,
            self._recorder(folder, [program.pid]) as recorder,
            alongside.companion(step, self._job.command) as other,
        ):
            state = condition.MachineState()
            begin = snapshot.take("begin")
            program.go()
            took_ns = None
            with stop_signals.waiting():
                if other is not None:
                    took_ns = other.run(self._job.seconds)
                    program.interrupt()
                program.wait_done(
                    (alongside.seconds(step, self._job.seconds) or 0.0) + self._job.warm_up
                )
            end = _end(recorder)
            found = state.end()
            result = work_done.result(program.finish(), program.said, folder)
        row = self._measured(step, folder, recorder, (begin, end))
        throughput = work_done.throughput(result)
        row = replace(row, throughput=throughput, machine=found, command_ns=took_ns)
        return row, steal_pct(begin, end)

    def _program(self, step: Step, folder: Path) -> tuple[StepFile, float | None]:
        """Records a command, a process or the machine, for `seconds` or until it ends.

        Returns what is known about it, and the share of stolen CPU time in percent.
        """
        command = gate.GatedCommand(self._job.command) if self._job.command else None
        warnings = []
        interrupted = False
        took_ns = None
        try:
            if command and step.planned_cpus is not None:
                alongside.pin(command.pid, step.planned_cpus)
            pid = command.pid if command else self._job.pid
            followed = Followed(pid, self._job.group)
            service = live_service.of(
                step, followed, command, self._job.load_report, self._job.warm_up
            )
            ready = service.begin if service else None
            with self._recorder(folder, followed.pids, ready) as recorder:
                state = condition.MachineState()
                begin = snapshot.take("begin")
                code = None
                # Cells of an experiment are timed, so nothing else may run alongside them.
                own = command.pid if command else None
                watch = Watch(begin, own) if step.cell is None else None
                try:
                    with watch or contextlib.nullcontext():
                        if service:
                            with stop_signals.waiting():
                                service.wait(self._job.seconds or 0.0)
                        elif command:
                            command.go()
                            with stop_signals.waiting():
                                code = command.wait(self._job.seconds)
                            if code == 0:
                                took_ns = time.monotonic_ns() - begin["mono_ns"]
                        else:
                            with stop_signals.waiting():
                                _wait(followed, self._job.seconds or 0.0)
                except KeyboardInterrupt:
                    # A cell must be as long as the cells that it is compared with.
                    if step.cell is not None:
                        raise
                    interrupted = True
                end = _end(recorder)
                found = state.end()
                served = service.served() if service else _timed(step, took_ns, code)
                if interrupted:
                    warnings.append("interrupted: the recording ends early")
                elif command and code is None and not service:
                    warnings.append("the command was stopped after the requested time")
                elif command and code not in (None, 0):
                    warnings.append(f"the command exited with code {code}")
                elif not command and not followed.running():
                    warnings.append(f"{followed} ended before the requested time")
            row = self._measured(step, folder, recorder, (begin, end))
            if watch is not None:
                write_json(folder / "watch.json", watch.found())
            row = replace(
                row,
                interrupted=interrupted,
                pid=pid,
                machine=found,
                command_ns=took_ns,
                served=served,
                warnings=(*row.warnings, *warnings),
            )
            return row, steal_pct(begin, end)
        finally:
            if command:
                command.kill()

    @contextlib.contextmanager
    def _recorder(
        self, folder: Path, pids: Sequence[int], ready: Callable[[], None] | None = None
    ) -> Iterator[perf.Recorder | None]:
        """A recorder that records from now on; calls `ready` once it is set up."""
        own = self._capture.mode == "switch_events_own"
        if self._capture.mode == "none" or (own and not pids):
            if ready is not None:
                ready()
            yield None
            return
        recorder = perf.Recorder(self._capture, folder, pids)
        try:
            if ready is not None:
                ready()
            recorder.enable()
            yield recorder
            recorder.stop()
        finally:
            recorder.abort()

    def _checks(self, folder: Path, row: StepFile) -> tuple[Check, ...]:
        """Checks the recording. Raises `RecorderError` if it is unusable."""
        if not row.recorded:
            return ()
        path = folder / perf.MAIN_FILE
        checks = perf.check(path, self._capture, row.begin_mono_ns, row.end_mono_ns)
        why = perf.usable(checks)
        if why:
            raise RecorderError(why)
        return tuple(checks)

    def _measured(
        self,
        step: Step,
        folder: Path,
        recorder: perf.Recorder | None,
        edges: tuple[Json, Json],
    ) -> StepFile:
        """Writes what is known, after the recorder has ended, so that it is not in the trace."""
        begin, end = edges
        warnings: list[str] = []
        if recorder is not None and self._capture.sampling and self._capture.sampling.stacks:
            lasted = (end["mono_ns"] - begin["mono_ns"]) / 1e9
            trace = folder / perf.MAIN_FILE
            warnings += perf.keep_generated_code(folder, trace, time.time() - lasted - 1)
        write_json(folder / "begin.json", begin)
        write_json(folder / "end.json", end)
        row = step_file.planned(
            step,
            recorded=recorder is not None,
            begin_mono_ns=begin["mono_ns"],
            end_mono_ns=end["mono_ns"],
        )
        commands = tuple(tuple(command) for command in recorder.commands) if recorder else ()
        return replace(
            row,
            command=self._job.command or None,
            seconds=self._job.seconds,
            missing=tuple(self._capture.missing),
            perf_command=commands[0] if commands else None,
            counters_commands=commands[1:],
            warnings=tuple(warnings),
        )


@contextlib.contextmanager
def _workload(command: list[str]) -> Iterator[gate.GatedWorkload]:
    program = gate.GatedWorkload(command)
    try:
        with stop_signals.waiting():
            program.wait_ready()
        yield program
    finally:
        program.kill()


def _end(recorder: perf.Recorder | None) -> Json:
    """The snapshot at the end; the recording ends right after it."""
    taken = snapshot.take("end")
    if recorder is not None:
        recorder.disable()
    return taken


def _timed(step: Step, took_ns: int | None, code: int | None) -> Served | None:
    """Why the time of the user's program in a cell is unknown; None if it is known."""
    if step.cell is None or step.cell.experiment != "smt-boost" or took_ns is not None:
        return None
    if code is None:
        return Served(why="the command ran until it was stopped; no --load-report counts requests")
    return Served(why=f"the command exited with code {code}")


def _wait(followed: Followed, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not followed.running():
            return
        time.sleep(min(left, WATCH_S) if followed.pids else left)


def steal_pct(begin: Json, end: Json) -> float | None:
    """Share of CPU time that the hypervisor took between two snapshots; None if unknown."""
    before = {row["cpu"]: row for row in begin["cpus"]}
    stolen = total = 0
    for row in end["cpus"]:
        old = before.get(row["cpu"])
        if old is None or row["steal_ns"] is None or old["steal_ns"] is None:
            return None
        stolen += row["steal_ns"] - old["steal_ns"]
        total += end["mono_ns"] - begin["mono_ns"]
    return 100.0 * stolen / total if total else None
