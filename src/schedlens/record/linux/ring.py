"""The flight recorder: keeps the last seconds in memory and saves them when something happens.

Each incident becomes a session of its own, with the moment marked (`incident` in its step.json).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from schedlens.errors import PlanError, RecorderError
from schedlens.load import step_file
from schedlens.load.session_file import Step
from schedlens.load.step_file import Incident, StepFile
from schedlens.machine import stop_signals
from schedlens.machine.topology import Topology
from schedlens.output.whole_file import cannot_write, write_json
from schedlens.record import loop, plan
from schedlens.record.enter import Enter
from schedlens.record.linux import snapshot, triggers
from schedlens.record.linux.platform import Linux
from schedlens.record.linux.ring_options import RingOptions
from schedlens.record.request import Request

if TYPE_CHECKING:
    from collectors import perf, perf_ring
else:
    from schedlens.collectors import perf, perf_ring

Json = dict[str, Any]

# The time right after an incident helps to explain it.
AFTER_S = 0.5
POLL_S = 0.005
# Incidents without a time of their own happened within this time before they were noticed.
BEFORE_NS = 2_000_000_000
_FINAL = ("enter", "interrupt")


def require_tracepoints(capture: perf.Capture, who: str) -> None:
    """Raises `RecorderError` if only parts of the scheduling can be recorded here."""
    if capture.mode != "full":
        how = f"run `{capture.allow}` first" if capture.allow else "not permitted here"
        raise RecorderError(f"{who} records tracepoints of the whole machine: {how}")


def sized(capture: perf.Capture, machine: Topology) -> tuple[perf.Capture, float]:
    """The capture with buffers for its seconds, and the bytes a CPU writes in a second now."""
    cpus = sum(1 for cpu in machine.cpus if cpu.online)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    rate = perf_ring.bytes_per_s(capture, cpus)
    return perf_ring.sized(capture, rate, cpus, memory), rate


def run(request: Request, options: RingOptions, output: Path | None) -> int:
    """Keeps the last seconds until the end; returns the exit code of the command."""
    request = replace(request, seconds=None)
    platform = Linux(options.ring_s)
    with stop_signals.handled(), platform.changing():
        machine = platform.topology()
        platform.prepare(request, machine)
        capture = platform.capture
        require_tracepoints(capture, "--ring")
        cpus = sum(1 for cpu in machine.cpus if cpu.online)
        rate: float | None = None
        if request.buffers("linux") is None:
            capture, rate = sized(capture, machine)
        platform.use(capture)
        for line in platform.lacks():
            click.echo(line, err=True)
        click.echo(_promise(capture, options, rate, cpus), err=True)
        stamp = datetime.now(UTC)
        folder = output or Path(f"schedlens-{request.name}-{stamp:%Y%m%dT%H%M%SZ}")
        if folder.exists() and any(folder.iterdir()):
            raise PlanError(f"{folder} is not empty: choose another folder")
        return _Flight(platform, request, options, folder).run()


def _promise(capture: perf.Capture, options: RingOptions, rate: float | None, cpus: int) -> str:
    """What the ring keeps, and until when."""
    size = capture.buffer_bytes * cpus
    shown = f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} kB"
    until = "you press Enter" + (" or something happens" if options.has_threshold else "")
    now = f" (now {rate * cpus / 1e6:.2g} MB a second)" if rate is not None else ""
    return f"keeping the last {options.ring_s:g} s in {shown}{now} until {until}"


class _Edges:
    """Snapshots of the system at intervals, so that one is as old as the ring."""

    def __init__(self, ring_s: float) -> None:
        self._ring_ns = round(ring_s * 1e9)
        self._kept: deque[Json] = deque([snapshot.take("begin")])
        self._done = threading.Event()
        self._reader = threading.Thread(target=self._run, name="edges", daemon=True)
        self._reader.start()

    def _run(self) -> None:
        while not self._done.wait(self._ring_ns / 4e9):
            taken = snapshot.take("begin")
            while len(self._kept) > 1 and taken["mono_ns"] - self._kept[1]["mono_ns"] > (
                self._ring_ns
            ):
                self._kept.popleft()
            self._kept.append(taken)

    def before(self, end_ns: int) -> Json:
        """The newest snapshot that is as old as the ring, or the oldest one."""
        kept = list(self._kept)
        old = [row for row in kept if end_ns - row["mono_ns"] >= self._ring_ns]
        return old[-1] if old else kept[0]

    def close(self) -> None:
        """Ends the readings."""
        self._done.set()
        self._reader.join()


@dataclass
class _Flight:
    """One run of the recorder."""

    platform: Linux
    request: Request
    options: RingOptions
    folder: Path

    def run(self) -> int:
        self._saved: list[Path] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".ring-", dir=self.folder) as place:
                self._record(Path(place))
        except OSError as error:
            raise cannot_write(Path(error.filename or self.folder), error) from None
        finally:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        for saved in self._saved:
            click.echo(f"recorded {saved}. Next: analyze {self.platform.quoted(saved)}")
        return 0 if self._saved else 2

    def _record(self, place: Path) -> None:
        assert self.options.ring_s is not None
        recorder = perf_ring.RingRecorder(self.platform.capture, place)
        edges: _Edges | None = None
        try:
            recorder.enable()
            edges = _Edges(self.options.ring_s)
            with _signaled() as signaled:
                watched = self._triggers(recorder.pid)
                enter = Enter(alone=not self.options.has_threshold)
                number = 0
                while True:
                    incident = self._wait(watched, enter, signaled)
                    if incident.kind == "interrupt" and self._saved:
                        break
                    if incident.kind not in _FINAL:
                        time.sleep(AFTER_S)
                    number += 1
                    self._save(recorder, edges, incident, number)
                    if incident.kind in _FINAL or self.options.keep == 1:
                        break
                    for trigger in watched:
                        trigger.reset()
        finally:
            if edges is not None:
                edges.close()
            recorder.close()

    def _triggers(self, recorder_pid: int) -> list[triggers.Trigger]:
        options, pid = self.options, self.request.pid
        made: list[triggers.Trigger] = []
        if options.stop_on_ready_ms is not None:
            ignored = (os.getpid(), recorder_pid)
            made.append(triggers.Ready(options.stop_on_ready_ms, pid, ignored))
        if options.stop_on_cpu_pct is not None and pid is not None:
            made.append(triggers.CpuShare(options.stop_on_cpu_pct, pid))
        if options.stop_on_command is not None:
            made.append(triggers.Command(options.stop_on_command))
        if options.stop_on_frame_ms is not None and options.frames is not None:
            made.append(triggers.Frame(options.stop_on_frame_ms, options.frames))
        return made

    def _wait(
        self, watched: list[triggers.Trigger], enter: Enter, signaled: threading.Event
    ) -> Incident:
        """Waits for the first thing that happens."""
        try:
            with stop_signals.waiting():
                while True:
                    for trigger in watched:
                        incident = trigger.poll()
                        if incident is not None:
                            return incident
                    now = time.monotonic_ns()
                    if signaled.is_set():
                        signaled.clear()
                        return Incident("signal", now - BEFORE_NS, now)
                    if enter.pressed.wait(POLL_S if watched else 0.1):
                        return Incident("enter", now - BEFORE_NS, now)
        except KeyboardInterrupt:
            now = time.monotonic_ns()
            return Incident("interrupt", now - BEFORE_NS, now)

    def _save(
        self,
        recorder: perf_ring.RingRecorder,
        edges: _Edges,
        incident: Incident,
        number: int,
    ) -> None:
        """Writes an incident as a session, and removes those that are too many."""
        end = snapshot.take("end")
        begin = edges.before(end["mono_ns"])
        where = self.folder if self.options.keep == 1 else self.folder / f"incident-{number:03d}"
        (step,) = plan.single(self.request.name, 1)
        aside = Path(tempfile.mkdtemp(prefix=".saving-", dir=self.folder))
        try:
            recorder.save(aside / perf.MAIN_FILE)
            session = loop.created(
                self.platform, self.request, self.platform.topology(), aside / "session", [step],
                datetime.now(UTC),
            )  # fmt: skip
            inside = session.begin(step)
            (aside / perf.MAIN_FILE).rename(inside / perf.MAIN_FILE)
            not_kept: list[str] = []
            if self.request.stacks:
                perf.keep_kernel_symbols(session.folder)
                since = time.time() - (self.options.ring_s or 0) - 1
                not_kept = perf.keep_generated_code(inside, inside / perf.MAIN_FILE, since)
            if self.options.frames is not None:
                _keep_frames(self.options.frames, inside / "frames.csv", begin["mono_ns"])
            row = self._row(step, incident, begin, end, recorder.command)
            row = self._checked(row, inside)
            row = replace(row, warnings=(*row.warnings, *not_kept))
            write_json(inside / "begin.json", begin)
            write_json(inside / "end.json", end)
            write_json(inside / step_file.NAME, row.to_json())
            session.steps[0] = replace(step, state="done")
            session.save()
            where.mkdir(exist_ok=True)
            # session.json last: a folder without it is no session.
            for path in sorted(session.folder.iterdir(), key=lambda path: path.is_file()):
                path.rename(where / path.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        said = [f"incident {number}: {_described(incident)}"]
        said += [f"warning: {text}" for text in row.warnings]
        click.echo("  ".join(said), err=True)
        self._saved.append(where)
        while len(self._saved) > self.options.keep:
            shutil.rmtree(self._saved.pop(0), ignore_errors=True)

    def _row(
        self,
        step: Step,
        incident: Incident,
        begin: Json,
        end: Json,
        command: list[str],
    ) -> StepFile:
        row = step_file.planned(
            step, recorded=True, begin_mono_ns=begin["mono_ns"], end_mono_ns=end["mono_ns"]
        )
        return replace(
            row,
            missing=tuple(self.platform.capture.missing),
            perf_command=tuple(command),
            pid=self.request.pid,
            incident=incident,
        )

    def _checked(self, row: StepFile, folder: Path) -> StepFile:
        capture = self.platform.capture
        checks = perf.check(folder / perf.MAIN_FILE, capture, row.begin_mono_ns, row.end_mono_ns)
        why = perf.usable(checks)
        if why:
            raise RecorderError(why)
        warnings = tuple(f"{check.detail}: {check.advice}" for check in checks if not check.ok)
        return replace(row, checks=tuple(checks), warnings=warnings)


def _described(incident: Incident) -> str:
    """One line about what happened."""
    measured, limit = incident.measured or 0.0, incident.limit or 0.0
    if incident.kind == "ready":
        return f"thread {incident.tid} was ready for {measured:.1f} ms before it ran"
    if incident.kind == "cpu":
        return f"the process used {measured:.0f} % of a CPU, more than {limit:g} %"
    if incident.kind == "frame":
        return f"a frame took {measured:.1f} ms"
    return {
        "command": "the command exited with 0",
        "signal": "SIGUSR1",
        "enter": "Enter",
        "interrupt": "interrupted",
    }[incident.kind]


@contextlib.contextmanager
def _signaled() -> Iterator[threading.Event]:
    """An event that SIGUSR1 sets."""
    event = threading.Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        event.set()

    before = signal.signal(signal.SIGUSR1, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGUSR1, before)


def _keep_frames(source: Path, target: Path, from_ns: int) -> None:
    """Copies the head of a program's frames, and those that start in the ring."""
    with source.open("rb") as file:
        head = file.readline(1 << 20)
        names = [name.strip().lower() for name in head.decode("utf-8", "replace").split(",")]
        place = names.index("start_mono_ns") if "start_mono_ns" in names else None
        with target.open("wb") as copy:
            copy.write(head)
            for line in file:
                fields = line.split(b",")
                known = place is not None and place < len(fields) and fields[place].strip()
                if line.endswith(b"\n") and known and known.isdigit() and int(known) >= from_ns:
                    copy.write(line)
