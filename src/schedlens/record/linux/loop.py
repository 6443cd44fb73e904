"""A collection from its plan to the last step: prepare, run, undo, report."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import schedlens
from schedlens.errors import NoSpaceError, PlanError, SchedlensError, SessionError
from schedlens.machine import settings, stop_signals, topology
from schedlens.machine.topology import Topology
from schedlens.output.progress import Sweep
from schedlens.output.wording import minutes
from schedlens.record import cells, host, workload_program
from schedlens.record.changes import Changes
from schedlens.record.conductor import Conductor, Conducts
from schedlens.record.plan import Step
from schedlens.record.request import Request
from schedlens.record.request import from_json as request_from_json
from schedlens.record.runner import Job, Runner
from schedlens.record.session import Session

if TYPE_CHECKING:
    from collectors import perf
else:
    from schedlens.collectors import perf

# What a step takes beside its measured intervals: starting and ending perf, mostly.
STEP_COST_S = 1.2


def begin(request: Request, output: Path | None, conducts: Conducts) -> int:
    """Records a new session; the exit code of the command."""
    machine = topology.read()
    conductor = conducts(request, host.linux())
    steps = conductor.steps(machine)
    stamp = datetime.now(UTC)
    folder = output or Path(f"schedlens-{request.name}-{stamp:%Y%m%dT%H%M%SZ}")
    with _changes() as changes:
        capture = prepare(request, machine, changes)
        stop_signals.check()
        head = {
            "tool_version": schedlens.__version__,
            "created_utc": f"{stamp:%Y-%m-%dT%H:%M:%SZ}",
            "host": platform.node(),
            "os": _os_name(),
            "kernel": platform.release(),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "request": request.as_json(),
            "topology": machine.as_json(),
            "settings": settings.read(),
            "capture": _capture_json(capture),
            "changed": _changed_json(changes),
            **conductor.head(),
        }
        session = Session.create(folder, head, steps)
        return _run(session, conductor, machine, capture, changes)


def resume(folder: Path, conducts: Conducts) -> int:
    """Records what a session lacks; raises `SessionError` where the machine is another one."""
    session = Session.resume(folder)
    request = request_from_json(session.head.get("request"))
    machine = topology.read()
    if machine.as_json() != session.head.get("topology"):
        raise SessionError(
            f"{folder} was recorded on other CPUs than this machine offers now: begin a new session"
        )
    if not [step for step in session.steps if step.state != "done"]:
        click.echo(f"all {len(session.steps)} steps of {folder} are recorded; now type: analyze "
                   f"{shlex.quote(str(folder))}")  # fmt: skip
        return 0
    with _changes() as changes:
        capture = prepare(request, machine, changes)
        stop_signals.check()
        before, now = session.head.get("capture", {}).get("rung"), capture.rung
        if before != now:
            raise SessionError(
                f"{folder} was begun with recordings of kind '{before}', now only '{now}' is "
                f"possible{f': {capture.allow}' if capture.allow else ''}"
            )
        session.head["changed"] = [*session.head.get("changed", []), *_changed_json(changes)]
        return _run(session, conducts(request, host.linux()), machine, capture, changes)


def dry_run(request: Request, conducts: Conducts) -> int:
    """Prints the plan and the commands of its first step; records nothing but the probe."""
    machine = topology.read()
    conductor = conducts(request, host.linux())
    steps = conductor.steps(machine)
    with _changes() as changes:
        capture = prepare(request, machine, changes)
        stop_signals.check()
    for line in [*told(capture), *conductor.said_first()]:
        click.echo(line)
    for step in steps:
        conductor.preview(step, machine)
        click.echo(describe(step))
    place = Path("STEP")
    if capture.rung != "none":
        for command in perf.commands(capture, place, request.pid):
            click.echo(f"recorder: {shlex.join(command)}")
    first = steps[0]
    if first.cell is not None and first.workload is not None:
        command = workload_program.cell_command(
            cells.words(first), request.seconds or 0.0, place
        )  # fmt: skip
        click.echo(f"workload: {shlex.join(command)}")
    elif first.workload is not None and first.threads is not None:
        command = workload_program.run_command(
            first.workload, request.variant, first.threads, first.planned_cpus,
            request.seconds or 0.0, place, request.kernel_options,
        )  # fmt: skip
        click.echo(f"workload: {shlex.join(command)}")
    elif request.command:
        click.echo(f"command: {shlex.join(request.command)}")
    click.echo(f"{len(steps)} steps, about {minutes(sum(_costs(steps, request, capture)))}")
    return 0


def prepare(request: Request, machine: Topology, changes: Changes) -> perf.Capture:
    """The best capture that is permitted here, with its counters."""
    if perf.program() is not None:
        changes.mount_tracefs()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    online = sum(1 for cpu in machine.cpus if cpu.online)
    asked = request.buffers("linux")
    if asked is not None and asked.size * online > memory // 2:
        raise PlanError(
            f"--buffer-size: {perf.size_text(asked.size)} for each of {online} CPUs is more than "
            f"half of the memory ({perf.size_text(memory)}): give less"
        )
    capture = perf.climb(
        light=request.light,
        cpus=online,
        memory_bytes=memory,
        buffer_bytes=None if asked is None else asked.size,
    )
    capture = perf.add_counters(capture, request.counters, machine.pmus)
    if capture.rung == "switch_events_own" and not (
        request.workload or request.command or request.pid is not None
    ):
        why = "the whole machine: only a program of your own can be recorded here"
        return replace(capture, rung="none", missing=(why, perf.NOTHING))
    return capture


def told(capture: perf.Capture) -> list[str]:
    """What a recording will lack, and the command that would allow it."""
    if capture.rung == "full":
        return [f"not recorded: {text}" for text in capture.missing]
    lines = [f"recording kind: {capture.rung}"]
    lines += [f"not recorded: {text}" for text in capture.missing]
    if capture.allow:
        lines.append(f"to record all of it: {capture.allow}")
    return lines


def describe(step: Step) -> str:
    """One line of the plan."""
    parts = [f"{step.name:<32}"]
    if step.workload is not None or step.planned_cpus is not None:
        parts.append(workload_program.shown(step.planned_cpus))
    if step.oversubscribed and step.cell is None:
        parts.append("more threads than CPUs")
    if len(step.placements) > 1:
        parts.append(f"stands for {' and '.join(step.placements)}: the same plan")
    return "  ".join(parts).rstrip()


def _run(
    session: Session,
    conductor: Conductor,
    machine: Topology,
    capture: perf.Capture,
    changes: Changes,
) -> int:
    request = conductor.request
    todo = [step for step in session.steps if step.state != "done"]
    for line in [*told(capture), *conductor.said_first()]:
        click.echo(line, err=True)
    if request.experiment:
        took = minutes(sum(_costs(todo, request, capture)))
        click.echo(f"{len(todo)} steps, about {took}", err=True)
    job = Job(
        request.seconds, request.variant, request.command, request.pid, request.kernel_options
    )
    runner = Runner(job, capture)
    stopped: str | None = None
    code = 0
    mended: list[int] = []
    with conductor, Sweep(_costs(todo, request, capture)) as bar:
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
                mended += [check["mended"] for check in row["checks"] if check.get("mended")]
                if row["interrupted"]:
                    stopped, code = "interrupted", 130
            if step.state != "done":
                session.discard(step)
            if stopped:
                break
            _save(session)
    if mended:
        click.echo(_mended(len(mended), sum(mended)), err=True)
    changes.undo()
    session.head["changed"] = _merged(session.head.get("changed", []), changes)
    _save(session)
    return _close(session, stopped, code, is_shared=changes.is_shared)


def _close(session: Session, stopped: str | None, code: int, *, is_shared: bool) -> int:
    """The last lines: how many steps there are, what failed, what to type next."""
    done = [step for step in session.steps if step.state == "done"]
    failed = [step for step in session.steps if step.state == "failed"]
    folder = shlex.quote(str(session.folder))
    for row in session.head["changed"]:
        if row["restored"]:
            state = "undone"
        elif is_shared:
            state = "another run still uses it and will undo it"
        else:
            state = "not undone: run `schedlens doctor --restore`"
        click.echo(f"changed on this machine: {row['what']} ({state})", err=True)
    if stopped:
        click.echo(f"{stopped}; {len(done)} of {len(session.steps)} steps are whole", err=True)
        if len(done) < len(session.steps):
            click.echo(f"to go on: collect --resume {folder}", err=True)
    elif failed:
        click.echo(f"{len(failed)} of {len(session.steps)} steps failed", err=True)
    if done:
        noun = "step" if len(done) == 1 else "steps"
        click.echo(f"recorded {len(done)} {noun} in {session.folder}; now type: analyze {folder}")
    if code == 130:
        return 130
    if not done:
        return 2
    return 1 if stopped or failed else 0


def _save(session: Session) -> None:
    """Writes session.json; a full disk leaves the older one, which is whole and still true."""
    with contextlib.suppress(NoSpaceError):
        session.save()


def _outcome(step: Step, row: dict[str, Any]) -> str:
    """One line on a finished step."""
    parts = [f"{step.name}:", f"{(row['end_mono_ns'] - row['begin_mono_ns']) / 1e9:.2f} s"]
    done = row.get("throughput")
    if done:
        rate, unit = done["per_s"], done["unit"]
        parts.append(f"{rate / 2**20:.1f} MiB/s" if unit == "bytes" else f"{rate:.4g} {unit}/s")
    if row["overhead"]:
        parts.append(_recorder(row["overhead"]))
    if len(step.placements) > 1:
        parts.append(f"stands for {' and '.join(step.placements)}")
    if step.oversubscribed:
        parts.append("more threads than CPUs")
    parts += [f"warning: {text}" for text in row["warnings"]]
    return "  ".join(parts)


def _recorder(overhead: dict[str, Any]) -> str:
    """What the recorder cost, or that it cannot be told from what the batches differ by."""
    cost = 100 * (1 - overhead["recorded_per_s"] / overhead["baseline_per_s"])
    spread = overhead["spread_pct"]
    if abs(cost) <= spread:
        return f"recorder's cost below the noise (spread {spread:.1f} %)"
    if cost < 0:
        behind = 100 * (1 - overhead["baseline_per_s"] / overhead["recorded_per_s"])
        return (
            f"recorder's cost not found: the run without it was disturbed ({behind:.1f} % slower)"
        )
    return f"recorder: {cost:.1f} % slower"


def _mended(steps: int, switches: int) -> str:
    """One line for a sweep on switches that the scheduler's own event lacks."""
    return (
        f"{switches} switches in {steps} step{'' if steps == 1 else 's'} were taken from the "
        "second kind of record, since the kernel wrote none of the first: nothing is unknown by it"
    )


def _costs(steps: list[Step], request: Request, capture: perf.Capture) -> list[float]:
    """Seconds that each step is expected to take."""
    seconds = request.seconds or 10.0
    doubled = request.experiment is None and request.workload is not None and capture.rung != "none"
    return [STEP_COST_S + seconds * (2 if doubled and step.repeat == 1 else 1) for step in steps]


@contextlib.contextmanager
def _changes() -> Iterator[Changes]:
    """The changes to this machine, undone whatever happens; a request to end is an interrupt."""
    changes = Changes()
    with stop_signals.handled():
        try:
            yield changes
        finally:
            changes.undo()


def _capture_json(capture: perf.Capture) -> dict[str, Any]:
    return {
        "rung": capture.rung,
        "missing": list(capture.missing),
        "allow": capture.allow,
        "perf_version": capture.version,
        "counters": [event for group in capture.groups for event in group.events],
    }


def _changed_json(changes: Changes) -> list[dict[str, Any]]:
    return [asdict(change) for change in changes.made]


def _merged(rows: list[dict[str, Any]], changes: Changes) -> list[dict[str, Any]]:
    """Earlier runs' changes, then this run's in their last state."""
    mine = _changed_json(changes)
    return [*rows[: len(rows) - len(mine)], *mine] if mine else rows


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
