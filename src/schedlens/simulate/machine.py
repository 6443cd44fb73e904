"""Machines to simulate: logical CPUs, their cores, types and speeds."""

from __future__ import annotations

from dataclasses import dataclass

E_CORES_OF_ONE_L2 = 4


@dataclass(frozen=True)
class Cpu:
    """A logical CPU; numbered as on hybrid parts: siblings of P cores first, then E cores."""

    cpu: int
    core: int
    """Lowest logical CPU number of the core."""
    smt_index: int
    core_type: str
    """P, E, or U on a machine with one type."""
    efficiency_class: int
    speed: float
    """Work per nanosecond; the fastest core alone does 1."""
    l2: int
    khz: int


@dataclass(frozen=True)
class Machine:
    """Logical CPUs, and how much a busy sibling slows each one down."""

    name: str
    cpus: tuple[Cpu, ...]
    shared_speed: float = 0.6
    """Speed of each sibling while both are busy; the SMT yield is twice this."""

    def siblings(self, cpu: int) -> list[int]:
        """The other logical CPUs of its core."""
        core = self.cpus[cpu].core
        return [other.cpu for other in self.cpus if other.core == core and other.cpu != cpu]

    def of_type(self, core_type: str) -> list[int]:
        """Logical CPUs of a core type."""
        return [cpu.cpu for cpu in self.cpus if cpu.core_type == core_type]


def machine(p_cores: int, e_cores: int = 0, *, smt: bool = True, e_speed: float = 0.55) -> Machine:
    """A machine of P cores (with two siblings each, if `smt`) and E cores.

    Four E cores share an L2. Without E cores, the type is U.
    """
    width = 2 if smt else 1
    kind = "P" if e_cores else "U"
    cpus = [
        Cpu(
            cpu=core * width + index,
            core=core * width,
            smt_index=index,
            core_type=kind,
            efficiency_class=1 if e_cores else 0,
            speed=1.0,
            l2=core * width,
            khz=4_900_000,
        )
        for core in range(p_cores)
        for index in range(width)
    ]
    first = len(cpus)
    cpus += [
        Cpu(
            cpu=first + number,
            core=first + number,
            smt_index=0,
            core_type="E",
            efficiency_class=0,
            speed=e_speed,
            l2=first + number - number % E_CORES_OF_ONE_L2,
            khz=3_700_000,
        )
        for number in range(e_cores)
    ]
    name = f"{p_cores}P+{e_cores}E" if e_cores else f"{p_cores}C"
    return Machine(f"{name}/{len(cpus)}T", tuple(cpus))
