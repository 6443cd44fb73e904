"""Threads that were woken and hardly ran: what they would do is not recorded."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from schedlens.replay import pacing
from schedlens.replay.ops import Program
from schedlens.replay.recorded_programs import stem

if TYPE_CHECKING:
    import duckdb

# Less than this is too little to show what a thread does.
LITTLE_NS = 1_000_000
# A thread starves if it does not run for this share of the recording after it was woken.
STARVED_SHARE = 0.5


def found(
    con: duckdb.DuckDBPyConnection, trace_id: int, utids: Set[int], duration_ns: int
) -> frozenset[int]:
    """Those of some threads that starve: they were woken early, have not run since, and ran for
    less than a millisecond in all."""
    rows = con.execute(
        _STARVING,
        {
            "trace_id": trace_id,
            "before": (1 - STARVED_SHARE) * duration_ns,
            "little": LITTLE_NS,
        },
    ).fetchall()
    return frozenset(utid for (utid,) in rows if utid in utids)


_STARVING = """
WITH
  woken AS (
    SELECT utid, max(ts) AS ts FROM wakeup WHERE trace_id = $trace_id GROUP BY utid
  ),
  ran AS (
    SELECT utid, sum(dur) AS ns, max(ts + dur) AS end_ns
    FROM sched_slice
    WHERE trace_id = $trace_id
    GROUP BY utid
  )
SELECT utid
FROM woken
LEFT JOIN ran USING (utid)
WHERE woken.ts < $before AND coalesce(ns, 0) < $little AND coalesce(end_ns, 0) <= woken.ts
ORDER BY utid
"""


def fed(programs: Mapping[int, Program], starving: Set[int], *, idle: bool) -> None:
    """Gives starving threads something to do: the same as the one that ran longest of those with
    the same name but for a number, if that only computes and sleeps in turn. `idle`: nothing."""
    for utid in sorted(starving):
        program = programs[utid]
        # Whether its wakeup took effect shows only when it runs; it was not waiting any more.
        program.ready_ns += program.unknown_ns
        program.unknown_ns = 0
        if idle:
            program.ops = []
            continue
        mates = [
            mate
            for mate in programs.values()
            if mate.utid not in starving
            and (mate.upid, stem(mate.name)) == (program.upid, stem(program.name))
            and pacing.is_loop(mate.ops)
        ]
        if mates:
            program.ops = max(mates, key=lambda mate: sum(mate.running_ns.values())).ops
