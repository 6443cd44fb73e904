"""The perf recorder: one process a step, started and stopped precisely through a pair of fifos."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from schedlens.errors import NoSpaceError, RecorderError
from schedlens.output.leftover import TemporaryFolder

from .perf_checks import check, usable
from .perf_command import Capture, CounterGroup, record, record_group, size_text
from .perf_counters import add as add_counters
from .perf_fallback import NOTHING, best_capture, environment, program, reason, version
from .perf_generated import PERF_MAPS, keep_generated_code
from .perf_stacks import KALLSYMS_COPY, keep_kernel_symbols
from .perf_stacks import add as add_stacks

__all__ = [
    "KALLSYMS_COPY",
    "NOTHING",
    "PERF_MAPS",
    "Capture",
    "Recorder",
    "Run",
    "add_counters",
    "add_stacks",
    "best_capture",
    "check",
    "commands",
    "fifos",
    "keep_generated_code",
    "keep_kernel_symbols",
    "program",
    "size_text",
    "usable",
    "version",
]

MAIN_FILE = "perf.data"
START_LIMIT_S = 120.0
STOP_LIMIT_S = 600.0
ACK_LIMIT_S = 60.0
# Exit codes of perf when the processes it follows have ended: none, or that of the program
# `until`, which perf then stops.
FOLLOWED_ENDED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


def commands(capture: Capture, folder: Path, pids: Sequence[int] = ()) -> list[list[str]]:
    """The command lines of a step as `Recorder` runs them, without the names of its fifos."""
    control = (Path("CONTROL"), Path("ACK"))
    lines = [record(capture, folder / MAIN_FILE, control=control, pids=pids)]
    for group in capture.groups:
        if group.cpus is not None:
            output = folder / counters_file(group)
            lines.append(record_group(capture, group, output, control=control))
    return lines


class Recorder:
    """A perf process that is started and waits: `enable` starts the recording, `disable` stops it.

    If schedlens is killed, perf sees the end of its standard input and closes its file.
    """

    def __init__(self, capture: Capture, folder: Path, pids: Sequence[int] = ()) -> None:
        self._temporary = TemporaryFolder()
        self._own = self._temporary.path
        self.commands: list[list[str]] = []
        self._runs: list[Run] = []
        try:
            control = fifos(self._own, "main")
            self._begin(
                record(capture, folder / MAIN_FILE, control=control, pids=pids), control, "main"
            )
            for group in capture.groups:
                if group.cpus is not None:
                    name = group.pmu or "counters"
                    control = fifos(self._own, name)
                    output = folder / counters_file(group)
                    command = record_group(capture, group, output, control=control)
                    self._begin(command, control, name)
        except BaseException:
            self.abort()
            raise

    def _begin(self, command: list[str], control: tuple[Path, Path], name: str) -> None:
        self.commands.append(command)
        self._runs.append(Run(command, control, self._own / f"{name}.log"))

    def enable(self) -> None:
        """Starts recording. Raises `RecorderError` with perf's message if perf has ended."""
        for run in self._runs:
            run.send("enable", START_LIMIT_S)

    def disable(self) -> None:
        """Stops recording. The files are complete only after `stop`."""
        for run in self._runs:
            run.send("disable", ACK_LIMIT_S)

    def stop(self) -> None:
        """Ends perf and waits for its files. Raises `NoSpaceError` or `RecorderError`."""
        try:
            for run in self._runs:
                run.stop()
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends perf in any state. Its files must not be used."""
        for run in self._runs:
            run.kill()
        self._temporary.remove()


class Run:
    """One perf process and its fifos."""

    def __init__(self, command: list[str], control: tuple[Path, Path], log: Path) -> None:
        self._log = log
        self._follows = "-p" in command
        self._output = Path(command[command.index("-o") + 1])
        # Open for reading and writing: opening never blocks, and perf never sees a hang-up.
        self._commands = os.open(control[0], os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._answers = os.open(control[1], os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        with log.open("wb") as out:
            try:
                self._process = subprocess.Popen(
                    command,
                    env=environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=out,
                    # Ctrl-C must reach only schedlens, which then ends perf cleanly.
                    start_new_session=True,
                )
            except OSError as error:
                raise RecorderError(f"cannot run {command[0]}: {error.strerror}") from None

    def send(self, word: str, limit_s: float) -> None:
        """Sends a command and waits up to `limit_s` seconds for its acknowledgement."""
        os.write(self._commands, f"{word}\n".encode())
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._answers], [], [], 0.1)
            if ready and b"ack" in os.read(self._answers, 64):
                return
            code = self._process.poll()
            if code is not None:
                # perf ends by itself with the last of the threads it follows.
                if word == "disable" and self._follows and code in FOLLOWED_ENDED:
                    return
                raise self._failure(f"perf ended with code {code} before '{word}'")
        raise self._failure(f"perf did not answer '{word}' within {limit_s:g} s")

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise self._failure(f"perf did not end within {STOP_LIMIT_S:g} s") from None
        fine = FOLLOWED_ENDED if self._follows else (0,)
        if code not in fine or "No space left" in self._said():
            raise self._failure(f"perf ended with code {code}")

    def request_dump(self) -> None:
        """Has perf write the events of an overwriting recording to a file of their own."""
        code = self._process.poll()
        if code is not None:
            raise self._failure(f"perf ended with code {code} while it waited for an incident")
        self._process.send_signal(signal.SIGUSR2)

    @property
    def pid(self) -> int:
        """The process id of perf."""
        return self._process.pid

    def said(self) -> str:
        """What perf has written so far."""
        return self._said()

    def kill(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for handle in (self._commands, self._answers):
            with contextlib.suppress(OSError):
                os.close(handle)

    def _said(self) -> str:
        try:
            return self._log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _failure(self, what: str) -> RecorderError | NoSpaceError:
        said = self._said()
        if "No space left" in said:
            return NoSpaceError(
                f"no space left on the disk of {self._output.parent}. Free some and retry"
            )
        why = reason(said.replace("Events disabled", "").replace("Events enabled", ""))
        return RecorderError(f"{what}: {why}" if why else what)


def counters_file(group: CounterGroup) -> str:
    """Name of the file with the counters of one core type."""
    return f"counters-{group.pmu or 'all'}.data"


def fifos(folder: Path, name: str) -> tuple[Path, Path]:
    """The fifos for commands to a perf process and for its answers."""
    paths = (folder / f"{name}.ctl", folder / f"{name}.ack")
    for path in paths:
        os.mkfifo(path, 0o600)
    return paths
