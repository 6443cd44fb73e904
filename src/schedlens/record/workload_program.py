"""The program with the pinned kernels: its path, its catalog, its command lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from schedlens.errors import UnknownWorkloadError, WorkloadError
from schedlens.machine import cpu_list

NAME = "schedlens-workloads"


def program() -> str:
    """Its path: SCHEDLENS_WORKLOADS, else next to this Python, else on the path.

    Raises `WorkloadError` if it is in none of these places.
    """
    given = os.environ.get("SCHEDLENS_WORKLOADS")
    if given:
        if not os.access(given, os.X_OK):
            raise WorkloadError(f"SCHEDLENS_WORKLOADS: there is no program {given}")
        return given
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        for file in (folder / NAME, folder / f"{NAME}.exe"):
            if os.access(file, os.X_OK):
                return str(file)
    found = shutil.which(NAME)
    if found is None:
        raise WorkloadError(f"the program {NAME} is not installed: reinstall schedlens")
    return found


def catalogue() -> list[dict[str, Any]]:
    """What the program reports about each kernel. Raises `WorkloadError`."""
    try:
        done = subprocess.run(
            [program(), "list", "--json"], capture_output=True, text=True, timeout=60, check=False
        )
        value = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise WorkloadError(f"{NAME} list failed: {error}") from None
    rows = value.get("kernels") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise WorkloadError(f"cannot parse the output of {NAME} list: is it from this version?")
    return rows


def kernel(name: str) -> dict[str, Any]:
    """The catalog entry of a kernel. Raises `UnknownWorkloadError` with the nearest names."""
    rows = {str(row.get("kernel")): row for row in catalogue()}
    if name not in rows:
        raise UnknownWorkloadError(name, sorted(rows))
    return rows[name]


def variants(row: dict[str, Any]) -> dict[str, str | None]:
    """The variants of a catalog entry, each with why it is not supported here, or None."""
    return {
        str(variant.get("variant")): None if variant.get("supported") else str(variant.get("why"))
        for variant in row.get("variants", [])
    }


def run_command(
    name: str,
    variant: str | None,
    threads: int,
    planned_cpus: Sequence[int] | None,
    seconds: float,
    folder: PurePath,
    options: Sequence[str] = (),
) -> list[str]:
    """The command for one gated run of `seconds`; its files go to `folder`."""
    command = [program(), "run", name, "--threads", str(threads), "--seconds", f"{seconds:g}"]
    if variant:
        command += ["--variant", variant]
    if planned_cpus is not None:
        command += ["--cpus", ",".join(map(str, planned_cpus))]
    return [*command, *options, "--gate", "--out", str(folder)]


def cell_command(words: Sequence[str], seconds: float, folder: PurePath) -> list[str]:
    """The command for one gated run of an experiment's cell; `words` name kernels and CPUs."""
    return [
        program(), "run", *words, "--seconds", f"{seconds:g}", "--gate", "--out", str(folder),
    ]  # fmt: skip


def shown(planned_cpus: Sequence[int] | None) -> str:
    """A plan in readable form: the CPUs in the order of the workers."""
    if planned_cpus is None:
        return "no mask"
    ascending = sorted(set(planned_cpus)) == list(planned_cpus)
    return "CPU " + (cpu_list.text(planned_cpus) if ascending else ",".join(map(str, planned_cpus)))
