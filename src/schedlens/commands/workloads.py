"""The commands `schedlens workloads list`, `verify` and `cycles`."""

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


@workloads.command("cycles")
@click.option("--cpu", type=click.IntRange(0, 1 << 16), help="Logical CPU; the first allowed one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def cycles_command(cpu: int | None, as_json: bool) -> int:
    """Compare predicted with measured cycles of the register loops.

    One row for each loop: cycles of an iteration by llvm-mca, if it is on PATH (Debian package
    llvm), by the port model of the experiment pairs, and measured alone on a CPU. The chains that
    saturate the multipliers are latency x multipliers; the query multiplier_slots finds them in
    recordings.
    """
    import json
    import os
    from dataclasses import asdict

    from schedlens.experiments import loop_cycles, port_model

    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    on = min(allowed) if cpu is None else cpu
    core = port_model.this_machine()
    found = loop_cycles.compare(on)
    chains = [loop.measured for loop in found if loop.kernel[4:].isdigit()]
    predicted, measured = core.multiply_cycles * core.multipliers, loop_cycles.slots(chains)
    if as_json:
        shown = {
            "cpu": on, "basis": core.basis, "predicted_slots": predicted,
            "measured_slots": measured, "loops": [asdict(loop) for loop in found],
        }  # fmt: skip
        click.echo(json.dumps(shown))
        return 0
    click.echo(f"{'loop':<10}{'llvm-mca':>10}{'model':>10}{'measured':>10}  cycles, CPU {on}")
    for loop in found:
        mca = "-" if loop.llvm_mca is None else f"{loop.llvm_mca:.2f}"
        click.echo(f"{loop.kernel:<10}{mca:>10}{loop.model:>10.2f}{loop.measured:>10.2f}")
    click.echo(f"multiplier slots: {predicted:g} predicted, {measured} measured")
    click.echo(f"model: {core.basis}")
    if all(loop.llvm_mca is None for loop in found):
        click.echo("llvm-mca is not on PATH: install it (Debian package llvm) for its cycles")
    return 0


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
