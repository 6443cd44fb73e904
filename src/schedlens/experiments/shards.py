"""The experiment `shards`: pinned request loops placed by CPU number, and by topology."""

from __future__ import annotations

from schedlens.errors import PlanError
from schedlens.machine import cpu_list
from schedlens.machine.topology import Topology
from schedlens.record import placement
from schedlens.record.cells import Cell, Load

NAME = "shards"
BY_NUMBER = "by_number"
BY_TOPOLOGY = "by_topology"


def count(topology: Topology, asked: str | None) -> int:
    """How many shards: as asked (`max` for every CPU), else one a core; raises `PlanError`."""
    usable = topology.usable
    if asked is None:
        return max(1, len({cpu.core if cpu.core is not None else cpu.cpu for cpu in usable}))
    text = str(len(usable)) if asked == "max" else asked
    if not text.isdigit() or not 1 <= int(text) <= len(usable):
        raise PlanError(f"--threads: '{asked}' shards; there are 1 to {len(usable)} CPUs for them")
    return int(text)


def plans(topology: Topology, shards: int) -> dict[str, list[int]]:
    """The CPUs of the shards, by each way to choose them; raises `PlanError`."""
    return {
        BY_NUMBER: [cpu.cpu for cpu in topology.usable][:shards],
        BY_TOPOLOGY: placement.order(topology, "physical")[:shards],
    }


def plan(topology: Topology, asked: str | None, rate: float) -> tuple[list[Cell], list[str]]:
    """The cells of one repeat; `rate` is what each shard is offered a second."""
    shards = count(topology, asked)
    chosen = plans(topology, shards)
    missing = []
    if sorted(chosen[BY_NUMBER]) == sorted(chosen[BY_TOPOLOGY]):
        missing.append(
            f"by number and by topology {shards} shards are on the same CPUs "
            f"({cpu_list.text(chosen[BY_NUMBER])}): one cell stands for both"
        )
        del chosen[BY_NUMBER]
    cells = [
        Cell(
            NAME, f"{shards}-shards-{name}", name, tuple(cpus), (Load("serve", "open"),),
            threads=shards, options=("--rate", f"{rate:g}"),
            facts={"load": "open", "how": "spin", "offered_per_s": rate * shards},
        )
        for name, cpus in chosen.items()
    ]  # fmt: skip
    return cells, missing
