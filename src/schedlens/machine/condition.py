"""The machine's condition around a measured interval: load, throttling, clock, energy."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schedlens.machine.energy_events import EnergyEvents, names

_ENERGY = "sys/class/powercap"
_THROTTLE = "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle"
_CLOCK = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"


@dataclass(frozen=True, slots=True)
class Condition:
    """The object `machine` of step.json.

    `load` is the load average (1 minute) at the start. `throttles` counts how often a core was
    slowed down because of heat, None if unknown. `khz` are the clocks that the kernel reports at
    the end, None if it does not. `energy` is joules by domain over `energy_ns`.
    """

    load: float | None = None
    throttles: int | None = None
    khz: tuple[int, ...] | None = None
    energy: Mapping[str, float] = field(default_factory=dict)
    energy_ns: int | None = None


class MachineState:
    """Reads the condition now and at `end`; `root` may be a copy of sysfs and /proc."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._load = _load(root)
        self._throttles = throttles(root)
        self._energy = energy_uj(root)
        self._events = None if self._energy else EnergyEvents(root)
        self._begin_ns = time.monotonic_ns()

    def end(self) -> Condition:
        """What changed since."""
        took_ns = time.monotonic_ns() - self._begin_ns
        if self._events is not None:
            used = dict(self._events.end())
        else:
            used = joules(self._energy, energy_uj(self._root), ranges_uj(self._root))
        after = throttles(self._root)
        khz = clocks(self._root)
        return Condition(
            load=self._load,
            throttles=None if after is None or self._throttles is None else after - self._throttles,
            khz=None if khz is None else tuple(khz),
            energy=used,
            energy_ns=took_ns,
        )


def energy_uj(root: Path) -> dict[str, int]:
    """The energy counters of the domains, in microjoules, by name: package-0, core, dram."""
    found = {}
    for path in _domains(root):
        value = _number(path / "energy_uj")
        if value is not None:
            found[_name(path)] = value
    return found


def has_energy(root: Path = Path("/")) -> bool:
    """Whether energy can be read, from powercap or from perf."""
    return bool(energy_uj(root) or names(root))


def ranges_uj(root: Path) -> dict[str, int]:
    """The value at which the counter of each domain wraps."""
    ranges = {_name(path): _number(path / "max_energy_range_uj") for path in _domains(root)}
    return {name: value for name, value in ranges.items() if value}


def joules(
    before: dict[str, int], after: dict[str, int], ranges: dict[str, int]
) -> dict[str, float]:
    """Energy by domain between two readings; a counter may wrap once."""
    found: dict[str, float] = {}
    for name, value in after.items():
        if name not in before:
            continue
        used = value - before[name]
        if used < 0:
            if name not in ranges:
                continue
            used += ranges[name] + 1
        found[name] = used / 1e6
    return found


def throttles(root: Path) -> int | None:
    """How often cores were slowed down because of heat since boot; None if unknown."""
    counts = [_number(path / "core_throttle_count") for path in root.glob(_THROTTLE)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def clocks(root: Path) -> list[int] | None:
    """The clocks of the CPUs in kHz as the kernel reports them; None if it does not."""
    found = [_number(path) for path in sorted(root.glob(_CLOCK))]
    known = [value for value in found if value is not None]
    return known or None


def _load(root: Path) -> float | None:
    try:
        return float((root / "proc/loadavg").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _domains(root: Path) -> list[Path]:
    # intel-rapl-mmio shows the same counters again.
    return sorted(
        path for path in (root / _ENERGY).glob("*:*") if not path.name.startswith("intel-rapl-mmio")
    )


def _name(path: Path) -> str:
    """`package-0`, or `package-0/core` for a domain inside it."""
    own = _text(path / "name") or path.name
    above = path.name.rpartition(":")[0]
    if ":" not in above:
        return own
    return f"{_text(path.parent / above / 'name') or above}/{own}"


def _text(path: Path) -> str | None:
    try:
        return os.fsdecode(path.read_bytes()).strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and text.isdigit() else None
