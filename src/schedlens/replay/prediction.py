"""What changes would gain: frames, or work without them, predicted from replays."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from schedlens.replay import alterations, fidelity, programs, rerun, work
from schedlens.replay.alterations import Change
from schedlens.replay.fidelity import Fidelity, Frames
from schedlens.replay.ops import CannotTellError
from schedlens.replay.programs import Recorded
from schedlens.replay.rerun import Outcome
from schedlens.replay.work import Work

if TYPE_CHECKING:
    import duckdb

TOO_FEW_FRAMES = "fewer than 10 frames with their presenting thread are recorded"
# No interval is narrower than this, on either side: chance decides that much of a schedule.
LEAST_ERROR = 0.03
# On Linux, without frames: pairs of recorded faults and measured fixes (docs/what-if.md) show it.
LEAST_LINUX_ERROR = 0.10
# Unknown states of threads, and time of chains that end with the quantum, as shares of the
# recording: above them nothing is predicted.
UNKNOWN_LIMIT = 0.01
SPIN_LIMIT = 0.02
# Threads that take turns may spin if they run more than so much longer in those frames than in
# others, or if they wait less often, or fewer such frames are known.
LONGER, LEAST_RUNS = 1.3, 5
FIGURES = ("mean", "p50", "p95", "p99")
# A process whose busiest thread can run for less than this share of the recording mostly waits for
# times and devices: what counts is how soon it responds.
BUSY_SHARE = 0.5
# Fewer CPUs than this, on average, are too little work to predict.
LEAST_WORK = 0.01


@dataclass(frozen=True)
class Interval:
    """A predicted length in ns, or throughput, and its interval."""

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
    """By which the mean frame or the 95th percentile of responses gets shorter, or throughput
    increases."""
    work: dict[str, Interval | None] | None = None
    """Without frames: throughput, and percentiles of responses."""

    def figure(self, name: str) -> Interval | None:
        """One figure of the frames or of the work; None if it is not known."""
        return (self.frames or self.work or {}).get(name)


@dataclass(frozen=True)
class Baseline:
    """A recording, its unchanged replays at both ends of the speeds, and its thread that presents
    frames; without frames, the one of the watched process that ran longest."""

    recorded: list[Recorded]
    """With the middle speeds; if any is assumed, also with the low and the high ones."""
    replayed: list[Frames] | list[Work]
    presenter: int
    figures: Frames | Work
    fidelity: Fidelity
    unit: Literal["frames", "throughput", "responses"] = "frames"
    """What a gain is measured in, in the whole recording."""

    @property
    def decisive(self) -> str:
        """The figure that gains are of."""
        return {"frames": "mean", "throughput": "throughput", "responses": "p95"}[self.unit]

    @property
    def process(self) -> str:
        """Whose frames or work count."""
        return self.recorded[0].programs[self.presenter].process

    def better(self, figure: str, value: float) -> float:
        """By what share a figure of this value is better than the recorded one."""
        ratio: float = value / getattr(self.figures, figure)
        return ratio - 1 if figure == "throughput" else 1 - ratio

    @property
    def frames(self) -> Frames:
        """The recorded frames. Raises `CannotTellError` without frames."""
        if isinstance(self.figures, Frames):
            return self.figures
        raise CannotTellError("no frames are recorded")

    @property
    def unchanged(self) -> Frames:
        """The frames of the unchanged replay. Raises `CannotTellError` without frames."""
        if isinstance(self.replayed[0], Frames):
            return self.replayed[0]
        raise CannotTellError("no frames are recorded")


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

    The frames are those of `process`, by default of the thread that presents most. Without frames,
    the work of `process` counts (`work.watched`).
    """
    label, why = obstacle(con, trace_id)
    if why == TOO_FEW_FRAMES:
        return _work_baseline(con, trace_id, label, process, progress)
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
    if (missed := _missed(errors)) is not None:
        return Refused(label, missed, errors)
    every, replayed = [recorded], [fidelity.summary(outcome.frames[presenter])]
    if _has_assumed(recorded):
        for end in ("low", "high"):
            other = programs.read(con, trace_id, end=end)
            again = rerun.replay(other)
            if presenter in again.frames:
                every.append(other)
                replayed.append(fidelity.summary(again.frames[presenter]))
    frames = fidelity.summary(recorded.frames[presenter])
    return Baseline(every, replayed, presenter, frames, errors)


def _missed(errors: Fidelity) -> str | None:
    worst, what = errors.worst()
    if worst <= fidelity.LIMIT:
        return None
    return (
        f"a replay without any change misses the recorded {what} by {100 * worst:.0f} % "
        f"(limit: {100 * fidelity.LIMIT:.0f} %)"
    )


def _has_assumed(recorded: Recorded) -> bool:
    speeds = [*recorded.machine.types.values(), recorded.machine.shared]
    return any(speed is not None and speed.is_assumed for speed in speeds)


def _work_baseline(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    label: str,
    process: str | None,
    progress: Callable[[float], None],
) -> Baseline | Refused:
    """The baseline of a recording without frames."""
    watched = work.watched(con, trace_id, process)
    if watched is None:
        return Refused(label, f"no process named {process} ran" if process else "nothing ran")
    recorded = programs.read(con, trace_id, watched=watched)
    if recorded.goal is None or recorded.goal.work_ns < LEAST_WORK * recorded.duration_ns:
        return Refused(label, f"{watched.process} ran too little: name another with --process")
    why = _unclear(con, recorded, {recorded.programs[utid].upid for utid in watched.utids})
    if why is not None:
        return Refused(label, why)
    progress(0.4)
    outcome = rerun.replay(recorded)
    progress(0.6)
    errors = fidelity.compare(recorded, outcome, None)
    if (missed := _missed(errors)) is not None:
        return Refused(label, missed, errors)
    every, replayed = [recorded], [fidelity.worked(recorded, outcome)]
    if _has_assumed(recorded):
        for end in ("low", "high"):
            other = programs.read(con, trace_id, end=end, watched=watched)
            every.append(other)
            replayed.append(fidelity.worked(other, rerun.replay(other)))
    members = [recorded.programs[utid] for utid in watched.utids if utid in recorded.programs]
    busy = {
        member.utid: (sum(member.running_ns.values()) + member.ready_ns) / recorded.duration_ns
        for member in members
    }
    main = max(sorted(busy), key=lambda utid: busy[utid])
    found = recorded.goal.recorded()
    responds = found.p95 is not None and busy[main] < BUSY_SHARE
    return Baseline(
        every,
        [made for made in replayed if made is not None],
        main,
        found,
        errors,
        "responses" if responds else "throughput",
    )


def obstacle(con: duckdb.DuckDBPyConnection, trace_id: int) -> tuple[str, str | None]:
    """The label, and the reason that shows without reading the schedule."""
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
        "SELECT count(*) FROM frame WHERE trace_id = ? AND utid IS NOT NULL AND dur_ns IS NOT NULL",
        [trace_id],
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


def _unclear(
    con: duckdb.DuckDBPyConnection, recorded: Recorded, owners: set[int | None] | None = None
) -> str | None:
    if owners is None:
        if not recorded.frames:
            return "the threads that present frames have no recorded schedule"
        owners = {recorded.programs[utid].upid for utid in recorded.frames}
    # Linux threads that have not run yet are unknown, and do nothing.
    unknown = sum(
        program.unknown_ns
        for program in recorded.programs.values()
        if recorded.linux is None or (program.upid in owners and program.running_ns)
    )
    known = sum(
        sum(program.running_ns.values()) + program.ready_ns
        for program in recorded.programs.values()
    )
    if unknown > UNKNOWN_LIMIT * max(known, 1):
        return f"for {unknown / 1e6:.0f} ms it is unknown what threads did"
    spun = 0
    turns: dict[int, str] = {}
    for utids, dur in con.execute(
        "SELECT utids, dur FROM quantum_chain WHERE trace_id = ? ORDER BY ts", [recorded.trace_id]
    ).fetchall():
        members = [recorded.programs[utid] for utid in utids if utid in recorded.programs]
        own = {member.utid: member.upid for member in members if member.upid in owners}
        # Fair threads share a CPU in this way whenever there are too few: those of different
        # processes hardly wait for each other in a spin.
        if own if recorded.linux is None else len(set(own.values())) < len(own):
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
    if base.unit != "frames":
        return _predict_work(base, wanted, texts)
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
    missed = abs(base.unchanged.stutters - base.frames.stutters)
    stutters = made[0].stutters if missed <= max(1, fidelity.LIMIT * base.frames.stutters) else None
    return Prediction(texts, None, frames, stutters, gain)


def _predict_work(base: Baseline, wanted: Sequence[Change], texts: tuple[str, ...]) -> Prediction:
    made: list[Work] = []
    for recorded in base.recorded[: len(base.replayed)]:
        try:
            found = fidelity.worked(recorded, _changed(recorded, wanted))
        except CannotTellError as unclear:
            return Prediction(texts, str(unclear))
        if found is None:
            return Prediction(texts, "with the change, the replay does not finish the work")
        made.append(found)
    errors = base.fidelity.work or {}
    figures: dict[str, Interval | None] = {}
    least = _least_width(base)
    for name in fidelity.WORK_FIGURES:
        error, right = errors.get(name), getattr(base.figures, name)
        pairs = [
            (getattr(before, name), getattr(after, name))
            for before, after in zip(base.replayed, made, strict=True)
        ]
        if error is None or error > fidelity.LIMIT or any(None in pair for pair in pairs):
            figures[name] = None
            continue
        ends = [right * after / before for before, after in pairs]
        width = max(error, least)
        figures[name] = Interval(ends[0], min(ends) * (1 - width), max(ends) * (1 + width))
    decisive = figures[base.decisive]
    gain = None if decisive is None else 100 * base.better(base.decisive, decisive.value)
    return Prediction(texts, None, None, None, gain, figures)


def _least_width(base: Baseline) -> float:
    """The least width of intervals without frames, on either side, as a share.

    A schedule in which the process waits more or runs elsewhere than it did changes by as much when
    something else changes, even where these errors cancel out in its throughput.
    """
    least = LEAST_ERROR if base.recorded[0].linux is None else LEAST_LINUX_ERROR
    return max(least, base.fidelity.running_error, base.fidelity.ready_error)


def _changed(recorded: Recorded, wanted: Sequence[Change]) -> Outcome:
    return rerun.replay(alterations.changed(recorded, wanted))
