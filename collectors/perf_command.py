"""The perf command lines: what is recorded, on which CPUs, into which file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SWITCH = "sched:sched_switch"
WAKING = "sched:sched_waking"

# Scheduling cannot be analyzed without these two events; the others add detail.
ESSENTIAL = (SWITCH, WAKING)
# Where stacks say why a thread waits, and who woke it.
STACKS_AT = (SWITCH, WAKING)
EVENTS = (
    SWITCH,
    WAKING,
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "sched:sched_process_exec",
    "power:cpu_idle",
    "power:cpu_frequency",
    "irq:softirq_entry",
    "irq:softirq_exit",
    # A CPU goes offline or comes back.
    "cpuhp:cpuhp_enter",
    "cpuhp:cpuhp_exit",
)

# Recorded as well if CPUs are isolated, on kernels that have them (x86): the tick, and what other
# CPUs ask of this one.
ON_ISOLATED = tuple(
    f"irq_vectors:{name}_{edge}"
    for name in ("local_timer", "reschedule", "call_function", "call_function_single", "irq_work")
    for edge in ("entry", "exit")
)

# Recorded as well on request (`--waits`): what uninterruptible waits are for. Page faults are many.
WAITS = (
    "block:block_rq_issue",
    "block:block_rq_complete",
    "exceptions:page_fault_user",
    "exceptions:page_fault_kernel",
)

# Recorded as well on request (`--affinity-calls`): who sets affinities. Once any system call is
# traced, all of them take longer.
AFFINITY_CALLS = (
    "syscalls:sys_enter_sched_setaffinity",
    "syscalls:sys_exit_sched_setaffinity",
)

MEBI = 1 << 20
LARGEST_BUFFER = 16 * MEBI
# An ordinary user may lock this much by default (perf_event_mlock_kb is 512 KiB plus a page).
SMALLEST_BUFFER = MEBI // 2
# What perf copies of the user stack for unwinding, as by default.
STACK_BYTES = 8192


@dataclass(frozen=True)
class CounterGroup:
    """Events read at each switch; `cpus` limits them to one core type of a hybrid part.

    `modifier` is perf's: S reads the group with its leader, D keeps it from sharing counters with
    other groups, and GH is for PMUs that cannot exclude guests.
    """

    events: tuple[str, ...]
    modifier: str = "SD"
    pmu: str | None = None
    cpus: str | None = None

    def text(self, switch: str = SWITCH) -> str:
        """The group as a value of perf's `-e`, led by the switch event."""
        return f"{{{','.join((switch, *self.events))}}}:{self.modifier}"


@dataclass(frozen=True)
class Sampling:
    """Callchains on switches and wakeups (`fp`, `dwarf`, `lbr` or None), and samples.

    `event` is sampled `samples_hz` times a second on each CPU that runs a thread.
    """

    stacks: str | None
    event: str | None = None
    samples_hz: int | None = None
    build_ids: bool = False

    @property
    def call_graph(self) -> str | None:
        """The setting of an event that records callchains."""
        if self.stacks is None:
            return None
        size = f",stack-size={STACK_BYTES}" if self.stacks == "dwarf" else ""
        return f"call-graph={self.stacks}{size}"

    def with_stacks(self, event: str) -> str:
        """A tracepoint as a value of perf's `-e`."""
        return f"{event}/{self.call_graph}/" if self.call_graph else event

    @property
    def sampled(self) -> str | None:
        """The sampled event as a value of perf's `-e`; None without samples."""
        if self.event is None:
            return None
        settings = [f"freq={self.samples_hz}", *([self.call_graph] if self.call_graph else [])]
        return f"{self.event}/{','.join(settings)}/"


@dataclass(frozen=True)
class Capture:
    """What to record: a mode of `perf_fallback.MODES` and its details; sizes in bytes."""

    perf: str
    mode: str
    events: tuple[str, ...] = ()
    switch_events: bool = True
    buffer_bytes: int = LARGEST_BUFFER
    groups: tuple[CounterGroup, ...] = ()
    version: str | None = None
    missing: tuple[str, ...] = ()
    allow: str | None = None
    sampling: Sampling | None = None
    # Keep only the newest events, and write them at each SIGUSR2: the seconds that must fit.
    ring_s: float | None = None

    @property
    def requested_events(self) -> list[str]:
        """Event names that the file must contain unchanged; perf renames those it restricts."""
        counters = [event for group in self.groups if not group.cpus for event in group.events]
        return [*self.events, *counters]


def buffer_bytes(memory_bytes: int, cpus: int, largest: int = LARGEST_BUFFER) -> int:
    """Buffer size for each CPU, a power of two: `largest`, or its share of 1/16 of the memory."""
    share = memory_bytes // 16 // max(cpus, 1)
    size = largest
    while size > max(share, SMALLEST_BUFFER):
        size //= 2
    return size


def size_text(size: int) -> str:
    """A size in the form that perf's `-m` takes."""
    return f"{size // MEBI}M" if size >= MEBI else f"{size // 1024}K"


def record(
    capture: Capture,
    output: Path,
    *,
    control: tuple[Path, Path] | None = None,
    pids: Sequence[int] = (),
    until: Sequence[str] = ("cat",),
) -> list[str]:
    """The command for the main file; it ends with the program `until`.

    `control` is a pair of fifos for commands and acknowledgements. `pids` are the processes
    to follow in the mode `switch_events_own`; without any, perf follows `until`.
    """
    command = _head(capture, output, control)
    if capture.mode != "switch_events_own":
        command += ["-a"]
    elif pids:
        command += ["-p", ",".join(map(str, pids))]
    if capture.switch_events:
        command += ["--switch-events"]
    plain = list(capture.events)
    group = next((group for group in capture.groups if group.cpus is None), None)
    sampling = capture.sampling
    if capture.mode == "full":
        with_stacks = sampling.with_stacks if sampling else str
        if group is not None:
            plain.remove(SWITCH)
            command += ["-e", group.text(with_stacks(SWITCH))]
        named = [with_stacks(event) if event in STACKS_AT else event for event in plain]
        command += ["-e", ",".join(named)]
        if sampling is not None and sampling.sampled:
            command += ["-e", sampling.sampled]
    else:
        command += ["--sample-cpu", "--sample-identifier", "-e", "dummy:u"]
    return [*command, "--", *until]


def record_group(
    capture: Capture,
    group: CounterGroup,
    output: Path,
    *,
    control: tuple[Path, Path] | None = None,
    until: Sequence[str] = ("cat",),
) -> list[str]:
    """The command for the counters of one core type, which go to a separate file."""
    on = ["-C", group.cpus] if group.cpus else ["-a"]
    return [*_head(capture, output, control), *on, "-e", group.text(), "--", *until]


def _head(capture: Capture, output: Path, control: tuple[Path, Path] | None) -> list[str]:
    command = [capture.perf, "record", "--no-bpf-event", "-B", "-N"]
    if capture.sampling is not None and capture.sampling.build_ids:
        command += ["--buildid-mmap"]
    command += ["-m", size_text(capture.buffer_bytes), "-k", "CLOCK_MONOTONIC"]
    if capture.ring_s is not None:
        command += ["--overwrite", "--switch-output=signal"]
    if control is not None:
        command += ["-D", "-1", "--control", f"fifo:{control[0]},{control[1]}"]
    return [*command, "-o", str(output)]
