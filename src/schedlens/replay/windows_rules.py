"""What the scheduler of a recorded Windows does, as far as the recording shows it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    from schedlens.replay.ops import Program

DEFAULT_QUANTUM_NS = 31_250_000


def parking(
    con: duckdb.DuckDBPyConnection, trace_id: int, place: Mapping[int, int]
) -> list[tuple[int, int, bool, bool]]:
    """Time, index of the CPU, parked, soft, in order; `place` is the index of each CPU.

    Where records were lost, the state is not known: it then remains as it was.
    """
    rows = con.execute(
        "SELECT ts, cpu, parked, soft_parked FROM cpu_parking WHERE trace_id = ? "
        "AND parked IS NOT NULL ORDER BY ts NULLS FIRST, cpu",
        [trace_id],
    ).fetchall()
    return [
        (ts or 0, place[cpu], bool(parked), bool(soft))
        for ts, cpu, parked, soft in rows
        if cpu in place and (ts is not None or parked or soft)
    ]


def with_floor(
    changes: Sequence[tuple[int, int, bool, bool]], cpus: int, least: int
) -> list[tuple[int, int, bool, bool]]:
    """The same changes of parking if at least so many CPUs remain unparked.

    A CPU that would be one too many remains unparked until others are: those that were parked first
    remain so.
    """
    recorded: list[int] = []
    parked: list[int] = []
    made: list[tuple[int, int, bool, bool]] = []
    for ts, cpu, is_parked, soft in changes:
        # Soft parking only makes a CPU a last choice.
        is_hard = is_parked and not soft
        if (cpu in recorded) == is_hard:
            continue
        recorded = [*recorded, cpu] if is_hard else [one for one in recorded if one != cpu]
        allowed = recorded[: max(cpus - least, 0)]
        made += [(ts, one, False, False) for one in parked if one not in allowed]
        made += [(ts, one, True, False) for one in allowed if one not in parked]
        parked = allowed
    return made


def quantum_ns(con: duckdb.DuckDBPyConnection, trace_id: int) -> int | None:
    """The most frequent length of slices that end with their quantum; None if too few do."""
    rows = con.execute(
        "SELECT dur FROM sched_slice WHERE trace_id = ? AND end_reason = 'quantum_end' "
        "AND dur >= 1000000",
        [trace_id],
    ).fetchall()
    lengths = [round(dur / 100_000) * 100_000 for (dur,) in rows]
    return statistics.mode(sorted(lengths)) if len(lengths) >= 5 else None


def wake_boost(
    con: duckdb.DuckDBPyConnection, trace_id: int, programs: Mapping[int, Program]
) -> int:
    """By how much a wait most often raises a priority."""
    found: list[int] = []
    for utid, priority in con.execute(
        "SELECT utid, priority FROM sched_slice WHERE trace_id = ? AND wait_ns IS NOT NULL "
        "AND priority IS NOT NULL AND NOT is_idle",
        [trace_id],
    ).fetchall():
        base = programs[utid].priority if utid in programs else 15
        if base < 15 and priority >= base:
            found.append(priority - base)
    return min(statistics.mode(found), 6) if found else 0
