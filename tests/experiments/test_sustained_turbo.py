"""`collect --experiment scaling --sustain`: the clock over time by number of active cores."""

from __future__ import annotations

from pathlib import Path

import experiment_session
import pytest
import sysfs_machine as fake
from conftest import command
from judged import plain
from workloads.test_workloads import recorded

from schedlens.experiments import scaling
from schedlens.load.measured_cell import Load
from schedlens.machine import topology
from schedlens.record import cells

SECOND = 1_000_000_000


def test_cells_are_by_active_cores_and_last_as_requested(tmp_path: Path) -> None:
    machine = topology.read(fake.ten_cores_twenty_threads().write(tmp_path))
    made, _ = scaling.plan_cells(machine, Load("sha256"), "1", 120.0)
    turbo = [cell for cell in made if cell.place == "turbo"]
    assert [(cell.name, cell.threads, cell.cpus, cell.facts.seconds) for cell in turbo] == [
        (f"turbo-c{count:02}", count, tuple(range(count)), 120.0) for count in (1, 2, 4, 8, 10)
    ]
    without, _ = scaling.plan_cells(machine, Load("sha256"), "1")
    assert [cell for cell in made if cell not in turbo] == without


def test_fall_of_the_clock_has_expected_numbers_with_injected_clocks(tmp_path: Path) -> None:
    """One core keeps 4.6 GHz; ten fall from 4 to 3 GHz within 30 of 60 s, at 150 W."""
    machine = topology.read(fake.ten_cores_twenty_threads().write(tmp_path / "root"))
    made, missing = scaling.plan_cells(machine, Load("sha256"), "1", 60.0)
    made = [cell for cell in made if cell.name in ("turbo-c01", "turbo-c10")]
    steps = cells.shuffled(made, 6, 1)
    workers, power = {}, {}
    for step in steps:
        assert step.cell is not None
        one = step.cell.threads == 1
        # The machine is faster by 0.01 GHz in each repeat.
        more = step.repeat / 100
        ghz = [4.6 if one else 4.0 - min(second, 30) / 30 for second in range(1, 61)]
        parts = [[n * SECOND, value + more] for n, value in enumerate(ghz, 1)]
        workers[step.name] = [{"core_ghz_over_time": parts}] * step.cell.threads
        if not one:
            power[step.name] = {"energy": {"package-0": 15.0}, "energy_ns": SECOND // 10}
    folder = experiment_session.write(
        tmp_path / "session", machine, steps, {cell.name: [1e9] * cell.threads for cell in made},
        workers=workers, machine=power, experiment={"name": "scaling", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT cores, seconds, round(first_ghz, 3), round(sustained_ghz, 3), "
            "round(sustained_low_ghz, 3), round(sustained_high_ghz, 3), falling_s, watts, "
            "watts_unknown, repeats FROM turbo_sustained"
        ).fetchall()
        over_time = con.execute(
            "SELECT cores, round(ghz, 3), round(ghz_low, 3), round(ghz_high, 3), repeats "
            "FROM turbo_over_time WHERE second = 15"
        ).fetchall()
        found = con.execute(
            "SELECT title, detail FROM finding WHERE kind = 'turbo_not_sustained'"
        ).fetchall()
        figures = experiment_session.section(con, "scaling_clock")["figures"]
    unread = "neither powercap nor perf's power events could be read"
    assert rows == [
        (1, 60, 4.635, 4.635, 4.61, 4.66, 0, None, unread, 6),
        # After 28 s it is 3.067 GHz, within 2 % of 3.
        (10, 60, 4.002, 3.035, 3.01, 3.06, 28, 150, None, 6),
    ]
    assert over_time == [(1, 4.635, 4.61, 4.66, 6), (10, 3.535, 3.51, 3.56, 6)]
    [(title, detail)] = found
    assert plain(title) == "Clock falls by 24.2 % under sustained load"
    assert plain(detail) == (
        "With 10 cores active the clock falls from 4 GHz to 3.04 GHz (3.01 to 3.06), within 28 s, "
        "at 150 W."
    )
    [figure] = [figure for figure in figures if figure["name"] == "sustained"]
    assert [trace["name"] for trace in figure["plot"]["data"]] == ["1 core", "10 cores"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--sustain", "60"), "--sustain requires --experiment scaling"),
        (
            ("--experiment", "scaling", "--sustain", "1"),
            "--sustain: 1 is not between 2 and 3600 seconds",
        ),
        (("--experiment", "scaling", "--sustain", "nan"), "--sustain: nan is not between"),
    ],
)
def test_impossible_lengths_are_refused(words: tuple[str, ...], why: str) -> None:
    done = command("collect", *words, "--dry-run", check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


@pytest.mark.alone
def test_workload_shows_its_clock_over_time(tmp_path: Path) -> None:
    result = recorded(tmp_path, "imul1", "--threads", "1", "--seconds", "2.2")
    [worker] = result["workers"]
    took_ns = worker["end_mono_ns"] - worker["start_mono_ns"]
    parts = worker["core_ghz_over_time"]
    assert [ns for ns, _ in parts] == [took_ns // 2, took_ns]
    # Each part has the median of about 40 readings, and so has the whole.
    low, high = sorted(ghz for _, ghz in parts)
    assert low * 0.99 <= worker["core_ghz_during"] <= high * 1.01
    short = recorded(tmp_path / "short", "imul1", "--threads", "1", "--seconds", "0.05")
    assert short["workers"][0]["core_ghz_over_time"] is None
