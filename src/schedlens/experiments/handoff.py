"""The experiment `handoff`: what it costs to hand over an item, and how that affects frames."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlens.errors import PlanError, SessionError
from schedlens.experiments import places
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.load.session_file import Step
from schedlens.machine.topology import Topology
from schedlens.output.whole_file import read_json

NAME = "handoff"
SAME_CPU = "same_cpu"
WAYS = ("spin", "yield", "park")

# The stall that the Intel talk explains. It lasts this long in total, in whole slices.
STALL_NS = 35_000_000
# If no slice could be measured: 35 ms at 250 ticks a second.
_USUAL_HANDOFFS = 9


def plan(topology: Topology) -> tuple[list[Cell], list[Cell], list[str]]:
    """The hand-offs, the frames that follow them, and what cannot be measured here."""
    usable = topology.usable
    if not usable:
        raise PlanError("no logical CPU is usable here")
    try:
        there, missing = places.find(topology)
    except PlanError as error:
        there, missing = [], [str(error)]
    first = there[0].cpus[0] if there else usable[0].cpu
    pairs = [(SAME_CPU, (first, first)), *((place.name, place.cpus) for place in there)]
    hops = [_cell("spin_handoff", place, cpus, how) for place, cpus in pairs for how in WAYS]
    frames = [_cell("frame", place, cpus, how) for place, cpus in pairs for how in WAYS]
    return hops, frames, missing


def _cell(kernel: str, place: str, cpus: tuple[int, int], how: str) -> Cell:
    return Cell(
        NAME, f"{kernel}-{place}-{how}", place, cpus, (Load(kernel),), threads=2,
        options=("--how", how), facts=Facts(how=how),
    )  # fmt: skip


def handoffs_for(slice_ns: float) -> int:
    """How many hand-offs take 35 ms if each takes one slice."""
    return max(1, math.ceil(STALL_NS / slice_ns))


def measured_slice_ns(folder: Path, steps: Sequence[Step]) -> float | None:
    """One-way time on one CPU if both threads spin: the median of the finished steps."""
    found = []
    for step in steps:
        if step.cell is None or step.cell.name != f"spin_handoff-{SAME_CPU}-spin":
            continue
        try:
            measured = read_json(folder / step.name / "workload.json").get("measured") or {}
        except SessionError:
            continue
        hop = measured.get("ns_per_hop")
        if isinstance(hop, (int, float)) and hop > 0:
            found.append(float(hop))
    return statistics.median(found) if found else None


def entered(step: Step, folder: Path, steps: Sequence[Step]) -> Step:
    """The step with the number of hand-offs of a frame, once the length of a slice is known."""
    cell = step.cell
    if cell is None or step.workload != "frame":
        return step
    slice_ns = measured_slice_ns(folder, steps)
    count = _USUAL_HANDOFFS if slice_ns is None else handoffs_for(slice_ns)
    options = (*cell.options[:2], "--handoffs", str(count))
    facts = replace(cell.facts, handoffs=count)
    return replace(step, cell=replace(cell, options=options, facts=facts))
