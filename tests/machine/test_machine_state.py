"""Machine state around a step: energy, heat, clock, and load from an injected sysfs."""

from __future__ import annotations

import time
from pathlib import Path

from schedlens.machine import condition, energy_events
from schedlens.machine.condition import Condition, MachineState


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _domain(root: Path, folder: str, name: str, energy: int) -> None:
    _put(root / f"sys/class/powercap/{folder}/name", name)
    _put(root / f"sys/class/powercap/{folder}/energy_uj", str(energy))
    _put(root / f"sys/class/powercap/{folder}/max_energy_range_uj", "1000000")


def test_machine_state_has_energy_temperature_clock_and_load(tmp_path: Path) -> None:
    _domain(tmp_path, "intel-rapl:0", "package-0", 900_000)
    _domain(tmp_path, "intel-rapl:0:0", "core", 100)
    _domain(tmp_path, "intel-rapl:1", "package-1", 5)
    # The same counters again, over memory-mapped registers.
    _domain(tmp_path, "intel-rapl-mmio:0", "package-0", 900_000)
    cpu = tmp_path / "sys/devices/system/cpu"
    for number, count in ((0, 3), (1, 4)):
        _put(cpu / f"cpu{number}/thermal_throttle/core_throttle_count", str(count))
        _put(cpu / f"cpu{number}/cpufreq/scaling_cur_freq", str(3_000_000 + number))
    _put(tmp_path / "proc/loadavg", "0.25 0.10 0.05 1/200 4711")
    before = time.monotonic_ns()
    state = MachineState(tmp_path)
    # The first package's counter wraps.
    _put(tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj", "400000")
    _put(tmp_path / "sys/class/powercap/intel-rapl:0:0/energy_uj", "250100")
    _put(tmp_path / "sys/class/powercap/intel-rapl:1/energy_uj", "2000005")
    _put(cpu / "cpu1/thermal_throttle/core_throttle_count", "9")
    found = state.end()
    assert found.energy_ns is not None
    assert 0 < found.energy_ns <= time.monotonic_ns() - before
    assert found == Condition(
        load=0.25,
        throttles=5,
        khz=(3_000_000, 3_000_001),
        energy={"package-0": 0.500001, "package-0/core": 0.25, "package-1": 2.0},
        energy_ns=found.energy_ns,
    )


def test_missing_sensors_are_unknown(tmp_path: Path) -> None:
    found = MachineState(tmp_path).end()
    assert found == Condition(energy_ns=found.energy_ns)
    assert not condition.has_energy(tmp_path)


def test_counter_that_runs_backwards_without_range_is_omitted() -> None:
    before = {"package-0": 10, "psys": 10}
    after = {"package-0": 30, "psys": 5, "dram": 7}
    assert condition.joules(before, after, {}) == {"package-0": 2e-05}


def test_energy_comes_from_perf_events(tmp_path: Path) -> None:
    for name in ("energy-pkg", "energy-ram", "energy-gpu"):
        _put(tmp_path / f"sys/bus/event_source/devices/power/events/{name}", "event=0x02")
    assert energy_events.names(tmp_path) == ["energy-pkg", "energy-ram"]
    assert condition.has_energy(tmp_path)
    said = (
        "# started on Thu Jan  1 00:00:00 1970\n"
        "12.50,Joules,power/energy-pkg/,1000000,100.00,,\n"
        "<not counted>,Joules,power/energy-cores/,0,0.00,,\n"
        "1.25,Joules,power/energy-ram/,1000000,100.00,,\n"
        "7,,context-switches,1000000,100.00,,\n"
    )
    assert energy_events.parsed(said) == {"package": 12.5, "package/dram": 1.25}


def test_energy_that_is_no_amount_is_unknown() -> None:
    for amount in ("nan", "inf", "-1", "1e999"):
        assert energy_events.parsed(f"{amount},Joules,power/energy-pkg/,1,100.00,,\n") == {}
