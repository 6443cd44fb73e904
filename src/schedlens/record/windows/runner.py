"""Records one step on Windows: workload, recorder, observer, checks, step.json."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from schedlens.load import step_file
from schedlens.load.session_file import Step
from schedlens.load.step_file import StepFile
from schedlens.machine import stop_signals
from schedlens.output.whole_file import cannot_write, write_json
from schedlens.record import alongside, cells, work_done, workload_program
from schedlens.record.boost_guard import Guard
from schedlens.record.enter import Enter
from schedlens.record.gate import GRACE_S, READY_LIMIT_S
from schedlens.record.request import Request
from schedlens.record.windows import companion, disk_space, observer, processes
from schedlens.record.windows.companion import TimedCommand
from schedlens.record.windows.conversation import Conversation
from schedlens.record.windows.observer import Observer
from schedlens.record.windows.options import Options

if TYPE_CHECKING:
    from collectors import etw, presentmon
else:
    from schedlens.collectors import etw, presentmon

Json = dict[str, Any]

# Each listing of the processes starts a program, so it must not happen often.
WATCH_S = 1.0
# The time right after a slow frame helps to explain it.
AFTER_FRAME_S = 1.0


@dataclass
class _Interval:
    """The course of a measured interval."""

    stopped_by: str = "time"
    pid: int | None = None
    slow_frame_ms: float | None = None


class Runner:
    """Runs the steps of one session with one capture and one profile."""

    def __init__(
        self, request: Request, options: Options, capture: etw.Capture, profile: Path
    ) -> None:
        self._request = request
        self._options = options
        self._capture = capture
        self._profile = profile

    def run(self, step: Step, folder: Path) -> StepFile:
        """Runs a step in its empty folder and writes step.json last; returns its content.

        Raises `NoSpaceError` for a full disk, `WorkloadError` or `RecorderError` for a failed step,
        which has no step.json.
        """
        try:
            return self._run(step, folder)
        except OSError as error:
            raise cannot_write(Path(error.filename or folder), error) from None

    def _run(self, step: Step, folder: Path) -> StepFile:
        disk_space.check(folder, self._capture.expected_bytes(self._request.seconds))
        baseline = self._baseline(step, folder)
        row = self._workload(step, folder) if step.workload else self._watched(step, folder)
        if baseline is not None:
            row = replace(row, overhead=work_done.overhead(folder, baseline))
        counters = self._capture.counters
        checks = tuple(etw.check(folder / etw.MAIN_FILE, row.begin_mono_ns, counters))
        wrong = tuple(f"{check.detail}: {check.advice}" for check in checks if not check.ok)
        row = replace(
            row,
            command=self._request.command or None,
            seconds=self._request.seconds,
            missing=tuple(self._capture.missing),
            checks=checks,
            warnings=row.warnings + wrong,
        )
        write_json(folder / step_file.NAME, row.to_json())
        return row

    def _baseline(self, step: Step, folder: Path) -> Json | None:
        """Runs the same plan without a recorder, in the first repeat; returns its workload.json."""
        if step.workload is None or step.repeat != 1 or step.cell is not None:
            return None
        place = folder / "baseline"
        place.mkdir()
        with self._ready(step, place) as program:
            self._measure(program)
            return work_done.result(program.finish(GRACE_S), program.said, place)

    @contextlib.contextmanager
    def _ready(self, step: Step, folder: Path) -> Iterator[Conversation]:
        """The workload program, set up and waiting."""
        program = Conversation(workload_command(self._request, step, folder))
        try:
            with stop_signals.waiting():
                program.expect("ready", READY_LIMIT_S)
            yield program
        finally:
            program.kill()

    def _measure(self, program: Conversation) -> None:
        program.say("go")
        with stop_signals.waiting():
            limit_s = (self._request.seconds or 0.0) + self._request.warm_up + GRACE_S
            program.expect("done", limit_s)

    def _workload(self, step: Step, folder: Path) -> StepFile:
        took_ns = None
        with self._ready(step, folder) as program, self._recorded(folder, None) as recording:
            recording.begin()
            if companion.runs_alongside(step):
                took_ns = self._measure_alongside(step, program)
            else:
                self._measure(program)
            recording.end()
            result = work_done.result(program.finish(GRACE_S), program.said, folder)
        row = recording.measured(step, _Interval())
        return replace(row, throughput=work_done.throughput(result), command_ns=took_ns)

    def _measure_alongside(self, step: Step, program: Conversation) -> int | None:
        """How long the user's program took alongside the kernel, which runs until it ends."""
        program.say("go")
        command = TimedCommand(self._request.command, companion.cpu_of(step))
        try:
            command.must(self._request.seconds)
        finally:
            command.kill()
        program.ask_to_end()
        with stop_signals.waiting():
            program.expect("done", GRACE_S)
        return command.took_ns

    def _watched(self, step: Step, folder: Path) -> StepFile:
        """Records a command, a running process or the machine as it is."""
        interval = _Interval(pid=self._request.pid)
        warnings = []
        command: TimedCommand | None = None
        space = disk_space.Watch(folder)
        try:
            with self._recorded(folder, self._request.pid) as recording:
                recording.begin()
                if self._request.command:
                    cpu = companion.cpu_of(step)
                    command = TimedCommand(self._request.command, cpu)
                    # If the command is pinned, that is the id of the program that pins it.
                    interval.pid = command.pid if cpu is None else None
                    code = command.wait(self._request.seconds, space.is_short)
                    interval.stopped_by = "time" if code is None else "process_end"
                    if code is None and space.is_short():
                        interval.stopped_by = "disk"
                    elif code is None:
                        warnings.append("the command was stopped after the requested time")
                    elif code != 0:
                        warnings.append(f"the command exited with code {code}")
                elif self._options.ring_s is not None:
                    self._ring(recording, interval)
                else:
                    _watch(interval, self._request.seconds or 0.0, space)
                    if interval.stopped_by == "process_end":
                        warnings.append(f"process {interval.pid} ended before the requested time")
                recording.end()
        finally:
            if command is not None:
                command.kill()
        if interval.stopped_by == "disk":
            warnings.append(
                f"stopped early, because the disk of {folder} was nearly full: free some space, or "
                "record for a shorter time"
            )
        row = recording.measured(step, interval)
        return replace(
            row,
            warnings=(*row.warnings, *warnings),
            command_ns=None if command is None else command.took_ns,
        )

    def _ring(self, recording: _Recording, interval: _Interval) -> None:
        """Records until Enter, or until a frame takes too long."""
        frames = recording.presentmon.watch if recording.presentmon else None
        limit_ms = self._options.stop_on_frame_ms
        enter = Enter(alone=limit_ms is None)
        with stop_signals.waiting():
            while not enter.pressed.is_set():
                if frames is not None and limit_ms is not None and frames.slow.wait(0.1):
                    time.sleep(AFTER_FRAME_S)
                    interval.stopped_by, interval.slow_frame_ms = "frame", frames.frame_ms
                    return
                enter.pressed.wait(0.1)
        interval.stopped_by = "enter"

    @contextlib.contextmanager
    def _recorded(self, folder: Path, pid: int | None) -> Iterator[_Recording]:
        """The recorder, with PresentMon and the observer running alongside."""
        recording = _Recording(folder, etw.Recorder(self._capture, folder, self._profile))
        # A closed window ends this program at once, and a recording would go on and grow.
        guard = Guard((), commands=etw.cancel(self._capture))
        try:
            recording.observer = Observer()
            if self._options.presentmon is not None:
                words = presentmon.command(self._options.presentmon, pid)
                recording.presentmon = presentmon.PresentMon(
                    words, folder, self._options.stop_on_frame_ms
                )
            recording.recorder.begin()
            if recording.recorder.capture != self._capture:
                lost = set(recording.recorder.capture.missing) - set(self._capture.missing)
                recording.warnings += [f"not recorded: {text}" for text in sorted(lost)]
                # The other steps begin with what this recorder accepts.
                self._capture = recording.recorder.capture
            yield recording
            recording.recorder.stop()
        finally:
            recording.recorder.cancel()
            recording.close()
            guard.close()


def workload_command(request: Request, step: Step, folder: PurePath) -> list[str]:
    """The command of the workload program for a step."""
    if step.cell is not None:
        seconds = alongside.seconds(step, request.seconds) or 0.0
        warm_up = alongside.warm_up(step, request.warm_up)
        return workload_program.cell_command(cells.words(step), seconds, folder, warm_up)
    assert step.workload is not None
    assert step.threads is not None
    return workload_program.run_command(
        step.workload, request.variant, step.threads, step.planned_cpus, request.seconds or 0.0,
        folder, request.kernel_options,
    )  # fmt: skip


class _Recording:
    """A running recording, and the snapshots at its edges."""

    def __init__(self, folder: Path, recorder: etw.Recorder) -> None:
        self.recorder = recorder
        self.observer: Observer | None = None
        self.presentmon: presentmon.PresentMon | None = None
        self.warnings: list[str] = []
        self._folder = folder
        self._edges: dict[str, Json] = {}

    def begin(self) -> None:
        """The snapshot at the start."""
        assert self.observer is not None
        self._edges["begin"] = self.observer.begin()

    def end(self) -> None:
        """The snapshot at the end; the recording ends right after it."""
        assert self.observer is not None
        self._edges["end"] = self.observer.end()
        if self.presentmon is not None:
            self.presentmon.stop()

    def close(self) -> None:
        """Ends what runs alongside the recorder."""
        if self.observer is not None:
            self.observer.close()
        if self.presentmon is not None:
            self.presentmon.kill()

    def measured(self, step: Step, interval: _Interval) -> StepFile:
        """Writes what is known, after the recorder has ended, so that it is not in the trace.

        Raises `RecorderError` if the observer reported the load in another form.
        """
        begin, end = self._edges["begin"], self._edges["end"]
        reported = observer.reported(end)
        write_json(self._folder / "begin.json", begin)
        write_json(self._folder / "end.json", end)
        warnings = list(self.warnings)
        watch = self.presentmon.watch if self.presentmon else None
        if watch is not None and watch.frames == 0:
            warnings.append("PresentMon recorded no frame: does the process present any?")
        elif watch is not None and watch.blind and watch.limit_ms is not None:
            warnings.append("PresentMon reports no frame times: --stop-on-frame had no effect")
        row = step_file.planned(
            step, recorded=True, begin_mono_ns=begin["mono_ns"], end_mono_ns=end["mono_ns"]
        )
        return replace(
            row,
            pid=interval.pid,
            stopped_by=interval.stopped_by,
            slow_frame_ms=interval.slow_frame_ms,
            recorder_commands=tuple(tuple(command) for command in self.recorder.commands),
            presentmon_command=tuple(self.presentmon.command) if self.presentmon else None,
            reported=reported,
            warnings=tuple(warnings),
        )


def _never() -> bool:
    return False


def _watch(interval: _Interval, seconds: float, space: disk_space.Watch) -> None:
    """Waits for the time, or until the process ends or the disk is nearly full."""
    deadline = time.monotonic() + seconds
    pid = interval.pid
    ended = processes.awaited(pid) if pid is not None else contextlib.nullcontext(_never)
    with ended as has_ended, stop_signals.waiting():
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, WATCH_S))
            if space.is_short():
                interval.stopped_by = "disk"
                return
            if has_ended():
                interval.stopped_by = "process_end"
                return
