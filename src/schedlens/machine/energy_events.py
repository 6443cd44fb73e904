"""Reads energy through perf's events, for machines whose powercap counters are not readable."""

from __future__ import annotations

import contextlib
import csv
import math
import shutil
import subprocess
from pathlib import Path

# The kernel's event names, and the domain that each measures.
_EVENTS = {"energy-pkg": "package", "energy-cores": "package/core", "energy-ram": "package/dram"}
_FOLDER = "sys/bus/event_source/devices/power/events"
_END_LIMIT_S = 10.0


def names(root: Path = Path("/")) -> list[str]:
    """The events that the kernel offers."""
    return [name for name in _EVENTS if (root / _FOLDER / name).exists()]


class EnergyEvents:
    """Runs `perf stat` on all CPUs from construction to `end`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._process: subprocess.Popen[str] | None = None
        found, perf = names(root), shutil.which("perf")
        if not found or perf is None:
            return
        events = ",".join(f"power/{name}/" for name in found)
        # perf counts until `cat` ends, which is when its input is closed.
        command = [perf, "stat", "-a", "-x", ",", "-e", events, "--", "cat"]
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )

    def end(self) -> dict[str, float]:
        """Joules by domain; empty if nothing was counted."""
        if self._process is None:
            return {}
        process, self._process = self._process, None
        try:
            _, said = process.communicate("", timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {}
        return parsed(said) if process.returncode == 0 else {}


def parsed(text: str) -> dict[str, float]:
    """Joules by domain from the output of `perf stat -x ,`: value, unit, event, ..."""
    found: dict[str, float] = {}
    for row in csv.reader(text.splitlines()):
        if len(row) < 3 or row[1] != "Joules":
            continue
        name = row[2].split("/")[1] if "/" in row[2] else row[2]
        with contextlib.suppress(ValueError):
            joules = float(row[0])
            if name in _EVENTS and 0 <= joules < math.inf:
                found[_EVENTS[name]] = joules
    return found
