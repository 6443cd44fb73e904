"""Whether the recorded scheduler moves a running thread when a better core is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schedlens.replay.ops import Program

if TYPE_CHECKING:
    import duckdb

    from schedlens.replay.core_speeds import RecordedMachine

# The longest quantum of Windows: 12 ticks of 1/64 s.
LONGEST_QUANTUM_NS = 187_500_000
# A thread that could have moved for so many quanta, in one slice, would have moved.
QUANTA = 3
# So many threads that ran on elsewhere, and left their CPU idle, moved: one may be a lost record.
LEAST_MOVES = 2

Span = tuple[int, int]


def moves_running(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    machine: RecordedMachine,
    programs: Mapping[int, Program],
    parked: set[int],
    quantum_ns: int | None,
) -> bool:
    """False if a thread ran on for several quanta with its SMT sibling busy, or on an E core
    without EcoQoS, although whole cores, or other ones, that it may use were idle meanwhile. True
    if that never happened, or threads also left a CPU to idle at the end of their quantum.

    `parked`: indices of CPUs that are parked at some time, which do not count as idle.
    `quantum_ns`: None if it is not known.
    """
    least = QUANTA * (quantum_ns or LONGEST_QUANTUM_NS)
    place = {number: index for index, number in enumerate(machine.numbers)}
    moves = con.execute(_MOVES, {"trace_id": trace_id}).fetchone()
    if moves is not None and moves[0] >= LEAST_MOVES:
        return True
    kinds = [cpu.core_type for cpu in machine.machine.cpus]
    for utid, cpu, start, end in con.execute(
        "SELECT utid, cpu, ts, ts + dur FROM sched_slice WHERE trace_id = ? AND NOT is_idle "
        "AND dur > ? ORDER BY ts, cpu",
        [trace_id, least],
    ).fetchall():
        index = place.get(cpu)
        if index is None or utid not in programs:
            continue
        usable = set(programs[utid].affinity) - parked
        if kinds[index] == "E":
            if programs[utid].eco:
                continue
            worse = [(start, end)]
            usable = {other for other in usable if kinds[other] != "E"}
        else:
            worse = sorted(
                span
                for sibling in machine.siblings[index]
                for span in _common([(start, end)], machine.busy[sibling].slices())
            )
        free: list[Span] = []
        for core in _others(machine, index, usable):
            idle = worse
            for other in core:
                idle = _common(idle, machine.busy[other].gaps(start, end))
            free += idle
        if _length(free) > least:
            return False
    return True


# Slices whose thread runs on at once on another CPU, while its CPU is idle.
_MOVES = """
SELECT count(*)
FROM (
  SELECT
    is_idle,
    end_reason,
    ts + dur AS end_ns,
    cpu,
    lead(ts) OVER (PARTITION BY utid, is_idle ORDER BY ts) AS next_ts,
    lead(cpu) OVER (PARTITION BY utid, is_idle ORDER BY ts) AS next_cpu,
    lead(is_idle) OVER (PARTITION BY cpu ORDER BY ts) AS leaves_idle,
  FROM sched_slice
  WHERE trace_id = $trace_id
)
WHERE NOT is_idle AND end_reason = 'quantum_end' AND next_ts = end_ns AND next_cpu <> cpu
  AND leaves_idle
"""


def _others(machine: RecordedMachine, index: int, usable: set[int]) -> list[list[int]]:
    """The other cores on which a thread may use a CPU: the logical CPUs of each."""
    cpus = machine.machine.cpus
    cores = {cpus[other].core for other in usable} - {cpus[index].core}
    return [[cpu.cpu for cpu in cpus if cpu.core == core] for core in sorted(cores)]


def _common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    """The times that are in both, which are in order and do not overlap."""
    found: list[Span] = []
    first = second = 0
    while first < len(left) and second < len(right):
        low = max(left[first][0], right[second][0])
        high = min(left[first][1], right[second][1])
        if low < high:
            found.append((low, high))
        if left[first][1] <= right[second][1]:
            first += 1
        else:
            second += 1
    return found


def _length(spans: Sequence[Span]) -> int:
    """The time in any of them."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total
