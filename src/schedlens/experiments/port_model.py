"""What two register loops on one core should cost each other, by latencies and ports.

A loop begins an iteration every `latency` cycles at best; each iteration takes multiplications, a
taken branch and issue slots of what the core has a cycle. Where two loops want more of one of
these than there is, each is given half, and what one leaves over the other takes.
Source: the articles' account of Haswell (port 1 multiplies, port 6 takes branches, four issued a
cycle), whose measurements it reproduces; llvm-mca gives latency and multipliers of this machine.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass

# What an iteration takes of (multipliers, branches taken, issue slots), and its chain's length in
# multiplications and additions. The counter of the loop and its branch are one issue slot.
_LOOPS: dict[str, tuple[tuple[int, int, int], tuple[int, int]]] = {
    **{f"imul{n}": ((n, 1, n + 1), (1, 0)) for n in range(1, 11)},
    "add1": ((0, 1, 2), (0, 1)),
    "add8": ((0, 1, 9), (0, 8)),
}
_ADD_CYCLES = 1.0
_MCA_ITERATIONS = 300


@dataclass(frozen=True)
class Core:
    """What a core has; `basis` says where the figures are from."""

    multiply_cycles: float
    multipliers: float
    branches: float
    issue: float
    basis: str


HASWELL = Core(3.0, 1.0, 1.0, 4.0, "the articles' Haswell: latency 3, one multiplier, one branch")


def known(kernel: str) -> bool:
    """Whether the model knows the loop of a kernel."""
    return kernel in _LOOPS


def cycles_alone(kernel: str, core: Core) -> float:
    """Core cycles an iteration of a loop takes on a core of its own."""
    needs, (multiplies, adds) = _LOOPS[kernel]
    chain = multiplies * core.multiply_cycles + adds * _ADD_CYCLES
    return max(chain, *(need / has for need, has in zip(needs, _has(core), strict=True)))


def slowdowns(first: str, second: str, core: Core) -> tuple[float, float]:
    """How many times longer each loop takes beside the other on one core than alone."""
    rates = [1 / cycles_alone(kernel, core) for kernel in (first, second)]
    slower = [1.0, 1.0]
    for index, has in enumerate(_has(core)):
        wants = [
            rate * _LOOPS[kernel][0][index]
            for rate, kernel in zip(rates, (first, second), strict=True)
        ]
        if sum(wants) <= has:
            continue
        for worker, (want, other) in enumerate(zip(wants, wants[::-1], strict=True)):
            if want > 0:
                slower[worker] = max(slower[worker], want / max(has / 2, has - other))
    return slower[0], slower[1]


def _has(core: Core) -> tuple[float, float, float]:
    return (core.multipliers, core.branches, core.issue)


@functools.cache
def this_machine() -> Core:
    """The core as llvm-mca knows it; Haswell's figures where it is missing or does not know it."""
    found = _llvm_mca()
    if found is None:
        return HASWELL
    chain = _mca_cycles(found, "imul %rbx, %rax\n")
    wide = _mca_cycles(found, "".join(f"imul %rbx, %r{n}\n" for n in range(8, 16)) * 2)
    model = _mca_model(found)
    if not chain or not wide or not model:
        return HASWELL
    latency, multipliers = float(round(chain)), round(16 / wide, 1)
    basis = f"llvm-mca for {model}: latency {latency:g}, multipliers {multipliers:g}; one branch"
    return Core(latency, multipliers, HASWELL.branches, HASWELL.issue, basis)


def _llvm_mca() -> str | None:
    names = ["llvm-mca", *(f"llvm-mca-{version}" for version in range(22, 10, -1))]
    return next((path for name in names if (path := shutil.which(name))), None)


def _run(command: list[str], text: str = "") -> str:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _mca_cycles(program: str, text: str) -> float | None:
    """Cycles that an iteration of the instructions takes, in the long run."""
    command = [program, "-mcpu=native", f"-iterations={_MCA_ITERATIONS}", "-"]
    found = re.search(r"Total Cycles:\s+(\d+)", _run(command, text))
    return int(found[1]) / _MCA_ITERATIONS if found else None


def _mca_model(program: str) -> str | None:
    found = re.search(r"Host CPU:\s*(\S+)", _run([program, "--version"]))
    return found[1] if found else None
