"""Runs of one program are rarely reported as different, and a real change is found.

`make compare-check` measures 200 pairs; this is a smaller sample.
"""

from __future__ import annotations

from pathlib import Path

import alike_pairs
import compared_recordings
import pytest

from schedlens.differences import contrast, sides

pytestmark = pytest.mark.slow

PAIRS = 12
SEEDS = range(1, 2 * PAIRS + 1)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 runs of one program."""
    folder = tmp_path_factory.mktemp("alike")
    case = compared_recordings.CASES["critical_path"]
    return alike_pairs.record(folder, case, SEEDS, fixed=False, seconds=0.8)


@pytest.mark.parametrize("repeats", [1, 4])
def test_runs_of_one_program_differ_in_5_percent_at_most(alike: Path, repeats: int) -> None:
    found = alike_pairs.rates(alike, repeats)
    assert found.pairs == PAIRS // repeats
    assert alike_pairs.interval(found.pairs_found, found.pairs)[0] <= contrast.ALPHA
    # Tests of one pair depend on each other, so this is a limit on the mean, not an interval.
    assert found.rate <= 2 * contrast.ALPHA
    assert found.tests.total() > 10 * found.pairs


def test_a_change_is_found_in_every_pair(tmp_path: Path) -> None:
    case = compared_recordings.CASES["critical_path"]
    files = [
        alike_pairs.record(tmp_path, case, range(1, 4), fixed=fixed, seconds=2.0)
        for fixed in (False, True)
    ]
    with sides.opened([files[0]], "a") as a, sides.opened([files[1]], "b") as b:
        before, after = alike_pairs.all_series(a), alike_pairs.all_series(b)
        for key in (("frame_p50_ns", "game.exe"), ("cycles_per_instruction", "game.exe")):
            for one, other in zip(before[key], after[key], strict=True):
                found = contrast.difference_of(one.quantity, "step", key[1], [one], [other])
                assert found.p is not None
                assert found.p < 0.05
                assert (found.difference or 0.0) < 0
