"""The command `collect`: a sweep of a workload, a program, or the machine, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from schedlens.record.experiment_defaults import NAMES


@click.command("collect")
@click.option(
    "--experiment", type=click.Choice(NAMES), help="Cells in random order, repeated, judged as one."
)
@click.option("--full", is_flag=True, help="With --experiment pairs: every pair of kernels.")
@click.option(
    "--pair", "pairs", multiple=True, help="Only this pair: imul1+imul1; may be repeated."
)
@click.option("--workload", help="A kernel of `schedlens workloads list`.")
@click.option("--variant", help="The kernel's variant, where it has several.")
@click.option("--threads", help="Workers per step: 1..20, 1,2,4, 1..20:2, max.")
@click.option(
    "--placement", "placements", multiple=True,
    type=click.Choice(["default", "physical", "siblings"]),
    help="Only this placement; may be given again. All three otherwise.",
)  # fmt: skip
@click.option("--cpus", help="Pins worker by worker to these CPUs instead: 0,2 or 1,1.")
@click.option(
    "--seconds",
    type=float,
    help="Length of a recording; 1 with a workload (frame, game: 3), else 10.",
)
@click.option("--repeat", "repeats", type=int, help="Runs of each; 1, of an experiment 6.")
@click.option("--depth", type=click.IntRange(1, 64), help="Places in the kernel `queue`.")
@click.option(
    "--how", type=click.Choice(["spin", "yield", "park"]),
    help="How the parties of the kernels `spin_handoff` and `frame` wait.",
)  # fmt: skip
@click.option("--pid", type=int, help="The process the recording is about.")
@click.option("--process", help="The same by name.")
@click.option("--light", is_flag=True, help="Tracepoints alone: no second record of each switch.")
@click.option(
    "--counters",
    help="Events to be read at each switch, by perf's names or those of "
    "`wpr -pmcsources`: EVENT,...",
)
@click.option(
    "-m",
    "--buffer-size",
    help="Memory for events on their way to disk. Linux: of each CPU, in pages or with a unit, as "
    "perf record -m (8192, 32M). Windows: size and number of buffers (1Mx2048).",
)
@click.option(
    "--os",
    "target",
    type=click.Choice(["linux", "windows"]),
    help="The system to record on; another than this one only with --dry-run.",
)
@click.option(
    "--recorder",
    type=click.Choice(["wpr", "xperf"]),
    help="Windows: wpr where it is found, else xperf, unless one is named.",
)
@click.option("--presents", is_flag=True, help="Windows: presented frames too (DXGI, DxgKrnl).")
@click.option("--presentmon", help="Windows: the path of PresentMon, to run beside the recording.")
@click.option("--ring", type=float, help="Windows: keeps the last RING seconds, until Enter.")
@click.option(
    "--stop-on-frame",
    type=float,
    help="Windows: ends --ring at a frame of more than so many ms; needs --presentmon.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False),
    help="The session folder; by default one with the time in its name, here.",
)  # fmt: skip
@click.option(
    "--resume", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Goes on with a session that was interrupted; takes no other option.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Prints the plan and the commands, records nothing.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def collect(
    experiment: str | None,
    full: bool,
    pairs: tuple[str, ...],
    workload: str | None,
    variant: str | None,
    threads: str | None,
    placements: tuple[str, ...],
    cpus: str | None,
    seconds: float | None,
    repeats: int | None,
    depth: int | None,
    how: str | None,
    pid: int | None,
    process: str | None,
    light: bool,
    counters: str | None,
    buffer_size: str | None,
    target: str | None,
    recorder: Literal["wpr", "xperf"] | None,
    presents: bool,
    presentmon: str | None,
    ring: float | None,
    stop_on_frame: float | None,
    output: Path | None,
    resume: Path | None,
    dry_run: bool,
    command: tuple[str, ...],
) -> int:
    """Record how threads are scheduled, into a session folder.

    With --workload: a sweep of a pinned kernel over numbers of threads and placements.
    With --experiment: what SMT, turbo, hand-offs and placement do on this machine.
    With `-- CMD ARGS...`: that program. With --pid or --process: a running one. With none of
    these: the whole machine, for --seconds.

    Ctrl-C ends a recording of a program, a process or the machine early and keeps it; the
    unfinished step of a workload is discarded.

    Exit code 0: all steps are recorded. 1: some failed. 2: none is. 130: interrupted.
    """
    from schedlens.experiments import conduct
    from schedlens.machine import operating_system
    from schedlens.record import loop, targets
    from schedlens.record.request import Request
    from schedlens.record.session import Session
    from schedlens.record.windows.options import Options

    options = Options(recorder, presents, presentmon, ring, stop_on_frame)
    here = operating_system.name()
    target = target or here
    if target != here and not dry_run:
        raise click.UsageError(
            f"--os {target}: this is {here}; --dry-run prints the commands for {target}"
        )
    if options.given and target != "windows":
        raise click.UsageError(
            f"{options.given[0]} is for Windows; --os windows --dry-run prints what it does there"
        )
    if resume is not None:
        given = (
            workload, variant, threads, cpus, seconds, depth, how, pid, process, counters, output,
            experiment, repeats, buffer_size,
        )  # fmt: skip
        flags = (placements, command, light, dry_run, full, pairs, options.given)
        if any(value is not None for value in given) or any(flags):
            raise click.UsageError("--resume takes the plan from the session, and no other option")
        session = Session.resume(resume)
        return loop.resume(targets.of_session(target, session), session, conduct.of)
    request = Request.checked(
        workload=workload,
        variant=variant,
        threads=threads,
        placements=placements,
        cpus=cpus,
        seconds=seconds,
        repeats=repeats,
        pid=pid,
        process=process,
        light=light,
        counters=tuple(filter(None, (counters or "").split(","))),
        buffer_size=buffer_size,
        command=command,
        depth=depth,
        how=how,
        experiment=experiment,
        full=full,
        pairs=pairs,
        target=target,
    )
    if target == "windows":
        options.check(request, seconds_given=seconds is not None)
    run = loop.dry_run if dry_run else loop.begin
    return run(targets.of(target, options), request, output, conduct.of)
