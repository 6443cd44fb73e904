"""Running processes: found by name or number with `tasklist`, and waited for."""

from __future__ import annotations

import contextlib
import csv
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from schedlens.errors import PlanError
from schedlens.record import workload_program
from schedlens.record.windows.settings import run

_PID = re.compile(r"[0-9]{1,10}")

Ask = Callable[[Sequence[str]], str | None]


def listing(condition: str) -> list[str]:
    """The command that lists processes: comma-separated, without the localized header."""
    return ["tasklist", "/fo", "csv", "/nh", "/fi", condition]


def _rows(text: str | None) -> list[tuple[str, int]]:
    """Name and number of each; the line that says there are none has no second column."""
    rows = [row for row in csv.reader((text or "").splitlines()) if len(row) > 1]
    # isdigit() also accepts digits that int() refuses, such as a superscript two.
    return [(row[0], int(row[1])) for row in rows if _PID.fullmatch(row[1])]


def image_of(name: str) -> str:
    """The name of a program as Windows lists it."""
    return name if name.lower().endswith(".exe") else f"{name}.exe"


def find(name: str, ask: Ask = run) -> int:
    """The process with that name, with or without .exe. Raises `PlanError` unless there is one."""
    image = image_of(name)
    found = [pid for _, pid in _rows(ask(listing(f"imagename eq {image}")))]
    if not found:
        raise PlanError(f"--process: no process named '{image}' is running")
    if len(found) > 1:
        some = ", ".join(map(str, sorted(found)[:8]))
        raise PlanError(
            f"--process: {len(found)} processes are named '{image}': use --pid ({some})"
        )
    return found[0]


def running(pid: int, ask: Ask = run) -> bool:
    """Whether a process with that number exists."""
    return any(number == pid for _, number in _rows(ask(listing(f"pid eq {pid}"))))


@contextmanager
def awaited(pid: int) -> Iterator[Callable[[], bool]]:
    """A function that says whether a process has ended, without asking the system each time.

    A process that waits in the kernel (WaitForSingleObject) costs nothing while the recording runs;
    `tasklist` every second would be in it. That process ends with the block.
    """
    command = [workload_program.program(), "await", str(pid)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as waiting:
        try:
            # Without the right to wait for the process, it ends at once: then ask.
            yield (
                lambda: waiting.poll() is not None and (waiting.returncode == 0 or not running(pid))
            )
        finally:
            with contextlib.suppress(OSError):
                waiting.communicate()
