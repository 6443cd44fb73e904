"""A process that restores settings, or ends a recording, when the program ends for any reason.

It reads from a pipe whose other end only that program has, so it notices at once when the program
ends, even by SIGKILL. It runs in its own session (on Windows, in its own hidden console) and
ignores signals from a terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from schedlens.errors import KnobError
from schedlens.record import changes
from schedlens.record.former_settings import put_back

_READY_LIMIT_S = 30.0
# What the program says before it ends in an orderly way.
_DONE = b"done\n"
# Switching CPUs off and on again is slow on a machine with hundreds of them.
_END_LIMIT_S = 120.0


class Guard:
    """Watches settings and their values; `close` restores them and waits for that."""

    def __init__(
        self,
        contents: Sequence[tuple[str, str]],
        *,
        written_down: bool = False,
        commands: Sequence[Sequence[str]] = (),
    ) -> None:
        """Starts the guard; returns once it watches. Raises `KnobError`.

        `written_down`: after restoring the settings, it also deletes their record in `changes`.
        `commands` are run if this program ends without `close`.
        """
        given = json.dumps([list(contents), [list(command) for command in commands]])
        command = [sys.executable, "-m", "schedlens.record.boost_guard", given]
        command += ["forget"] if written_down else []
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
                | getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise KnobError(f"cannot start the settings guard: {error.strerror}") from None
        assert self._process.stdout is not None
        # Windows ends lines with \r\n.
        if self._process.stdout.readline().rstrip() != b"ready":
            self._process.kill()
            self._process.wait()
            raise KnobError("the settings guard did not start: nothing was changed")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self) -> bool:
        """Makes it restore what was changed; returns whether all of it was restored.

        The commands are not run: what they would end has ended.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(_DONE)
            self._process.stdin.close()
        try:
            code = self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            return False
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
        return code == 0


def main() -> int:
    """Waits for the end of standard input, then does what the argument says."""
    settings, commands = json.loads(sys.argv[1])
    contents = [(str(name), str(text)) for name, text in settings]
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    said = b""
    while block := os.read(0, 4096):
        said += block
    if said != _DONE:
        for command in commands:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, timeout=_END_LIMIT_S, check=False,
                )  # fmt: skip
    if put_back(contents):
        return 1
    if sys.argv[2:] == ["forget"]:
        changes.forget(contents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
