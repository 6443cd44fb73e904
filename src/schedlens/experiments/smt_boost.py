"""The experiment `smt-boost`: requests a second with SMT and boost on and off, in combination."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

from schedlens.errors import KnobError, SessionError
from schedlens.load.measured_cell import SERVICE, Cell, Facts, Load
from schedlens.load.session_file import Step
from schedlens.machine import stop_signals
from schedlens.machine.knobs import OFF, ON, Knobs
from schedlens.machine.topology import Topology
from schedlens.record import cells
from schedlens.record.boost_guard import Guard
from schedlens.record.experiment_defaults import SETTLE_S
from schedlens.record.host import Host

NAME = "smt-boost"

_CLOSED, _OPEN, _COMMAND = "closed", "open", "command"


def plan(
    knobs: Knobs, command: Sequence[str], offered_per_s: float, *, is_service: bool = False
) -> list[Cell]:
    """The cells of one repeat: every state of the available knobs, under every load.

    `offered_per_s` is the total request rate of all workers of an open loop. It is the same in
    every state, so that the states are compared at the same load. `is_service`: instead of the
    kernel, a service under a load from outside.
    """
    choices = [[(name, state) for state in (OFF, ON)] for name in sorted(knobs)]
    made = []
    for state in itertools.product(*choices):
        states = dict(state)
        facts = Facts(boost=states.get("boost"), smt=states.get("smt"))
        name = "-".join(f"{knob}-{value}" for knob, value in state) or "as-found"
        if is_service or command:
            load = SERVICE if is_service else _COMMAND
            made.append(Cell(NAME, f"{load}-{name}", name, None, facts=replace(facts, load=load)))
            continue
        made.append(
            Cell(NAME, f"closed-{name}", name, None, (Load("serve", "closed"),),
                 facts=replace(facts, load=_CLOSED))
        )  # fmt: skip
        made.append(
            Cell(NAME, f"open-{name}", name, None, (Load("serve", "open"),),
                 facts=replace(facts, load=_OPEN, how="park", offered_per_s=offered_per_s))
        )  # fmt: skip
    return made


def filled(step: Step, machine: Topology) -> Step:
    """The step with a machine's CPUs, and a share of the load for each."""
    cell = step.cell
    if step.workload is None or cell is None:
        return step
    cpus = tuple(cpu.cpu for cpu in machine.usable)
    cell = replace(cell, threads=len(cpus), cpus=cpus)
    offered = cell.facts.offered_per_s
    if offered is not None:
        rate = max(10.0, offered / len(cpus))
        facts = replace(cell.facts, offered_per_s=rate * len(cpus))
        options = ("--rate", f"{rate:g}", "--how", "park", *cells.arrivals(cell))
        cell = replace(cell, options=options, facts=facts)
    return replace(
        step,
        threads=len(cpus),
        planned_cpus=cpus,
        placements=("pinned",),
        placement="pinned",
        cell=cell,
    )


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

    def enter(self, step: Step) -> Step:
        """Sets the knobs of a cell; returns the step with all CPUs that are online then.

        Raises `KnobError`, or `SessionError` for a step without a cell.
        """
        if step.cell is None:
            raise SessionError(f"session.json: step {step.name} has no cell")
        self.begin()
        wanted = {"boost": step.cell.facts.boost, "smt": step.cell.facts.smt}
        changed = False
        for name, knob in self._knobs.items():
            state = wanted[name]
            if state is not None and knob.state() != state:
                knob.set(state)
                changed = True
        if changed:
            with stop_signals.waiting():
                time.sleep(SETTLE_S)
        machine = self._host.topology()
        step = replace(step, cell=replace(step.cell, topology=machine.saved))
        return filled(step, machine)

    def close(self) -> None:
        """Restores all settings. Raises `KnobError` if one cannot be restored."""
        guard, self._guard = self._guard, None
        if guard is not None and not guard.close():
            files = ", ".join(f"{name} ({text})" for name, text in self._before)
            raise KnobError(f"not all settings were restored. Write them back by hand: {files}")
        if guard is not None and self._host.forget is not None:
            self._host.forget(self._before)
