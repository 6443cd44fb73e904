"""What changes would gain: frames, or work without them, predicted from replays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from schedlens.replay import alterations, fidelity, obstacles, programs, rerun, work
from schedlens.replay.alterations import Change
from schedlens.replay.fidelity import Fidelity, Frames
from schedlens.replay.ops import CannotTellError
from schedlens.replay.recorded_programs import Recorded
from schedlens.replay.work import Work

if TYPE_CHECKING:
    import duckdb

# No interval is narrower than this, on either side: chance decides that much of a schedule.
LEAST_ERROR = 0.03
# On Linux, without frames: pairs of recorded faults and measured fixes (docs/what-if.md) show it.
LEAST_LINUX_ERROR = 0.10
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
    doubt: str | None = None
    """Why the change may gain less, down to nothing: the values are those of the best case."""

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
    unknown: float = 0.0
    """The part of the time of the process in which its threads' states are unknown."""
    turns: str | None = None
    """Why threads may spin instead of working; then only the gain of less work has bounds."""

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
    recorded: Recorded | None = None
    main: int | None = None
    """The thread that presents, or that ran longest of the process whose work counts."""


def baseline(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    progress: Callable[[float], None] = lambda share: None,
    *,
    process: str | None = None,
    wanted: Sequence[Change] = (),
) -> Baseline | Refused:
    """Replays a recording unchanged and judges the result.

    The frames are those of `process`, by default of the thread that presents most. Without frames,
    or if `process` has none, its work counts (`work.watched`). `wanted`: the changes to predict; a
    recording in which threads may spin is refused for others than less work.
    """
    label, why = obstacles.obstacle(con, trace_id, process)
    if why == obstacles.TOO_FEW_FRAMES:
        return _work_baseline(con, trace_id, label, process, progress, wanted)
    if why is not None:
        return Refused(label, why)
    recorded = programs.read(con, trace_id)
    presenters = [
        utid for utid in recorded.frames if process in {None, recorded.programs[utid].process}
    ]
    presenter = max(presenters, key=lambda utid: len(recorded.frames[utid]), default=None)
    owners = {recorded.programs[utid].upid for utid in recorded.frames}
    why = obstacles.unclear(recorded, owners)
    turns = obstacles.turns(con, recorded, owners) if why is None else None
    if why is not None or (turns is not None and not _has_bounds(wanted)):
        return Refused(label, why or turns or "", None, recorded, presenter)
    if presenter is None:
        return Refused(label, f"no thread of {process} presents frames")
    progress(0.4)
    outcome = rerun.replay(recorded)
    progress(0.6)
    errors = fidelity.compare(recorded, outcome, presenter)
    if (missed := _missed(errors)) is not None:
        return Refused(label, missed, errors, recorded, presenter)
    every, replayed = [recorded], [fidelity.summary(outcome.frames[presenter])]
    for end in _ends(recorded):
        other = programs.read(con, trace_id, end=end)
        again = rerun.replay(other)
        if presenter in again.frames:
            every.append(other)
            replayed.append(fidelity.summary(again.frames[presenter]))
    frames = fidelity.summary(recorded.frames[presenter])
    unknown = obstacles.unknown_share(recorded, owners)
    return Baseline(every, replayed, presenter, frames, errors, "frames", unknown, turns)


def _missed(errors: Fidelity) -> str | None:
    worst, what = errors.worst()
    if worst <= fidelity.LIMIT:
        return None
    return (
        f"a replay without any change misses the recorded {what} by {100 * worst:.0f} % "
        f"(limit: {100 * fidelity.LIMIT:.0f} %)"
    )


def _ends(recorded: Recorded) -> Sequence[str]:
    """The ends of what the replay needs and is only known to be in a range; none if all is known.

    A thread that moves from a busy sibling to another core type gains most if siblings are slow and
    that type is fast.
    """
    shared = recorded.machine.shared
    is_type_assumed = any(speed.is_assumed for speed in recorded.machine.types.values())
    is_shared_assumed = shared is not None and shared.is_assumed
    if is_type_assumed and is_shared_assumed:
        return ("low", "high", "slow_types", "slow_siblings")
    is_range = is_type_assumed or is_shared_assumed
    return ("low", "high") if is_range or recorded.spinning or recorded.starving else ()


def _work_baseline(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    label: str,
    process: str | None,
    progress: Callable[[float], None],
    wanted: Sequence[Change],
) -> Baseline | Refused:
    """The baseline of a recording without frames."""
    watched = work.watched(con, trace_id, process)
    if watched is None:
        return Refused(label, f"no process named {process} ran" if process else "nothing ran")
    recorded = programs.read(con, trace_id, watched=watched)
    if recorded.goal is None or recorded.goal.work_ns < LEAST_WORK * recorded.duration_ns:
        return Refused(label, f"{watched.process} ran too little: name another with --process")
    members = [recorded.programs[utid] for utid in watched.utids if utid in recorded.programs]
    busy = {
        member.utid: (sum(member.running_ns.values()) + member.ready_ns) / recorded.duration_ns
        for member in members
    }
    main = max(sorted(busy), key=lambda utid: busy[utid])
    owners = {member.upid for member in members}
    why = obstacles.unclear(recorded, owners)
    turns = obstacles.turns(con, recorded, owners) if why is None else None
    if why is not None or (turns is not None and not _has_bounds(wanted)):
        return Refused(label, why or turns or "", None, recorded, main)
    progress(0.4)
    outcome = rerun.replay(recorded)
    progress(0.6)
    errors = fidelity.compare(recorded, outcome, None)
    if (missed := _missed(errors)) is not None:
        return Refused(label, missed, errors, recorded, main)
    unchanged = fidelity.worked(recorded, outcome)
    every, replayed = [recorded], [] if unchanged is None else [unchanged]
    for end in _ends(recorded):
        other = programs.read(con, trace_id, end=end, watched=watched)
        again = fidelity.worked(other, rerun.replay(other))
        if again is not None:
            every.append(other)
            replayed.append(again)
    found = recorded.goal.recorded()
    responds = found.p95 is not None and busy[main] < BUSY_SHARE
    return Baseline(
        every,
        replayed,
        main,
        found,
        errors,
        "responses" if responds else "throughput",
        obstacles.unknown_share(recorded, owners),
        turns,
    )


def _has_bounds(wanted: Sequence[Change]) -> bool:
    """Whether less work is all that changes: where threads may spin, that gains between nothing
    and what it does if they only work."""
    return bool(wanted) and all(change.kind == "work" for change in wanted)


def predict(base: Baseline, wanted: Sequence[Change]) -> Prediction:
    """Replays with the changes. Raises `ChangeError` if one fits nothing in the recording."""
    texts = tuple(change.text for change in wanted)
    if base.turns is not None and not _has_bounds(wanted):
        return Prediction(texts, base.turns)
    if base.unit != "frames":
        return _predict_work(base, wanted, texts)
    made: list[tuple[Frames, Frames]] = []
    for recorded, before, end in _variants(base, wanted):
        try:
            outcome = rerun.replay(alterations.changed(recorded, wanted, end))
        except CannotTellError as unclear:
            return Prediction(texts, str(unclear))
        lengths = outcome.frames.get(base.presenter, [])
        expected = len(recorded.frames[base.presenter])
        if len(lengths) < expected - 1:
            return Prediction(
                texts,
                f"with the change, the replay finished only {len(lengths)} of {expected} frames",
            )
        made.append((before, fidelity.summary(lengths)))
    frames: dict[str, Interval | None] = {}
    errors = base.fidelity.frames or {}
    for name in FIGURES:
        error = errors[name]
        if error > fidelity.LIMIT:
            frames[name] = None
            continue
        right = getattr(base.frames, name)
        found = [right * getattr(after, name) / getattr(before, name) for before, after in made]
        width = max(error, LEAST_ERROR, base.unknown)
        covered = found if base.turns is None else [*found, right]
        frames[name] = Interval(found[0], min(covered) * (1 - width), max(covered) * (1 + width))
    mean = frames["mean"]
    gain = None if mean is None else 100 * (1 - mean.value / base.frames.mean)
    missed = abs(base.unchanged.stutters - base.frames.stutters)
    is_known = missed <= max(1, fidelity.LIMIT * base.frames.stutters) and base.turns is None
    stutters = made[0][1].stutters if is_known else None
    return Prediction(texts, None, frames, stutters, gain, None, base.turns)


def _predict_work(base: Baseline, wanted: Sequence[Change], texts: tuple[str, ...]) -> Prediction:
    made: list[tuple[Work, Work]] = []
    for recorded, before, end in _variants(base, wanted):
        try:
            outcome = rerun.replay(alterations.changed(recorded, wanted, end))
            found = fidelity.worked(recorded, outcome)
        except CannotTellError as unclear:
            return Prediction(texts, str(unclear))
        if found is None:
            return Prediction(texts, "with the change, the replay does not finish the work")
        made.append((before, found))
    errors = base.fidelity.work or {}
    figures: dict[str, Interval | None] = {}
    least = _least_width(base)
    goal = base.recorded[0].goal
    variation = goal.variation if goal is not None else 0.0
    for name in fidelity.WORK_FIGURES:
        error, right = errors.get(name), getattr(base.figures, name)
        pairs = [(getattr(before, name), getattr(after, name)) for before, after in made]
        if error is None or error > fidelity.LIMIT or any(None in pair for pair in pairs):
            figures[name] = None
            continue
        ends = [right * after / before for before, after in pairs]
        width = math.hypot(max(error, least), variation)
        covered = ends if base.turns is None else [*ends, right]
        figures[name] = Interval(ends[0], min(covered) * (1 - width), max(covered) * (1 + width))
    decisive = figures[base.decisive]
    gain = None if decisive is None else 100 * base.better(base.decisive, decisive.value)
    return Prediction(texts, None, None, None, gain, figures, base.turns)


def _least_width(base: Baseline) -> float:
    """The least width of intervals without frames, on either side, as a share.

    A schedule in which the process waits more or runs elsewhere than it did changes by as much when
    something else changes, even where these errors cancel out in its throughput.
    """
    least = LEAST_ERROR if base.recorded[0].linux is None else LEAST_LINUX_ERROR
    return max(least, base.unknown, base.fidelity.running_error, base.fidelity.ready_error)


def _variants(base: Baseline, wanted: Sequence[Change]) -> Iterator[tuple[Recorded, Any, str]]:
    """What to replay: programs, the figures of their unchanged replay, and the end of the range of
    what a change does."""
    ends = ("middle", "low", "high") if any(change.has_range for change in wanted) else ("middle",)
    for recorded, before in zip(base.recorded, base.replayed, strict=True):
        for end in ends:
            yield recorded, before, end
