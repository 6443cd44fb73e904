"""What changes would gain in each recording of a session, as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from schedlens.errors import UnknownNameError
from schedlens.replay import advised, alterations, prediction

if TYPE_CHECKING:
    import duckdb

    from schedlens.replay.alterations import Change
    from schedlens.replay.prediction import Baseline, Prediction, Refused

# Without changes to try, this many of those that gain most are also tried together.
BEST = 3


def answer(
    con: duckdb.DuckDBPyConnection,
    changes: Sequence[str] = (),
    *,
    process: str | None = None,
    step: str | None = None,
    progress: Callable[[str, float], None] = lambda label, share: None,
) -> dict[str, Any]:
    """`{"recordings": [...]}`: for each recording of an analyzed session its frames as recorded,
    the error of a replay without any change, and the predictions. Without frames it is the
    throughput and the responses of a process; `unit` says what gains are measured in.

    `changes` are texts as `what-if --do` takes them, tried together; without any, those that the
    findings advise are tried alone, and the best together. `process`: whose frames or work counts;
    by default that with most frames, else the recorded program or what ran longest. `step`: only
    this recording. Where nothing can be predicted, `cannot_tell` is the reason, else None. Raises
    `ChangeError` for a change that is none or that fits nothing, and `UnknownNameError` for a
    recording.
    """
    wanted = [alterations.parse(text) for text in changes]
    traces = con.execute("SELECT trace_id, label FROM trace ORDER BY trace_id").fetchall()
    chosen = [found for found in traces if step in {None, found[1]}]
    if not chosen and step is not None:
        raise UnknownNameError("recording", step, [label for _, label in traces])
    rows: list[dict[str, Any]] = []
    for number, (trace_id, label) in enumerate(chosen):

        def show(share: float, number: int = number, label: str = label) -> None:
            progress(label, (number + share) / len(chosen))

        base = prediction.baseline(con, trace_id, show, process=process, wanted=wanted)
        if isinstance(base, prediction.Refused):
            rows.append(_refused(base))
            continue
        found = [prediction.predict(base, wanted)] if wanted else _tried(con, base)
        rows.append(_answered(label, base, found))
    return {"recordings": rows}


def _tried(con: duckdb.DuckDBPyConnection, base: Baseline) -> list[Prediction]:
    """Each advised change alone, then the best together; most gain first."""
    every: list[tuple[Change, Prediction]] = [
        (change, prediction.predict(base, [change])) for change in advised.changes(con, base)
    ]
    every.sort(key=lambda pair: -(pair[1].gain_pct or 0.0))
    found = [made for _, made in every]
    best = [change for change, made in every if (made.gain_pct or 0.0) > 0][:BEST]
    if len(best) > 1:
        found.append(prediction.predict(base, best))
        found.sort(key=lambda made: -(made.gain_pct or 0.0))
    return found


def _refused(refused: Refused) -> dict[str, Any]:
    return {
        "recording": refused.label,
        "cannot_tell": refused.why,
        "fidelity": asdict(refused.fidelity) if refused.fidelity else None,
        "recorded": None,
        "predictions": [],
    }


def _answered(label: str, base: Baseline, found: list[Prediction]) -> dict[str, Any]:
    machine = base.recorded[0].machine
    speeds = {**machine.types, "shared": machine.shared}
    return {
        "recording": label,
        "cannot_tell": None,
        "fidelity": asdict(base.fidelity),
        "speeds": {name: asdict(speed) for name, speed in speeds.items() if speed is not None},
        "unit": base.unit,
        "process": base.process,
        "recorded": asdict(base.figures),
        "predictions": [asdict(made) for made in found],
    }
