"""The settings of this machine that recording might change, to compare before and after."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_FILES = (
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/perf_event_mlock_kb",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/randomize_va_space",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/kernel/tracing/current_tracer",
    "/sys/kernel/tracing/set_event",
    "/sys/kernel/tracing/trace_clock",
    "/sys/kernel/tracing/tracing_on",
)
_GLOBS = ("cpu[0-9]*/cpufreq/scaling_governor", "cpu[0-9]*/cpufreq/boost")


def settings(pids: Iterable[int]) -> dict[str, str]:
    """The text of each setting by name, and the affinity of each of the processes."""
    cpus = Path("/sys/devices/system/cpu")
    paths = [Path(name) for name in _FILES] + [path for glob in _GLOBS for path in cpus.glob(glob)]
    found = {}
    for path in sorted(paths):
        try:
            found[str(path)] = path.read_text(encoding="utf-8").strip()
        except OSError:
            found[str(path)] = "absent"
    for pid in pids:
        found[f"affinity of {pid}"] = str(sorted(os.sched_getaffinity(pid)))
    return found


def mounts(pid: int) -> list[str]:
    """Mount point and type of each file system that a process sees."""
    text = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace")
    rows = [line.split(" ") for line in text.splitlines()]
    return sorted(f"{row[4]} {row[row.index('-') + 1]}" for row in rows)
