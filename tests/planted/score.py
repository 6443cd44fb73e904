"""Counts correct, missed, and false findings.

Every detector is judged on every run: a subject that reaches `SURE` times the analyzer's threshold
must be found, and a finding about a subject below `CLEAN` times that is false. Subjects in between
are not judged, since loss and a coarse clock shift numbers near the threshold. A finding that the
missing part of the recording may support is undecided and counted separately; so is one that
reports its subject as undecided because of loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import sqrt

from planted.detectors import CLEAN, DETECTORS, REFUSED, SURE
from planted.runs import Run

# Quantile of the normal distribution for an interval of 95 %.
Z = 1.959964


@dataclass
class Count:
    """The results of a detector."""

    hits: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    false: list[tuple[int, str]] = field(default_factory=list)
    undecided: list[tuple[int, str]] = field(default_factory=list)
    silent: int = 0
    """Runs without such a fault and without a finding."""

    def recall(self) -> tuple[int, int]:
        """Found, of those that were there."""
        return len(self.hits), len(self.hits) + len(self.missed)

    def precision(self) -> tuple[int, int]:
        """Right, of those that were found."""
        return len(self.hits), len(self.hits) + len(self.false)


def wilson(right: int, of: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share; (0, 1) without data."""
    if not of:
        return 0.0, 1.0
    share, z2 = right / of, Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def judge(runs: Iterable[Run]) -> dict[str, Count]:
    """The count of each detector over all runs."""
    counts = {detector.name: Count() for detector in DETECTORS}
    for run in runs:
        for name, count in counts.items():
            strengths, found = run.strengths[name], run.found.get(name, [])
            worst = max(strengths.values(), default=0.0)
            refused = [(run.seed, title) for subject, title in found if subject == REFUSED]
            count.undecided += refused
            found = [one for one in found if one[0] != REFUSED]
            wrong = [one for one in found if strengths.get(one[0], 0.0) < CLEAN]
            right = len(found) > len(wrong)
            for subject, title in wrong:
                doubt = run.doubts[name].get(subject, 0.0)
                open_ = strengths.get(subject, 0.0) + doubt >= CLEAN
                (count.undecided if open_ else count.false).append((run.seed, title))
            if right:
                count.hits.append(run.seed)
            elif worst >= SURE and not refused:
                count.missed.append(run.seed)
            elif worst < CLEAN and not found and not refused:
                count.silent += 1
    return counts


def report(counts: dict[str, Count]) -> Iterator[str]:
    """A line for each detector."""
    heads = f"{'recall':>12}{'95 %':>16}{'precision':>14}{'95 %':>16}"
    yield f"{'detector':22}{heads}{'undecided':>11}{'silent':>8}"
    for name, count in counts.items():
        parts = []
        for right, of in (count.recall(), count.precision()):
            low, high = wilson(right, of)
            parts.append(f"{right:5}/{of:<5}{100 * low:8.1f} to {100 * high:5.1f}")
        yield f"{name:22}{parts[0]:>28}{parts[1]:>30}{len(count.undecided):>11}{count.silent:>8}"


def damage(runs: Iterable[Run]) -> str:
    """How often each kind of damage occurred."""
    done = Counter(kind for run in runs for kind in run.damage)
    return ", ".join(f"{kind} {count}" for kind, count in sorted(done.items()))
