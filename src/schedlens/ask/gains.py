"""What fixing each finding would gain, by replays of the recordings it is about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace

from schedlens.ask.findings import Finding, Rank, Scope, Severity
from schedlens.replay import advised, alterations, obstacles, prediction
from schedlens.replay.fidelity import WORK_FIGURES
from schedlens.replay.instructions import instruction
from schedlens.replay.prediction import Baseline, Prediction, Refused

# A recording with more context switches is not replayed by `analyze`; `what-if` does it.
MOST_SWITCHES = 300_000
# After this long no further change is tried in a recording.
BUDGET_S = 10.0
# Without frames, a recording with more than this many is not replayed: the analysis of these is
# else fast.
MOST_WITHOUT_FRAMES = 100_000
# By how much a fix must shorten a figure of the frames, at least, for a finding to be critical;
# and by how much it is expected to, for a finding to be a warning. Percent.
CRITICAL_PCT = 10.0
WARNING_PCT = 3.0
# A fix that halves the stutters is critical if this share of the frames stutter.
STUTTERS_PCT = 2.0
# Changes of findings that gain most, which are also tried together.
BEST = 3
# What severities are by.
_FIGURES = {"frames": ("mean", "p95", "p99"), "throughput": ("throughput",), "responses": ("p95",)}
NO_CHANGE = "no change that a replay can try follows from the advice"
OTHER_PROCESS = (
    "it is about another process than {}, whose work counts: `schedlens what-if --process` "
    "predicts for others"
)
_NAMES = {
    "frames": "mean of the frames", "throughput": "throughput",
    "responses": "95th percentile of responses",
}  # fmt: skip
OUT_OF_TIME = f"replays of this recording took longer than {BUDGET_S:.0f} s"


@dataclass
class Tried:
    """A recording: its unchanged replay, and each change that was tried."""

    trace_id: int
    base: Baseline | Refused
    deadline: float
    process: str | None = None
    made: dict[tuple[str, ...], Prediction] = field(default_factory=dict)

    def predict(self, texts: tuple[str, ...]) -> Prediction:
        """The prediction for changes together, made once."""
        if texts not in self.made:
            if isinstance(self.base, Refused):
                self.made[texts] = Prediction(texts, self.base.why)
            elif time.monotonic() > self.deadline:
                self.made[texts] = Prediction(texts, OUT_OF_TIME)
            else:
                changes = [alterations.parse(text) for text in texts]
                self.made[texts] = prediction.predict(self.base, changes)
        return self.made[texts]


def weighed(
    scope: Scope,
    findings: Sequence[Finding],
    progress: Callable[[str, float], None] = lambda name, share: None,
) -> tuple[list[Finding], list[Tried]]:
    """The findings with what fixing each would gain, and the replays.

    Recordings without frames are replayed if a finding about them advises a change. Severity
    follows the gain where it is known. A finding that touches only threads that no frame waits for
    is not critical.
    """
    replays: dict[int, Tried] = {}
    rows = scope.rows("SELECT trace_id FROM trace ORDER BY trace_id")
    for number, row in enumerate(rows):
        progress("what-if", number / max(len(rows), 1))
        kinds = {found.kind for found in findings if found.trace_id == row["trace_id"]}
        replays[row["trace_id"]] = _tried(scope, row["trace_id"], kinds)
    made = [_weighed(scope, finding, replays.get(finding.trace_id or -1)) for finding in findings]
    for tried in replays.values():
        _together(tried)
    return made, list(replays.values())


def _weighed(scope: Scope, finding: Finding, tried: Tried | None) -> Finding:
    if tried is None or finding.rank == Rank.ANSWER:
        return finding
    made = _with_gain(finding, tried)
    # Where the replay fails, the waits of the frames are not known: a spin looks like work.
    is_known = isinstance(tried.base, Baseline) and tried.base.unit == "frames"
    return _slack(scope, made) if is_known else made


def _tried(scope: Scope, trace_id: int, kinds: Set[str]) -> Tried:
    # A group of threads, such as a cgroup, does not name the process that presents.
    process = scope.process if scope.process and ":" not in scope.process else None
    deadline = time.monotonic() + BUDGET_S
    switches = scope.rows(f"SELECT count(*) AS n FROM context_switch WHERE trace_id = {trace_id}")[
        0
    ]["n"]
    label, why = obstacles.obstacle(scope.con, trace_id, process)
    most = MOST_SWITCHES
    if why == obstacles.TOO_FEW_FRAMES:
        most = MOST_WITHOUT_FRAMES
        why = None if kinds & advised.KINDS else NO_CHANGE
    if why is None and switches > most:
        why = (
            f"it has {switches:,} context switches, and analyze replays at most "
            f"{most:,}: `schedlens what-if` replays it whole"
        )
    if why is not None:
        return Tried(trace_id, Refused(label, why), deadline, _presenter(scope, trace_id))
    base = prediction.baseline(scope.con, trace_id, process=process)
    if isinstance(base, Baseline):
        process = base.process
    return Tried(trace_id, base, deadline, process or _presenter(scope, trace_id))


def _presenter(scope: Scope, trace_id: int) -> str | None:
    """The process with most frames; None without frames."""
    found = scope.rows(
        "SELECT coalesce(f.process, p.name) AS process FROM frame AS f LEFT JOIN process AS p "
        f"USING (upid) WHERE f.trace_id = {trace_id} GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    )
    return found[0]["process"] if found else None


def _with_gain(finding: Finding, tried: Tried) -> Finding:
    base = tried.base
    recorded = base.recorded[0] if isinstance(base, Baseline) else base.recorded
    main = base.presenter if isinstance(base, Baseline) else base.main
    if recorded is None or main is None:
        return replace(finding, no_gain_reason=base.why if isinstance(base, Refused) else None)
    texts = advised.texts_of(recorded, main, finding.kind, finding.utid)
    if texts:
        finding = replace(finding, advice=f"{finding.advice} {instruction(recorded, texts)}")
    if isinstance(base, Refused):
        return replace(finding, no_gain_reason=base.why)
    if not texts:
        return replace(finding, no_gain_reason=NO_CHANGE)
    if not _concerns(base, finding):
        return replace(finding, no_gain_reason=OTHER_PROCESS.format(base.process))
    # Each change alone; together if the advice names several.
    choices = [(text,) for text in texts] + ([tuple(texts)] if len(texts) > 1 else [])
    every = [tried.predict(choice) for choice in choices]
    known = [made for made in every if made.figure(base.decisive) is not None]
    if not known:
        reason = next((made.why for made in every if made.why), None)
        return replace(
            finding,
            fix=" + ".join(texts),
            no_gain_reason=reason or f"the replay misses the recorded {_NAMES[base.unit]}",
        )
    best = max(known, key=lambda made: (_sure_pct(base, made), made.gain_pct or 0.0))
    found = best.figure(base.decisive)
    assert found is not None
    ends = sorted(100 * base.better(base.decisive, end) for end in (found.low, found.high))
    made = replace(
        finding,
        severity=_severity(finding, base, best),
        fix=" + ".join(best.changes),
        gain_of=base.unit,
        gain_pct=best.gain_pct,
        gain_low_pct=ends[0],
        gain_high_pct=ends[1],
    )
    if base.unit != "frames":
        return made
    return replace(
        made,
        frame_ns=round(base.frames.mean),
        fixed_frame_ns=round(found.value),
        fixed_low_ns=round(found.low),
        fixed_high_ns=round(found.high),
    )


def _concerns(base: Baseline, finding: Finding) -> bool:
    """Whether the gain of the judged process is that of the finding's fix. Frames count for the
    whole machine; work counts for one process."""
    recorded = base.recorded[0]
    watched = recorded.watched.utids if recorded.watched else frozenset()
    if base.unit == "frames":
        return True
    if finding.utid is not None or finding.about:
        return not watched.isdisjoint({finding.utid, *finding.about})
    if finding.kind in advised.QUOTA and recorded.linux is not None:
        return any(recorded.linux.has_quota(utid) for utid in watched)
    return True


def _sure_pct(base: Baseline, made: Prediction) -> float:
    """The largest share by which a figure gets better even at the worse end of its interval."""
    return max(
        (
            100 * min(base.better(name, found.low), base.better(name, found.high))
            for name in _FIGURES[base.unit]
            if (found := made.figure(name)) is not None
        ),
        default=0.0,
    )


def _severity(finding: Finding, base: Baseline, made: Prediction) -> Severity:
    """A cause is as severe as the gain of its fix; a symptom as what a user notices."""
    if finding.rank == Rank.SYMPTOM or finding.severity == "info":
        return finding.severity
    sure = _sure_pct(base, made)
    stutters = base.frames.stutters if base.unit == "frames" else 0
    halved = made.stutters is not None and 0 < stutters >= 2 * made.stutters
    if sure >= CRITICAL_PCT or (halved and 100 * stutters >= STUTTERS_PCT * base.figures.count):
        return "critical"
    if halved:
        return "warning"
    expected = max(
        100 * base.better(name, found.value)
        for name in _FIGURES[base.unit]
        if (found := made.figure(name)) is not None
    )
    return "warning" if sure > 0 and expected >= WARNING_PCT else "info"


def _slack(scope: Scope, finding: Finding) -> Finding:
    """The finding; at most a warning if no frame waits for any of the threads that it is about."""
    if finding.severity != "critical" or finding.gain_ns is not None or not finding.about:
        return finding
    if finding.rank == Rank.SYMPTOM:
        return finding
    listed = ", ".join(str(utid) for utid in finding.about)
    path = scope.rows(
        f"SELECT count(*) AS parts, count(*) FILTER (WHERE p.utid IN ({listed})) AS own "
        "FROM frame_path AS p "
        f"WHERE p.utid IN (SELECT utid FROM thread WHERE trace_id = {finding.trace_id})"
    )[0]
    if not path["parts"] or path["own"]:
        return finding
    return replace(
        finding,
        severity="warning",
        detail=f"{finding.detail} No frame waits for it: this time is slack.",
    )


def _together(tried: Tried) -> None:
    """Tries the changes that gain most together."""
    alone = [made for texts, made in tried.made.items() if len(texts) == 1 and made.gain_pct]
    alone.sort(key=lambda made: -(made.gain_pct or 0.0))
    best = tuple(made.changes[0] for made in alone[:BEST] if (made.gain_pct or 0.0) > 0)
    if len(best) > 1 and not any(set(best) == set(texts) for texts in tried.made):
        tried.predict(best)


def error_rows(replays: Iterable[Tried]) -> list[tuple[object, ...]]:
    """Rows of `replay_error`."""
    rows: list[tuple[object, ...]] = []
    for tried in replays:
        base = tried.base
        why = base.why if isinstance(base, Refused) else None
        errors = {} if base.fidelity is None else base.fidelity.all()
        if not errors:
            rows.append((tried.trace_id, tried.process, None, None, why))
        rows += [
            (tried.trace_id, tried.process, name, 100 * error, why)
            for name, error in errors.items()
        ]
    return rows


def gain_rows(replays: Iterable[Tried]) -> list[tuple[object, ...]]:
    """Rows of `predicted_gain`."""
    rows: list[tuple[object, ...]] = []
    for tried in replays:
        if isinstance(tried.base, Refused):
            continue
        base, unit = tried.base, tried.base.unit
        figures = prediction.FIGURES if unit == "frames" else WORK_FIGURES
        for made in tried.made.values():
            what = (tried.trace_id, tried.process, " + ".join(made.changes))
            for name in figures:
                recorded = getattr(base.figures, name)
                if recorded is None:
                    continue
                found = made.figure(name)
                why = made.why or "the unchanged replay misses this figure"
                ends = (
                    (None, None, None, None, why)
                    if found is None
                    else (
                        found.value, found.low, found.high,
                        100 * base.better(name, found.value), None,
                    )
                )  # fmt: skip
                rows.append((*what, name, recorded, *ends, unit))
            if unit != "frames":
                continue
            stutters = base.frames.stutters
            why = made.why or "the unchanged replay misses the number of stutters"
            rows.append(
                (
                    *what, "stutters", stutters, made.stutters, None, None,
                    None if made.stutters is None or not stutters
                    else 100 * (1 - made.stutters / stutters),
                    why if made.stutters is None else None, unit,
                )
            )  # fmt: skip
    return rows
