"""What an experiment needs to know about the system it runs on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlens.machine import knobs, topology
from schedlens.machine.condition import has_energy
from schedlens.machine.knobs import Knobs
from schedlens.machine.topology import Topology
from schedlens.output.wording import count
from schedlens.record import changes

# From this load average per CPU on, a machine is not quiet.
QUIET_LOAD = 0.2
# User ids below this belong to the system; the highest is that of nobody.
_FIRST_PERSON = 1000
_NOBODY = 65534

NO_ENERGY = "energy: neither powercap nor perf's power events are readable here"

Contents = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Host:
    """A system; each field is called when it is needed.

    `knobs`: those that can be changed, and a line for each that cannot. `no_energy`: why energy
    cannot be read, None if it can. `unrest`: a line if other programs keep the system busy.
    `other_users`: number of other users with processes, None if unknown. `remember` and `forget`
    write down what is about to be changed, for `doctor --restore`; None: nothing is.
    """

    topology: Callable[[], Topology]
    knobs: Callable[[], tuple[Knobs, list[str]]]
    no_energy: Callable[[], str | None]
    unrest: Callable[[], str | None]
    other_users: Callable[[], int | None]
    remember: Callable[[Contents], None] | None = None
    forget: Callable[[Contents], None] | None = None


def linux(root: Path = Path("/")) -> Host:
    """This machine, or one with its own sysfs and /proc, whose changes are separate."""
    here = root == Path("/")
    return Host(
        topology=lambda: topology.read(root),
        knobs=lambda: knobs.find(root),
        no_energy=lambda: None if has_energy(root) else NO_ENERGY,
        unrest=lambda: _unrest(root),
        other_users=lambda: _other_users(root),
        remember=changes.remember if here else None,
        forget=changes.forget if here else None,
    )


def not_quiet(busy: str) -> str:
    """The line about a machine that other programs keep busy; `busy` says how much."""
    return (
        f"this machine is not quiet ({busy}): confidence intervals will be wide, and disturbed "
        "cells are marked"
    )


def others(number: int) -> str:
    """The line about other users' programs."""
    return f"{count(number, 'other user')} of this machine also run programs"


def _other_users(root: Path) -> int:
    """System accounts do not count."""
    owners = set()
    for path in (root / "proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            owners.add(path.stat().st_uid)
    return len({uid for uid in owners if _FIRST_PERSON <= uid < _NOBODY and uid != os.getuid()})


def _unrest(root: Path) -> str | None:
    try:
        load = float((root / "proc/loadavg").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    cpus = os.cpu_count() or 1
    if load <= QUIET_LOAD * cpus:
        return None
    return not_quiet(f"load average {load:.2f} on {cpus} CPUs")
