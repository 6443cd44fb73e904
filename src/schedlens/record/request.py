"""A checked request to `collect`; session.json keeps it so that the session can be resumed."""

from __future__ import annotations

import difflib
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from schedlens.errors import PlanError, SessionError, WorkloadError
from schedlens.load.session_file import SavedRequest, SessionFile, Step
from schedlens.machine import cpu_list, operating_system, process_groups
from schedlens.machine.topology import Topology
from schedlens.record import buffer_size as buffer_size_
from schedlens.record import (
    experiment_defaults,
    gate,
    plan,
    thread_range,
    workload_program,
)
from schedlens.record.buffer_size import BufferSize
from schedlens.record.option_groups import (
    CollectOptions,
    ExperimentChoice,
    RecorderSettings,
    Subject,
    Sweep,
)
from schedlens.record.placement import PLACEMENTS
from schedlens.record.workload_program import Kernel

WORKLOAD_S = 1.0
# For a kernel with 60 frames a second: enough frames to see which are late.
FRAMES_S = 3.0
# Its threads: with fewer, there is no worker in addition to the render and the game thread.
FRAMES_THREADS = 4
RECORDING_S = 10.0
# With stacks. Not 100: samples in step with a timer would hit the same code each time. WPR samples
# at the interval of the machine, which is 1 ms.
SAMPLES_HZ = {"linux": 99, "windows": 1_000}
SHORTEST_S, LONGEST_S = 0.001, 86_400.0
LONGEST_WARM_UP_S = 3_600.0
# The clock over time has parts of at least a second.
SHORTEST_SUSTAIN_S, LONGEST_SUSTAIN_S = 2.0, 3_600.0
# Kernels that accept --depth, and those that accept --how.
_DEEP = ("queue",)
_WAITING = ("spin_handoff", "frame")


@dataclass(frozen=True, slots=True)
class Request(SavedRequest):
    """One kind of job: a workload, a command, a process, or the machine as it is."""

    @classmethod
    def checked(cls, options: CollectOptions, target: str) -> Request:
        """The request with defaults filled in. Raises `PlanError` for contradictions.

        `target`: the system to record on. Programs and processes are looked up only on this system.
        """
        subject, sweep, choice = options.subject, options.sweep, options.choice
        recorder = options.recorder
        _check_combination(subject, sweep, choice)
        here = target == operating_system.name()
        if subject.command and here and shutil.which(subject.command[0]) is None:
            word = subject.command[0]
            raise PlanError(f"no program named '{word}' on the path{_hint(word)}")
        if recorder.buffer_size is not None:
            buffer_size_.parse(recorder.buffer_size, target)
        pid = subject.pid
        if target == "windows":
            _check_on_windows(subject, choice, recorder)
            # The Windows platform looks them up when recording begins.
            pass
        elif subject.process is not None:
            pid = _find(subject.process)
        elif pid is not None and not gate.running(pid):
            raise PlanError(f"--pid: no process {pid} is running")
        if subject.workload is not None:
            _check_kernel(subject.workload, subject.variant)
        _check_kernel_options(subject)
        experiment = choice.experiment
        repeats = experiment_defaults.REPEATS if experiment else 1
        return cls(
            workload=subject.workload,
            variant=subject.variant,
            threads=sweep.threads,
            placements=tuple(n for n in PLACEMENTS if n in sweep.placements) or PLACEMENTS,
            cpus=sweep.cpus,
            seconds=_seconds(subject, sweep, choice),
            repeats=repeats if sweep.repeats is None else sweep.repeats,
            pid=pid,
            process=subject.process,
            light=recorder.light,
            waits=recorder.waits or None,
            affinity_calls=recorder.affinity_calls or None,
            counters=recorder.counters,
            command=subject.command,
            depth=subject.depth,
            how=subject.how,
            experiment=experiment,
            full=choice.full,
            pairs=choice.pairs,
            load_report=choice.load_report,
            sustain_s=choice.sustain_s,
            seed=random.SystemRandom().randrange(1 << 32) if experiment else 0,
            buffer_size=recorder.buffer_size,
            warm_up=_warm_up(sweep, experiment),
            stacks=recorder.stacks,
            samples_hz=_samples_hz(recorder, target),
        )

    @classmethod
    def of_session(cls, session: SessionFile) -> Request:
        """The request of a session. Raises `SessionError` if session.json contains no valid one."""
        saved = session.request
        if saved is None:
            raise SessionError("session.json contains no request: start a new session")
        if saved.seconds is not None and not SHORTEST_S <= saved.seconds <= LONGEST_S:
            raise SessionError(
                f"session.json: request.seconds is {saved.seconds:g}, not between {SHORTEST_S:g} "
                f"and {LONGEST_S:g}: start a new session"
            )
        return cls(**{field.name: getattr(saved, field.name) for field in fields(saved)})

    def steps(self, topology: Topology) -> list[Step]:
        """The plan on this machine. Raises `PlanError`."""
        if self.workload is None:
            return plan.single(self.name, self.repeats)
        usable = len(topology.usable)
        kernel = workload_program.kernel(self.workload)
        pinned = cpu_list.parse_in_order(self.cpus) if self.cpus is not None else None
        counts = thread_range.parse(self.threads or self._default_threads(kernel, pinned), usable)
        parties = kernel.parties
        odd = [count for count in counts if count % parties]
        if odd and self.threads is not None and len(odd) == len(counts):
            raise PlanError(
                f"--threads: {self.workload} runs {parties} workers together, "
                f"so it cannot run {odd[0]}: use a multiple of {parties}"
            )
        counts = [count for count in counts if count % parties == 0]
        return plan.sweep(topology, self.workload, counts, self.placements, self.repeats, pinned)

    def _default_threads(self, kernel: Kernel, pinned: Sequence[int] | None) -> str:
        if pinned:
            return str(len(pinned))
        one_game = kernel.keeps_beat and kernel.parties == 1
        return str(FRAMES_THREADS) if one_game else "1..max"

    @property
    def kernel_options(self) -> tuple[str, ...]:
        """The arguments of the workload program in addition to the plan."""
        warm_up = f"{self.warm_up:g}" if self.warm_up else None
        given = {"--depth": self.depth, "--how": self.how, "--warm-up": warm_up}
        return tuple(
            word for option, value in given.items() if value is not None
            for word in (option, str(value))
        )  # fmt: skip

    def buffers(self, target: str) -> BufferSize | None:
        """The requested buffers; None: the recorder's own choice."""
        return None if self.buffer_size is None else buffer_size_.parse(self.buffer_size, target)

    @property
    def is_service(self) -> bool:
        """Whether an experiment measures a service under a load from outside."""
        named = self.pid is not None or self.process is not None or self.load_report is not None
        return self.experiment is not None and named

    @property
    def group(self) -> process_groups.Group | None:
        """The group of processes that is recorded, such as a service; None: none."""
        return None if self.process is None else process_groups.parsed(self.process)

    def followed(self) -> list[int]:
        """The processes to follow where only own processes may be recorded."""
        if self.group is not None:
            return process_groups.members(self.group)
        return [] if self.pid is None else [self.pid]

    @property
    def name(self) -> str:
        """The name of the session."""
        if self.experiment:
            return self.experiment
        if self.workload:
            return self.workload
        if self.command:
            return plan.folder_name(Path(self.command[0]).name)
        if self.process:
            return plan.folder_name(self.process)
        return f"pid-{self.pid}" if self.pid is not None else "machine"


def _check_combination(subject: Subject, sweep: Sweep, choice: ExperimentChoice) -> None:
    """Raises `PlanError` for options that contradict each other, or for impossible values."""
    kinds = {
        "--workload": subject.workload,
        "--pid": subject.pid,
        "--process": subject.process,
        "a command": subject.command or None,
    }
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise PlanError(f"{' and '.join(given)} exclude each other: use one of them")
    only = {
        "--variant": subject.variant,
        "--threads": sweep.threads,
        "--cpus": sweep.cpus,
        "--depth": subject.depth,
        "--how": subject.how,
        "--placement": sweep.placements or None,
        "--warm-up": sweep.warm_up,
    }
    stray = [name for name, value in only.items() if value is not None]
    if choice.experiment is not None:
        # Every experiment warms its cells.
        stray = [name for name in stray if name != "--warm-up"]
        _check_experiment(choice.experiment, [*given, *stray])
    elif subject.workload is None and stray:
        raise PlanError(f"{stray[0]} needs --workload")
    if (choice.full or choice.pairs) and choice.experiment != "pairs":
        raise PlanError(f"{'--full' if choice.full else '--pair'} requires --experiment pairs")
    is_service = subject.command or subject.process is not None or subject.pid is not None
    if choice.load_report is not None and not (choice.experiment == "smt-boost" and is_service):
        raise PlanError(
            "--load-report requires --experiment smt-boost with --process, --pid or a command"
        )
    if choice.sustain_s is not None:
        if choice.experiment != "scaling":
            raise PlanError("--sustain requires --experiment scaling")
        if not SHORTEST_SUSTAIN_S <= choice.sustain_s <= LONGEST_SUSTAIN_S:
            raise PlanError(
                f"--sustain: {choice.sustain_s:g} is not between {SHORTEST_SUSTAIN_S:g} and "
                f"{LONGEST_SUSTAIN_S:g} seconds"
            )
    if sweep.cpus is not None and sweep.placements:
        raise PlanError("--cpus and --placement exclude each other: use one of them")
    if sweep.seconds is not None and not SHORTEST_S <= sweep.seconds <= LONGEST_S:
        raise PlanError(
            f"--seconds: {sweep.seconds:g} is not between {SHORTEST_S:g} and {LONGEST_S:g}"
        )
    if sweep.warm_up is not None and not 0 <= sweep.warm_up <= LONGEST_WARM_UP_S:
        raise PlanError(
            f"--warm-up: {sweep.warm_up:g} is not between 0 and {LONGEST_WARM_UP_S:g} seconds"
        )


def _check_kernel(name: str, variant: str | None) -> None:
    """Raises `UnknownWorkloadError`, `PlanError` or `WorkloadError` for one that cannot run."""
    kernel = workload_program.kernel(name)
    known = kernel.refusals
    if variant is not None and variant not in known:
        raise PlanError(f"--variant: {name} has no '{variant}', choose from {', '.join(known)}")
    why = kernel.refusal(variant)
    if why is not None:
        raise WorkloadError(f"{name} is not supported here: {why}")


def _check_kernel_options(subject: Subject) -> None:
    """Raises `PlanError` for an option that the kernel does not accept."""
    for option, value, kernels in (
        ("--depth", subject.depth, _DEEP),
        ("--how", subject.how, _WAITING),
    ):
        if value is not None and subject.workload not in kernels:
            raise PlanError(
                f"{option} works only with {' and '.join(kernels)}, not {subject.workload}"
            )


def _seconds(subject: Subject, sweep: Sweep, choice: ExperimentChoice) -> float | None:
    """The length of a recording in seconds; None: until the program ends."""
    if sweep.seconds is not None:
        return sweep.seconds
    experiment = choice.experiment
    if experiment is not None:
        by_experiment = experiment_defaults.CELL_S[experiment]
        if subject.process is not None or subject.pid is not None or choice.load_report:
            return experiment_defaults.SERVICE_S
        return experiment_defaults.COMMAND_S if subject.command else by_experiment
    if subject.command:
        return None
    if subject.workload is None:
        return RECORDING_S
    return FRAMES_S if workload_program.kernel(subject.workload).keeps_beat else WORKLOAD_S


def _warm_up(sweep: Sweep, experiment: str | None) -> float:
    if sweep.warm_up is not None:
        return sweep.warm_up
    return experiment_defaults.WARM_UP_S[experiment] if experiment is not None else 0.0


def _samples_hz(recorder: RecorderSettings, target: str) -> int | None:
    """Samples a second on each CPU; None: none."""
    if recorder.samples_hz is None:
        return SAMPLES_HZ[target] if recorder.stacks else None
    return recorder.samples_hz or None


# What each experiment accepts in addition to the time and the repeats.
_ACCEPTED = {
    "pairs": ("a command",),
    "scaling": ("--workload", "--variant", "--threads"),
    "smt-boost": ("a command", "--process", "--pid"),
    "handoff": (),
    "shards": ("--threads",),
}


def _check_on_windows(
    subject: Subject, choice: ExperimentChoice, recorder: RecorderSettings
) -> None:
    """Raises `PlanError` for what only Linux measures or needs."""
    if recorder.affinity_calls:
        raise PlanError("--affinity-calls works only on Linux: Windows records them anyway")
    if choice.load_report is not None:
        raise PlanError("--load-report works only on Linux")
    if choice.experiment is not None and (subject.process is not None or subject.pid is not None):
        option = "--process" if subject.process is not None else "--pid"
        raise PlanError(f"--experiment {choice.experiment} accepts {option} only on Linux")


def _check_experiment(name: str, given: Sequence[str]) -> None:
    """Raises `PlanError` for options that the experiment decides itself."""
    wrong = [option for option in given if option not in _ACCEPTED.get(name, ())]
    if wrong:
        raise PlanError(f"--experiment {name} does not accept {wrong[0]}")


def _hint(word: str) -> str:
    """A hint if an argument is a kernel's name."""
    try:
        known = {row.kernel for row in workload_program.catalogue()}
    except WorkloadError:
        return ""
    return f": did you mean --workload {word}?" if word in known else ""


def _find(name: str) -> int | None:
    """The process with that name (or command); None: a group of processes.

    Raises `PlanError` for no process, or for several of one name.
    """
    group = process_groups.parsed(name)
    if group is not None:
        if not process_groups.members(group):
            raise PlanError(_no_member(name, group.kind))
        return None
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            comm = (path / "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        program = Path(words[0].decode("utf-8", "replace")).name
        if name in (comm, program):
            found.append(int(path.name))
    if not found:
        raise PlanError(f"--process: no process named '{name}' is running")
    if len(found) > 1:
        some = ", ".join(map(str, sorted(found)[:8]))
        raise PlanError(f"--process: {len(found)} processes are named '{name}': use --pid ({some})")
    return found[0]


def _no_member(name: str, kind: str) -> str:
    """What is wrong with a group without a process."""
    known = process_groups.known(kind)
    near = difflib.get_close_matches(name, known, 3) or known[:8]
    if not near:
        return f"--process: no running process is in a {kind}"
    return f"--process: no running process is in '{name}'; there are {', '.join(near)}"
