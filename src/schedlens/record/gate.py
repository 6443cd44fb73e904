"""Programs that are set up, wait at a gate, and run when told."""

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
# What a run may take beyond its measured interval.
GRACE_S = 120.0

# Waits for a line, then becomes the program. The program keeps this process id, so a recorder can
# follow it from its first instruction. Should this program end before, the gate ends too.
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
                # A session of its own is an autogroup of its own, and keeps Ctrl-C away.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkloadError(f"{command[0]} cannot be run: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Waits until it is set up; raises `WorkloadError` with its own words."""
        self._expect("ready", READY_LIMIT_S)

    def go(self) -> None:
        """Lets it run."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def interrupt(self) -> None:
        """Ends its measured interval now; what it measured so far counts."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGINT)

    def wait_done(self, seconds: float) -> None:
        """Waits for the end of an interval of `seconds`; raises `WorkloadError`."""
        self._expect("done", seconds + GRACE_S)

    def finish(self) -> int:
        """Waits until it has written its files; its exit code."""
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
        """Ends it, whatever its state."""
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
                    why = self.said or f"it ended with code {code}"
                    raise WorkloadError(f"no '{word}' from the workload: {why}")
        raise WorkloadError(f"no '{word}' from the workload within {limit_s:g} s")


class GatedCommand:
    """Any program, held before its first instruction."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._temporary = TemporaryFolder()
        gate = self._temporary.path / "gate"
        os.mkfifo(gate, 0o600)
        # Read and write: opening never blocks.
        self._gate = os.open(gate, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "sh", str(gate), *self.command], start_new_session=True
            )
        except OSError as error:
            raise WorkloadError(f"/bin/sh cannot be run: {error.strerror}") from None

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
        """Ends it, whatever its state."""
        with contextlib.suppress(OSError):
            os.close(self._gate)
        _end(self._process)
        self._temporary.remove()


def running(pid: int) -> bool:
    """Whether a process is there, and is more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the whole session of the process to end, then makes it."""
    for sign, patience_s in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
