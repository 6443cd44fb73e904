"""Recording on Windows with WPR or xperf, or a dry run anywhere: recorder, commands, profile."""

from __future__ import annotations

import contextlib
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath, PureWindowsPath
from typing import TYPE_CHECKING

from schedlens.errors import PlanError, RecorderError, SessionError
from schedlens.load.session_file import SavedCapture, SessionFile, Step, SystemFacts
from schedlens.load.step_file import StepFile
from schedlens.machine import operating_system, topology
from schedlens.machine.topology import Topology
from schedlens.output import whole_file
from schedlens.output.wording import count, minutes
from schedlens.record import workload_program
from schedlens.record.conductor import Conductor
from schedlens.record.host import Host
from schedlens.record.platform import Platform
from schedlens.record.request import Request
from schedlens.record.session import Session
from schedlens.record.windows import by_hand, companion, experiments, processes, settings
from schedlens.record.windows import topology as windows_topology
from schedlens.record.windows.elevation import elevated
from schedlens.record.windows.observer import command as observer_command
from schedlens.record.windows.options import Options
from schedlens.record.windows.runner import Runner, workload_command

if TYPE_CHECKING:
    from collectors import etw, etw_refusal, presentmon
else:
    from schedlens.collectors import etw, etw_refusal, presentmon

RAW_TOPOLOGY = "topology.bin"
# The number of CPUs that the ring is sized for in a dry run for another machine.
CPUS_ELSEWHERE = 16
# What a step takes in addition to its measured intervals: mostly writing and merging the trace.
STEP_COST_S = 8.0
# The buffers cannot be paged out, so a ring with more than this share of the memory slows what it
# is to measure.
MOST_OF_MEMORY = 0.25


class Windows(Platform):
    """This machine, or in a dry run another one, with Windows Performance Recorder or xperf."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._capture: etw.Capture | None = None

    @property
    def capture(self) -> etw.Capture:
        """The capture that `prepare` chose."""
        assert self._capture is not None
        return self._capture

    @cached_property
    def host(self) -> Host:
        here = operating_system.name() == "windows"
        return experiments.here() if here else experiments.elsewhere(self.topology())

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="schedlens-") as folder:
            self._raw = Path(folder) / RAW_TOPOLOGY
            yield

    def resolved(self, request: Request) -> Request:
        if request.process is not None:
            return replace(request, pid=processes.find(request.process))
        if request.pid is not None and not processes.running(request.pid):
            raise SessionError(f"--pid: no process {request.pid} is running")
        return request

    def topology(self) -> Topology:
        if operating_system.name() != "windows":
            return topology.read()
        return windows_topology.read(self._raw)

    def prepare(self, request: Request, machine: Topology) -> None:
        options = self._options
        kind, program = etw.find(options.recorder)
        if elevated() is False:
            raise RecorderError(etw_refusal.ELEVATE)
        capture = etw.Capture(
            kind, program, (), options.presents, options.ring_s, len(machine.usable)
        )
        if options.presentmon is not None and shutil.which(options.presentmon) is None:
            raise RecorderError(f"--presentmon: there is no program {options.presentmon}")
        capture = etw.fewer_flags(_as_requested(capture, request))
        if options.ring_s is not None:
            _check_ring(capture, settings.memory_bytes())
        self._capture = etw.checked_counters(capture, request.counters)

    def facts(self) -> SystemFacts:
        capture = self.capture
        return SystemFacts(
            os="Windows",
            kernel=platform.version(),
            windows=self._options,
            settings=settings.read(),
            capture=SavedCapture(
                mode=capture.kind,
                missing=tuple(capture.missing),
                counters=tuple(capture.counters),
                presents=capture.presents,
                ring_s=capture.ring_s,
            ),
            changed=(),
        )

    def check_same(self, before: SessionFile, folder: Path) -> None:
        if self.capture.kind != before.capture.mode:
            raise SessionError(
                f"{folder} was recorded with {before.capture.mode}, but only {self.capture.kind} "
                "is found: start a new session"
            )

    def lacks(self) -> list[str]:
        lines = [f"not recorded: {text}" for text in self.capture.missing]
        if self._options.ring_s is not None:
            size_mb = self.capture.ring_bytes >> 20
            until = " or a slow frame" if self._options.stop_on_frame_ms is not None else ""
            lines.append(
                f"keeping the last {self._options.ring_s:g} s in {size_mb} MB until you press "
                f"Enter{until}"
            )
        return lines

    def recorder(self, request: Request, session: Session) -> Runner:
        raw = session.folder / RAW_TOPOLOGY
        if not raw.exists():
            shutil.copyfile(self._raw, raw)
        profile = session.folder / etw.PROFILE_FILE
        etw.write_profile(self.capture, profile)
        return Runner(request, self._options, self.capture, profile)

    def cost_s(self, step: Step, request: Request) -> float:
        has_baseline = step.cell is None and step.workload is not None and step.repeat == 1
        seconds = (request.seconds or 10.0) + request.warm_up
        return STEP_COST_S + seconds * (2 if has_baseline else 1)

    def remarks(self, row: StepFile) -> list[str]:
        slow = row.slow_frame_ms
        return [] if slow is None else [f"ended by a frame of {slow:.1f} ms"]

    def summary(self, rows: list[StepFile]) -> list[str]:
        return []

    def undo(self, session: Session) -> list[str]:
        return []

    def quoted(self, folder: Path) -> str:
        return etw.shown([str(folder)])

    def preview(
        self, conductor: Conductor, machine: Topology, steps: list[Step], output: Path | None
    ) -> list[str]:
        request, options = conductor.request, self._options
        elsewhere = operating_system.name() != "windows"
        steps = [conductor.preview(step, machine) for step in steps]
        kind = options.recorder or "wpr"
        cpus = CPUS_ELSEWHERE if elsewhere else len(machine.usable)
        capture = _as_requested(
            etw.Capture(kind, kind, request.counters, options.presents, options.ring_s, cpus),
            request,
        )
        # Nothing is asked of a machine in a dry run: only the flags that every xperf has.
        capture = etw.fewer_flags(capture, "")
        etw.few_enough(request.counters)
        lines = []
        folder = output or Path()
        if kind == "wpr" or request.experiment is None:
            folder.mkdir(parents=True, exist_ok=True)
        if kind == "wpr":
            etw.write_profile(capture, folder / etw.PROFILE_FILE)
            lines.append(f"profile: {folder / etw.PROFILE_FILE}")
        lines += [f"not recorded: {line}" for line in capture.missing]
        lines += conductor.said_first()
        if request.experiment is None:
            lines.append(_scripts(request, options, capture, steps, folder))
        commands = _commands(request, options, capture, steps, PureWindowsPath("STEP"))
        lines += [f"{name}: {etw.shown(command)}" for name, command in commands]
        if elsewhere and any(step.workload is not None for step in steps):
            lines.append("planned for the CPUs of this machine; they may differ on another one:")
        for step in steps:
            is_placed = step.workload is not None or step.planned_cpus is not None
            where = workload_program.shown(step.planned_cpus) if is_placed else ""
            lines.append(f"{step.name:<31} {where}".rstrip())
        noun = "step" if len(steps) == 1 else "steps"
        took = f", about {minutes(sum(self.cost_s(step, request) for step in steps))}"
        return [*lines, f"{len(steps)} {noun}{took if request.experiment else ''}"]


def _commands(
    request: Request,
    options: Options,
    capture: etw.Capture,
    steps: list[Step],
    place: PurePath,
) -> list[tuple[str, list[str]]]:
    """All commands of a session in order, each with its purpose.

    The commands of a step appear once; for an experiment, those of each cell of the first repeat.
    """
    profile = PureWindowsPath(etw.PROFILE_FILE)
    found = [("machine", list(command)) for command in settings.COMMANDS]
    found.append(("topology", _plain(windows_topology.command(Path(RAW_TOPOLOGY)))))
    found.append(("folder", ["mkdir", str(place)]))
    if request.counters:
        found.append(("counters", etw.sources(capture.program)))
    image = processes.image_of(request.process) if request.process is not None else None
    if image is not None:
        found.append(("process", processes.listing(f"imagename eq {image}")))
    found.append(("observer (asked by collect only)", _plain(observer_command())))
    if options.presentmon is not None:
        output = place / presentmon.FILE
        words = presentmon.command(options.presentmon, request.pid, image, file=output)
        found.append(("frames", words))
    found += [("begin", command) for command in etw.begin(capture, place, profile)]
    if request.experiment is not None:
        found += _cells(request, [step for step in steps if step.repeat == 1], place)
    elif steps[0].workload is not None:
        found.append(("workload", _plain(workload_command(request, steps[0], place))))
    elif request.command:
        found.append(("command", list(request.command)))
    elif options.ring_s is not None:
        found.append(("wait", ["pause"]))
    else:
        found.append(("wait", _sleep(request)))
    found += [("end", command) for command in etw.end(capture, place)]
    found += [("to cancel instead", command) for command in etw.cancel(capture)]
    if any(experiments.switching(step) for step in steps):
        found += experiments.putting_back()
    return found


def _scripts(
    request: Request, options: Options, capture: etw.Capture, steps: list[Step], folder: Path
) -> str:
    """Writes both scripts for the steps, and says where they are."""
    commands = [one for step in steps for one in _by_hand(request, options, capture, step)]
    what = f"Records {count(len(steps), 'step')} with {capture.kind}, as collect does"
    whole_file.write_bytes(folder / by_hand.CMD, by_hand.cmd(commands, what))
    whole_file.write_bytes(folder / by_hand.POWERSHELL, by_hand.powershell(commands, what))
    return (
        f"scripts: {folder / by_hand.CMD} and {by_hand.POWERSHELL} record without collect; all "
        "commands are for that folder"
    )


def _by_hand(
    request: Request, options: Options, capture: etw.Capture, step: Step
) -> list[by_hand.Command]:
    """The commands of a step as they are typed in the folder of the profile."""
    place = PureWindowsPath(step.name)
    profile = PureWindowsPath(etw.PROFILE_FILE)
    found = [by_hand.Command(folder=str(place))]
    has_frames = options.presentmon is not None
    if options.presentmon is not None:
        image = processes.image_of(request.process) if request.process is not None else None
        words = presentmon.command(
            options.presentmon, request.pid, image, file=place / presentmon.FILE
        )
        found.append(by_hand.Command(tuple(words), aside=True))
    found += [by_hand.Command(tuple(words)) for words in etw.begin(capture, place, profile)]
    # The recording must also be ended after a workload that failed.
    if step.workload is not None:
        words = [w for w in _plain(workload_command(request, step, place)) if w != "--gate"]
        found.append(by_hand.Command(tuple(words), must_succeed=False))
    elif request.command:
        found.append(by_hand.Command(tuple(request.command), must_succeed=False))
    elif options.ring_s is not None:
        found.append(by_hand.Command(until_key=True))
    else:
        found.append(by_hand.Command(waits_ms=_ms(request)))
    for words in etw.end(capture, place):
        older = etw.without_newer_options(words)
        instead = tuple(older) if older != words else ()
        found.append(by_hand.Command(tuple(words), instead=instead))
    if has_frames:
        # It ends with its session.
        stop = ("logman", "stop", presentmon.SESSION, "-ets")
        found.append(by_hand.Command(stop, must_succeed=False))
    return found


def _cells(request: Request, steps: list[Step], place: PurePath) -> list[tuple[str, list[str]]]:
    """What the cells of an experiment run, and what they switch first."""
    found = []
    for step in steps:
        found += experiments.switching(step)
        if step.workload is not None:
            found.append((step.name, _plain(workload_command(request, step, place))))
        if step.workload is None or companion.runs_alongside(step):
            words = companion.command(request.command, companion.cpu_of(step))
            found.append((step.name, words if companion.cpu_of(step) is None else _plain(words)))
    return found


def _sleep(request: Request) -> list[str]:
    """A wait that both prompts know; `timeout` takes whole seconds only."""
    return ["powershell", "-NoProfile", "-Command", f"Start-Sleep -Milliseconds {_ms(request)}"]


def _ms(request: Request) -> int:
    return round(1000 * (request.seconds or 10.0))


def _plain(command: list[str]) -> list[str]:
    """A command of the workload program as it is called on another machine."""
    return [workload_program.NAME, *command[1:]]


def _check_ring(capture: etw.Capture, memory: int | None) -> None:
    """Raises `PlanError` for a ring that takes too much of the machine's memory, if it is known."""
    if memory is None or capture.ring_bytes <= memory * MOST_OF_MEMORY:
        return
    assert capture.ring_s is not None
    longest_s = int(capture.ring_s * memory * MOST_OF_MEMORY / capture.ring_bytes)
    raise PlanError(
        f"--ring {capture.ring_s:g}: its buffers need {capture.ring_bytes / 1e9:.1f} GB, more than "
        f"a quarter of the {memory / 1e9:.1f} GB of this machine: use at most --ring {longest_s}"
    )


def _as_requested(capture: etw.Capture, request: Request) -> etw.Capture:
    """The capture with the requested stacks, samples and buffers."""
    capture = replace(
        capture,
        stacks=request.stacks is not None,
        samples_hz=request.samples_hz,
        waits=bool(request.waits),
    )
    requested = request.buffers("windows")
    if requested is None:
        return capture
    return replace(capture, buffer_kb=requested.size >> 10, buffer_count=requested.count)
