"""The experiment `shards`: pinned request loops placed by CPU number, and by topology."""

from __future__ import annotations

from schedlens.errors import PlanError
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.machine import cpu_list
from schedlens.machine.topology import Topology
from schedlens.record import placement

NAME = "shards"
BY_NUMBER = "by_number"
BY_TOPOLOGY = "by_topology"


def count(topology: Topology, requested: str | None) -> int:
    """Number of shards: as requested (`max`: one per CPU), else one per core; or `PlanError`."""
    usable = topology.usable
    if requested is None:
        return max(1, len({cpu.core if cpu.core is not None else cpu.cpu for cpu in usable}))
    text = str(len(usable)) if requested == "max" else requested
    if not text.isdigit() or not 1 <= int(text) <= len(usable):
        raise PlanError(f"--threads: '{requested}' shards: use 1 to {len(usable)}, one per CPU")
    return int(text)


def plans(topology: Topology, shards: int) -> dict[str, list[int]]:
    """The CPUs of the shards for each way to choose them. Raises `PlanError`."""
    return {
        BY_NUMBER: [cpu.cpu for cpu in topology.usable][:shards],
        BY_TOPOLOGY: placement.order(topology, "physical")[:shards],
    }


def plan(topology: Topology, requested: str | None, rate: float) -> tuple[list[Cell], list[str]]:
    """The cells of one repeat; `rate` is the requests a second that each shard receives."""
    shards = count(topology, requested)
    chosen = plans(topology, shards)
    missing = []
    if sorted(chosen[BY_NUMBER]) == sorted(chosen[BY_TOPOLOGY]):
        missing.append(
            f"placing {shards} shards by number or by topology selects the same CPUs "
            f"({cpu_list.text(chosen[BY_NUMBER])}): one cell covers both"
        )
        del chosen[BY_NUMBER]
    cells = [
        Cell(
            NAME, f"{shards}-shards-{name}", name, tuple(cpus), (Load("serve", "open"),),
            threads=shards, options=("--rate", f"{rate:g}"),
            facts=Facts(load="open", how="spin", offered_per_s=rate * shards),
        )
        for name, cpus in chosen.items()
    ]  # fmt: skip
    return cells, missing
