"""A/A pairs: simulated or real recordings of one program, and how often they differ."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy import stats

from schedlens.ask import analysis, blank_database
from schedlens.differences import contrast, series, sides
from schedlens.differences.quantities import QUANTITIES
from schedlens.differences.series import Series
from schedlens.differences.sides import Recorded
from schedlens.load import query_threads, recording, store
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

# Every quantity of every subject, of one database.
AllSeries = dict[tuple[str, str | None], list[Series]]


@dataclass
class Rates:
    """How many tests of how many found a difference at 5 %, and in how many pairs any did.

    `tests` are those of each quantity by its own p-value; `pairs` counts pairs with at least one
    difference after adjustment.
    """

    found: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    tests: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    untested: int = 0
    pairs_found: int = 0
    pairs: int = 0

    @property
    def rate(self) -> float:
        """Share of all tests that found a difference."""
        return self.found.total() / self.tests.total()

    def line(self, name: str) -> str:
        """The rates as a line of a table, with the 95 % interval of the share of pairs."""
        low, high = interval(self.pairs_found, self.pairs)
        return (
            f"{name}: {self.found.total()} of {self.tests.total()} tests differ "
            f"({100 * self.rate:.2f} %), {self.untested} could not be made; after adjustment a "
            f"difference in {self.pairs_found} of {self.pairs} pairs "
            f"({100 * low:.1f} % to {100 * high:.1f} %)"
        )


def interval(found: int, number: int) -> tuple[float, float]:
    """The exact 95 % interval (Clopper and Pearson) of a share."""
    both = stats.binomtest(found, number).proportion_ci(method="exact")
    return float(both.low), float(both.high)


def record(
    folder: Path, case: cases.Case, seeds: Sequence[int], *, fixed: bool, seconds: float
) -> Path:
    """A database of one simulated recording for each seed, in this order."""
    paths = []
    for seed in seeds:
        path = folder / f"{case.name}-{fixed}-{seed}"
        simulated.write_folder(case.play(seed=seed, fixed=fixed, seconds=seconds), path)
        paths.append(path)
    file = folder / f"{case.name}-{fixed}-{seeds[0]}.duckdb"
    found = recording.gather(paths)
    threads = query_threads.count(found)
    with store.create(file, place=blank_database.place, threads=threads) as con:
        assert analysis.load(con, found, (None, None), lambda *_: None) == []
    return file


def record_here(folder: Path, workload: str, number: int, seconds: float) -> Path:
    """A database of that many real recordings of a workload on this machine, one after the other.

    Two workers, placed by the system. Needs perf and the rights to record.
    """
    session = folder / workload
    subprocess.run(
        [Path(sys.executable).parent / "collect", "--workload", workload, "--threads", "2",
         "--placement", "default", "--repeat", str(number), "--seconds", str(seconds),
         "-o", session],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    file = folder / f"{workload}.duckdb"
    with store.create(file, place=blank_database.place) as con:
        found = recording.gather([session])
        assert analysis.load(con, found, (None, None), lambda *_: None) == []
    return file


def all_series(side: sides.Side) -> AllSeries:
    """Every series of a side, by quantity and subject."""
    return {
        (quantity.name, subject): found
        for quantity in QUANTITIES
        for subject, found in series.read(quantity, side.recordings).items()
    }


def compared(
    every: AllSeries, a: Sequence[Recorded], b: Sequence[Recorded]
) -> list[contrast.Compared]:
    """All differences between recordings of one database, as `compare` makes them."""
    made = []
    by_name = {quantity.name: quantity for quantity in QUANTITIES}
    for (name, subject), found in every.items():
        of_a = [one for one in found if one.recorded in a]
        of_b = [one for one in found if one.recorded in b]
        if of_a and of_b and any(one.num.any() for one in (*of_a, *of_b)):
            difference = contrast.difference_of(by_name[name], "step", subject, of_a, of_b)
            made.append(contrast.Compared(difference, tuple(of_a), tuple(of_b)))
    return contrast.adjusted(made)


def rates(file: Path, repeats: int = 1) -> Rates:
    """The rates over pairs of `repeats` recordings against the `repeats` that follow."""
    counted = Rates()
    with sides.opened([file], "a") as side:
        every = all_series(side)
        for start in range(0, len(side.recordings) - 2 * repeats + 1, 2 * repeats):
            a = side.recordings[start : start + repeats]
            b = side.recordings[start + repeats : start + 2 * repeats]
            any_found = False
            for one in compared(every, a, b):
                key = (one.difference.quantity, one.difference.subject)
                if one.difference.p is None:
                    counted.untested += 1
                    continue
                counted.tests[key] += 1
                counted.found[key] += one.difference.p <= contrast.ALPHA
                any_found |= one.difference.verdict != "cannot tell"
            counted.pairs += 1
            counted.pairs_found += any_found
    return counted
