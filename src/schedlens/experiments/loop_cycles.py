"""Cycles of the register loops: by llvm-mca, by the port model, and measured on a CPU."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from schedlens.errors import WorkloadError
from schedlens.experiments import port_model
from schedlens.record import workload_program

LOOPS = (*(f"imul{n}" for n in range(1, 11)), "imul_add", "add1", "add8")
SECONDS = 0.1
REPEATS = 3
# The rule of the query `multiplier_slots`.
_KNEE = 1.05


@dataclass(frozen=True)
class Loop:
    """Core cycles of an iteration; `llvm_mca` None: not installed, or it does not know the CPU."""

    kernel: str
    llvm_mca: float | None
    model: float
    measured: float


def compare(cpu: int, loops: Sequence[str] = LOOPS, seconds: float = SECONDS) -> list[Loop]:
    """Each loop alone on a CPU, as the median of three runs. Raises `WorkloadError`."""
    core = port_model.this_machine()
    return [
        Loop(
            kernel,
            port_model.mca_cycles(kernel),
            port_model.cycles_alone(kernel, core),
            median(_measured(kernel, cpu, seconds) for _ in range(REPEATS)),
        )
        for kernel in loops
    ]


def slots(cycles: Sequence[float]) -> int:
    """How many chains of imul1, imul2, ... take no more than 5 % longer than one."""
    whole = 0
    for length in cycles:
        if length > _KNEE * cycles[0]:
            break
        whole += 1
    return whole


def _measured(kernel: str, cpu: int, seconds: float) -> float:
    command = [
        workload_program.program(), "run", kernel, "--cpus", str(cpu),
        "--seconds", f"{seconds:g}", "--json",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return float(json.loads(done.stdout)["workers"][0]["core_cycles_per_iteration"])
    except (OSError, ValueError, KeyError, IndexError, TypeError, subprocess.TimeoutExpired):
        raise WorkloadError(
            f"cannot measure {kernel} on CPU {cpu}: try `schedlens workloads verify {kernel}`"
        ) from None
