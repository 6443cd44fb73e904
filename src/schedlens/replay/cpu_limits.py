"""Quotas of CPU time in recordings that the rules of Windows play: what a system grants."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

# Threads whose quota is spent go on so soon after a period begins.
LATE_NS = 100_000
# The beginning of the periods is known if so many of them end such waits.
LEAST_PERIODS = 3


_LAST_CGROUPS = """
SELECT utid, arg_max(cgroup, ts)
FROM (
  SELECT trace_id, ts, utid, cgroup FROM thread_cgroup
  UNION ALL
  SELECT trace_id, ts, utid, cgroup FROM snapshot_thread
)
WHERE trace_id = $trace_id AND utid IS NOT NULL AND cgroup IS NOT NULL
GROUP BY utid
"""


@dataclass(frozen=True)
class CpuLimit:
    """A group of threads that may use so much CPU time in each period."""

    name: str
    quota_ns: float
    """As set, for each period."""
    period_ns: int
    members: frozenset[int]
    """Threads (utid)."""
    begin_ns: int = 0
    """When the first whole period begins."""
    granted_ns: float | None = None
    """CPU time that the members got in the recorded periods at whose end they were stopped: systems
    look at the clock only now and then. None: they were never stopped."""

    def allowed_ns(self) -> float:
        """CPU time of a period in a replay."""
        return self.quota_ns if self.granted_ns is None else self.granted_ns

    def resized(self, cpus: float) -> CpuLimit:
        """The same group with a quota of so many CPUs; it is exceeded by the same share."""
        quota = cpus * self.period_ns
        granted = self.granted_ns and self.granted_ns * quota / self.quota_ns
        return replace(self, quota_ns=quota, granted_ns=granted)


@dataclass(frozen=True)
class Waits:
    """What a recording shows of a thread."""

    timed: Sequence[tuple[int, int]]
    """Start and end of waits that no thread ended."""
    running: Sequence[tuple[int, int]]


def read(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[CpuLimit]:
    """The quotas that were set, by name of the cgroup; a cgroup has the threads of those in it."""
    quotas = con.execute(
        "SELECT cgroup, arg_max(quota_ns, ts), arg_max(period_ns, ts) FROM snapshot_cgroup "
        "WHERE trace_id = ? GROUP BY cgroup ORDER BY cgroup",
        [trace_id],
    ).fetchall()
    threads = con.execute(_LAST_CGROUPS, {"trace_id": trace_id}).fetchall()
    found: list[CpuLimit] = []
    for name, quota, period in quotas:
        within = name.rstrip("/") + "/"
        members = frozenset(utid for utid, of in threads if of == name or of.startswith(within))
        if quota and period and members:
            found.append(CpuLimit(name, float(quota), period, members))
    return found


def stopped(
    limit: CpuLimit, waits: Mapping[int, Waits], until_ns: int
) -> tuple[CpuLimit, set[tuple[int, int]]]:
    """The limit as it was enforced, and the waits that it caused: thread and end of each.

    Members that are stopped go on together when a period begins, so that their waits end at
    times which are whole periods apart. So does a wait that the end of the recording cuts off.
    """
    ends = sorted(
        (end % limit.period_ns, end, start, utid)
        for utid in limit.members
        for start, end in (waits[utid].timed if utid in waits else ())
        if end < until_ns
    )
    if not ends:
        return limit, set()
    phases = [phase for phase, *_ in ends]
    # The first of those that end together; a later one would leave some of them out.
    counts = [bisect_right(phases, phase + LATE_NS) - place for place, phase in enumerate(phases)]
    begin = phases[counts.index(max(counts))]
    caused = {
        (utid, end): end - phase + begin
        for phase, end, start, utid in ends
        if begin <= phase <= begin + LATE_NS and start < end - phase + begin
    }
    periods = set(caused.values())
    if len(periods) < LEAST_PERIODS:
        return limit, set()
    spent = [
        sum(_within(waits[utid].running, at - limit.period_ns, at) for utid in waits)
        for at in sorted(periods)
    ]
    granted = statistics.median(spent)
    if granted <= 0:
        return limit, set()
    cut = {
        (utid, end) for utid, known in waits.items() for _, end in known.timed if end >= until_ns
    }
    return replace(limit, begin_ns=begin, granted_ns=granted), {*caused, *cut}


def _within(slices: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """How long these slices are between two times."""
    place = max(bisect_left(slices, start, key=lambda one: one[0]) - 1, 0)
    spent = 0
    while place < len(slices) and slices[place][0] < end:
        spent += max(min(slices[place][1], end) - max(slices[place][0], start), 0)
        place += 1
    return spent


def seen(states: Iterable[Any], by_thread: Set[int]) -> Waits:
    """The waits and slices of a thread from its states; `by_thread`: ends of waits that other
    threads ended."""
    timed: list[tuple[int, int]] = []
    running: list[tuple[int, int]] = []
    for start, end, state, *_ in states:
        if state == "running":
            running.append((start, end))
        elif state == "waiting" and end not in by_thread:
            timed.append((start, end))
    return Waits(timed, running)
