"""Cells start from a steady state: the machine settles after a switch, and drift is flagged."""

from __future__ import annotations

import time
from pathlib import Path

import experiment_session
import sysfs_machine as fake

from schedlens.experiments import scaling, smt_boost
from schedlens.load.measured_cell import Load
from schedlens.machine import knobs, topology
from schedlens.record import cells, host
from schedlens.record.experiment_defaults import SETTLE_S


def test_the_machine_settles_after_a_switch_only(tmp_path: Path) -> None:
    root = fake.ten_cores_twenty_threads().write(tmp_path)
    boost = root / "sys/devices/system/cpu/cpufreq/boost"
    boost.parent.mkdir(parents=True, exist_ok=True)
    boost.write_text("1\n")
    found, _ = knobs.find(root)
    states = smt_boost.States(found, host.linux(root))
    by_name = {cell.name: cell for cell in smt_boost.plan(found, ("true",), 0.0)}
    took, written = {}, {}
    try:
        states.begin()
        for position, name in enumerate(("command-boost-on", "command-boost-off"), 1):
            begin = time.monotonic()
            states.enter(cells.step(by_name[name], 1, position))
            took[name] = time.monotonic() - begin
            written[name] = boost.read_text().strip()
    finally:
        states.close()
    assert written == {"command-boost-on": "1", "command-boost-off": "0"}
    assert took["command-boost-off"] >= SETTLE_S
    # What the switch itself costs is in both.
    assert took["command-boost-on"] < took["command-boost-off"] - SETTLE_S / 2


def test_clock_at_both_ends_of_each_cell_and_its_drift(tmp_path: Path) -> None:
    machine = topology.read(fake.ten_cores_twenty_threads().write(tmp_path / "root"))
    made, _ = scaling.plan_cells(machine, Load("sha256"), "1,2")
    made = [cell for cell in made if cell.placements[:1] == ("physical",) and cell.place == "sweep"]
    steps = cells.shuffled(made, 3, 1)
    workers = {}
    for step in steps:
        # The second worker of two drifts by -5 % in the last repeat, and by 1 % before.
        after = 2.85 if step.repeat == 3 else 3.03
        workers[step.name] = [
            {"core_ghz_before": 3.0, "core_ghz_after": 3.0},
            {"core_ghz_before": 3.0, "core_ghz_after": after},
        ][: step.threads]
    folder = experiment_session.write(
        tmp_path / "session", machine, steps,
        {cell.name: [1e9] * cell.threads for cell in made}, workers=workers,
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT * REPLACE (round(drift_pct, 6) AS drift_pct, round(ghz_end, 6) AS ghz_end) "
            "FROM cell_clock"
        )
        assert rows.fetchall() == [
            ("scaling", "sweep-physical-t01", 3, 3.0, 3.0, 0.0, 0),
            ("scaling", "sweep-physical-t02", 3, 3.0, 3.015, -5.0, 1),
        ]
