"""Predicted and true gains: `python -m planted.gains [RUNS_EACH] [FIRST_SEED]`.

Plants a fault in a random program, predicts a change from the recording alone, and simulates the
same seed with the change made.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb

from planted import background, runs
from planted.background import Setup
from planted.faults import FAULTS
from schedlens.load.arrow_folder import simulated as arrow_folder
from schedlens.replay import alterations, fidelity, prediction
from schedlens.replay.alterations import Change
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Run, Script

FIRST_SEED = 3_000_000
# Faults of programs with frames: the process, and a change that matters.
FIXES = {
    "carrier": ("carry.exe", "work carry.exe/Worker 0=-40%"),
    "parked_frames": ("parked.exe", "parking=off"),
    "slow_presenter": ("eco.exe", "qos eco.exe/Render=high"),
    "stutter_run": ("run.exe", "work run.exe/Render=-30%"),
    "stutter_wait": ("wait.exe", "work wait.exe/Render=-30%"),
    "stutter_worker": ("worker.exe", "work worker.exe/Loader=-50%"),
    "stutter_ready": ("ready.exe", "remove storm.exe"),
    "stutter_parked": ("parked.exe", "parking=off"),
    "stutter_stranded": ("stranded.exe", "remove storm.exe"),
    "stutter_e": ("e.exe", "remove storm.exe"),
    "stutter_shared": ("shared.exe", "remove storm.exe"),
}


@dataclass(frozen=True)
class Pair:
    """Mean lengths of frames in ns; `predicted` is None where the command cannot tell."""

    fault: str
    seed: int
    before: float
    after: float
    predicted: prediction.Interval | None
    why: str | None

    def is_within(self) -> bool:
        """Whether the interval contains the truth."""
        found = self.predicted
        return found is not None and found.low <= self.after <= found.high


def play(fault: str, seed: int, change: Change | None = None) -> Simulation:
    """The program with its fault, and with the change if there is one."""
    planted = next(known for known in FAULTS if known.name == fault)
    chance = random.Random(seed)
    setup = background.draw(
        chance, hybrid=planted.hybrid, speeds=planted.speeds, **dict(planted.rules)
    )
    if change is not None and change.kind == "parking":
        setup.simulation.park = lambda *args, **more: None  # type: ignore[method-assign]
    planted.plant(setup)
    if change is not None:
        _make(setup, change)
    setup.simulation.run(background.WINDOW_NS)
    return setup.simulation


def _make(setup: Setup, change: Change) -> None:
    """Makes a change in the program itself."""
    for thread in setup.simulation.threads:
        name = f"{thread.process.name}/{thread.name}"
        if change.kind == "remove" and thread.process.name == change.pattern:
            thread.steps = iter(())  # type: ignore[assignment]
        elif change.kind == "qos" and name == change.pattern:
            thread.eco = change.value == "eco"
        elif change.kind == "work" and name == change.pattern and thread.steps is not None:
            thread.steps = _shorter(thread.steps, 1 + float(change.value[:-1]) / 100)


def _shorter(steps: Script, factor: float) -> Script:
    for action in steps:
        yield (
            replace(action, work_ns=action.work_ns * factor) if isinstance(action, Run) else action
        )


def _frames(simulation: Simulation, process: str) -> list[int]:
    tids = {thread.tid for thread in simulation.threads if thread.process.name == process}
    return [frame.end - frame.start for frame in simulation.truth.frames if frame.tid in tids]


def judge(con: duckdb.DuckDBPyConnection, fault: str, seed: int, before: Simulation) -> Pair:
    """The prediction from the recording, and the truth."""
    process, text = FIXES[fault]
    change = alterations.parse(text)
    recorded = _frames(before, process)
    true = _frames(play(fault, seed, change), process)[: len(recorded)]
    means = fidelity.summary(recorded).mean, fidelity.summary(true).mean
    base = prediction.baseline(con, 1, process=process)
    if isinstance(base, prediction.Refused):
        return Pair(fault, seed, *means, None, base.why)
    made = prediction.predict(base, [change])
    interval = made.frames["mean"] if made.frames else None
    return Pair(fault, seed, *means, interval, made.why or (None if interval else "mean missed"))


def pairs(each: int, first: int, faults: Sequence[str] = tuple(FIXES)) -> Iterator[Pair]:
    """Every fault `each` times."""
    with runs.Bench() as bench:
        for fault in faults:
            for seed in range(first, first + each):
                before = play(fault, seed)
                with bench.loaded(arrow_folder.base_tables(before)):
                    pair = judge(bench.con, fault, seed, before)
                yield pair


def table(played: Sequence[Pair]) -> list[str]:
    """A line for each fault and the totals."""
    lines = [f"{'fault':<18} pairs  within  cannot tell  true gain %  predicted %  width %"]
    for fault in dict.fromkeys(pair.fault for pair in played):
        lines.append(_line(fault, [pair for pair in played if pair.fault == fault]))
    lines.append(_line("all", played))
    known = [pair for pair in played if pair.predicted is not None]
    if len(known) > 2:
        rank = statistics.correlation(
            _ranks([pair.before - pair.after for pair in known]),
            _ranks([pair.before - pair.predicted.value for pair in known if pair.predicted]),
        )
        lines.append(f"rank correlation of predicted and true gain: {rank:.2f}")
    return lines


def _ranks(values: Sequence[float]) -> list[float]:
    """Mean ranks of equal values."""
    return [
        sum(other < value for other in values) + sum(other == value for other in values) / 2
        for value in values
    ]


def _line(name: str, found: Sequence[Pair]) -> str:
    known = [(pair, pair.predicted) for pair in found if pair.predicted is not None]
    head = f"{name:<18} {len(found):5}  {sum(pair.is_within() for pair in found):6}"
    head += f"  {len(found) - len(known):11}"
    if not known:
        return head
    true = statistics.median(100 * (1 - pair.after / pair.before) for pair, _ in known)
    guess = statistics.median(100 * (1 - made.value / pair.before) for pair, made in known)
    width = statistics.median(100 * (made.high - made.low) / pair.before for pair, made in known)
    return f"{head}  {true:11.1f}  {guess:11.1f}  {width:7.1f}"


def main() -> int:
    """Prints the table, and each pair outside its interval."""
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    first = int(sys.argv[2]) if len(sys.argv) > 2 else FIRST_SEED
    played = list(pairs(each, first))
    print("\n".join(table(played)))
    for pair in played:
        if pair.predicted is None:
            print(f"cannot tell: {pair.fault}, seed {pair.seed}: {pair.why}")
        elif not pair.is_within():
            found = pair.predicted
            print(
                f"outside: {pair.fault}, seed {pair.seed}: {pair.before / 1e6:.2f} to "
                f"{pair.after / 1e6:.2f} ms, predicted {found.value / 1e6:.2f} ms "
                f"({found.low / 1e6:.2f} to {found.high / 1e6:.2f})"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
