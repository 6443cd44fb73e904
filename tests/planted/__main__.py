"""Precision and recall of every detector: `python -m planted [RUNS_EACH] [FIRST_SEED]`."""

from __future__ import annotations

import resource
import sys

from planted import runs, score
from planted.faults import FAULTS

# Thresholds and rules were tuned on seeds below this one.
TEST_SEEDS = 1_000_000
LEAST = 0.95


def main() -> int:
    """Prints the table; returns 1 if a detector misses its target."""
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    first = int(sys.argv[2]) if len(sys.argv) > 2 else TEST_SEEDS
    played = runs.play_all(first, each, _progress if sys.stderr.isatty() else lambda done, of: None)
    counts = score.judge(played)
    print("\n".join(score.report(counts)))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    print(
        f"{len(played)} runs from seed {first}, each of {len(FAULTS)} faults {each} times; "
        f"{spent / 60:.1f} min of CPU time"
    )
    print(f"damage: {score.damage(played)}")
    print(f"stutters in which another cause exceeded the planted one: {_relabelled(played)}")
    notes = {run.seed: "+".join((*run.planted, *run.damage)) or "clean" for run in played}
    below = False
    for name, count in counts.items():
        for seed, title in count.false:
            print(f"false: {name}, seed {seed} ({notes[seed]}): {title}")
        for seed in count.missed:
            print(f"missed: {name}, seed {seed} ({notes[seed]})")
        for right, of in (count.recall(), count.precision()):
            below |= bool(of) and right < LEAST * of
    return int(below)


def _relabelled(played: list[runs.Run]) -> str:
    planted = sum("stutter" in name for run in played for name in run.planted)
    return f"{sum(len(run.relabelled) for run in played)} of {planted}"


def _progress(done: int, of: int) -> None:
    print(f"\r{done}/{of}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
