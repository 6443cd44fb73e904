"""Sessions without frames: how fast a process works, and how long it takes to respond."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from schedlens.replay.fractions import quantile

if TYPE_CHECKING:
    import duckdb

# Throughput is this share of the work, by the time at which that was done: the last threads that
# end do not decide.
GOAL_SHARE = 0.9
# Parts of a recording that show how much chance decides, and Student's t for 95 % of their number.
BLOCKS, STUDENT = 10, 2.262
# Below this many, percentiles of responses say nothing.
LEAST_RESPONSES = 20


@dataclass(frozen=True)
class Work:
    """Work and responses of the watched threads of a recording or a replay.

    `throughput` is ns of work on the fastest core alone per ns. A response is the time from a
    wakeup of a thread to its next wait, ns; None: too few.
    """

    count: int
    throughput: float
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class Watched:
    """The process whose work counts."""

    process: str
    utids: frozenset[int]


@dataclass(frozen=True)
class Goal:
    """What the watched threads did in a recording."""

    work_ns: float
    """The work whose end is timed."""
    took_ns: int
    """From their first work until they had done it."""
    responses: dict[int, list[int]]
    """In order, by thread; without what began before the first wait of a thread."""
    by_thread: dict[int, float]
    """All work, ns."""
    variation: float = 0.0
    """Half of the 95 % interval of the ratio of two throughputs of this length, as a share, from
    how much the recording's blocks differ."""

    def measured(self, took_ns: int, responses: Mapping[int, Sequence[int]]) -> Work:
        """The figures of a schedule that took so long for the goal."""
        every = [ns for found in responses.values() for ns in found]
        some = len(every) >= LEAST_RESPONSES
        p50, p95, p99 = (quantile(every, share) if some else None for share in (0.5, 0.95, 0.99))
        return Work(len(every), self.work_ns / max(took_ns, 1), p50, p95, p99)

    def shortened(self, utids: Set[int], share: float) -> Goal:
        """The same progress, with that share less work in these threads."""
        less = sum(ns for utid, ns in self.by_thread.items() if utid in utids)
        part = less / sum(self.by_thread.values())
        return replace(self, work_ns=self.work_ns * (1 - share * part))

    def recorded(self) -> Work:
        """The figures of the recording."""
        return self.measured(self.took_ns, self.responses)

    def replayed(self, took_ns: int, responses: Mapping[int, Sequence[int]]) -> Work:
        """The figures of a replay; `responses` with the first one of each thread."""
        kept = {
            utid: list(found[1 : 1 + len(self.responses.get(utid, ()))])
            for utid, found in responses.items()
        }
        return self.measured(took_ns, kept)


def watched(con: duckdb.DuckDBPyConnection, trace_id: int, process: str | None) -> Watched | None:
    """The threads of a process; by default of the program that was recorded, or of the process
    that ran longest. None if there is none."""
    rows = con.execute(_RAN, [trace_id, trace_id]).fetchall()
    if process is not None:
        named = [(name, utids) for name, utids, _, _ in rows if name == process]
    else:
        own = [(name, utids) for name, utids, _, is_own in rows if is_own]
        named = own or [(name, utids) for name, utids, _, _ in rows]
    if not named:
        return None
    return Watched(named[0][0], frozenset(named[0][1]))


# Processes of one name by how long they ran, and whether `collect` started the program.
_RAN = """
WITH RECURSIVE
  started AS (
    SELECT upid, pid
    FROM process
    WHERE trace_id = ? AND pid = (
      SELECT try_cast(any_value(value) AS BIGINT)
      FROM machine_setting AS m
      WHERE m.key = 'command_pid' AND m.trace_id = process.trace_id
    )
    UNION
    SELECT p.upid, p.pid
    FROM process AS p
    JOIN started ON p.parent_pid = started.pid AND p.upid >> 32 = started.upid >> 32
  )
SELECT
  p.name,
  list(DISTINCT s.utid ORDER BY s.utid),
  sum(s.dur),
  bool_or(p.upid IN (SELECT upid FROM started)) AS is_own,
FROM sched_slice AS s
JOIN thread AS t USING (utid)
JOIN process AS p USING (upid)
WHERE s.trace_id = ? AND NOT s.is_idle AND p.name IS NOT NULL
GROUP BY p.name
ORDER BY sum(s.dur) DESC, p.name
"""


def responses(states: Iterable[tuple[int, int, str]], end_ns: int) -> list[int]:
    """Times from the end of a wait to the next one, from a thread's (start, end, state)."""
    found: list[int] = []
    begin: int | None = None
    last = 0
    for start, end, state in states:
        if state in {"waiting", "new"}:
            if begin is not None:
                found.append(start - begin)
            begin = end
        elif state == "unknown":
            begin = None
        last = end
    if begin is not None and begin < last < end_ns:
        found.append(last - begin)
    return found


def goal(
    parts: Sequence[tuple[int, int, float, int]], answered: dict[int, list[int]]
) -> Goal | None:
    """The goal of a recording, from pieces of work: start, end, ns, thread. None without work."""
    wanted = GOAL_SHARE * sum(part[2] for part in parts)
    at_ns = reached([part[:3] for part in parts], wanted) if wanted > 0 else None
    if at_ns is None:
        return None
    by_thread: dict[int, float] = {}
    for _, _, done, utid in parts:
        by_thread[utid] = by_thread.get(utid, 0.0) + done
    begin = min(part[0] for part in parts)
    return Goal(wanted, at_ns - begin, answered, by_thread, _variation(parts, begin, at_ns))


def reached(parts: Iterable[tuple[int, int, float]], wanted: float) -> int | None:
    """When so much work was done, from pieces of it: start, end, ns; None if it was not.

    Pieces of several threads overlap, and each is done evenly from its start to its end.
    """
    changes: list[tuple[int, float, float]] = []
    for start, end, ns in parts:
        if end > start:
            changes += [(start, ns / (end - start), 0.0), (end, -ns / (end - start), 0.0)]
        else:
            changes.append((end, 0.0, ns))
    done = speed = 0.0
    last = 0
    for at, faster, at_once in sorted(changes):
        now = done + speed * (at - last)
        # Sums of many pieces differ in the last digits.
        if now >= wanted * (1 - 1e-9) and speed > 0:
            return min(last + round((wanted - done) / speed), at)
        done, last, speed = now + at_once, at, speed + faster
        if done >= wanted:
            return at
    return None


def _variation(parts: Sequence[tuple[int, int, float, int]], begin: int, end: int) -> float:
    """Blocks of equal length are independent if they are long; the mean of each of two recordings
    then has the standard error of its blocks, which the recorded ones show. Differences of
    neighbors count (von Neumann): phases of a program are not chance."""
    length = (end - begin) / BLOCKS
    if length <= 0:
        return 0.0
    sums = [0.0] * BLOCKS
    for since, until, done, _ in parts:
        if until <= since:
            continue
        first = int((since - begin) / length)
        last = int((until - begin) / length)
        for place in range(first, min(last, BLOCKS - 1) + 1):
            left, right = begin + place * length, begin + (place + 1) * length
            inside = min(until, right) - max(since, left)
            sums[place] += done * max(inside, 0.0) / (until - since)
    mean = statistics.fmean(sums)
    if mean <= 0:
        return 0.0
    squared = statistics.fmean((after - before) ** 2 for before, after in pairwise(sums)) / 2
    error = math.sqrt(squared / BLOCKS) / mean
    return STUDENT * math.sqrt(2) * error
