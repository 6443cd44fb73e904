"""perf as a flight recorder: buffers that overwrite their oldest events, written on request."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

from schedlens.errors import RecorderError
from schedlens.output.leftover import TemporaryFolder

from .perf import MAIN_FILE, Recorder, Run, fifos
from .perf_command import MEBI, Capture, record

# A share of the memory for all buffers together: they cannot be paged out.
MOST_OF_MEMORY = 0.25
# The busiest CPU records more than the average one, and incidents more than ordinary times.
MARGIN = 2.0
PROBE_S = 1.0
DUMP_LIMIT_S = 300.0
_DUMPED = re.compile(r"Dump (\S+)")


def bytes_per_s(capture: Capture, cpus: int) -> float:
    """What this machine records now, in bytes a second for each CPU."""
    with TemporaryFolder() as folder:
        recorder = Recorder(replace(capture, ring_s=None), folder)
        try:
            recorder.enable()
            began = time.monotonic()
            time.sleep(PROBE_S)
            recorder.disable()
            took = time.monotonic() - began
            recorder.stop()
        finally:
            recorder.abort()
        return (folder / MAIN_FILE).stat().st_size / took / max(cpus, 1)


def sized(capture: Capture, rate: float, cpus: int, memory_bytes: int) -> Capture:
    """The capture with buffers for its seconds at `rate`, or as large as the memory permits."""
    assert capture.ring_s is not None
    needed = rate * capture.ring_s * MARGIN
    most = memory_bytes * MOST_OF_MEMORY / max(cpus, 1)
    size = MEBI
    while size < needed and 2 * size <= most:
        size *= 2
    return replace(capture, buffer_bytes=size)


class RingRecorder:
    """A perf process that keeps the newest events until `save` writes them."""

    def __init__(self, capture: Capture, folder: Path) -> None:
        """`folder`: where perf writes; on the disk of the session, because files are renamed."""
        self._folder = folder
        self._temporary = TemporaryFolder()
        try:
            control = fifos(self._temporary.path, "ring")
            self.command = record(capture, folder / MAIN_FILE, control=control)
            self._run = Run(self.command, control, self._temporary.path / "ring.log")
        except BaseException:
            self._temporary.remove()
            raise
        self._dumps = 0

    @property
    def pid(self) -> int:
        """The process id of perf."""
        return self._run.pid

    def enable(self) -> None:
        """Starts recording. Raises `RecorderError` with perf's message if perf has ended."""
        self._run.send("enable", 120.0)

    def save(self, path: Path) -> None:
        """Writes the events in the buffers to a file; recording continues.

        Raises `RecorderError` if perf does not write them.
        """
        self._run.request_dump()
        deadline = time.monotonic() + DUMP_LIMIT_S
        while time.monotonic() < deadline:
            # perf reports a file after it has completed it.
            found = _DUMPED.findall(self._run.said())
            if len(found) > self._dumps:
                self._dumps = len(found)
                Path(found[-1]).replace(path)
                return
            time.sleep(0.02)
        raise RecorderError(f"perf did not write its buffers within {DUMP_LIMIT_S:g} s")

    def close(self) -> None:
        """Ends perf without keeping what is in the buffers."""
        self._run.kill()
        self._temporary.remove()
        for path in self._folder.glob(f"{MAIN_FILE}*"):
            path.unlink(missing_ok=True)
