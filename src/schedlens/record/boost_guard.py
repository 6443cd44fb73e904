"""A process that puts settings back when the program that changes them is gone, however it ended.

It holds one end of a pipe of which only that program has the other: its end, by SIGKILL too, is
seen at once. It is in a session of its own (on Windows: has a console of its own, unseen) and
ignores what a terminal sends.
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
# Taking CPUs off and on again takes its time on a machine with hundreds of them.
_END_LIMIT_S = 120.0


class Guard:
    """Watches over settings and what they hold; `close` has it put back and waits for it."""

    def __init__(self, contents: Sequence[tuple[str, str]], *, written_down: bool = False) -> None:
        """Starts it; returns once it watches. Raises `KnobError`.

        `written_down`: it also strikes out what `changes` remembers of them, once it is put back.
        """
        given = json.dumps(list(contents))
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
            raise KnobError(f"the guard cannot be started: {error.strerror}") from None
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self._process.kill()
            self._process.wait()
            raise KnobError("the guard of the settings did not start: nothing was changed")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self) -> bool:
        """Lets it put back what was changed; whether all of it is back."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
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
    """Waits for the end of standard input, then puts back what the argument says."""
    contents = [(str(name), str(text)) for name, text in json.loads(sys.argv[1])]
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while os.read(0, 4096):
        pass
    if put_back(contents):
        return 1
    if sys.argv[2:] == ["forget"]:
        changes.forget(contents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
