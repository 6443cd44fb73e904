"""A collection on Windows from its plan to the last step, and the same on paper anywhere."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import click

import schedlens
from schedlens.errors import NoSpaceError, RecorderError, SchedlensError, SessionError
from schedlens.machine import operating_system, stop_signals, topology
from schedlens.machine.topology import Topology
from schedlens.output.progress import Sweep
from schedlens.output.wording import minutes
from schedlens.record import workload_program
from schedlens.record.conductor import Conductor, Conducts
from schedlens.record.plan import Step
from schedlens.record.request import Request
from schedlens.record.request import from_json as request_from_json
from schedlens.record.session import Session
from schedlens.record.windows import companion, experiments, processes, settings
from schedlens.record.windows import options as options_
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
# The ring is sized for as many where the machine is another one.
CPUS_ELSEWHERE = 16
# What a step takes beside its measured intervals: mostly writing and merging the recording.
STEP_COST_S = 8.0


def begin(request: Request, options: Options, output: Path | None, conducts: Conducts) -> int:
    """Records a new session; the exit code of the command."""
    if request.process is not None:
        request = replace(request, pid=processes.find(request.process))
    elif request.pid is not None and not processes.running(request.pid):
        raise SessionError(f"--pid: no process {request.pid} runs")
    with tempfile.TemporaryDirectory(prefix="schedlens-") as place:
        raw = Path(place) / RAW_TOPOLOGY
        machine = windows_topology.read(raw)
        conductor = conducts(request, experiments.here())
        steps = conductor.steps(machine)
        capture = _capture(request, options, machine)
        stamp = datetime.now(UTC)
        folder = output or Path(f"schedlens-{request.name}-{stamp:%Y%m%dT%H%M%SZ}")
        head = {
            "tool_version": schedlens.__version__,
            "created_utc": f"{stamp:%Y-%m-%dT%H:%M:%SZ}",
            "host": platform.node(),
            "os": "Windows",
            "kernel": platform.version(),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "request": request.as_json(),
            "windows": options.as_json(),
            "topology": machine.as_json(),
            "settings": settings.read(),
            "capture": _capture_json(capture),
            "changed": [],
            **conductor.head(),
        }
        session = Session.create(folder, head, steps)
        shutil.copyfile(raw, folder / RAW_TOPOLOGY)
    return _run(session, conductor, options, capture, machine)


def resume(folder: Path, conducts: Conducts) -> int:
    """Records what a session lacks; raises `SessionError` where the machine is another one."""
    session = Session.resume(folder)
    request = request_from_json(session.head.get("request"))
    options = options_.from_json(session.head.get("windows"))
    with tempfile.TemporaryDirectory(prefix="schedlens-") as place:
        machine = windows_topology.read(Path(place) / RAW_TOPOLOGY)
    if machine.as_json() != session.head.get("topology"):
        raise SessionError(
            f"{folder} was recorded on other CPUs than this machine offers now: begin a new session"
        )
    capture = _capture(request, options, machine)
    if capture.kind != session.head.get("capture", {}).get("rung"):
        raise SessionError(
            f"{folder} was begun with {session.head.get('capture', {}).get('rung')}, now only "
            f"{capture.kind} is found: begin a new session"
        )
    if all(step.state == "done" for step in session.steps):
        click.echo(f"all {len(session.steps)} steps of {folder} are recorded; now type: analyze "
                   f"{etw.shown([str(folder)])}")  # fmt: skip
        return 0
    conductor = conducts(request, experiments.here())
    return _run(session, conductor, options, capture, machine)


def dry_run(request: Request, options: Options, output: Path | None, conducts: Conducts) -> int:
    """Prints every command of a recording on Windows and writes its profile; records nothing."""
    machine, cpus = _planned_for()
    elsewhere = operating_system.name() != "windows"
    on = experiments.elsewhere(machine) if elsewhere else experiments.here()
    conductor = conducts(request, on)
    steps = conductor.steps(machine)
    for step in steps:
        conductor.preview(step, machine)
    kind = options.recorder or "wpr"
    capture = _with_buffers(
        etw.Capture(kind, kind, request.counters, options.presents, options.ring_s, cpus), request
    )
    etw.few_enough(request.counters)
    folder = output or Path()
    profile = folder / etw.PROFILE_FILE
    if kind == "wpr":
        folder.mkdir(parents=True, exist_ok=True)
        etw.write_profile(capture, profile)
        click.echo(f"profile: {profile}")
    for line in capture.missing:
        click.echo(f"not recorded: {line}")
    for line in conductor.said_first():
        click.echo(line)
    place = PureWindowsPath("STEP")
    for name, command in _commands(request, options, capture, steps, place):
        click.echo(f"{name}: {etw.shown(command)}")
    if elsewhere and any(step.workload is not None for step in steps):
        click.echo("planned for the CPUs of this machine; another has other numbers:")
    for step in steps:
        told = step.workload is not None or step.planned_cpus is not None
        where = workload_program.shown(step.planned_cpus) if told else ""
        click.echo(f"{step.name:<31} {where}".rstrip())
    noun = "step" if len(steps) == 1 else "steps"
    took = f", about {minutes(sum(_cost(step, request) for step in steps))}"
    click.echo(f"{len(steps)} {noun}{took if request.experiment else ''}")
    return 0


def _planned_for() -> tuple[Topology, int]:
    """The CPUs that a plan is made for, and for how many a ring is sized."""
    if operating_system.name() != "windows":
        return topology.read(), CPUS_ELSEWHERE
    with tempfile.TemporaryDirectory(prefix="schedlens-") as place:
        machine = windows_topology.read(Path(place) / RAW_TOPOLOGY)
    return machine, len(machine.usable)


def _commands(
    request: Request,
    options: Options,
    capture: etw.Capture,
    steps: list[Step],
    place: PurePath,
) -> list[tuple[str, list[str]]]:
    """All commands of a session in their order, each with what it is for.

    Those of a step once; of an experiment, what each cell of the first repeat runs.
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
    found.append(("observer", _plain(observer_command())))
    if options.presentmon is not None:
        words = presentmon.command(options.presentmon, request.pid, image)
        found.append(("frames", [*words, ">", str(place / presentmon.FILE)]))
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
        found.append(("wait", ["timeout", "/t", f"{request.seconds:g}"]))
    found += [("end", command) for command in etw.end(capture, place)]
    found += [("to give up instead", command) for command in etw.cancel(capture)]
    if any(experiments.switching(step) for step in steps):
        found += experiments.putting_back()
    return found


def _cells(request: Request, steps: list[Step], place: PurePath) -> list[tuple[str, list[str]]]:
    """What the cells of an experiment run, and what they switch before."""
    found = []
    for step in steps:
        found += experiments.switching(step)
        if step.workload is not None:
            found.append((step.name, _plain(workload_command(request, step, place))))
        if step.workload is None or companion.is_beside(step):
            words = companion.command(request.command, companion.cpu_of(step))
            found.append((step.name, words if companion.cpu_of(step) is None else _plain(words)))
    return found


def _plain(command: list[str]) -> list[str]:
    """A command of the workload program as it is called on another machine."""
    return [workload_program.NAME, *command[1:]]


def _capture(request: Request, options: Options, machine: Topology) -> etw.Capture:
    """The recorder with its counters; raises `RecorderError`."""
    kind, program = etw.find(options.recorder)
    if elevated() is False:
        raise RecorderError(etw_refusal.ELEVATE)
    capture = etw.Capture(kind, program, (), options.presents, options.ring_s, len(machine.usable))
    if options.presentmon is not None and shutil.which(options.presentmon) is None:
        raise RecorderError(f"--presentmon: no program is at {options.presentmon}")
    return etw.checked_counters(_with_buffers(capture, request), request.counters)


def _with_buffers(capture: etw.Capture, request: Request) -> etw.Capture:
    """The capture with the buffers asked for."""
    asked = request.buffers("windows")
    if asked is None:
        return capture
    return replace(capture, buffer_kb=asked.size >> 10, buffer_count=asked.count)


def _run(
    session: Session,
    conductor: Conductor,
    options: Options,
    capture: etw.Capture,
    machine: Topology,
) -> int:
    request = conductor.request
    profile = session.folder / etw.PROFILE_FILE
    etw.write_profile(capture, profile)
    for text in [*(f"not recorded: {text}" for text in capture.missing), *conductor.said_first()]:
        click.echo(text, err=True)
    if options.ring_s is not None:
        until = " or a slow frame" if options.stop_on_frame_ms is not None else ""
        click.echo(f"the last {options.ring_s:g} s are kept until you press Enter{until}", err=True)
    todo = [step for step in session.steps if step.state != "done"]
    costs = [_cost(step, request) for step in todo]
    if request.experiment is not None:
        click.echo(f"{len(todo)} steps, about {minutes(sum(costs))}", err=True)
    runner = Runner(request, options, capture, profile)
    stopped: str | None = None
    code = 0
    with stop_signals.handled(), conductor, Sweep(costs) as bar:
        conductor.begin(machine)
        for step in todo:
            try:
                stop_signals.check()
                bar.begin(step.name)
                conductor.enter(step, session)
                row = runner.run(step, session.begin(step))
            except KeyboardInterrupt:
                stopped, code = "interrupted", 130
            except NoSpaceError as error:
                stopped = str(error)
            except SchedlensError as error:
                step.state, step.why = "failed", str(error)
                bar.end(f"{step.name}: failed: {error}")
            else:
                step.state, step.why = "done", None
                bar.end(_outcome(step, row))
            if step.state != "done":
                session.discard(step)
            if stopped:
                break
            session.save()
    return _close(session, stopped, code)


def _close(session: Session, stopped: str | None, code: int) -> int:
    """The last lines: how many steps there are, what failed, what to type next."""
    done = [step for step in session.steps if step.state == "done"]
    failed = [step for step in session.steps if step.state == "failed"]
    folder = etw.shown([str(session.folder)])
    if stopped:
        click.echo(f"{stopped}; {len(done)} of {len(session.steps)} steps are whole", err=True)
        click.echo(f"to go on: collect --resume {folder}", err=True)
    elif failed:
        click.echo(f"{len(failed)} of {len(session.steps)} steps failed", err=True)
    if done:
        noun = "step" if len(done) == 1 else "steps"
        click.echo(f"recorded {len(done)} {noun} in {session.folder}; now type: analyze {folder}")
    if code:
        return code
    if not done:
        return 2
    return 1 if stopped or failed else 0


def _outcome(step: Step, row: dict[str, Any]) -> str:
    """One line on a finished step."""
    parts = [f"{step.name}:", f"{(row['end_mono_ns'] - row['begin_mono_ns']) / 1e9:.2f} s"]
    done = row.get("throughput")
    if done:
        rate, unit = done["per_s"], done["unit"]
        parts.append(f"{rate / 2**20:.1f} MiB/s" if unit == "bytes" else f"{rate:.4g} {unit}/s")
    if row["slow_frame_ms"] is not None:
        parts.append(f"ended by a frame of {row['slow_frame_ms']:.1f} ms")
    parts += [f"warning: {text}" for text in row["warnings"]]
    return "  ".join(parts)


def _cost(step: Step, request: Request) -> float:
    """Seconds that a step is expected to take."""
    doubled = step.cell is None and step.workload is not None and step.repeat == 1
    baseline = 2 if doubled else 1
    return STEP_COST_S + (request.seconds or 10.0) * baseline


def _capture_json(capture: etw.Capture) -> dict[str, Any]:
    return {
        "rung": capture.kind,
        "missing": list(capture.missing),
        "allow": None,
        "perf_version": None,
        "counters": list(capture.counters),
        "presents": capture.presents,
        "ring_s": capture.ring_s,
    }
