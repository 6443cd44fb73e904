"""The commands `schedlens workloads list` and `schedlens workloads verify`."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import click


@click.group("workloads")
def workloads() -> None:
    """Manage the pinned kernels that `collect --workload` runs."""


@workloads.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_command(as_json: bool) -> int:
    """List the kernels: what each does, its unit, and whether this CPU can run it."""
    return _hand_on(["list", *(["--json"] if as_json else [])])


@workloads.command("verify")
@click.argument("kernels", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify_command(kernels: tuple[str, ...], as_json: bool) -> int:
    """Verify that kernels (all by default) compute what they claim.

    Exit code 0: all that this CPU can run are correct. 1: a result is wrong. 2: not verified.
    """
    return _hand_on(["verify", *kernels, *(["--json"] if as_json else [])])


def _hand_on(arguments: Sequence[str]) -> int:
    """Runs the workload program on this terminal; returns its exit code."""
    from schedlens.errors import UnknownWorkloadError, WorkloadError
    from schedlens.record import workload_program

    names = [word for word in arguments[1:] if not word.startswith("-")]
    known = [row.kernel for row in workload_program.catalogue()] if names else []
    for name in names:
        if name not in known:
            raise UnknownWorkloadError(name, known)
    try:
        return subprocess.run([workload_program.program(), *arguments], check=False).returncode
    except OSError as error:
        raise WorkloadError(f"cannot run the workload program: {error.strerror}") from None
