"""The object `cell` of a step: what an experiment measures at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from schedlens.machine.topology import SavedTopology
from schedlens.output.typed_json import ABSENT_IF_NONE

# The load of a cell that measures a live service.
SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Load:
    """A kernel and its variant; None means the default variant."""

    kernel: str
    variant: str | None = None

    @property
    def label(self) -> str:
        """As the user types it: `imul1`, `pointer_chase:private`."""
        return f"{self.kernel}:{self.variant}" if self.variant else self.kernel


@dataclass(frozen=True, slots=True)
class Prediction:
    """How many times slower a load is expected to be than alone, and the source of the number."""

    slowdown: float
    basis: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What differs by experiment; None: the experiment does not use it.

    `boost` and `smt` are the states of the switches. `offered_per_s` is requests a second of all
    workers. `seconds` replaces the requested time. `command_cpu` is the CPU of the user's program
    that runs alongside the kernel.
    """

    boost: str | None = field(default=None, metadata=ABSENT_IF_NONE)
    smt: str | None = field(default=None, metadata=ABSENT_IF_NONE)
    load: str | None = field(default=None, metadata=ABSENT_IF_NONE)
    how: str | None = field(default=None, metadata=ABSENT_IF_NONE)
    handoffs: int | None = field(default=None, metadata=ABSENT_IF_NONE)
    offered_per_s: float | None = field(default=None, metadata=ABSENT_IF_NONE)
    seconds: float | None = field(default=None, metadata=ABSENT_IF_NONE)
    command_cpu: int | None = field(default=None, metadata=ABSENT_IF_NONE)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured at once; the fields after the first four differ by experiment.

    `cpus` has one CPU per worker; None: decided when the cell begins, or no mask. `predicted` has
    a prediction or None for each load. `options` are words for the workload program. `position` is
    the place in the random order, from 1. `topology` is that of the cell, if the experiment took
    CPUs offline or online.
    """

    experiment: str
    name: str
    place: str
    cpus: tuple[int, ...] | None
    loads: tuple[Load, ...] = ()
    threads: int = 1
    options: tuple[str, ...] = ()
    predicted: tuple[Prediction | None, ...] = ()
    facts: Facts = field(default_factory=Facts)
    placements: tuple[str, ...] = ()
    position: int = 0
    topology: SavedTopology | None = field(default=None, metadata=ABSENT_IF_NONE)

    @property
    def workload(self) -> str | None:
        """The kernels' names as the workload program writes them; None: a command alone."""
        if not self.loads:
            return None
        alike = len(set(self.loads)) == 1
        return self.loads[0].kernel if alike else "+".join(load.kernel for load in self.loads)
