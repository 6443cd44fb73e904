"""A sample of `make what-if`: predicted gains of planted faults against the true ones."""

from __future__ import annotations

from planted import gains

from schedlens.replay.prediction import Interval

SEED = gains.FIRST_SEED
FAULTS = ("carrier", "stutter_e", "stutter_shared")


def test_predicted_gains_of_planted_faults_contain_the_truth() -> None:
    played = list(gains.pairs(1, SEED, FAULTS, is_damaged=False, processes=1))
    assert [(pair.fault, pair.why, pair.is_within()) for pair in played] == [
        ("carrier", None, True),
        ("stutter_e", None, True),
        ("stutter_shared", None, True),
    ]
    # The changes matter: no interval contains the recorded frames.
    assert all(pair.predicted and pair.predicted.high < pair.before for pair in played)
    lines = gains.table(played)
    assert lines[-1].startswith("rank correlation of predicted and true gain: ")
    assert lines[-2].split()[:4] == ["all", "3", "3", "0"]


def test_pair_outside_its_interval_is_counted() -> None:
    interval = Interval(9.0, 8.5, 9.5)
    right = gains.Pair("carrier", 1, 10.0, 9.4, interval, None)
    wrong = gains.Pair("carrier", 2, 10.0, 8.4, interval, None)
    unclear = gains.Pair("carrier", 3, 10.0, 8.4, None, "loss")
    assert gains.table([right, wrong, unclear])[1].split()[1:4] == ["3", "1", "1"]
