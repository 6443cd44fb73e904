"""What an experiment needs to know about Windows, or for a dry run about another machine."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from schedlens.load.session_file import Step
from schedlens.machine.knobs import Knobs
from schedlens.machine.topology import Topology
from schedlens.record import changes, host
from schedlens.record.host import Host
from schedlens.record.windows import boost, power_plan
from schedlens.record.windows import topology as windows_topology
from schedlens.record.windows.observer import Observer

NO_SMT = (
    "smt: on Windows only the firmware (UEFI setup) can switch it: measure once with it on and "
    "once with it off"
)
NO_ENERGY = "energy: schedlens does not read it on Windows"
# How long to observe the machine before the first cell, and the busy share of all its CPUs
# from which it is not quiet.
LOOK_S = 1.0
QUIET_SHARE = 0.2


def here() -> Host:
    """This machine."""
    return Host(
        topology=_topology,
        knobs=_knobs,
        no_energy=lambda: NO_ENERGY,
        unrest=_unrest,
        other_users=lambda: None,
        remember=changes.remember,
        forget=changes.forget,
    )


def elsewhere(machine: Topology) -> Host:
    """A machine with these CPUs whose boost can be switched; nothing is read from it."""
    switch = boost.BoostMode(boost.CURRENT, power_plan.Value(boost.AGGRESSIVE, boost.AGGRESSIVE))
    return Host(
        topology=lambda: machine,
        knobs=lambda: ({boost.NAME: switch}, [NO_SMT]),
        no_energy=lambda: NO_ENERGY,
        unrest=lambda: None,
        other_users=lambda: None,
    )


def switching(step: Step) -> list[tuple[str, list[str]]]:
    """The commands that set the state of a cell, each with its purpose."""
    state = step.cell.facts.boost if step.cell is not None else None
    if state is None:
        return []
    mode = boost.DISABLED if state == "off" else boost.AGGRESSIVE
    commands = boost.setting(boost.CURRENT, mode, mode)
    return [(f"{boost.NAME} {state}", command) for command in commands]


def putting_back() -> list[tuple[str, list[str]]]:
    """The commands that restore the original state; AC and DC represent the old values."""
    mains, battery, active = boost.setting(boost.CURRENT, boost.AGGRESSIVE, boost.AGGRESSIVE)
    commands = [[*mains[:-1], "AC"], [*battery[:-1], "DC"], active]
    return [(f"{boost.NAME} as it was", command) for command in commands]


def _topology() -> Topology:
    with tempfile.TemporaryDirectory(prefix="schedlens-") as place:
        return windows_topology.read(Path(place) / "topology.bin")


def _knobs() -> tuple[Knobs, list[str]]:
    found, why = boost.find()
    if found is None:
        return {}, [NO_SMT, f"{boost.NAME}: {why}"]
    return {boost.NAME: found}, [NO_SMT]


def _unrest() -> str | None:
    observer = Observer()
    try:
        begin = observer.begin()
        time.sleep(LOOK_S)
        end = observer.end()
    finally:
        observer.close()
    share = busy_share(begin, end)
    if share is None or share <= QUIET_SHARE:
        return None
    return host.not_quiet(f"{100 * share:.0f} % of all CPU time went to other programs")


def busy_share(begin: dict[str, Any], end: dict[str, Any]) -> float | None:
    """Busy share of all CPUs' time between two snapshots; None if unknown."""
    before = {row["cpu"]: row for row in begin["cpus"]}
    busy = idle = 0
    for row in end["cpus"]:
        old = before.get(row["cpu"])
        if old is None:
            continue
        idle += row["idle_ns"] - old["idle_ns"]
        busy += sum(row[key] - old[key] for key in ("user_ns", "system_ns", "irq_ns", "softirq_ns"))
    return busy / (busy + idle) if busy + idle > 0 else None
