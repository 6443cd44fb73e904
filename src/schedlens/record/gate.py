"""Programs that are set up, wait at a gate, and run on command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from schedlens.errors import WorkloadError
from schedlens.output.leftover import TemporaryFolder

# Memory kernels write 1 GiB before they are ready, on a machine that may be busy.
READY_LIMIT_S = 300.0
# How much longer a run may take than its measured interval.
GRACE_S = 120.0

# Waits for a line, then becomes the program. The program keeps this process id, so a recorder can
# follow it from its first instruction. If schedlens ends first, the gate ends too.
_GATE = 'read -r _ < "$1" || exit 130; shift; exec "$@"'


class GatedWorkload:
    """The workload program: `ready`, then `go`, then `done`."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._text = b""
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # A new session is also a new autogroup, and keeps Ctrl-C away.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkloadError(f"cannot run {command[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Waits until it is set up. Raises `WorkloadError` with its own message."""
        self._expect("ready", READY_LIMIT_S)

    def go(self) -> None:
        """Lets it run."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def interrupt(self) -> None:
        """Ends its measured interval now; the measurements so far count."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGINT)

    def wait_done(self, seconds: float) -> None:
        """Waits for the end of an interval of `seconds`. Raises `WorkloadError`."""
        self._expect("done", seconds + GRACE_S)

    def finish(self) -> int:
        """Waits until it has written its files; returns its exit code."""
        try:
            return self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            raise WorkloadError(f"the workload did not end within {GRACE_S:g} s") from None
        finally:
            self.kill()

    @property
    def said(self) -> str:
        """The last line on its standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def kill(self) -> None:
        """Ends it in any state."""
        _end(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _expect(self, word: str, limit_s: float) -> None:
        assert self._process.stdout is not None
        handle, deadline = self._process.stdout.fileno(), time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if select.select([handle], [], [], 0.5)[0]:
                got = os.read(handle, 4096)
                self._text += got
                if word.encode() in self._text.split(b"\n")[:-1]:
                    return
                if not got:
                    code = self._process.wait()
                    why = self.said or f"it exited with code {code}"
                    raise WorkloadError(f"no '{word}' from the workload: {why}")
        raise WorkloadError(f"no '{word}' from the workload within {limit_s:g} s")


class GatedCommand:
    """Any program, stopped before its first instruction."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._temporary = TemporaryFolder()
        gate = self._temporary.path / "gate"
        os.mkfifo(gate, 0o600)
        # Open for reading and writing, so that opening never blocks.
        self._gate = os.open(gate, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "sh", str(gate), *self.command], start_new_session=True
            )
        except OSError as error:
            raise WorkloadError(f"cannot run /bin/sh: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def go(self) -> None:
        """Lets it run."""
        os.write(self._gate, b"go\n")

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code; None if it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Ends it in any state."""
        with contextlib.suppress(OSError):
            os.close(self._gate)
        _end(self._process)
        self._temporary.remove()


def running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks all processes of the session to end, then kills them."""
    for sign, patience_s in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
