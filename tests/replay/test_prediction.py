"""Predicted gains against simulations in which the change was really made."""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import frames_with_worker
import pytest
import simulated

from schedlens.errors import ChangeError
from schedlens.replay import alterations, fidelity, prediction
from schedlens.replay.work import Work
from schedlens.simulate import cases
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.scheduler import Simulation

HYBRID = machine(1, 1, smt=False)
# The change, the options of the program without it, and with it.
PAIRS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "affinity Worker=0": ({"affinity": [1], "on": HYBRID}, {"affinity": [0], "on": HYBRID}),
    "work Worker=-50%": ({"worker_ms": 6.0}, {"worker_ms": 3.0}),
    "priority Worker=11": (
        {"affinity": [1], "rival_ms": 7.0, "priority": 9},
        {"affinity": [1], "rival_ms": 7.0, "priority": 11},
    ),
    "remove rival.exe": (
        {"affinity": [1], "rival_ms": 7.0, "priority": 9},
        {"affinity": [1], "rival_ms": 0.0, "priority": 9},
    ),
}
LENGTH_NS = 1000 * MS


def played(options: dict[str, object]) -> Simulation:
    made = frames_with_worker.simulation(**options)  # type: ignore[arg-type]
    made.run(LENGTH_NS)
    return made


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A recording of each pair without the change, then the demo's case with spinning threads."""
    every = [
        (f"pair-{number}", played(faulty)) for number, (faulty, _) in enumerate(PAIRS.values())
    ]
    every.append(("spin", cases.CASES[2].play(seconds=1.5)))
    folder = tmp_path_factory.mktemp("pairs")
    with simulated.simulated_database(folder, every) as con:
        yield con


def baseline(con: duckdb.DuckDBPyConnection, trace_id: int) -> prediction.Baseline:
    found = prediction.baseline(con, trace_id)
    assert isinstance(found, prediction.Baseline), found
    return found


@pytest.mark.parametrize("text", PAIRS)
def test_interval_contains_the_true_frames_after_the_change(
    con: duckdb.DuckDBPyConnection, text: str
) -> None:
    base = baseline(con, 1 + list(PAIRS).index(text))
    made = prediction.predict(base, [alterations.parse(text)])
    true = fidelity.summary(
        [frame.end - frame.start for frame in played(PAIRS[text][1]).truth.frames]
    )
    assert made.why is None
    assert made.frames is not None
    mean = made.frames["mean"]
    assert mean is not None
    assert mean.low <= true.mean <= mean.high
    assert mean.value == pytest.approx(true.mean, rel=0.03)
    # The change matters, so that a prediction of the recorded value would be wrong.
    assert base.frames.mean > 1.2 * mean.high


def test_change_without_effect_gains_nothing(con: duckdb.DuckDBPyConnection) -> None:
    # The worker may use the idle P core, but its ideal processor is the idle E core.
    made = prediction.predict(baseline(con, 1), [alterations.parse("affinity Worker=any")])
    frames = played({"on": HYBRID}).truth.frames
    assert fidelity.summary([frame.end - frame.start for frame in frames]).mean == 14_909_600
    assert made.gain_pct == 0


def test_several_changes_apply_together(con: duckdb.DuckDBPyConnection) -> None:
    base = baseline(con, 2)
    wanted = [alterations.parse("work Worker=-50%"), alterations.parse("work Main=-50%")]
    made = prediction.predict(base, wanted)
    assert made.gain_pct == pytest.approx(50, abs=1)


def refusal(con: duckdb.DuckDBPyConnection, trace_id: int) -> str:
    found = prediction.baseline(con, trace_id)
    assert isinstance(found, prediction.Refused)
    return found.why


def test_spinning_threads_cannot_be_predicted(con: duckdb.DuckDBPyConnection) -> None:
    assert refusal(con, 1 + len(PAIRS)).startswith("AI 0 and AI 1 hand a CPU to each other only")


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE trace SET events_lost = 3", "the recorder lost 3 events and 0 buffers"),
        ("UPDATE trace SET source = 'perf'", "the recording does not say which scheduler"),
        (
            "UPDATE trace SET source = 'perf', os = 'Linux 6.5.1'",
            "the recorded scheduler is CFS, and the replay has the rules of EEVDF",
        ),
        # Half of the speed of what the recording says about frames.
        ("UPDATE frame SET dur_ns = dur_ns * 2", "a replay without any change misses the recorded"),
    ],
)
def test_recording_that_cannot_tell_says_why(
    con: duckdb.DuckDBPyConnection, statement: str, why: str
) -> None:
    con.execute("BEGIN")
    try:
        con.execute(f"{statement} WHERE trace_id = 2")
        assert refusal(con, 2).startswith(why)
    finally:
        con.execute("ROLLBACK")


@pytest.mark.parametrize(("until_ms", "share"), [(300, 0.076), (1000, 0.28)])
def test_unknown_time_widens_the_interval_or_is_too_long(
    con: duckdb.DuckDBPyConnection, until_ms: int, share: float
) -> None:
    con.execute("BEGIN")
    try:
        # Of each frame of 10 ms, of which both threads together compute 10, the worker waits 4. If
        # 120 ms are unknown, it ran for 600 of the other 880: so it did for 82 of these.
        con.execute(
            "UPDATE thread_state_other SET state = 'unknown' "
            f"WHERE trace_id = 2 AND state = 'waiting' AND ts < {until_ms * MS} "
            "AND utid IN (SELECT utid FROM thread WHERE name = 'Worker')"
        )
        if share > fidelity.LIMIT:
            assert re.match("for 2[89] % of the time of its threads it is unkn", refusal(con, 2))
            return
        base = baseline(con, 2)
        assert base.unknown == pytest.approx(share, rel=0.05)
        made = prediction.predict(base, [alterations.parse("work Worker=-50%")])
    finally:
        con.execute("ROLLBACK")
    found = made.figure("mean")
    assert found is not None
    assert found.high == pytest.approx(found.value * (1 + base.unknown))


def test_without_frames_work_is_predicted(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    try:
        con.execute("DELETE FROM frame WHERE trace_id = 2")
        base = baseline(con, 2)
        assert base.unit == "throughput"
        made = prediction.predict(base, [alterations.parse("work *=-50%")])
    finally:
        con.execute("ROLLBACK")
    assert made.frames is None
    assert made.work is not None
    # Main and Worker work 10 ms in turn for each frame, and 5 ms with half of the work each.
    assert made.gain_pct == pytest.approx(100, abs=1)
    assert isinstance(base.figures, Work)
    assert base.figures.throughput == pytest.approx(1, abs=0.02)


def test_unrecorded_affinity_cannot_be_widened(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    try:
        con.execute("DELETE FROM affinity WHERE trace_id = 2")
        made = prediction.predict(baseline(con, 2), [alterations.parse("affinity Worker=any")])
        assert made.why == "the affinity of Worker is not recorded"
        assert made.frames is None
    finally:
        con.execute("ROLLBACK")


def test_process_that_others_wait_for_cannot_be_removed(con: duckdb.DuckDBPyConnection) -> None:
    made = prediction.predict(baseline(con, 2), [alterations.parse("remove game.exe")])
    assert made.why == "game.exe makes the frames"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("priority Worker=32", "'32' is not a value of priority"),
        ("priority Worker", "'priority Worker' is not a change"),
        ("work Worker=20%", "'20%' is not a value of work"),
        ("affinity Worker=some", "'some' is not a value of affinity"),
    ],
)
def test_malformed_change_names_the_forms(text: str, error: str) -> None:
    with pytest.raises(ChangeError, match=error):
        alterations.parse(text)


def test_change_that_fits_nothing_names_similar_threads(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(ChangeError, match="did you mean Worker"):
        prediction.predict(baseline(con, 2), [alterations.parse("priority Wroker=9")])
    with pytest.raises(ChangeError, match="no SMT siblings"):
        prediction.predict(baseline(con, 2), [alterations.parse("smt=off")])
    with pytest.raises(ChangeError, match="has no CPU 7"):
        prediction.predict(baseline(con, 2), [alterations.parse("ideal Main=7")])
