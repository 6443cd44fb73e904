"""A checked request to `collect`; session.json keeps it so that the session can be resumed."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlens.errors import PlanError, SessionError, WorkloadError
from schedlens.machine import cpu_list, operating_system
from schedlens.machine.topology import Topology
from schedlens.record import buffer_size as buffer_size_
from schedlens.record import experiment_defaults, gate, plan, thread_range, workload_program
from schedlens.record.buffer_size import BufferSize
from schedlens.record.placement import PLACEMENTS
from schedlens.record.plan import Step

WORKLOAD_S = 1.0
# For a kernel with 60 frames a second: enough frames to see which are late.
FRAMES_S = 3.0
# Its threads: with fewer, there is no worker in addition to the render and the game thread.
FRAMES_THREADS = 4
RECORDING_S = 10.0
SHORTEST_S, LONGEST_S = 0.001, 86_400.0
# Kernels that accept --depth, and those that accept --how.
_DEEP = ("queue",)
_WAITING = ("spin_handoff", "frame")


@dataclass(frozen=True)
class Request:
    """One kind of job: a workload, a command, a process, or the machine as it is."""

    workload: str | None
    variant: str | None
    threads: str | None
    placements: tuple[str, ...]
    cpus: str | None
    seconds: float | None
    repeats: int
    pid: int | None
    process: str | None
    light: bool
    counters: tuple[str, ...]
    command: tuple[str, ...]
    depth: int | None = None
    how: str | None = None
    experiment: str | None = None
    full: bool = False
    pairs: tuple[str, ...] = ()
    seed: int = 0
    buffer_size: str | None = None

    @classmethod
    def checked(
        cls,
        *,
        workload: str | None,
        variant: str | None,
        threads: str | None,
        placements: Sequence[str],
        cpus: str | None,
        seconds: float | None,
        repeats: int | None,
        pid: int | None,
        process: str | None,
        light: bool,
        counters: tuple[str, ...],
        command: tuple[str, ...],
        depth: int | None = None,
        how: str | None = None,
        experiment: str | None = None,
        full: bool = False,
        pairs: tuple[str, ...] = (),
        buffer_size: str | None = None,
        target: str = "linux",
    ) -> Request:
        """The request with defaults filled in. Raises `PlanError` for contradictions.

        `target`: the system to record on. Programs and processes are looked up only on this system.
        """
        kinds = {
            "--workload": workload,
            "--pid": pid,
            "--process": process,
            "a command": command or None,
        }
        given = [name for name, value in kinds.items() if value is not None]
        if len(given) > 1:
            raise PlanError(f"{' and '.join(given)} exclude each other: use one of them")
        only = {
            "--variant": variant,
            "--threads": threads,
            "--cpus": cpus,
            "--depth": depth,
            "--how": how,
        }
        stray = [name for name, value in only.items() if value is not None]
        stray += ["--placement"] if placements else []
        if experiment is not None:
            _check_experiment(experiment, [*given, *stray])
        elif workload is None and stray:
            raise PlanError(f"{stray[0]} needs --workload")
        if (full or pairs) and experiment != "pairs":
            raise PlanError(f"{'--full' if full else '--pair'} requires --experiment pairs")
        if cpus is not None and placements:
            raise PlanError("--cpus and --placement exclude each other: use one of them")
        if seconds is not None and not SHORTEST_S <= seconds <= LONGEST_S:
            raise PlanError(
                f"--seconds: {seconds:g} is not between {SHORTEST_S:g} and {LONGEST_S:g}"
            )
        if seconds is None and experiment is not None:
            seconds = (
                experiment_defaults.COMMAND_S if command else experiment_defaults.CELL_S[experiment]
            )
        if seconds is None and not command:
            seconds = _workload_s(workload) if workload else RECORDING_S
        if repeats is None:
            repeats = experiment_defaults.REPEATS if experiment else 1
        here = target == operating_system.name()
        if command and here and shutil.which(command[0]) is None:
            raise PlanError(f"no program named '{command[0]}' on the path{_hint(command[0])}")
        if buffer_size is not None:
            buffer_size_.parse(buffer_size, target)
        if target == "windows":
            # The Windows platform looks them up when recording begins.
            pass
        elif process is not None:
            pid = _find(process)
        elif pid is not None and not gate.running(pid):
            raise PlanError(f"--pid: no process {pid} is running")
        if workload is not None:
            _check_kernel(workload, variant)
        for option, value, kernels in (("--depth", depth, _DEEP), ("--how", how, _WAITING)):
            if value is not None and workload not in kernels:
                raise PlanError(f"{option} works only with {' and '.join(kernels)}, not {workload}")
        return cls(
            workload,
            variant,
            threads,
            tuple(name for name in PLACEMENTS if name in placements) or PLACEMENTS,
            cpus,
            seconds,
            repeats,
            pid,
            process,
            light,
            counters,
            command,
            depth,
            how,
            experiment,
            full,
            pairs,
            random.SystemRandom().randrange(1 << 32) if experiment else 0,
            buffer_size,
        )

    def steps(self, topology: Topology) -> list[Step]:
        """The plan on this machine. Raises `PlanError`."""
        if self.workload is None:
            return plan.single(self.name, self.repeats)
        usable = len(topology.usable)
        kernel = workload_program.kernel(self.workload)
        pinned = cpu_list.parse_in_order(self.cpus) if self.cpus is not None else None
        counts = thread_range.parse(self.threads or self._default_threads(kernel, pinned), usable)
        parties = int(kernel.get("parties") or 1)
        odd = [count for count in counts if count % parties]
        if odd and self.threads is not None and len(odd) == len(counts):
            raise PlanError(
                f"--threads: {self.workload} runs {parties} workers together, "
                f"so it cannot run {odd[0]}: use a multiple of {parties}"
            )
        counts = [count for count in counts if count % parties == 0]
        return plan.sweep(topology, self.workload, counts, self.placements, self.repeats, pinned)

    def _default_threads(self, kernel: dict[str, Any], pinned: Sequence[int] | None) -> str:
        if pinned:
            return str(len(pinned))
        one_game = kernel.get("keeps_beat") and int(kernel.get("parties") or 1) == 1
        return str(FRAMES_THREADS) if one_game else "1..max"

    @property
    def kernel_options(self) -> tuple[str, ...]:
        """The arguments of the workload program in addition to the plan."""
        given = {"--depth": self.depth, "--how": self.how}
        return tuple(
            word for option, value in given.items() if value is not None
            for word in (option, str(value))
        )  # fmt: skip

    def buffers(self, target: str) -> BufferSize | None:
        """The requested buffers; None: the recorder's own choice."""
        return None if self.buffer_size is None else buffer_size_.parse(self.buffer_size, target)

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

    def as_json(self) -> dict[str, Any]:
        """The object `request` of session.json."""
        return asdict(self)


def from_json(value: object) -> Request:
    """The request of a session. Raises `SessionError`."""
    lists = ("placements", "counters", "command", "pairs")
    try:
        given: dict[str, Any] = dict(value)  # type: ignore[call-overload]
        given |= {key: tuple(given[key]) for key in lists if key in given}
        return Request(**given)
    except (TypeError, ValueError, KeyError) as error:
        raise SessionError(f"session.json contains no valid request: {error}") from None


def _check_kernel(name: str, variant: str | None) -> None:
    """Raises `UnknownWorkloadError`, `PlanError` or `WorkloadError` for one that cannot run."""
    row = workload_program.kernel(name)
    variants = workload_program.variants(row)
    if variant is not None and variant not in variants:
        raise PlanError(f"--variant: {name} has no '{variant}', choose from {', '.join(variants)}")
    why = variants.get(variant or str(row.get("default_variant")))
    if why is not None:
        raise WorkloadError(f"{name} is not supported here: {why}")


def _workload_s(name: str) -> float:
    """The default duration of a kernel."""
    return FRAMES_S if workload_program.kernel(name).get("keeps_beat") else WORKLOAD_S


# What each experiment accepts in addition to the time and the repeats.
_ACCEPTED = {
    "pairs": ("a command",),
    "scaling": ("--workload", "--variant", "--threads"),
    "smt-boost": ("a command",),
    "handoff": (),
    "shards": ("--threads",),
}


def _check_experiment(name: str, given: Sequence[str]) -> None:
    """Raises `PlanError` for options that the experiment decides itself."""
    wrong = [option for option in given if option not in _ACCEPTED.get(name, ())]
    if wrong:
        raise PlanError(f"--experiment {name} does not accept {wrong[0]}")


def _hint(word: str) -> str:
    """A hint if an argument is a kernel's name."""
    try:
        known = {row.get("kernel") for row in workload_program.catalogue()}
    except WorkloadError:
        return ""
    return f": did you mean --workload {word}?" if word in known else ""


def _find(name: str) -> int:
    """The process with that name (or command). Raises `PlanError` for none, or for several."""
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
