"""The program with the pinned kernels: its path, its catalog, its command lines."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from schedlens.errors import UnknownWorkloadError, WorkloadError
from schedlens.machine import cpu_list
from schedlens.output import typed_json

NAME = "schedlens-workloads"


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of a kernel; `why` says why this machine cannot run it."""

    variant: str
    supported: bool
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the catalog.

    `parties` is the number of workers that run together. `keeps_beat`: it runs frames at a fixed
    rate.
    """

    kernel: str
    default_variant: str | None = None
    parties: int = 1
    keeps_beat: bool = False
    variants: tuple[Variant, ...] = ()

    @property
    def refusals(self) -> dict[str, str | None]:
        """The variants by name, each with why it is not supported here, or None."""
        return {
            variant.variant: None if variant.supported else variant.why or "no reason was reported"
            for variant in self.variants
        }

    def refusal(self, variant: str | None) -> str | None:
        """Why this machine cannot run a variant (None: the default one); None: it can."""
        return self.refusals.get(variant or self.default_variant or "")


@dataclass(frozen=True, slots=True)
class _Catalogue:
    kernels: tuple[Kernel, ...]


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


def catalogue() -> tuple[Kernel, ...]:
    """What the program reports about each kernel. Raises `WorkloadError`.

    Starts the program only once in this process.
    """
    return _queried(program())


@functools.cache
def _queried(path: str) -> tuple[Kernel, ...]:
    try:
        done = subprocess.run(
            [path, "list", "--json"], capture_output=True, text=True, timeout=60, check=False
        )
        value = json.loads(done.stdout)
    except (OSError, ValueError, RecursionError, subprocess.TimeoutExpired) as error:
        raise WorkloadError(f"{NAME} list failed: {error}") from None
    try:
        return typed_json.parsed(_Catalogue, value).kernels
    except typed_json.FieldError as error:
        raise WorkloadError(
            f"cannot parse the output of {NAME} list ({error}): is it from this version?"
        ) from None


def kernel(name: str) -> Kernel:
    """The catalog entry of a kernel. Raises `UnknownWorkloadError` with the nearest names."""
    known = {row.kernel: row for row in catalogue()}
    if name not in known:
        raise UnknownWorkloadError(name, sorted(known))
    return known[name]


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


def cell_command(
    words: Sequence[str], seconds: float, folder: PurePath, warm_up: float = 0.0
) -> list[str]:
    """The command for one gated run of an experiment's cell; `words` name kernels and CPUs."""
    warming = ["--warm-up", f"{warm_up:g}"] if warm_up else []
    return [
        program(), "run", *words, "--seconds", f"{seconds:g}", *warming, "--gate", "--out",
        str(folder),
    ]  # fmt: skip


def shown(planned_cpus: Sequence[int] | None) -> str:
    """A plan in readable form: the CPUs in the order of the workers."""
    if planned_cpus is None:
        return "no mask"
    ascending = sorted(set(planned_cpus)) == list(planned_cpus)
    return "CPU " + (cpu_list.text(planned_cpus) if ascending else ",".join(map(str, planned_cpus)))
