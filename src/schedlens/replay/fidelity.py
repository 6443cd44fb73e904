"""How closely a replay without any change reproduces the recording."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlens.replay.fractions import quantile
from schedlens.replay.ops import Program
from schedlens.replay.recorded_programs import Recorded, stem
from schedlens.replay.rerun import Outcome
from schedlens.replay.work import Work

# Above this error nothing is predicted.
LIMIT = 0.10
# The figures of frames that a replay must reproduce.
DECISIVE = ("mean", "p50")
WORK_FIGURES = ("throughput", "p50", "p95", "p99")
# The definition of a stutter in frame_time.sql.
STUTTER_RATIO, STUTTER_NS, NEIGHBORS = 1.5, 4_000_000, 15


@dataclass(frozen=True)
class Frames:
    """Lengths of frames in ns, and the number that stutter."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    stutters: int


@dataclass(frozen=True)
class Fidelity:
    """Errors as shares; `frames` is None without frames, and else `work` is."""

    frames: dict[str, float] | None
    running_error: float
    """Running time on another core type or in another amount, of the recorded running time."""
    ready_error: float
    """Difference of ready time, of the recorded running and ready time. Without frames only of the
    process whose work counts: others may starve."""
    work: dict[str, float | None] | None = None
    """Of throughput and percentiles of responses; None for one that is not known."""

    def all(self) -> dict[str, float]:
        """Each error by what it is about."""
        found = {**(self.frames or {})}
        found |= {name: error for name, error in (self.work or {}).items() if error is not None}
        return {**found, "running": self.running_error, "ready": self.ready_error}

    def worst(self) -> tuple[float, str]:
        """The largest error that decides whether anything is predicted, and what it is about."""
        errors = {f"{name} of the frames": self.frames[name] for name in DECISIVE if self.frames}
        if self.work is not None:
            errors["throughput"] = 1.0 if (error := self.work["throughput"]) is None else error
        errors["running time by core type"] = self.running_error
        errors["ready time"] = self.ready_error
        what = max(errors, key=lambda name: errors[name])
        return errors[what], what


def summary(lengths: Sequence[int]) -> Frames:
    """Figures of frames in their order; the first one, which may begin before them, is left out."""
    kept = list(lengths[1:]) if len(lengths) > 2 else list(lengths)
    stutters = 0
    for place, length in enumerate(kept):
        around = kept[max(0, place - NEIGHBORS) : place + NEIGHBORS + 1]
        usual = statistics.median(around)
        stutters += length >= STUTTER_RATIO * usual and length - usual >= STUTTER_NS
    return Frames(
        len(kept),
        statistics.fmean(kept),
        quantile(kept, 0.5),
        quantile(kept, 0.95),
        quantile(kept, 0.99),
        stutters,
    )


def worked(recorded: Recorded, outcome: Outcome) -> Work | None:
    """What the watched threads did in a replay; None if they did not finish."""
    if recorded.goal is None or outcome.goal_ns is None:
        return None
    return recorded.goal.replayed(outcome.goal_ns, outcome.responses)


def _work_errors(recorded: Recorded, outcome: Outcome) -> dict[str, float | None] | None:
    if recorded.goal is None:
        return None
    truth, made = recorded.goal.recorded(), worked(recorded, outcome)
    found: dict[str, float | None] = {}
    for name in WORK_FIGURES:
        right, ours = getattr(truth, name), made and getattr(made, name)
        found[name] = abs(ours / right - 1) if right and ours is not None else None
    return found


def compare(recorded: Recorded, outcome: Outcome, presenter: int | None) -> Fidelity:
    """Errors of an unchanged replay; frames are those of one presenting thread, and without one
    the work of the watched process counts."""
    frames = None
    if presenter is not None:
        ours, theirs = recorded.frames[presenter], outcome.frames.get(presenter, [])
        if len(theirs) < len(ours) - 1 or not theirs:
            frames = dict.fromkeys(("mean", "p50", "p95", "p99"), 1.0)
        else:
            truth, made_up = summary(ours), summary(theirs)
            frames = {
                name: abs(getattr(made_up, name) / getattr(truth, name) - 1)
                for name in ("mean", "p50", "p95", "p99")
            }
    counts = recorded.watched.utids if presenter is None and recorded.watched else None
    ran = wrong = waited = known = 0
    for members in groups(recorded.programs):
        right: dict[str, int] = defaultdict(int)
        made: dict[str, int] = defaultdict(int)
        ready = runnable = 0
        for utid in members:
            program = recorded.programs[utid]
            for of, spent in program.running_ns.items():
                right[of] += spent
            for of, spent in outcome.running_ns.get(utid, {}).items():
                made[of] += spent
            ready += program.ready_ns - outcome.ready_ns.get(utid, 0)
            runnable += program.ready_ns
        wrong += sum(abs(right[of] - made[of]) for of in {*right, *made})
        ran += sum(right.values())
        if counts is None or not counts.isdisjoint(members):
            waited += abs(ready)
            known += sum(right.values()) + runnable
    work = _work_errors(recorded, outcome) if presenter is None else None
    return Fidelity(frames, wrong / 2 / max(ran, 1), waited / max(known, 1), work)


def groups(programs: Mapping[int, Program]) -> list[list[int]]:
    """Threads of one process whose names differ only in a number are interchangeable: which of
    them gets which CPU is chance."""
    found: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for utid, program in programs.items():
        found[program.upid, stem(program.name)].append(utid)
    return list(found.values())
