"""Chooses the logical CPU that each worker is pinned to."""

from __future__ import annotations

from collections.abc import Sequence

from schedlens.errors import PlanError
from schedlens.machine import cpu_list
from schedlens.machine.topology import Cpu, Topology

PLACEMENTS = ("default", "physical", "siblings")


def order(topology: Topology, placement: str) -> list[int]:
    """The usable CPUs in the order in which workers take them.

    `physical`: the fastest core type first, then the other cores, siblings last. `siblings`: core
    by core, the fastest type first. Raises `PlanError` if the system does not report which CPUs
    share a core.
    """
    usable = topology.usable
    if any(cpu.core is None for cpu in usable):
        raise PlanError(
            f"placement '{placement}': the system does not report which logical CPUs share a core; "
            "use --placement default, or --cpus"
        )
    rank: dict[int, int] = {}
    seen: dict[int | None, int] = {}
    for cpu in usable:
        # Rank allowed siblings only: a core is still free if its first sibling is not allowed.
        rank[cpu.cpu] = seen[cpu.core] = seen.get(cpu.core, -1) + 1

    def core(cpu: Cpu) -> tuple[int, int, int]:
        return (-(cpu.efficiency_class or 0), cpu.package or 0, cpu.core or 0)

    if placement == "physical":
        usable.sort(key=lambda cpu: (rank[cpu.cpu], *core(cpu)))
    elif placement == "siblings":
        usable.sort(key=lambda cpu: (*core(cpu), rank[cpu.cpu]))
    else:
        raise PlanError(f"no placement '{placement}': choose from {', '.join(PLACEMENTS)}")
    return [cpu.cpu for cpu in usable]


def planned(topology: Topology, placement: str, threads: int) -> list[int] | None:
    """One CPU per worker, starting over after the last CPU; None: no mask (`default`)."""
    if placement == "default":
        return None
    return _fill(order(topology, placement), threads)


def pinned(topology: Topology, cpus: Sequence[int], threads: int) -> list[int]:
    """One CPU per worker from the user's list. Raises `PlanError` for an unusable CPU."""
    usable = [cpu.cpu for cpu in topology.usable]
    wrong = [cpu for cpu in cpus if cpu not in usable]
    if wrong or not cpus:
        raise PlanError(
            f"--cpus: CPU {', '.join(map(str, wrong))} is not online and allowed here; "
            f"choose from {cpu_list.text(usable)}"
            if wrong
            else "--cpus: the list is empty"
        )
    return _fill(cpus, threads)


def _fill(cpus: Sequence[int], threads: int) -> list[int]:
    return [cpus[worker % len(cpus)] for worker in range(threads)]
