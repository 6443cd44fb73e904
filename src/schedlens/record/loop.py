"""A collection from its plan to the last step: prepare, record, undo, report."""

from __future__ import annotations

import contextlib
import platform as python_platform
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import click

import schedlens
from schedlens.errors import NoSpaceError, SchedlensError, SessionError
from schedlens.load.session_file import SavedExperiment, SessionFile, Step
from schedlens.load.step_file import StepFile
from schedlens.machine import stop_signals
from schedlens.machine.topology import Topology
from schedlens.output.progress import Sweep
from schedlens.output.wording import count, minutes
from schedlens.record.conductor import Conductor, Conducts, Judges
from schedlens.record.platform import Platform, Recorder
from schedlens.record.request import Request
from schedlens.record.session import Session


def begin(
    platform: Platform,
    request: Request,
    output: Path | None,
    conducts: Conducts,
    judges: Judges,
) -> int:
    """Records a new session; returns the exit code of the command."""
    request = platform.resolved(request)
    with stop_signals.handled(), platform.changing():
        machine = platform.topology()
        conductor = conducts(request, platform.host)
        steps = conductor.steps(machine)
        stamp = datetime.now(UTC)
        folder = output or Path(f"schedlens-{request.name}-{stamp:%Y%m%dT%H%M%SZ}")
        platform.prepare(request, machine)
        stop_signals.check()
        session = created(
            platform, request, machine, folder, steps, stamp, experiment=conductor.about()
        )
        return _run(platform, session, conductor, machine, judges)


def created(
    platform: Platform,
    request: Request,
    machine: Topology,
    folder: Path,
    steps: Sequence[Step],
    stamp: datetime,
    *,
    experiment: SavedExperiment | None = None,
) -> Session:
    """A new session with these steps. Raises `SessionError` if the folder is not empty."""
    system = platform.facts()
    file = SessionFile(
        tool_version=schedlens.__version__,
        created_utc=f"{stamp:%Y-%m-%dT%H:%M:%SZ}",
        host=python_platform.node(),
        command=(Path(sys.argv[0]).name, *sys.argv[1:]),
        request=request,
        topology=machine.saved,
        **{field.name: getattr(system, field.name) for field in fields(system)},
        experiment=experiment,
        steps=tuple(steps),
    )
    return Session.create(folder, file)


def resume(platform: Platform, session: Session, conducts: Conducts, judges: Judges) -> int:
    """Records the missing steps of a session. Raises `SessionError` on another machine."""
    folder = session.folder
    request = Request.of_session(session.file)
    with stop_signals.handled(), platform.changing():
        machine = platform.topology()
        if machine.saved != session.file.topology:
            raise SessionError(
                f"{folder} was recorded on other CPUs than this machine has now: start a new "
                "session"
            )
        if all(step.state == "done" for step in session.steps):
            click.echo(
                f"all {len(session.steps)} steps of {folder} are recorded. Next: analyze "
                f"{platform.quoted(folder)}"
            )
            return 0
        platform.prepare(request, machine)
        stop_signals.check()
        platform.check_same(session.file, folder)
        return _run(platform, session, conducts(request, platform.host), machine, judges)


def dry_run(platform: Platform, request: Request, output: Path | None, conducts: Conducts) -> int:
    """Prints the plan and the commands of its first step; records only a probe."""
    with stop_signals.handled(), platform.changing():
        machine = platform.topology()
        conductor = conducts(request, platform.host)
        steps = conductor.steps(machine)
        for line in platform.preview(conductor, machine, steps, output):
            click.echo(line)
    return 0


def _run(
    platform: Platform, session: Session, conductor: Conductor, machine: Topology, judges: Judges
) -> int:
    request = conductor.request
    recorder = platform.recorder(request, session)
    todo = _todo(session)
    for line in [*platform.lacks(), *conductor.said_first()]:
        click.echo(line, err=True)
    if request.experiment:
        took = sum(platform.cost_s(session.steps[number], request) for number in todo)
        click.echo(f"{len(todo)} steps, about {minutes(took)}", err=True)
    stopped: str | None = None
    code = 0
    rows: list[StepFile] = []
    disturbed: set[str] = set()
    judged: set[str] = set()
    with conductor:
        conductor.begin(machine)
        while todo:
            stopped, code = _steps(platform, session, conductor, recorder, todo, rows)
            if stopped or not request.experiment:
                break
            # After `--resume`, also the steps of earlier runs.
            done = {step.name for step in session.steps if step.state == "done"} - judged
            disturbed |= judges(session.folder, sorted(done))
            judged |= done
            more = conductor.replacements(session.steps, disturbed)
            if not more:
                break
            took = sum(platform.cost_s(step, request) for step in more)
            click.echo(
                f"{count(len(disturbed), 'step')} so far disturbed by other programs or the "
                f"hypervisor: repeating {count(len(more), 'step')}, about {minutes(took)}",
                err=True,
            )
            session.steps += more
            _save(session)
            todo = _todo(session)
    for line in [*platform.summary(rows), *conductor.shortfall(session.steps, disturbed)]:
        click.echo(line, err=True)
    changes = platform.undo(session)
    _save(session)
    for line in changes:
        click.echo(line, err=True)
    return _close(platform, session, stopped, code)


def _todo(session: Session) -> list[int]:
    return [number for number, step in enumerate(session.steps) if step.state == "planned"]


def _steps(
    platform: Platform,
    session: Session,
    conductor: Conductor,
    recorder: Recorder,
    todo: list[int],
    rows: list[StepFile],
) -> tuple[str | None, int]:
    """Records these steps; returns why it stopped before the last one, and the exit code."""
    costs = [platform.cost_s(session.steps[number], conductor.request) for number in todo]
    stopped: str | None = None
    code = 0
    with Sweep(costs) as bar:
        for number in todo:
            step = session.steps[number]
            try:
                stop_signals.check()
                bar.begin(step.name)
                step = conductor.enter(step, session)
                row = recorder.run(step, session.begin(step))
            except KeyboardInterrupt:
                stopped, code = "interrupted", 130
            except NoSpaceError as error:
                stopped = str(error)
            except SchedlensError as error:
                step = replace(step, state="failed", why=str(error))
                bar.end(f"{step.name}: failed: {error}")
            else:
                step = replace(step, state="done", why=None)
                bar.end(_outcome(platform, step, row))
                rows.append(row)
                if row.interrupted:
                    stopped, code = "interrupted", 130
            session.steps[number] = step
            if step.state != "done":
                session.discard(step)
            if stopped:
                break
            _save(session)
    return stopped, code


def _close(platform: Platform, session: Session, stopped: str | None, code: int) -> int:
    """Prints the last lines: number of steps, failures, and the next command."""
    done = [step for step in session.steps if step.state == "done"]
    failed = [step for step in session.steps if step.state == "failed"]
    folder = platform.quoted(session.folder)
    if stopped:
        click.echo(f"{stopped}; {len(done)} of {len(session.steps)} steps are complete", err=True)
        if len(done) < len(session.steps):
            click.echo(f"to continue: collect --resume {folder}", err=True)
    elif failed:
        click.echo(f"{len(failed)} of {len(session.steps)} steps failed", err=True)
    if done:
        noun = "step" if len(done) == 1 else "steps"
        click.echo(f"recorded {len(done)} {noun} in {session.folder}. Next: analyze {folder}")
    if code:
        return code
    if not done:
        return 2
    return 1 if stopped or failed else 0


def _save(session: Session) -> None:
    """Writes session.json; if the disk is full, the older file remains, which is still valid."""
    with contextlib.suppress(NoSpaceError):
        session.save()


def _outcome(platform: Platform, step: Step, row: StepFile) -> str:
    """One line about a finished step."""
    parts = [f"{step.name}:", f"{(row.end_mono_ns - row.begin_mono_ns) / 1e9:.2f} s"]
    if row.throughput is not None:
        rate, unit = row.throughput.per_s, row.throughput.unit
        parts.append(f"{rate / 2**20:.1f} MiB/s" if unit == "bytes" else f"{rate:.4g} {unit}/s")
    parts += platform.remarks(row)
    if len(step.placements) > 1:
        parts.append(f"same plan for {' and '.join(step.placements)}")
    if step.oversubscribed:
        parts.append("more threads than CPUs")
    parts += [f"warning: {text}" for text in row.warnings]
    return "  ".join(parts)
