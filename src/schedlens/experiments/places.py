"""The ways in which two workers can be placed: siblings, one L2, one LLC, or further apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedlens.errors import PlanError
from schedlens.machine.topology import Cpu, Topology

SIBLINGS = "siblings"
SAME_L2 = "same_l2"
SAME_LLC = "same_llc"
ACROSS_LLC = "across_llc"
ACROSS_PACKAGE = "across_package"
P_AND_E = "p_beside_e"
TWO_CPUS = "two_cpus"

MEANING = {
    SIBLINGS: "two logical CPUs of one core",
    SAME_L2: "two cores that share an L2 cache",
    SAME_LLC: "two cores that share the last-level cache only",
    ACROSS_LLC: "two cores of one package with different last-level caches",
    ACROSS_PACKAGE: "two cores of different packages",
    P_AND_E: "a core of the fastest type and one of the slowest",
    TWO_CPUS: "two logical CPUs; the system does not report what they share",
}


@dataclass(frozen=True)
class Place:
    """Two logical CPUs, and what they share."""

    name: str
    cpus: tuple[int, int]

    @property
    def on_one_core(self) -> bool:
        """Whether the two share the execution units of a core, if the system reports it."""
        return self.name == SIBLINGS


def find(topology: Topology) -> tuple[list[Place], list[str]]:
    """One example of each available place, nearest first, and a line on the missing ones.

    Raises `PlanError` if there are fewer than two usable CPUs.
    """
    usable = topology.usable
    if len(usable) < 2:
        raise PlanError("two workers need two logical CPUs; only one is usable here")
    if any(cpu.core is None for cpu in usable):
        return [Place(TWO_CPUS, (usable[0].cpu, usable[1].cpu))], [
            "places: the system does not report which logical CPUs share a core or a cache"
        ]
    ranked = sorted(usable, key=lambda cpu: (-(cpu.efficiency_class or 0), cpu.cpu))
    found: list[Place] = []
    absent: list[str] = []
    for name, fits in _RULES.items():
        pair = _first(ranked, fits)
        if pair is None:
            absent.append(f"{name} ({MEANING[name]})")
        else:
            found.append(Place(name, pair))
    return found, [f"no usable CPUs are {'; '.join(absent)}"] if absent else []


def first_of_types(topology: Topology, places: list[Place]) -> list[int]:
    """The CPUs to measure a kernel alone on: one of each core type in the places."""
    types = {cpu.cpu: cpu.core_type for cpu in topology.cpus}
    chosen: dict[str | None, int] = {}
    for place in places:
        for cpu in place.cpus:
            chosen.setdefault(types.get(cpu), cpu)
    return list(chosen.values())


def _first(ranked: list[Cpu], fits: Callable[[Cpu, Cpu], bool]) -> tuple[int, int] | None:
    for one in ranked:
        for other in ranked:
            if one.cpu != other.cpu and fits(one, other):
                return (one.cpu, other.cpu)
    return None


def _siblings(one: Cpu, other: Cpu) -> bool:
    return one.core == other.core


def _apart(one: Cpu, other: Cpu) -> bool:
    """Different cores of one type."""
    return one.core != other.core and one.core_type == other.core_type


def _same_l2(one: Cpu, other: Cpu) -> bool:
    return _apart(one, other) and one.l2 is not None and one.l2 == other.l2


def _same_llc(one: Cpu, other: Cpu) -> bool:
    if not _apart(one, other) or _same_l2(one, other):
        return False
    return one.llc == other.llc and one.package == other.package


def _across_llc(one: Cpu, other: Cpu) -> bool:
    known = one.llc is not None and other.llc is not None
    return known and _apart(one, other) and one.llc != other.llc and one.package == other.package


def _across_package(one: Cpu, other: Cpu) -> bool:
    return _apart(one, other) and one.package != other.package


def _p_and_e(one: Cpu, other: Cpu) -> bool:
    return one.core_type == "P" and other.core_type in ("E", "LP-E")


_RULES: dict[str, Callable[[Cpu, Cpu], bool]] = {
    SIBLINGS: _siblings,
    SAME_L2: _same_l2,
    SAME_LLC: _same_llc,
    ACROSS_LLC: _across_llc,
    ACROSS_PACKAGE: _across_package,
    P_AND_E: _p_and_e,
}
