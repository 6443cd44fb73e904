"""Prints how often A/A pairs differ: `python tests/support/measure_alike.py --pairs 200`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import alike_pairs

from schedlens.simulate import cases

# Real programs: one that computes, one that hands over, one with frames.
WORKLOADS = ["sha256", "queue", "game"]


def main() -> None:
    """Pairs of single recordings of the cases of the demo, and of four repeats on each side.

    Pairs of repeats use the same recordings, each once.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--case", help="only this one")
    parser.add_argument(
        "--recorded", action="store_true", help="record workloads here instead of simulating"
    )
    options = parser.parse_args()
    begun = time.monotonic()
    total = {1: alike_pairs.Rates(), 4: alike_pairs.Rates()}
    names = WORKLOADS if options.recorded else [case.name for case in cases.CASES]
    shares = [options.pairs // len(names)] * len(names)
    shares[0] += options.pairs - sum(shares)
    with tempfile.TemporaryDirectory(prefix="schedlens-alike-") as folder:
        for name, pairs in zip(names, shares, strict=True):
            if options.case not in (None, name):
                continue
            if options.recorded:
                file = alike_pairs.record_here(Path(folder), name, 2 * pairs, options.seconds)
            else:
                (case,) = (case for case in cases.CASES if case.name == name)
                seeds = range(1, 1 + 2 * pairs)
                file = alike_pairs.record(
                    Path(folder), case, seeds, fixed=False, seconds=options.seconds
                )
            for repeats, rates in total.items():
                part = alike_pairs.rates(file, repeats)
                print(part.line(f"{name}, {repeats} recordings on each side"), flush=True)
                rates.found += part.found
                rates.tests += part.tests
                rates.untested += part.untested
                rates.pairs_found += part.pairs_found
                rates.pairs += part.pairs
    for repeats, rates in total.items():
        print(rates.line(f"all, {repeats} recordings on each side"))
        worst = sorted(rates.tests, key=lambda key: -rates.found[key] / rates.tests[key])[:5]
        for key in worst:
            print(f"  {key[0]} of {key[1]}: {rates.found[key]} of {rates.tests[key]}")
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
