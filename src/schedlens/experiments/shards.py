"""The experiment `shards`: pinned request loops placed by CPU number, and by topology."""

from __future__ import annotations

from collections.abc import Sequence

from schedlens.errors import PlanError
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.machine import cpu_list
from schedlens.machine.topology import Topology
from schedlens.record import placement

NAME = "shards"
BY_NUMBER = "by_number"
BY_TOPOLOGY = "by_topology"
BY_OFFSET = "by_offset"
# One shard, or two, on the first core with two CPUs.
TWO_ON_ONE_CORE = "two_on_one_core"
SIBLING_IDLE = "sibling_idle"
SIBLING_BUSY = "sibling_busy"
SIBLING_HOUSEKEEPING = "sibling_at_5_pct"


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
    numbers = [cpu.cpu for cpu in topology.usable]
    half = len(numbers) // 2
    # (n, n + cores) are two cores on some machines and the siblings of one on others.
    offset = [cpu for pair in zip(numbers[:half], numbers[half:], strict=False) for cpu in pair]
    return {
        BY_NUMBER: numbers[:shards],
        BY_OFFSET: offset[:shards],
        BY_TOPOLOGY: placement.order(topology, "physical")[:shards],
    }


def baseline(place: str) -> str:
    """The placement that a placement is compared with in the same repeat."""
    return BY_TOPOLOGY if place in (BY_NUMBER, BY_OFFSET, BY_TOPOLOGY) else SIBLING_IDLE


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
    # With one shard, or an odd number of CPUs, there is no such pair to get wrong.
    others = [sorted(cpus) for name, cpus in chosen.items() if name != BY_OFFSET]
    if len(chosen[BY_OFFSET]) < shards or sorted(chosen[BY_OFFSET]) in others:
        del chosen[BY_OFFSET]
    cells = [
        _cell(f"{shards}-shards-{name}", name, cpus, (_OPEN,), rate)
        for name, cpus in chosen.items()
    ]
    core = _first_core_with_siblings(topology)
    if core is None:
        missing.append("a busy or an idle sibling: no core has two usable logical CPUs")
        return cells, missing
    return [*cells, *_on_one_core(core, rate)], missing


def _on_one_core(core: tuple[int, int], rate: float) -> list[Cell]:
    """A shard with its sibling idle, busy, and at 5 %, and two shards on both."""
    first, both = (core[0],), core
    return [
        _cell(SIBLING_IDLE, SIBLING_IDLE, first, (_OPEN,), rate),
        _cell(SIBLING_BUSY, SIBLING_BUSY, both, (_OPEN, Load("sha256")), rate),
        _cell(
            SIBLING_HOUSEKEEPING, SIBLING_HOUSEKEEPING, both, (_OPEN, Load("housekeeping")), rate
        ),
        _cell(TWO_ON_ONE_CORE, TWO_ON_ONE_CORE, both, (_OPEN,), rate),
    ]


_OPEN = Load("serve", "open")


def _cell(name: str, place: str, cpus: Sequence[int], loads: tuple[Load, ...], rate: float) -> Cell:
    shards = len(cpus) if len(loads) == 1 else 1
    return Cell(
        NAME, name, place, tuple(cpus), loads,
        threads=len(cpus), options=("--rate", f"{rate:g}"),
        facts=Facts(load="open", how="spin", offered_per_s=rate * shards),
    )  # fmt: skip


def _first_core_with_siblings(topology: Topology) -> tuple[int, int] | None:
    """Two logical CPUs of the first core of the fastest type that has two usable ones."""
    usable = sorted(topology.usable, key=lambda cpu: (-(cpu.efficiency_class or 0), cpu.cpu))
    for one in usable:
        for other in usable:
            if one.core is not None and one.core == other.core and one.cpu < other.cpu:
                return one.cpu, other.cpu
    return None
