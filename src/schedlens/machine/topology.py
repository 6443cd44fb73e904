"""The logical CPUs that the system reports: siblings, core types, caches, packages, NUMA.

Read from sysfs, or from a folder with a copy of it. Nothing is guessed from CPU numbers: what the
system does not report is None.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlens import _decoders
from schedlens.errors import TopologyError
from schedlens.machine import cpu_list
from schedlens.output import typed_json
from schedlens.output.typed_json import ABSENT_IF_NONE

# Two CPUs are in different classes only if their values differ by more than this: favored cores
# of one type differ by about 4 %, core types by a third or more.
CLASS_GAP = 0.15

# PMU folders that name the core types of hybrid x86 parts, slowest first.
HYBRID_PMUS = ("cpu_lowpower", "cpu_atom", "cpu_core")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU; the columns of the table `cpu`, None if the system does not report them.

    `core`, `l2` and `llc` are the lowest online CPU number of the group. Only a system with
    processor groups has `group_no` and `number_in_group`.
    """

    cpu: int
    online: bool
    core: int | None = None
    smt_index: int | None = None
    core_type: str | None = None
    efficiency_class: int | None = None
    capacity: int | None = None
    l2: int | None = None
    llc: int | None = None
    package: int | None = None
    numa_node: int | None = None
    base_khz: int | None = None
    max_khz: int | None = None
    group_no: int | None = field(default=None, metadata=ABSENT_IF_NONE)
    number_in_group: int | None = field(default=None, metadata=ABSENT_IF_NONE)


@dataclass(frozen=True, slots=True)
class SavedTopology:
    """The object `topology` of session.json. A described machine has no source and no `allowed`."""

    source: str | None = None
    cpus: tuple[Cpu, ...] = ()
    allowed: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Topology:
    """All possible CPUs by number, and those that this process may use."""

    cpus: tuple[Cpu, ...]
    allowed: tuple[int, ...]
    pmus: Mapping[str, tuple[int, ...]]
    source: str = "sysfs"

    @property
    def usable(self) -> list[Cpu]:
        """CPUs that are online and allowed."""
        allowed = set(self.allowed)
        return [cpu for cpu in self.cpus if cpu.online and cpu.cpu in allowed]

    @property
    def has_smt(self) -> bool:
        """Whether any core has more than one online CPU."""
        return any(cpu.smt_index for cpu in self.cpus if cpu.online)

    @property
    def saved(self) -> SavedTopology:
        """The part that session.json contains."""
        return SavedTopology(self.source, self.cpus, self.allowed)

    def as_json(self) -> dict[str, Any]:
        """The object `topology` of session.json."""
        row: dict[str, Any] = typed_json.written(self.saved)
        return row


def read(root: Path = Path("/"), allowed: Sequence[int] | None = None) -> Topology:
    """The topology of the machine, or of a copy of sysfs under `root`.

    `allowed` defaults to the affinity of this process (which a cpuset also narrows), and for a copy
    to all online CPUs. Raises `TopologyError` if sysfs lists no CPU.
    """
    folder = root / "sys/devices/system/cpu"
    dirs = {
        int(path.name[3:]): path for path in folder.glob("cpu[0-9]*") if path.name[3:].isdigit()
    }
    possible = _list(folder / "possible") or _list(folder / "present") or sorted(dirs)
    if not possible:
        raise TopologyError(f"{folder} lists no CPU: is sysfs mounted?")
    online = _online(folder, dirs)
    caches = {cpu: _caches(dirs[cpu]) for cpu in online if cpu in dirs}
    cores = {cpu: _core(dirs[cpu], online) for cpu in online if cpu in dirs}
    nodes = _nodes(root / "sys/devices/system/node")
    pmus = {name: tuple(_list(root / "sys/devices" / name / "cpus") or ()) for name in HYBRID_PMUS}
    pmus = {name: cpus for name, cpus in pmus.items() if cpus}
    classes = _classes(dirs, online, pmus)
    types = dict(zip(classes, _decoders.core_types(list(classes.values())), strict=True))
    cpus = []
    for number in sorted(set(possible) | set(dirs)):
        if number not in online:
            cpus.append(Cpu(number, online=False, numa_node=nodes.get(number)))
            continue
        path = dirs.get(number, folder / f"cpu{number}")
        core = cores.get(number)
        private = caches.get(number, {})
        cpus.append(
            Cpu(
                number,
                online=True,
                core=core[0] if core else None,
                smt_index=core.index(number) if core else None,
                core_type=types.get(number),
                efficiency_class=classes.get(number),
                capacity=_number(path / "cpu_capacity"),
                l2=_first(private.get(2), online),
                llc=_first(private.get(max(private)) if private else None, online),
                package=_number(path / "topology/physical_package_id"),
                numa_node=nodes.get(number),
                base_khz=_number(path / "cpufreq/base_frequency"),
                max_khz=_number(path / "cpufreq/cpuinfo_max_freq"),
            )
        )
    if allowed is None:
        real = root == Path("/") and hasattr(os, "sched_getaffinity")
        allowed = sorted(os.sched_getaffinity(0)) if real else sorted(online)
    return Topology(tuple(cpus), tuple(allowed), pmus)


def _online(folder: Path, dirs: Mapping[int, Path]) -> set[int]:
    """Online CPUs; a CPU without the file `online` cannot go offline."""
    listed = _list(folder / "online")
    if listed:
        return set(listed)
    return {cpu for cpu, path in dirs.items() if _number(path / "online") in (1, None)}


def _core(path: Path, online: set[int]) -> list[int] | None:
    """The online CPUs of the core, ascending; None if the system does not report it."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        listed = _list(path / "topology" / name)
        if listed:
            return [cpu for cpu in listed if cpu in online]
    return None


def _caches(path: Path) -> dict[int, list[int]]:
    """CPUs that share the data or unified cache of each level."""
    found: dict[int, list[int]] = {}
    for index in sorted((path / "cache").glob("index[0-9]*")):
        level, kind = _number(index / "level"), _text(index / "type")
        shared = _list(index / "shared_cpu_list")
        if level is not None and shared and kind != "Instruction":
            found[level] = shared
    return found


def _nodes(folder: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for path in folder.glob("node[0-9]*"):
        if path.name[4:].isdigit():
            for cpu in _list(path / "cpulist") or ():
                found[cpu] = int(path.name[4:])
    return found


def _classes(
    dirs: Mapping[int, Path], online: set[int], pmus: Mapping[str, tuple[int, ...]]
) -> dict[int, int]:
    """Class by CPU, 0 the slowest, from the first source that has it for every online CPU."""
    known = sorted(online & dirs.keys())
    named = [set(pmus.get(name, ())) & online for name in HYBRID_PMUS]
    if known and set().union(*named) >= set(known):
        ranks = [cpus for cpus in named if cpus]
        return {cpu: rank for rank, cpus in enumerate(ranks) for cpu in sorted(cpus)}
    for name in ("cpu_capacity", "acpi_cppc/highest_perf", "cpufreq/cpuinfo_max_freq"):
        values = {cpu: _number(dirs[cpu] / name) for cpu in known}
        classes = {cpu: value for cpu, value in values.items() if value}
        if known and len(classes) == len(known):
            return _split(classes)
    return {}


def _split(values: Mapping[int, int]) -> dict[int, int]:
    """Classes, split wherever the next larger value is more than `CLASS_GAP` above."""
    rank, before, found = 0, None, {}
    for value, cpu in sorted((value, cpu) for cpu, value in values.items()):
        if before is not None and value > before * (1 + CLASS_GAP):
            rank += 1
        before = value
        found[cpu] = rank
    return found


def _first(cpus: list[int] | None, online: set[int]) -> int | None:
    return min((cpu for cpu in cpus or () if cpu in online), default=None)


def _text(path: Path) -> str | None:
    """The text of a sysfs file; None if reading fails, as if it did not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    """A whole number; sysfs writes -1 for an unknown id."""
    text = _text(path)
    return int(text) if text and text.isdigit() else None


def _list(path: Path) -> list[int] | None:
    text = _text(path)
    if text is None:
        return None
    try:
        return cpu_list.parse(text)
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from None
