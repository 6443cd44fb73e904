"""CPUs of this machine: how many a test needs, and one that is taken offline for a while."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Names the CPU that a test has taken offline, and that test's process. A run that is killed
# meanwhile would leave every later run with a CPU less.
_TAKEN = Path(tempfile.gettempdir()) / "schedlens-test-offline-cpu"


def needs_two() -> None:
    """Skips where one logical CPU is usable: two workers are not measured on one."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two workers need two logical CPUs; one is usable here")


@contextlib.contextmanager
def taken_offline(control: Path) -> Iterator[Path]:
    """Lets the test write to that CPU's `online` file; the CPU is online again afterwards."""
    cpu = control.parent.name.removeprefix("cpu")
    _TAKEN.write_text(f"{os.getpid()} {cpu}", encoding="ascii")
    try:
        yield control
    finally:
        control.write_text("1", encoding="ascii")
        _TAKEN.unlink()


def bring_back() -> None:
    """Brings the CPU online that a killed run has left offline."""
    if not _TAKEN.exists():
        return
    pid, cpu = (int(word) for word in _TAKEN.read_text(encoding="ascii").split())
    if not Path(f"/proc/{pid}").exists():
        Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text("1", encoding="ascii")
        _TAKEN.unlink()
