"""What makes a ring save its events: thresholds that are read from /proc, a file, or a command.

Each trigger has `poll`, which is called again and again and returns an incident once it happened.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from schedlens.load.step_file import Incident

# How often each trigger reads, at most; a reading that is expensive happens less often.
INTERVAL_S = 0.005
LIST_INTERVAL_S = 0.5
COST = 50
CPU_INTERVAL_S = 1.0
COMMAND_INTERVAL_S = 1.0
COMMAND_LIMIT_S = 10.0
_MOST_BYTES = 1 << 20


class Trigger(Protocol):
    """A condition that is checked again and again."""

    def poll(self) -> Incident | None:
        """The incident since the last call, if there was one."""
        ...

    def reset(self) -> None:
        """Forgets what happened so far: the ring was just saved."""
        ...


class Ready:
    """A thread that was ready for longer than a limit before it ran.

    The kernel adds each wait to the second number of `schedstat` when the thread gets its CPU. Of
    several waits in one interval only the first can have begun before it, so the interval's length
    separates one long wait from many short ones: each reported wait exceeded the limit, and each
    wait that exceeds it by the interval is reported.
    """

    def __init__(
        self, limit_ms: float, pid: int | None, ignored: Collection[int], proc: str = "/proc"
    ) -> None:
        self._limit_ns = limit_ms * 1e6
        self._pid = pid
        self._ignored = {str(number) for number in ignored}
        self._proc = proc
        self._last: dict[str, tuple[int, int, int]] = {}
        self._paths: dict[str, str] = {}
        self._next_list = self._next = 0.0

    def reset(self) -> None:
        self._last = {}

    def poll(self) -> Incident | None:
        now = time.monotonic()
        if now < self._next:
            return None
        began = time.thread_time()
        if now >= self._next_list:
            self._list()
            self._next_list = now + LIST_INTERVAL_S
        found = self._read()
        self._next = now + max(INTERVAL_S, COST * (time.thread_time() - began))
        return found

    def _list(self) -> None:
        pids = [str(self._pid)] if self._pid is not None else _numbers(self._proc)
        self._paths = {
            tid: f"{self._proc}/{pid}/task/{tid}/schedstat"
            for pid in pids
            if pid not in self._ignored
            for tid in _numbers(f"{self._proc}/{pid}/task")
        }
        self._last = {tid: row for tid, row in self._last.items() if tid in self._paths}

    def _read(self) -> Incident | None:
        worst: Incident | None = None
        for tid, path in self._paths.items():
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fields = os.read(handle, 128).split()
            except OSError:
                continue
            finally:
                os.close(handle)
            if len(fields) < 3:
                continue
            now = time.monotonic_ns()
            delay, runs = int(fields[1]), int(fields[2])
            before = self._last.get(tid)
            self._last[tid] = (now, delay, runs)
            if before is None or delay == before[1]:
                continue
            grown = delay - before[1]
            # With several waits, all but the first lie inside the interval.
            certain = grown if runs - before[2] <= 1 else grown - (now - before[0])
            if certain < self._limit_ns or (worst and certain <= (worst.measured or 0) * 1e6):
                continue
            worst = Incident(
                "ready",
                before[0] - grown,
                now,
                int(tid),
                certain / 1e6,
                self._limit_ns / 1e6,
            )
        return worst


class CpuShare:
    """A process that used more than a share of one CPU during a second."""

    def __init__(self, limit_pct: float, pid: int, proc: Path = Path("/proc")) -> None:
        self._limit_pct = limit_pct
        self._path = proc / str(pid) / "stat"
        self._tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._before: tuple[int, int] | None = None
        self._is_above = False

    def reset(self) -> None:
        self._before = None

    def poll(self) -> Incident | None:
        now = time.monotonic_ns()
        if self._before is not None and now - self._before[0] < CPU_INTERVAL_S * 1e9:
            return None
        try:
            fields = self._path.read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        used = (int(fields[11]) + int(fields[12])) * self._tick_ns
        before, self._before = self._before, (now, used)
        if before is None:
            return None
        share = 100.0 * (used - before[1]) / (now - before[0])
        # A process that keeps running is one incident.
        was_above, self._is_above = self._is_above, share > self._limit_pct
        if was_above or not self._is_above:
            return None
        return Incident("cpu", before[0], now, None, share, self._limit_pct)


class Command:
    """A command that exits with 0 when something has happened."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    def reset(self) -> None:
        self.close()

    def close(self) -> None:
        """Ends the command if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def poll(self) -> Incident | None:
        now = time.monotonic_ns()
        if self._process is None:
            if now - self._began < COMMAND_INTERVAL_S * 1e9:
                return None
            self._began = now
            self._process = subprocess.Popen(
                ["sh", "-c", self._command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            return None
        code = self._process.poll()
        if code is None:
            if now - self._began > COMMAND_LIMIT_S * 1e9:
                self.close()
            return None
        self._process = None
        # It happened since the command last said no.
        since = self._began - int(COMMAND_INTERVAL_S * 1e9)
        return Incident("command", since, now) if code == 0 else None


class Frame:
    """A frame that took longer than a limit, in a file to which a program appends its frames."""

    def __init__(self, limit_ms: float, path: Path) -> None:
        self._limit_ns = limit_ms * 1e6
        self._path = path
        self._columns: list[str] = []
        self._rest = b""
        # Frames of earlier times are no incident.
        self._at = path.stat().st_size if path.exists() else 0
        self._starts: dict[str, int] = {}

    def reset(self) -> None:
        pass

    def poll(self) -> Incident | None:
        if not self._columns:
            with self._path.open("rb") as file:
                line = file.readline(_MOST_BYTES)
            if not line.endswith(b"\n"):
                return None
            text = line.decode("utf-8", "replace")
            self._columns = [name.strip().lower() for name in text.split(",")]
            self._at = max(self._at, len(line))
        size = self._path.stat().st_size
        if size < self._at:
            self._at, self._rest = 0, b""
        if size == self._at:
            return None
        with self._path.open("rb") as file:
            file.seek(self._at)
            read = file.read(_MOST_BYTES)
        self._at += len(read)
        *lines, self._rest = (self._rest + read).split(b"\n")
        worst: Incident | None = None
        for line in lines:
            found = self._frame(line.decode("utf-8", "replace"))
            if found and (worst is None or (found.measured or 0) > (worst.measured or 0)):
                worst = found
        return worst

    def _frame(self, line: str) -> Incident | None:
        row = dict(zip(self._columns, line.split(","), strict=False))
        begun, end = _number(row.get("start_mono_ns")), _number(row.get("end_mono_ns"))
        thread = row.get("tid") or row.get("pid") or ""
        if begun is None:
            return None
        start: int | None = begun
        if end is None:
            # The frame before it ends here.
            start, end = self._starts.get(thread), begun
        self._starts[thread] = begun
        if start is None or end - start <= self._limit_ns:
            return None
        tid = _number(row.get("tid"))
        return Incident("frame", start, end, tid, (end - start) / 1e6, self._limit_ns / 1e6)


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _numbers(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []
