"""What makes a recording unfit for a replay."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlens.replay import fidelity
from schedlens.replay.recorded_programs import Recorded

if TYPE_CHECKING:
    import duckdb

TOO_FEW_FRAMES = "fewer than 10 frames with their presenting thread are recorded"
# Time of chains that end with the quantum, as a share of the recording: above it nothing is
# predicted.
SPIN_LIMIT = 0.02
# Threads that take turns may spin if they run more than so much longer in those frames than in
# others, or if they wait less often, or fewer such frames are known.
LONGER, LEAST_RUNS = 1.3, 5


def obstacle(
    con: duckdb.DuckDBPyConnection, trace_id: int, process: str | None = None
) -> tuple[str, str | None]:
    """The label, and the reason that shows without reading the schedule. `process`: whose frames
    count; None: those of all."""
    row = con.execute(
        "SELECT label, is_windows_source(source), coalesce(events_lost, 0), "
        "coalesce(buffers_lost, 0) FROM trace WHERE trace_id = ?",
        [trace_id],
    ).fetchone()
    assert row is not None
    label, is_windows, events, buffers = row
    if not is_windows and (other := _other_scheduler(con, trace_id)) is not None:
        return label, other
    if events or buffers:
        return label, f"the recorder lost {events} events and {buffers} buffers"
    frames = con.execute(
        "SELECT count(*) FROM frame AS f LEFT JOIN thread USING (utid) "
        "LEFT JOIN process AS p ON p.upid = thread.upid "
        "WHERE f.trace_id = $trace_id AND f.utid IS NOT NULL AND dur_ns IS NOT NULL "
        "AND ($process IS NULL OR p.name = $process)",
        {"trace_id": trace_id, "process": process},
    ).fetchone()
    if frames is None or frames[0] < 10:
        return label, TOO_FEW_FRAMES
    return label, None


def _other_scheduler(con: duckdb.DuckDBPyConnection, trace_id: int) -> str | None:
    """Why the rules of fair Linux threads do not fit: kernels before 6.6 share in another way."""
    row = con.execute(
        "SELECT os, (SELECT any_value(value) FROM machine_setting AS m "
        "WHERE m.trace_id = t.trace_id AND m.key = 'scheduler') "
        "FROM trace AS t WHERE trace_id = ?",
        [trace_id],
    ).fetchone()
    system, scheduler = row or (None, None)
    if scheduler is None:
        version = re.search(r"^(?:Linux )?(\d+)\.(\d+)", system or "")
        if version is None:
            return "the recording does not say which scheduler its kernel has"
        scheduler = "EEVDF" if (int(version[1]), int(version[2])) >= (6, 6) else "CFS"
    if scheduler == "EEVDF":
        return None
    return f"the recorded scheduler is {scheduler}, and the replay has the rules of EEVDF"


def unknown_share(recorded: Recorded, owners: set[int | None]) -> float:
    """The part of the time in which the threads of some processes (upid) could run that is not
    known. Threads of which no run is known do nothing; others wait for as much of the time in which
    it is not known what they did as they do at other times."""
    own = [
        program
        for program in recorded.programs.values()
        if program.upid in owners and program.running_ns
    ]
    unknown = known = 0.0
    for program in own:
        could_run = sum(program.running_ns.values()) + program.ready_ns
        unknown += program.unknown_ns * could_run / (could_run + program.waiting_ns)
        known += could_run
    return unknown / max(unknown + known, 1)


def unclear(recorded: Recorded, owners: set[int | None]) -> str | None:
    """Why nothing is predicted from the programs of a recording; None if something may be.

    `owners`: the processes (upid) whose work counts, or with frames.
    """
    if not owners:
        return "the threads that present frames have no recorded schedule"
    if (share := unknown_share(recorded, owners)) > fidelity.LIMIT:
        return f"for {100 * share:.0f} % of the time of its threads it is unknown what they did"
    return None


def turns(
    con: duckdb.DuckDBPyConnection, recorded: Recorded, owners: set[int | None]
) -> str | None:
    """Why what threads of some processes (upid) do may be no work; None if it is."""
    spun = 0
    names: dict[int, str] = {}
    for utids, dur in con.execute(
        "SELECT utids, dur FROM quantum_chain WHERE trace_id = ? ORDER BY ts", [recorded.trace_id]
    ).fetchall():
        members = [recorded.programs[utid] for utid in utids if utid in recorded.programs]
        own = {member.utid: member.upid for member in members if member.upid in owners}
        # Threads share a CPU in this way whenever there are too few: those of different processes
        # hardly wait for each other in a spin.
        if len(set(own.values())) < len(own):
            spun += dur
            names |= {member.utid: member.name for member in members}
    # What ends the spins of some threads is known.
    others = [utid for utid in names if utid not in recorded.spinning]
    if (
        spun > SPIN_LIMIT * recorded.duration_ns
        and others
        and _may_spin(con, recorded.trace_id, others, recorded)
    ):
        some = " and ".join(sorted(set(names.values()))[:3])
        return (
            f"{some} hand a CPU to each other only when their quantum ends (quantum_end_chain): "
            "they seem to spin, and what ends a spin is not recorded"
        )
    return None


def _may_spin(
    con: duckdb.DuckDBPyConnection, trace_id: int, utids: Sequence[int], recorded: Recorded
) -> bool:
    """Whether threads that take turns at the ends of quanta may spin meanwhile.

    What computes and then waits has as much to do in a frame, or between two waits, as at other
    times; what spins runs longer while it takes turns, or never waits.
    """
    waits = con.execute(
        "SELECT count(*) FROM thread_state WHERE trace_id = $trace_id AND state = 'waiting' "
        "AND list_contains($utids, utid) GROUP BY utid",
        {"trace_id": trace_id, "utids": list(utids)},
    ).fetchall()
    if len(waits) < len(set(utids)) or min(row[0] for row in waits) < LEAST_RUNS:
        return True
    ran: dict[bool, list[int]] = {True: [], False: []}
    for spent, in_turns in con.execute(
        _RAN_IN_FRAMES, {"trace_id": trace_id, "utids": list(utids)}
    ).fetchall():
        ran[in_turns].append(spent)
    # A busy sibling makes the same work take longer.
    longer = LONGER / recorded.machine.machine.shared_speed
    if min(len(found) for found in ran.values()) < LEAST_RUNS:
        return _run_longer_in_turns(con, trace_id, recorded, utids)
    return statistics.fmean(ran[True]) > longer * statistics.fmean(ran[False])


def _run_longer_in_turns(
    con: duckdb.DuckDBPyConnection, trace_id: int, recorded: Recorded, utids: Sequence[int]
) -> bool:
    """Whether some threads run longer from one wait to the next while they take turns.

    Each thread is compared with itself, and those of one name with each other. True if there are
    too few of these times to tell.
    """
    every: dict[int, dict[bool, list[int]]] = {utid: {True: [], False: []} for utid in utids}
    for utid, spent, in_turns in con.execute(
        _RAN_BETWEEN_WAITS, {"trace_id": trace_id, "utids": list(utids)}
    ).fetchall():
        every[utid][in_turns].append(spent)
    longer = LONGER / recorded.machine.machine.shared_speed
    named = {utid: recorded.programs[utid] for utid in utids}
    for members in fidelity.groups(named):
        known = [every[utid] for utid in members if every[utid][True] and every[utid][False]]
        counts = [sum(len(found[in_turns]) for found in known) for in_turns in (True, False)]
        if min(counts) < LEAST_RUNS:
            return True
        usual = sum(len(found[True]) * statistics.fmean(found[False]) for found in known)
        if sum(sum(found[True]) for found in known) > longer * usual:
            return True
    return False


# How long threads ran from each wait to the next, and whether they took turns meanwhile. What
# begins or ends with the recording is left out, and so is what is not known.
_RAN_BETWEEN_WAITS = """
WITH
  numbered AS (
    SELECT
      utid,
      ts,
      ts + dur AS end_ns,
      state,
      -- With FILTER, count(*) over a running window takes quadratic time.
      count_if(state = 'waiting')
        OVER (PARTITION BY utid ORDER BY ts ROWS UNBOUNDED PRECEDING) AS stretch,
      count_if(state = 'waiting') OVER (PARTITION BY utid) AS waits,
    FROM thread_state
    WHERE trace_id = $trace_id AND list_contains($utids, utid)
  ),
  ran AS (
    SELECT
      utid,
      min(ts) AS start_ns,
      max(end_ns) AS end_ns,
      coalesce(sum(end_ns - ts) FILTER (state = 'running'), 0)::BIGINT AS ran,
    FROM numbered
    WHERE state <> 'waiting' AND stretch > 0 AND stretch < waits
    GROUP BY utid, stretch
    HAVING NOT bool_or(state = 'unknown')
  ),
  turns AS (
    SELECT unnest(utids) AS utid, ts AS from_ns, ts + dur AS to_ns
    FROM quantum_chain
    WHERE trace_id = $trace_id
  )
SELECT ran.utid, ran.ran, coalesce(turns.to_ns > ran.start_ns, false)
FROM ran
ASOF LEFT JOIN turns ON turns.utid = ran.utid AND turns.from_ns < ran.end_ns
"""

# How long the threads ran in each frame, and whether they took turns in it.
_RAN_IN_FRAMES = """
WITH
  shown AS (
    SELECT utid, start_ns, start_ns + dur_ns AS end_ns
    FROM frame
    WHERE trace_id = $trace_id AND utid IS NOT NULL AND dur_ns > 0
  ),
  presenter AS (SELECT mode(utid) AS utid FROM shown),
  chosen AS (SELECT start_ns, end_ns FROM shown SEMI JOIN presenter USING (utid)),
  ran AS (
    SELECT chosen.start_ns, any_value(chosen.end_ns) AS end_ns, sum(s.dur)::BIGINT AS ran
    FROM thread_state AS s
    ASOF JOIN chosen ON s.ts >= chosen.start_ns
    WHERE s.trace_id = $trace_id AND s.state = 'running' AND list_contains($utids, s.utid)
    GROUP BY chosen.start_ns
  )
SELECT
  ran,
  EXISTS (
    SELECT 1
    FROM quantum_chain AS c
    WHERE c.trace_id = $trace_id AND list_has_any(c.utids, $utids)
      AND c.ts < ran.end_ns AND c.ts + c.dur > ran.start_ns
  )
FROM ran
"""
