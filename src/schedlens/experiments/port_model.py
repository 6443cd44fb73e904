"""Predicts how two register loops on one core slow each other down, from latencies and ports.

A loop starts an iteration every `latency` cycles at best. Each iteration needs multipliers, a
taken branch, and issue slots. If two loops together need more of a resource than the core has,
each gets half, and one takes what the other leaves.
Source: the articles' description of Haswell (port 1 multiplies, port 6 takes branches, four issue
slots a cycle); the model reproduces its measurements. llvm-mca supplies latency and multipliers
of this machine.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass

# What an iteration needs of (multipliers, branches taken, issue slots), and the length of its
# chain in multiplications and additions. The loop counter and its branch are one issue slot.
_LOOPS: dict[str, tuple[tuple[int, int, int], tuple[int, int]]] = {
    **{f"imul{n}": ((n, 1, n + 1), (1, 0)) for n in range(1, 11)},
    # The addition runs in the shadow of the multiplication.
    "imul_add": ((1, 1, 3), (1, 0)),
    "add1": ((0, 1, 2), (0, 1)),
    "add8": ((0, 1, 9), (0, 8)),
}
_ADD_CYCLES = 1.0
_MCA_ITERATIONS = 300


@dataclass(frozen=True)
class Core:
    """The resources of a core; `basis` names the source of the numbers."""

    multiply_cycles: float
    multipliers: float
    branches: float
    issue: float
    basis: str


HASWELL = Core(3.0, 1.0, 1.0, 4.0, "the articles' Haswell: latency 3, one multiplier, one branch")


def known(kernel: str) -> bool:
    """Whether the model covers the loop of a kernel."""
    return kernel in _LOOPS


def cycles_alone(kernel: str, core: Core) -> float:
    """Core cycles per iteration of a loop that has the core to itself."""
    needs, (multiplies, adds) = _LOOPS[kernel]
    chain = multiplies * core.multiply_cycles + adds * _ADD_CYCLES
    return max(chain, *(need / has for need, has in zip(needs, _has(core), strict=True)))


def slowdowns(first: str, second: str, core: Core) -> tuple[float, float]:
    """How many times longer each loop takes with the other on its core than alone."""
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
    """This machine's core according to llvm-mca; Haswell if llvm-mca is missing or fails."""
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


def mca_cycles(kernel: str) -> float | None:
    """Core cycles per iteration of a loop according to llvm-mca; None if it cannot say."""
    program = _llvm_mca()
    if program is None:
        return None
    multiplied = ("rax", "rcx", "rsi", "rdi", *(f"r{n}" for n in range(8, 14)))
    (multiplies, _, _), (_, adds) = _LOOPS[kernel]
    text = "".join(f"imul %rbx, %{register}\n" for register in multiplied[:multiplies])
    # In imul_add the addition is a chain of its own.
    text += "add %rbx, %r14\n" * (adds or (kernel == "imul_add"))
    return _mca_cycles(program, f"{text}dec %rdx\njnz .\n")


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
    """Cycles per iteration of the instructions in a long run."""
    command = [program, "-mcpu=native", f"-iterations={_MCA_ITERATIONS}", "-"]
    found = re.search(r"Total Cycles:\s+(\d+)", _run(command, text))
    return int(found[1]) / _MCA_ITERATIONS if found else None


def _mca_model(program: str) -> str | None:
    found = re.search(r"Host CPU:\s*(\S+)", _run([program, "--version"]))
    return found[1] if found else None
