"""The logical CPUs of a Windows machine, as the workload program reads them.

It asks GetLogicalProcessorInformationEx, or reads the bytes that this wrote on another machine.
CPUs are numbered over all processor groups, as ETW numbers them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from schedlens.errors import TopologyError
from schedlens.machine.topology import Cpu, Topology
from schedlens.record import workload_program

__all__ = ["Topology", "command", "from_buffer", "read"]

# The system answers at once; this is for a machine that is out of breath.
LIMIT_S = 60.0


def command(raw: Path) -> list[str]:
    """The command that prints the topology and keeps the system's own bytes in `raw`."""
    return [workload_program.program(), "topology", "--raw", str(raw)]


def read(raw: Path) -> Topology:
    """The topology of this machine; its bytes go to `raw`. Raises `TopologyError`."""
    return _told(command(raw))


def from_buffer(path: Path) -> Topology:
    """The topology in recorded bytes. Raises `TopologyError`."""
    return _told([workload_program.program(), "topology", "--buffer", str(path)])


def _told(words: list[str]) -> Topology:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TopologyError(f"{workload_program.NAME} topology does not answer: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise TopologyError(said[-1] if said else f"{words[0]} ended with code {done.returncode}")
    return from_json(done.stdout)


def from_json(text: str) -> Topology:
    """The topology in the program's answer. Raises `TopologyError`."""
    try:
        value = json.loads(text)
        cpus = tuple(Cpu(**row) for row in value["cpus"])
        return Topology(cpus, tuple(value["allowed"]), {}, str(value["source"]))
    except (ValueError, TypeError, KeyError) as error:
        raise TopologyError(
            f"{workload_program.NAME} topology answers something else ({error}): "
            "is it of this version?"
        ) from None
