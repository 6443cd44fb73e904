"""Runs trace_processor as a server on this machine, for as long as a recording is open.

The package `perfetto` could start it, but looks only once a second whether it serves.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time

from schedlens.errors import RecorderError
from schedlens.output.leftover import TemporaryFolder

_HOST = "localhost"
_START_S = 60.0
_WAIT_S = 0.01


class Engine:
    """A running trace_processor; also a context manager.

    Raises `RecorderError` with what the program printed if it does not start.
    """

    def __init__(self, program: str, how_to_get_it: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        # On Windows, a program that is no .exe is a script in Python.
        script = os.name == "nt" and not program.lower().endswith(".exe")
        command = [*([sys.executable] if script else []), program, "-D", "--http-port"]
        self._temporary = TemporaryFolder()
        self._log = self._temporary.path / "log"
        try:
            with self._log.open("wb") as said:
                self._process = subprocess.Popen(
                    [*command, str(self._port)],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    # A wrapper's children end with it.
                    start_new_session=True,
                )
        except OSError as error:
            self._temporary.remove()
            raise RecorderError(
                f"{program} does not start ({error.strerror or error}): {how_to_get_it}"
            ) from None
        if not self._serves():
            reason = self._reason()
            self.close()
            raise RecorderError(f"{program} does not start ({reason}): {how_to_get_it}")

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{_HOST}:{self._port}"

    def _serves(self) -> bool:
        """Waits until it answers; False if it ended or takes too long."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            connection = http.client.HTTPConnection(_HOST, self._port, timeout=_START_S)
            try:
                connection.request("GET", "/status")
                return connection.getresponse().status == http.HTTPStatus.OK
            except (OSError, http.client.HTTPException):
                time.sleep(_WAIT_S)
            finally:
                connection.close()
        return False

    def _reason(self) -> str:
        with self._log.open("rb") as said:
            lines = said.read(1 << 16).decode("utf-8", "replace").splitlines()
        words = [line.strip() for line in lines if line.strip()]
        if words:
            return words[-1][:200]
        code = self._process.poll()
        if code is None:
            return f"it did not serve within {_START_S:g} s"
        return f"it ended with code {code}"

    def close(self) -> None:
        """Ends it and what it started."""
        if os.name == "nt":
            self._process.kill()
        else:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()
        self._process.wait()
        self._temporary.remove()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
