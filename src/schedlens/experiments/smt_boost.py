"""The experiment `smt-boost`: requests a second with SMT and boost on and off, in combination."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from schedlens.errors import KnobError
from schedlens.machine.knobs import OFF, ON, Knobs
from schedlens.machine.topology import Topology
from schedlens.record.boost_guard import Guard
from schedlens.record.cells import Cell, Load
from schedlens.record.host import Host
from schedlens.record.plan import Step

NAME = "smt-boost"

_CLOSED, _OPEN, _COMMAND = "closed", "open", "command"


def plan(knobs: Knobs, command: Sequence[str], offered_per_s: float) -> list[Cell]:
    """The cells of one repeat: every state of the available knobs, under every load.

    `offered_per_s` is the total request rate of all workers of an open loop. It is the same in
    every state, so that the states are compared at the same load.
    """
    choices = [[(name, state) for state in (OFF, ON)] for name in sorted(knobs)]
    made = []
    for state in itertools.product(*choices):
        facts = dict(state)
        name = "-".join(f"{knob}-{value}" for knob, value in state) or "as-found"
        if command:
            made.append(
                Cell(NAME, f"command-{name}", name, None, facts={**facts, "load": _COMMAND})
            )
            continue
        made.append(
            Cell(NAME, f"closed-{name}", name, None, (Load("serve", "closed"),),
                 facts={**facts, "load": _CLOSED})
        )  # fmt: skip
        made.append(
            Cell(NAME, f"open-{name}", name, None, (Load("serve", "open"),),
                 facts={**facts, "load": _OPEN, "how": "park", "offered_per_s": offered_per_s})
        )  # fmt: skip
    return made


def fill(step: Step, machine: Topology) -> None:
    """Assigns a machine's CPUs to a cell, and a share of the load to each."""
    if step.workload is None or step.cell is None:
        return
    facts = step.cell["facts"]
    cpus = [cpu.cpu for cpu in machine.usable]
    step.threads, step.planned_cpus = len(cpus), cpus
    step.placements, step.placement = ["pinned"], "pinned"
    step.cell |= {"threads": len(cpus), "cpus": cpus}
    offered = facts.get("offered_per_s")
    if offered is not None:
        rate = max(10.0, offered / len(cpus))
        step.cell["options"] = ["--rate", f"{rate:g}", "--how", "park"]
        step.cell["facts"] = {**facts, "offered_per_s": rate * len(cpus)}


class States:
    """Sets the knobs for a cell and always restores them at the end."""

    def __init__(self, knobs: Knobs, host: Host) -> None:
        self._knobs = knobs
        self._host = host
        self._before: list[tuple[str, str]] = []
        self._guard: Guard | None = None

    def begin(self) -> None:
        """Starts the guard. Raises `KnobError`."""
        if self._knobs and self._guard is None:
            remember = self._host.remember
            self._before = [row for knob in self._knobs.values() for row in knob.contents()]
            self._guard = Guard(self._before, written_down=remember is not None)
            if remember is not None:
                # If the guard is killed too, `doctor --restore` can still restore the settings.
                remember(self._before)

    def enter(self, step: Step) -> Topology:
        """Sets the knobs of a cell, then assigns it all CPUs that are online."""
        self.begin()
        assert step.cell is not None
        facts = step.cell["facts"]
        for name, knob in self._knobs.items():
            if knob.state() != facts[name]:
                knob.set(facts[name])
        machine = self._host.topology()
        step.cell["topology"] = machine.as_json()
        fill(step, machine)
        return machine

    def close(self) -> None:
        """Restores all settings. Raises `KnobError` if one cannot be restored."""
        guard, self._guard = self._guard, None
        if guard is not None and not guard.close():
            files = ", ".join(f"{name} ({text})" for name, text in self._before)
            raise KnobError(f"not all settings were restored. Write them back by hand: {files}")
        if guard is not None and self._host.forget is not None:
            self._host.forget(self._before)
