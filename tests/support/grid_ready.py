"""What delays each ready thread of a schedule, computed cell by cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from grid_schedule import CELL, THRESHOLDS, Cells, Schedule, gather, largest


def _ready_period(plan: Schedule, thread: int, cell: int) -> tuple[int, int]:
    cells = plan.ready[thread]
    first = last = cell
    while first > 0 and cells[first - 1]:
        first -= 1
    while last + 1 < len(cells) and cells[last + 1]:
        last += 1
    return first, last + 1


def ready_facts(plan: Schedule, thread: int, cell: int) -> tuple[object, ...]:
    """ready_ts, entered_cpu, throttled, cgroup, idle_exit, idle_ns, parked_ns, unknown, known,
    outside_idle_ns."""
    begin, end = _ready_period(plan, thread, cell)
    rows = plan.cpus.items()
    enters = next((c for c, row in rows if end < plan.cells and row[end] == thread), None)
    left = next((c for c, row in rows if begin > 0 and row[begin - 1] == thread), None)
    to_idle = left is not None and plan.cpus[left][begin] in (".", "i")
    to_idle = to_idle and (thread, begin) not in plan.woken
    allowed, known = plan.may_use(thread, cell)
    idle = [c for c in allowed if c in plan.cpus and plan.cpus[c][cell] == "."]
    kinds = {c: plan.parking_of(c, cell) for c in idle}
    # A thread of unknown affinity may use any CPU.
    perhaps = [c for c in plan.cpus if not known or c in allowed]
    free = [plan.stretch(c, cell) for c in idle if kinds[c] == "free"]
    parked = [plan.stretch(c, cell) for c in idle if kinds[c] in ("soft", "hard")]
    unknown = any(_is_unknown(plan, c, cell) for c in perhaps)
    unknown = unknown or any(
        plan.cpus[c][cell] == "." and plan.parking_of(c, cell) in ("soft", "hard")
        for c in perhaps
        if c not in allowed
    )
    throttled = (
        to_idle
        and left is not None
        and plan.cpus[left][cell] == "."
        and plan.parking_of(left, cell) == "free"
    )
    maybe_throttled = (
        to_idle and not throttled and left is not None and _is_unknown(plan, left, cell)
    )
    near_end = (end - cell) * CELL <= 1_000_000
    leaving = enters is not None and near_end and plan.cpus[enters][cell] == "."
    if near_end and enters is None and _is_lost(plan, thread, end) and (free or parked):
        # The switch-in may be in the lost time: then this was idle_exit.
        free, parked, unknown = [], [], True
    if maybe_throttled:
        free, parked, unknown, leaving = [], [], True, False
    outside = [
        plan.stretch(c, cell)
        for c in plan.cpus
        if c not in allowed and plan.cpus[c][cell] == "."
        if plan.parking_of(c, cell) == "free"
    ]
    return (
        begin * CELL,
        enters,
        throttled,
        thread in plan.throttled,
        leaving,
        max(free, default=None),
        max(parked, default=None),
        unknown,
        known,
        max(outside, default=None),
    )


def _is_unknown(plan: Schedule, cpu: int, cell: int) -> bool:
    """Nothing shows whether a thread may use the CPU."""
    if plan.cpus[cpu][cell] != ".":
        return plan.cpus[cpu][cell] == "?"
    return plan.is_open(cpu, cell) or plan.parking_of(cpu, cell) == "unknown"


def _is_lost(plan: Schedule, thread: int, cell: int) -> bool:
    return thread in plan.lost and cell < plan.cells and plan.lost[thread][cell]


def expect_ready_slice(plan: Schedule) -> Cells:
    """utid and the facts."""
    return gather(
        (cell, (thread, *ready_facts(plan, thread, cell)))
        for thread, cells in plan.ready.items()
        for cell in range(plan.cells)
        if cells[cell]
    )


def obstacle(plan: Schedule, thread: int, cell: int, least: int) -> str:
    """The class of a ready moment, first match wins."""
    facts = ready_facts(plan, thread, cell)
    _, _, throttled, cgroup, leaving, idle_ns, parked_ns, unknown, known, outside_ns = facts
    idle = isinstance(idle_ns, int) and idle_ns >= least
    parked = isinstance(parked_ns, int) and parked_ns >= least
    if throttled or (cgroup and not leaving and (idle or parked)):
        return "throttled"
    if leaving:
        return "idle_exit"
    if idle:
        return "idle_available"
    if parked:
        return "parked_available"
    elsewhere = not known and isinstance(outside_ns, int) and outside_ns >= least
    return "unknown" if unknown or elsewhere else "all_busy"


def expect_ready_match(plan: Schedule) -> Cells:
    """min_idle_ns, threads; if something matches."""

    def rows() -> Iterator[tuple[int, tuple[object, ...]]]:
        for cell, least in itertools.product(range(plan.cells), THRESHOLDS):
            wishes: list[tuple[int, frozenset[int]]] = []
            for thread, cells in sorted(plan.ready.items()):
                if cells[cell] and obstacle(plan, thread, cell, least) == "idle_available":
                    allowed, _ = plan.may_use(thread, cell)
                    idle = frozenset(
                        cpu
                        for cpu in allowed
                        if plan.cpus[cpu][cell] == "."
                        and plan.parking_of(cpu, cell) == "free"
                        and plan.stretch(cpu, cell) >= least
                    )
                    wishes.append((len(wishes), idle))
            number = largest(tuple(wishes), (1,) * len(wishes))
            if number:
                yield cell, (least, number)

    return gather(rows())
