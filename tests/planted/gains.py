"""Predicted and true gains: `python -m planted.gains [RUNS_EACH] [FIRST_SEED] [FAULT...]`.

Plants a fault in a random program, damages the recording as the detectors' runs do, predicts a
change from it alone, and simulates the same seed with the change made. `WHOLE=1`: without damage.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import duckdb

from planted import gain_truth, perturb, runs
from planted.gain_truth import FIXES, SHARE
from schedlens.errors import ChangeError
from schedlens.load.arrow_folder import simulated as arrow_folder
from schedlens.replay import alterations, prediction
from schedlens.simulate.scheduler import Simulation

FIRST_SEED = 3_000_000
# How long a changed program runs that does the recorded work.
WINDOWS = 2.0


@dataclass(frozen=True)
class Pair:
    """Values before and after a change: mean frame in ns, or work per ns of a process without
    frames. `predicted` and `after` are None where the command cannot tell."""

    fault: str
    seed: int
    before: float
    after: float | None
    predicted: prediction.Interval | None
    why: str | None
    unit: str = "frames"

    def is_within(self) -> bool:
        """Whether the interval contains the truth."""
        found = self.predicted
        return found is not None and found.low <= (self.after or 0.0) <= found.high

    def gain_pct(self, value: float | None) -> float:
        """By how much a value is better than the one before."""
        ratio = (value or 0.0) / self.before
        return 100 * (ratio - 1 if self.unit == "throughput" else 1 - ratio)


def _recorded(fault: str, seed: int, before: Simulation) -> Pair:
    """The pair without its change."""
    process = FIXES[fault].process
    frames = gain_truth.mean_frame(before, process)
    if frames is not None:
        return Pair(fault, seed, frames, None, None, None)
    took = gain_truth.reached(*_goal(before, process))
    assert took is not None
    return Pair(fault, seed, _goal(before, process)[1] / took, None, None, None, "throughput")


def _goal(before: Simulation, process: str) -> tuple[list[tuple[int, int, float]], float]:
    parts = gain_truth.work(before, process)
    return parts, SHARE * sum(part[2] for part in parts)


def _after(pair: Pair, before: Simulation) -> float:
    """The value with the change made."""
    fix = FIXES[pair.fault]
    changes = [alterations.parse(text) for text in fix.changes]
    if pair.unit == "frames":
        fixed, _ = gain_truth.play(pair.fault, pair.seed, changes)
        count = gain_truth.frame_count(before, fix.process)
        after = gain_truth.mean_frame(fixed.simulation, fix.process, count)
        assert after is not None
        return after
    fixed, _ = gain_truth.play(pair.fault, pair.seed, changes, WINDOWS)
    wanted = _goal(before, fix.process)[1]
    takes = gain_truth.reached(gain_truth.work(fixed.simulation, fix.process, changes), wanted)
    assert takes is not None, pair
    return wanted / takes


def judge(con: duckdb.DuckDBPyConnection, pair: Pair) -> Pair:
    """The pair with its prediction from the recording."""
    fix = FIXES[pair.fault]
    wanted = [alterations.parse(text) for text in fix.changes]
    base = prediction.baseline(con, 1, process=fix.process, wanted=wanted)
    made: prediction.Interval | None = None
    why: str | None = None
    if isinstance(base, prediction.Refused):
        why = base.why
    else:
        try:
            found = prediction.predict(base, wanted)
        except ChangeError as error:
            why = str(error)
        else:
            made = found.figure("mean" if pair.unit == "frames" else "throughput")
            why = found.why or (None if made else "the unchanged replay misses it")
        if made is not None and pair.unit == "throughput":
            # In the units of the truth: the recording does not know the speeds exactly.
            scale = pair.before / base.figures.throughput  # type: ignore[union-attr]
            made = prediction.Interval(made.value * scale, made.low * scale, made.high * scale)
    return replace(pair, predicted=made, why=why)


_bench: runs.Bench | None = None


def _played(task: tuple[str, int, bool]) -> Pair:
    global _bench
    if _bench is None:
        _bench = runs.Bench()
    fault, seed, is_damaged = task
    setup, chance = gain_truth.play(fault, seed)
    before = setup.simulation
    tables = arrow_folder.base_tables(before)
    if is_damaged:
        tables = perturb.spoil(tables, chance).tables
    with _bench.loaded(tables, setup):
        pair = judge(_bench.con, _recorded(fault, seed, before))
    return pair if pair.predicted is None else replace(pair, after=_after(pair, before))


def pairs(
    each: int,
    first: int,
    faults: Sequence[str] = tuple(FIXES),
    *,
    is_damaged: bool = True,
    processes: int | None = None,
) -> Iterator[Pair]:
    """Every fault `each` times, on as many processes as there are CPUs."""
    tasks = [(fault, seed, is_damaged) for fault in faults for seed in range(first, first + each)]
    if processes == 1:
        yield from map(_played, tasks)
        return
    # Threads of a library do not survive a fork.
    context = get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as pool:
        yield from pool.map(_played, tasks)


def table(played: Sequence[Pair]) -> list[str]:
    """A line for each fault and the totals."""
    lines = [f"{'fault':<18} pairs  within  cannot tell  true gain %  predicted %  width %"]
    for fault in dict.fromkeys(pair.fault for pair in played):
        lines.append(_line(fault, [pair for pair in played if pair.fault == fault]))
    lines.append(_line("all", played))
    known = [pair for pair in played if pair.predicted is not None]
    if len(known) > 2:
        rank = statistics.correlation(
            _ranks([pair.gain_pct(pair.after) for pair in known]),
            _ranks([pair.gain_pct(pair.predicted.value) for pair in known if pair.predicted]),
        )
        lines.append(f"rank correlation of predicted and true gain: {rank:.2f}")
    return lines


def _ranks(values: Sequence[float]) -> list[float]:
    """Mean ranks of values; differences below a thousandth of a percent are none."""
    near = [round(value, 3) for value in values]
    return [
        sum(other < value for other in near) + sum(other == value for other in near) / 2
        for value in near
    ]


def _line(name: str, found: Sequence[Pair]) -> str:
    known = [(pair, pair.predicted) for pair in found if pair.predicted is not None]
    head = f"{name:<18} {len(found):5}  {sum(pair.is_within() for pair in found):6}"
    head += f"  {len(found) - len(known):11}"
    if not known:
        return head
    true = statistics.median(pair.gain_pct(pair.after) for pair, _ in known)
    guess = statistics.median(pair.gain_pct(made.value) for pair, made in known)
    width = statistics.median(100 * (made.high - made.low) / pair.before for pair, made in known)
    return f"{head}  {true:11.1f}  {guess:11.1f}  {width:7.1f}"


def main() -> int:
    """Prints the table, and each pair outside its interval."""
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    first = int(sys.argv[2]) if len(sys.argv) > 2 else FIRST_SEED
    faults = sys.argv[3:] or list(FIXES)
    played = list(pairs(each, first, faults, is_damaged=not os.environ.get("WHOLE")))
    print("\n".join(table(played)))
    for pair in played:
        if pair.predicted is None:
            print(f"cannot tell: {pair.fault}, seed {pair.seed}: {pair.why}")
        elif not pair.is_within():
            true, guess, low, high = (
                pair.gain_pct(value)
                for value in (pair.after, pair.predicted.value, pair.predicted.low,
                              pair.predicted.high)
            )  # fmt: skip
            print(
                f"outside: {pair.fault}, seed {pair.seed}: {pair.unit} gain {true:.1f} %, "
                f"predicted {guess:.1f} % ({min(low, high):.1f} to {max(low, high):.1f})"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
