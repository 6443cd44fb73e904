"""Locked frequencies, against simulations in which the cores were really that much slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import frames_with_worker
import pytest
import simulated

from schedlens.errors import ChangeError, TopologyError
from schedlens.replay import alterations, fidelity, prediction, programs
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import Machine, machine
from schedlens.simulate.scheduler import Simulation

LENGTH_NS = 500 * MS
# The simulated cores have 4,900 MHz, and all of their work depends on it.
RECORDED, LOCKED = 4_900, 3_500


def clocked(mhz: float, cpus: tuple[int, ...] = (0, 1)) -> Machine:
    """Two cores of which some have that frequency."""
    made = machine(2, smt=False)
    return replace(
        made,
        cpus=tuple(
            replace(cpu, speed=cpu.speed * mhz / RECORDED) if cpu.cpu in cpus else cpu
            for cpu in made.cpus
        ),
    )


def played(**options: object) -> Simulation:
    made = frames_with_worker.simulation(affinity=[1], **options)  # type: ignore[arg-type]
    made.run(LENGTH_NS)
    return made


def mean(made: Simulation) -> float:
    return fidelity.summary([frame.end - frame.start for frame in made.truth.frames]).mean


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("frequencies")
    with simulated.simulated_database(folder, [("worker", played())]) as con:
        yield con


def predicted(con: duckdb.DuckDBPyConnection, *texts: str) -> prediction.Interval:
    base = prediction.baseline(con, 1)
    assert isinstance(base, prediction.Baseline), base
    made = prediction.predict(base, [alterations.parse(text) for text in texts])
    assert made.frames is not None, made.why
    found = made.frames["mean"]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (("frequency *=3500",), {"on": clocked(LOCKED)}),
        (("frequency 1=3500",), {"on": clocked(LOCKED, (1,))}),
        (("frequency 1=3500", "work Worker=-50%"), {"on": clocked(LOCKED, (1,)), "worker_ms": 3.0}),
    ],
)
def test_interval_contains_the_true_frames(
    con: duckdb.DuckDBPyConnection, texts: tuple[str, ...], options: dict[str, object]
) -> None:
    found = predicted(con, *texts)
    assert found.low <= mean(played(**options)) <= found.high


def test_range_of_what_depends_on_the_frequency_is_in_the_interval(
    con: duckdb.DuckDBPyConnection,
) -> None:
    # 10 ms of work in each frame, of which 5 to 10 ms take 1.4 times as long; 3 % on either side.
    found = predicted(con, "frequency *=3500")
    assert (found.value, found.low, found.high) == pytest.approx(
        (13.0 * MS, 12.0 * MS * 0.97, 14.0 * MS * 1.03), rel=2e-3
    )


def test_recorded_frequency_counts_while_the_cpu_is_busy(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    try:
        # CPU 1 has 4,900 MHz for the first half of the recording, then 2,450: its thread is as
        # busy in both.
        con.execute(f"INSERT INTO cpu_frequency VALUES (1, {LENGTH_NS // 2}, 1, 2450000)")
        khz = programs.read(con, 1).khz
    finally:
        con.execute("ROLLBACK")
    assert khz[0] == 4_900_000
    assert khz[1] == pytest.approx(3_675_000, rel=0.01)


def test_frequency_that_was_not_recorded_cannot_be_locked(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    try:
        con.execute("DELETE FROM cpu_frequency WHERE cpu = 1")
        base = prediction.baseline(con, 1)
        assert isinstance(base, prediction.Baseline)
        made = prediction.predict(base, [alterations.parse("frequency any=3500")])
    finally:
        con.execute("ROLLBACK")
    assert made.why == "the recording has no frequencies of CPU 1"


def test_malformed_frequencies_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(ChangeError, match=r"'3\.5' is not a value of frequency"):
        alterations.parse("frequency *=3.5")
    with pytest.raises(TopologyError, match="'P' is not a CPU"):
        alterations.parse("frequency P=3500")
    with pytest.raises(ChangeError, match="the recording has no CPU 7"):
        predicted(con, "frequency 7=3500")
