"""A program that is controlled line by line, on any system.

Windows cannot wait for pipes, so a thread reads the program's output.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

from schedlens.errors import WorkloadError

# How often to check for a request to stop.
POLL_S = 0.2
END_S = 10.0


def start(
    command: Sequence[str], *, spoken_with: bool = True, error: int | None = None
) -> subprocess.Popen[bytes]:
    """Starts a program that Ctrl-C on this terminal does not reach. Raises `WorkloadError`.

    `spoken_with`: through pipes; else it has this terminal.
    """
    pipe = subprocess.PIPE if spoken_with else None
    try:
        return subprocess.Popen(
            list(command),
            stdin=pipe,
            stdout=pipe,
            stderr=error,
            # Its own process group, so that it can be stopped separately.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            start_new_session=sys.platform != "win32",
        )
    except OSError as caught:
        raise WorkloadError(f"cannot run {command[0]}: {caught.strerror or caught}") from None


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Sends the event of Ctrl-Break, or on other systems the signal of Ctrl-C."""
    # SystemError: what Python raises on Windows if there is no console.
    with contextlib.suppress(OSError, ValueError, SystemError):
        process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))


def end(process: subprocess.Popen[bytes]) -> None:
    """Asks a program to end, then kills it."""
    for gently in (True, False):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            if gently:
                ask_to_end(process)
            else:
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class Conversation:
    """A running program and its lines in order."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = start(command, error=self._errors.fileno())
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._lines.put(line.decode("utf-8", "replace").rstrip("\r\n"))
        self._lines.put(None)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def say(self, line: str) -> None:
        """Writes a line to it; if it has ended, the next `hear` reports that."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def hear(self, limit_s: float) -> str:
        """Its next line. Raises `WorkloadError` if it ends or is silent for `limit_s`."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            try:
                line = self._lines.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if line is None:
                code = self._process.wait()
                raise WorkloadError(self.said or f"{self.command[0]} exited with code {code}")
            return line
        raise WorkloadError(f"{self.command[0]} said nothing for {limit_s:g} s")

    def expect(self, word: str, limit_s: float) -> None:
        """Waits for a line. Raises `WorkloadError`."""
        while self.hear(limit_s) != word:
            pass

    def ask_to_end(self) -> None:
        """Asks it to end its current work; the results so far count."""
        ask_to_end(self._process)

    def finish(self, limit_s: float) -> int:
        """Waits for its end; returns its exit code. Raises `WorkloadError`."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(POLL_S)
        raise WorkloadError(f"{self.command[0]} did not end within {limit_s:g} s")

    @property
    def said(self) -> str:
        """The last line on its standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def kill(self) -> None:
        """Ends it in any state."""
        end(self._process)
