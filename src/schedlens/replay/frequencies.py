"""A locked frequency: how fast cores were clocked, and how much their work depends on it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from schedlens.replay.ops import CannotTellError
from schedlens.replay.recorded_programs import Recorded

if TYPE_CHECKING:
    import duckdb

    from schedlens.replay.core_speeds import RecordedMachine

# The share of the time of all work that passes in clock cycles of the core; the rest waits for
# memory and does not depend on the frequency. No recording shows it.
DEPENDS = {"low": 0.5, "middle": 0.75, "high": 1.0}


def while_busy(
    con: duckdb.DuckDBPyConnection, trace_id: int, machine: RecordedMachine
) -> dict[int, float]:
    """Mean kHz of each CPU (by index) while it ran threads. A CPU that never did has the mean of
    those of its core type. Without CPUs whose frequency is not recorded."""
    steps: dict[int, list[tuple[int, int]]] = defaultdict(list)
    place = {number: index for index, number in enumerate(machine.numbers)}
    for cpu, ts, khz in con.execute(
        "SELECT cpu, ts, khz FROM cpu_frequency WHERE trace_id = ? ORDER BY cpu, ts", [trace_id]
    ).fetchall():
        if cpu in place:
            steps[place[cpu]].append((ts, khz))
    found: dict[int, float] = {}
    for index, known in steps.items():
        marks = [machine.busy[index].until(ts) for ts, _ in known]
        marks.append(machine.busy[index].total)
        spent = [after - before for before, after in pairwise(marks)]
        if sum(spent):
            cycles = sum(ns * khz for ns, (_, khz) in zip(spent, known, strict=True))
            found[index] = cycles / sum(spent)
    cpus = machine.machine.cpus
    by_type: dict[str, list[float]] = defaultdict(list)
    for index, khz in found.items():
        by_type[cpus[index].core_type].append(khz)
    for index in steps.keys() - found.keys():
        if others := by_type[cpus[index].core_type]:
            found[index] = statistics.fmean(others)
    return found


def lock(made: Recorded, chosen: list[int], khz: float, end: str) -> None:
    """Sets CPUs (by index) to a frequency. `end`: low, middle or high of how much work depends on
    it. Raises `CannotTellError` if the recording has no frequencies of one."""
    share = DEPENDS[end]
    cpus = list(made.machine.machine.cpus)
    for index in chosen:
        recorded = made.khz.get(index)
        if recorded is None:
            raise CannotTellError(
                f"the recording has no frequencies of CPU {made.machine.numbers[index]}"
            )
        faster = 1 / (share * recorded / khz + 1 - share)
        cpus[index] = replace(cpus[index], speed=cpus[index].speed * faster)
    machine = replace(made.machine.machine, cpus=tuple(cpus))
    made.machine = replace(made.machine, machine=machine)
