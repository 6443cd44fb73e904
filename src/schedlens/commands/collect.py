"""The command `collect`: records a parameter sweep, a program, or the whole machine."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from schedlens.commands import completion
from schedlens.record.experiment_defaults import NAMES

T = TypeVar("T")


def _names(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...]:
    """The parts of a list that is separated by commas."""
    return tuple(filter(None, (text or "").split(",")))


@click.command("collect")
@click.option(
    "--experiment", type=click.Choice(NAMES), help="Run a randomized, repeated experiment."
)
@click.option("--full", is_flag=True, help="With --experiment pairs: measure all pairs of kernels.")
@click.option(
    "--pair",
    "pairs",
    multiple=True,
    help="Measure only this pair, e.g. imul1+imul1; repeatable.",
)
@click.option(
    "--load-report",
    help="With --experiment smt-boost and a service: a shell command that prints how many requests "
    "were served, as JSON (docs/experiments.md).",
)
@click.option(
    "--sustain",
    "sustain_s",
    type=float,
    help="With --experiment scaling: also load 1, 2, 4, ... and all cores for SUSTAIN seconds, and "
    "show the clock over time.",
)
@click.option(
    "--workload", shell_complete=completion.kernels,
    help="Run this kernel; see `schedlens workloads list`.",
)  # fmt: skip
@click.option("--variant", help="Variant of the kernel.")
@click.option("--threads", help="Workers per step: 1..20, 1,2,4, 1..20:2, max.")
@click.option(
    "--placement", "placements", multiple=True,
    type=click.Choice(["default", "physical", "siblings"]),
    help="Use only this placement; repeatable. Default: all three.",
)  # fmt: skip
@click.option("--cpus", help="Pin workers to these CPUs in order: 0,2 or 1,1.")
@click.option(
    "--seconds",
    type=float,
    help="Length of a recording. Default: 1 with a workload (frame, game: 3), else 10.",
)
@click.option(
    "--warm-up",
    type=float,
    help="Seconds in which the workers of each step run before they are measured. Default: 0; for "
    "experiments 0.2 to 1.",
)
@click.option("--repeat", "repeats", type=int, help="Repeats. Default: 1; for experiments 6.")
@click.option("--depth", type=click.IntRange(1, 64), help="Capacity of the kernel `queue`.")
@click.option(
    "--how", type=click.Choice(["spin", "yield", "park"]),
    help="How the workers of the kernels `spin_handoff` and `frame` wait.",
)  # fmt: skip
@click.option("--pid", type=int, help="Record this process.")
@click.option(
    "--process",
    help="Record the process with this name; on Linux also a group of "
    "processes: service:UNIT, container:ID, pod:ID, or cgroup:PATH.",
)
@click.option("--light", is_flag=True, help="Record tracepoints only, without PERF_RECORD_SWITCH.")
@click.option(
    "--waits",
    is_flag=True,
    help="Also record page faults (Windows: those that need a disk) and disk requests, as causes "
    "of waits.",
)
@click.option(
    "--affinity-calls",
    is_flag=True,
    help="Linux: also record who sets affinities (sched_setaffinity). Meanwhile every system call "
    "of every program takes a little longer.",
)
@click.option(
    "--counters",
    callback=_names,
    help="Events to count at each switch, with perf's names or those of "
    "`wpr -pmcsources`: EVENT,...",
)
@click.option(
    "--stacks",
    is_flag=False,
    flag_value="fp",
    type=click.Choice(["fp", "dwarf", "lbr"]),
    help="Record the stacks of threads that switch out and of wakers: by frame pointers (fp, also "
    "without a value), by a copy of each stack (dwarf), or by last branch records (lbr). Windows "
    "walks stacks itself: without a value, and the stack of the thread that switches in.",
)
@click.option(
    "--samples",
    "samples_hz",
    type=click.IntRange(0, 20_000),
    help="Also record what runs, SAMPLES times a second on each CPU. Default: 99 (Windows: "
    "1000) with --stacks, else none; 0: none.",
)
@click.option(
    "-m",
    "--buffer-size",
    help="Memory for trace buffers. Linux: size for each CPU, in pages or with a unit, as in "
    "perf record -m (8192, 32M). Windows: size and number of buffers (1Mx2048).",
)
@click.option(
    "--os",
    "target",
    type=click.Choice(["linux", "windows"]),
    help="System to record on; for another system than this, only with --dry-run.",
)
@click.option(
    "--recorder",
    type=click.Choice(["wpr", "xperf"]),
    help="Windows: the recorder. Default: wpr if installed, else xperf.",
)
@click.option("--presents", is_flag=True, help="Windows: also record presents (DXGI, DxgKrnl).")
@click.option("--presentmon", help="Windows: path of PresentMon, to run alongside the recording.")
@click.option(
    "--ring",
    "ring_s",
    type=float,
    help="Keep only the last RING seconds in memory, and save them at Enter, at SIGUSR1 (Linux), "
    "or when a --stop-on option applies.",
)
@click.option(
    "--incidents",
    type=click.IntRange(1, 1000),
    help="Linux: with --ring, continue after an incident, and keep the last INCIDENTS of them.",
)
@click.option(
    "--stop-on-frame",
    "stop_on_frame_ms",
    type=float,
    help="End --ring at a frame longer than this many ms; requires --presentmon (Windows) or "
    "--frames (Linux).",
)
@click.option(
    "--stop-on-ready",
    "stop_on_ready_ms",
    type=float,
    help="Linux: end --ring if a thread was ready for longer than this many ms before it ran.",
)
@click.option(
    "--stop-on-cpu",
    "stop_on_cpu_pct",
    type=float,
    help="Linux: end --ring if the process uses more than this many percent of one CPU for 1 s.",
)
@click.option(
    "--stop-on-command",
    help="Linux: end --ring if this shell command exits with 0; it runs once a second.",
)
@click.option(
    "--frames",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Linux: with --stop-on-frame, the file to which the program appends its frames "
    "(docs/frame-marks.md).",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False),
    help="Session folder. Default: a new folder here, named by the time.",
)  # fmt: skip
@click.option(
    "--resume", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Continue an interrupted session; takes no other option.",
)  # fmt: skip
@click.option(
    "--selftest", is_flag=True,
    help="Record two seconds, check that everything arrived, and write a text to attach to an "
    "issue.",
)  # fmt: skip
@click.option(
    "--attach/--no-attach", default=None,
    help="With --selftest: also write the recording with hashed names. Default: ask.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the plan and the commands; record nothing.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def collect(
    ctx: click.Context,
    /,
    *,
    target: str | None,
    output: Path | None,
    resume: Path | None,
    dry_run: bool,
    selftest: bool,
    attach: bool | None,
    **given: Any,
) -> int:
    """Record how threads are scheduled, into a session folder.

    With --workload: sweep a pinned kernel over thread counts and placements.
    With --experiment: measure what SMT, turbo, hand-offs and placement do on this machine.
    With `-- CMD ARGS...`: record that program. With --pid or --process: record a running process.
    With --selftest: check that recording works here, and write a text about it.
    Otherwise: record the whole machine for --seconds.

    Ctrl-C ends the recording of a program, a process or the machine early and keeps it; it discards
    the unfinished step of a workload.

    Exit code 0: all steps were recorded. 1: some failed. 2: none was recorded. 130: interrupted.
    """
    from schedlens.ask import disturbed_steps
    from schedlens.experiments import conduct
    from schedlens.machine import operating_system
    from schedlens.record import loop, option_groups, targets
    from schedlens.record.linux.ring_options import RingOptions
    from schedlens.record.request import Request
    from schedlens.record.session import Session
    from schedlens.record.windows.options import Options

    here = operating_system.name()
    if resume is not None:
        others = [name for name in ctx.params if name != "resume" and _is_given(ctx, name)]
        if others:
            raise click.UsageError(
                "--resume uses the session's plan and takes no other option: remove "
                f"{_typed(ctx, others[0])}"
            )
        session = Session.resume(resume)
        platform = targets.of_session(here, session)
        return loop.resume(platform, session, conduct.of, disturbed_steps.names)
    if selftest:
        allowed = ("selftest", "attach", "output", "recorder")
        others = [name for name in ctx.params if name not in allowed and _is_given(ctx, name)]
        if others:
            raise click.UsageError(
                f"--selftest decides itself what it records: remove {_typed(ctx, others[0])}"
            )
        # It analyzes what it recorded, and loads much for that.
        from schedlens.commands import self_test

        return self_test.run(here, _group(Options, given), output, attach)
    if attach is not None:
        raise click.UsageError("--attach works only with --selftest")
    target = target or here
    if target != here and not dry_run:
        raise click.UsageError(
            f"--os {target}: this is {here}. Add --dry-run to print the commands for {target}"
        )
    shared = ("ring_s", "stop_on_frame_ms")
    own = RingOptions if target == "windows" else Options
    stray = [
        field.name
        for field in fields(own)
        if field.name not in shared and _is_given(ctx, field.name)
    ]
    if stray and target != "windows":
        raise click.UsageError(
            f"{_typed(ctx, stray[0])} works only on Windows. "
            "--os windows --dry-run prints the commands"
        )
    if stray:
        raise click.UsageError(f"{_typed(ctx, stray[0])} works only on Linux")
    options = option_groups.CollectOptions(
        subject=_group(option_groups.Subject, given),
        sweep=_group(option_groups.Sweep, given),
        choice=_group(option_groups.ExperimentChoice, given),
        recorder=_group(option_groups.RecorderSettings, given),
    )
    on_windows = _group(Options, given)
    request = Request.checked(options, target)
    if target == "windows":
        on_windows.check(request, seconds_given=options.sweep.seconds is not None)
    else:
        ring_options = _group(RingOptions, given)
        ring_options.check(request, seconds_given=options.sweep.seconds is not None)
        if ring_options.ring_s is not None and not dry_run:
            from schedlens.record.linux import ring

            return ring.run(request, ring_options, output)
    platform = targets.of(target, on_windows)
    if dry_run:
        return loop.dry_run(platform, request, output, conduct.of)
    return loop.begin(platform, request, output, conduct.of, disturbed_steps.names)


def _group(kind: type[T], given: dict[str, Any]) -> T:
    """A group of options; its fields are the names of the parameters of `collect`."""
    return kind(**{field.name: given[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def _is_given(ctx: click.Context, name: str) -> bool:
    """Whether the user typed an option or the command, also with the default value."""
    # Some versions of click report an empty argument as typed.
    if name == "command":
        return bool(ctx.params[name])
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


def _typed(ctx: click.Context, name: str) -> str:
    """An option as the user types it in full; the only argument is the command."""
    (parameter,) = (known for known in ctx.command.params if known.name == name)
    return "the command" if isinstance(parameter, click.Argument) else max(parameter.opts, key=len)
