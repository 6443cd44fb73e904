"""The logical CPUs of a Windows machine, as the workload program reads them.

It calls GetLogicalProcessorInformationEx, or reads the bytes that were saved on another machine.
CPUs are numbered over all processor groups, as in ETW.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from schedlens.errors import TopologyError
from schedlens.machine.topology import Cpu, Topology
from schedlens.record import workload_program

__all__ = ["Topology", "command", "from_buffer", "read"]

# The system answers at once; the limit is for an overloaded machine.
LIMIT_S = 60.0


def command(raw: Path) -> list[str]:
    """The command that prints the topology and saves the system's own bytes in `raw`."""
    return [workload_program.program(), "topology", "--raw", str(raw)]


def read(raw: Path) -> Topology:
    """The topology of this machine; its bytes go to `raw`. Raises `TopologyError`."""
    return _parsed(command(raw))


def from_buffer(path: Path) -> Topology:
    """The topology in saved bytes. Raises `TopologyError`."""
    return _parsed([workload_program.program(), "topology", "--buffer", str(path)])


def _parsed(words: list[str]) -> Topology:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TopologyError(f"{workload_program.NAME} topology failed: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise TopologyError(said[-1] if said else f"{words[0]} exited with code {done.returncode}")
    return from_json(done.stdout)


def from_json(text: str) -> Topology:
    """The topology in the program's output. Raises `TopologyError`."""
    try:
        value = json.loads(text)
        cpus = tuple(Cpu(**row) for row in value["cpus"])
        return Topology(cpus, tuple(value["allowed"]), {}, str(value["source"]))
    except (ValueError, TypeError, KeyError) as error:
        raise TopologyError(
            f"cannot parse the output of {workload_program.NAME} topology ({error}): "
            "is it from this version?"
        ) from None
