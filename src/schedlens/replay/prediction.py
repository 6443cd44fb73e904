"""What changes would gain: frames predicted from replays with and without them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlens.replay import alterations, fidelity, programs, rerun
from schedlens.replay.alterations import Change
from schedlens.replay.fidelity import Fidelity, Frames
from schedlens.replay.ops import CannotTellError
from schedlens.replay.programs import Recorded

if TYPE_CHECKING:
    import duckdb

# No interval is narrower than this, on either side: chance decides that much of a schedule.
LEAST_ERROR = 0.03
# Unknown states of threads, and time of chains that end with the quantum, as shares of the
# recording: above them nothing is predicted.
UNKNOWN_LIMIT = 0.01
SPIN_LIMIT = 0.02
# Threads that take turns may spin if they run more than so much longer in those frames than in
# others, or if they wait less often, or fewer such frames are known.
LONGER, LEAST_RUNS = 1.3, 5
FIGURES = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True)
class Interval:
    """A predicted length of frames in ns, and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """What some changes do; `why` is set if the recording cannot tell, and then all else is None.

    A figure is None if the unchanged replay misses it by more than the limit.
    """

    changes: tuple[str, ...]
    why: str | None = None
    frames: dict[str, Interval | None] | None = None
    stutters: int | None = None
    gain_pct: float | None = None
    """By which the mean frame gets shorter."""


@dataclass(frozen=True)
class Baseline:
    """A recording, its presenting thread and its unchanged replays at both ends of the speeds."""

    recorded: list[Recorded]
    """With the middle speeds; if any is assumed, also with the low and the high ones."""
    replayed: list[Frames]
    presenter: int
    frames: Frames
    fidelity: Fidelity


@dataclass(frozen=True)
class Refused:
    """A recording about which nothing is predicted; `fidelity` is None if it was not replayed."""

    label: str
    why: str
    fidelity: Fidelity | None = None


def baseline(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    progress: Callable[[float], None] = lambda share: None,
    *,
    process: str | None = None,
) -> Baseline | Refused:
    """Replays a recording unchanged and judges the result.

    The frames are those of `process`, by default of the thread that presents most.
    """
    label, why = obstacle(con, trace_id)
    if why is not None:
        return Refused(label, why)
    recorded = programs.read(con, trace_id)
    why = _unclear(con, recorded)
    if why is not None:
        return Refused(label, why)
    presenters = [
        utid for utid in recorded.frames if process in {None, recorded.programs[utid].process}
    ]
    if not presenters:
        return Refused(label, f"no thread of {process} presents frames")
    presenter = max(presenters, key=lambda utid: len(recorded.frames[utid]))
    progress(0.4)
    outcome = rerun.replay(recorded)
    progress(0.6)
    errors = fidelity.compare(recorded, outcome, presenter)
    worst, what = errors.worst()
    if worst > fidelity.LIMIT:
        return Refused(
            label,
            f"a replay without any change misses the recorded {what} by {100 * worst:.0f} % "
            f"(limit: {100 * fidelity.LIMIT:.0f} %)",
            errors,
        )
    every, replayed = [recorded], [fidelity.summary(outcome.frames[presenter])]
    speeds = [*recorded.machine.types.values(), recorded.machine.shared]
    if any(speed is not None and speed.is_assumed for speed in speeds):
        for end in ("low", "high"):
            other = programs.read(con, trace_id, end=end)
            again = rerun.replay(other)
            if presenter in again.frames:
                every.append(other)
                replayed.append(fidelity.summary(again.frames[presenter]))
    frames = fidelity.summary(recorded.frames[presenter])
    return Baseline(every, replayed, presenter, frames, errors)


def obstacle(con: duckdb.DuckDBPyConnection, trace_id: int) -> tuple[str, str | None]:
    """The label, and the reason that shows without reading the schedule."""
    row = con.execute(
        "SELECT label, is_windows_source(source), coalesce(events_lost, 0), "
        "coalesce(buffers_lost, 0) FROM trace WHERE trace_id = ?",
        [trace_id],
    ).fetchone()
    assert row is not None
    label, is_windows, events, buffers = row
    if not is_windows:
        return label, "the simulated scheduler has Windows' rules only, and this is not Windows"
    if events or buffers:
        return label, f"the recorder lost {events} events and {buffers} buffers"
    frames = con.execute(
        "SELECT count(*) FROM frame WHERE trace_id = ? AND utid IS NOT NULL AND dur_ns IS NOT NULL",
        [trace_id],
    ).fetchone()
    if frames is None or frames[0] < 10:
        return label, "fewer than 10 frames with their presenting thread are recorded"
    return label, None


def _unclear(con: duckdb.DuckDBPyConnection, recorded: Recorded) -> str | None:
    if not recorded.frames:
        return "the threads that present frames have no recorded schedule"
    unknown = sum(program.unknown_ns for program in recorded.programs.values())
    known = sum(
        sum(program.running_ns.values()) + program.ready_ns
        for program in recorded.programs.values()
    )
    if unknown > UNKNOWN_LIMIT * max(known, 1):
        return f"for {unknown / 1e6:.0f} ms it is unknown what threads did"
    owners = {recorded.programs[utid].upid for utid in recorded.frames}
    spun = 0
    turns: dict[int, str] = {}
    for utids, dur in con.execute(
        "SELECT utids, dur FROM quantum_chain WHERE trace_id = ? ORDER BY ts", [recorded.trace_id]
    ).fetchall():
        members = [recorded.programs[utid] for utid in utids if utid in recorded.programs]
        if any(member.upid in owners for member in members):
            spun += dur
            turns |= {member.utid: member.name for member in members}
    if spun > SPIN_LIMIT * recorded.duration_ns and _may_spin(
        con, recorded.trace_id, list(turns), recorded.machine.machine.shared_speed
    ):
        names = " and ".join(sorted(set(turns.values()))[:3])
        return (
            f"{names} hand a CPU to each other only when their quantum ends (quantum_end_chain): "
            "they seem to spin, and what ends a spin is not recorded"
        )
    return None


def _may_spin(
    con: duckdb.DuckDBPyConnection, trace_id: int, utids: Sequence[int], shared_speed: float
) -> bool:
    """Whether threads that take turns at the ends of quanta may spin meanwhile.

    What computes and then waits has as much to do in a frame as at other times; what spins runs
    longer while it takes turns, or never waits.
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
    if min(len(found) for found in ran.values()) < LEAST_RUNS:
        return True
    # A busy sibling makes the same work take longer.
    longer = LONGER / shared_speed
    return statistics.fmean(ran[True]) > longer * statistics.fmean(ran[False])


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


def predict(base: Baseline, wanted: Sequence[Change]) -> Prediction:
    """Replays with the changes. Raises `ChangeError` if one fits nothing in the recording."""
    texts = tuple(change.text for change in wanted)
    made: list[Frames] = []
    for recorded in base.recorded:
        try:
            outcome = rerun.replay(alterations.changed(recorded, wanted))
        except CannotTellError as unclear:
            return Prediction(texts, str(unclear))
        lengths = outcome.frames.get(base.presenter, [])
        expected = len(recorded.frames[base.presenter])
        if len(lengths) < expected - 1:
            return Prediction(
                texts,
                f"with the change, the replay finished only {len(lengths)} of {expected} frames",
            )
        made.append(fidelity.summary(lengths))
    frames: dict[str, Interval | None] = {}
    errors = base.fidelity.frames or {}
    for name in FIGURES:
        error = errors[name]
        if error > fidelity.LIMIT:
            frames[name] = None
            continue
        right = getattr(base.frames, name)
        found = [
            right * getattr(after, name) / getattr(before, name)
            for before, after in zip(base.replayed, made, strict=True)
        ]
        width = max(error, LEAST_ERROR)
        frames[name] = Interval(found[0], min(found) * (1 - width), max(found) * (1 + width))
    mean = frames["mean"]
    gain = None if mean is None else 100 * (1 - mean.value / base.frames.mean)
    missed = abs(base.replayed[0].stutters - base.frames.stutters)
    stutters = made[0].stutters if missed <= max(1, fidelity.LIMIT * base.frames.stutters) else None
    return Prediction(texts, None, frames, stutters, gain)
