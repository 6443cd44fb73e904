"""The command lines of the Windows recorders: WPR, or xperf where WPR is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from .etw_profile import (
    BUFFER_KB,
    EVENTS_BUFFER_KB,
    NAME,
    NEWER_KEYWORDS,
    PRESENTS_NAME,
    STACK_EVENTS,
    ring_buffers,
    ring_event_buffers,
)

Kind = Literal["wpr", "xperf"]

# An instance name lets this recording run alongside other WPR recordings.
INSTANCE = "schedlens"
# Saves the generation of symbol files for .NET; WPR has it since 10.0.18955.
SKIP_SYMBOLS = "-skipPdbGen"
SESSION = "schedlens"
MAIN_FILE = "trace.etl"
PROFILE_FILE = "schedlens.wprp"
# The default buffers for xperf, the same as in the profile.
FEWEST_BUFFERS, MOST_BUFFERS = 256, 1024
# Counters that a core can count at once in addition to those Windows uses.
MOST_COUNTERS = 4

# xperf's names for the profile's keywords.
KERNEL_FLAGS = (
    "CPU_CONFIG", "PROC_THREAD", "LOADER", "CSWITCH", "DISPATCHER", "PRIORITY", "IDLE_STATES",
    "POWER", "DPC", "INTERRUPT",
)  # fmt: skip
SAMPLES_FLAG = "PROFILE"
# Those of its keywords for waits, in the same order.
WAIT_FLAGS = ("HARD_FAULTS", "DISK_IO", "DISK_IO_INIT", "FILENAME")
# Samples a second, unless something else is set for the machine; the most that it can be set to.
SAMPLES_HZ, MOST_SAMPLES_HZ = 1_000, 8_190
# Flags that only some versions of xperf have, by the profile's keyword.
NEWER_FLAGS = {"IdealProcessor": "IDEAL_PROC"}
PROVIDERS = (
    "Microsoft-Windows-Kernel-Processor-Power:0xe7:5",
    "Microsoft-Windows-Kernel-Power:0xffffffffffffffff:4",
)
STATES = ("Microsoft-Windows-Kernel-Processor-Power", "Microsoft-Windows-Kernel-Power")
PRESENT_PROVIDERS = ("Microsoft-Windows-DXGI:0x2:5", "Microsoft-Windows-DxgKrnl:0x8000000:5")


@dataclass(frozen=True)
class Capture:
    """What to record and with which program; `ring_s`: keep only the last seconds, in memory.

    `without`: keywords of the profile that this recorder does not know. `unknown_flags`: flags of
    `KERNEL_FLAGS` and `WAIT_FLAGS` that this xperf does not know. `stacks`: also those of switches,
    wakeups and samples. `samples_hz`: samples a second on each CPU. `waits`: also hard faults and
    requests to disks.

    `buffer_kb` and `buffer_count` set the buffers for kernel events. If None, the size is
    `BUFFER_KB`, and the count is the profile's or what the ring needs.
    """

    kind: Kind
    program: str
    counters: tuple[str, ...] = ()
    presents: bool = False
    ring_s: float | None = None
    cpus: int = 1
    buffer_kb: int | None = None
    buffer_count: int | None = None
    without: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    stacks: bool = False
    samples_hz: int | None = None
    waits: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """What this recorder cannot record."""
        noun, names = ("keyword", None) if self.kind == "wpr" else ("flag", NEWER_FLAGS)
        lines = [
            f"{NEWER_KEYWORDS[name]}: this {self.kind} has no {noun} "
            f"{name if names is None else names[name]}"
            for name in self.without
        ]
        lines += [f"events of {flag}: this xperf has no such flag" for flag in self.unknown_flags]
        return tuple(lines)

    @property
    def flags(self) -> list[str]:
        """The kernel flags for xperf."""
        found = [flag for flag in self.common_flags if flag not in self.unknown_flags]
        found += [flag for key, flag in NEWER_FLAGS.items() if key not in self.without]
        return found + ([SAMPLES_FLAG] if self.samples_hz else [])

    @property
    def common_flags(self) -> tuple[str, ...]:
        """The kernel flags for every version of xperf, without samples."""
        return KERNEL_FLAGS + (WAIT_FLAGS if self.waits else ())

    @property
    def event_buffers(self) -> int | None:
        """Number of buffers of the event collector; None: the profile's own number."""
        return None if self.ring_s is None else ring_event_buffers(self.ring_s, self.cpus)

    @property
    def ring_bytes(self) -> int:
        """Memory that the ring takes: buffers for kernel events and for all others."""
        if self.ring_s is None or self.kernel_buffers is None or self.event_buffers is None:
            return 0
        kernel_kb = self.kernel_buffers * (self.buffer_kb or BUFFER_KB)
        return (kernel_kb + self.event_buffers * EVENTS_BUFFER_KB) << 10

    def expected_bytes(self, seconds: float | None) -> int:
        """What a recording of a busy machine takes; 0 if its length is not known."""
        if self.ring_s is not None:
            return self.ring_bytes
        mb = ring_buffers(seconds or 0.0, self.cpus, stacks=self.stacks)
        return mb * 1_000_000

    @property
    def kernel_buffers(self) -> int | None:
        """Number of buffers for kernel events; None: the profile's own number."""
        if self.buffer_count is not None:
            return self.buffer_count
        if self.ring_s is None:
            return None
        needed_kb = ring_buffers(self.ring_s, self.cpus, stacks=self.stacks) * BUFFER_KB
        return -(-needed_kb // (self.buffer_kb or BUFFER_KB))


def begin(capture: Capture, folder: PurePath, profile: PurePath) -> list[list[str]]:
    """The commands that start a recording; its files go to `folder`."""
    if capture.kind == "wpr":
        name = PRESENTS_NAME if capture.presents else NAME
        # By default, the temporary files are on the disk of Windows.
        here = ["-filemode", "-recordtempto", str(folder)]
        mode = [] if capture.ring_s is not None else here
        return [[capture.program, "-start", f"{profile}!{name}", *mode, "-instancename", INSTANCE]]
    kernel = [capture.program, "-on", "+".join(capture.flags)]
    if capture.stacks:
        events_with = (*STACK_EVENTS, *(("Profile",) if capture.samples_hz else ()))
        kernel += ["-stackwalk", "+".join(events_with)]
    if capture.samples_hz:
        # In units of 100 ns; it is not kept for later sessions.
        kernel += ["-SetProfInt", str(10_000_000 // capture.samples_hz)]
    if capture.counters:
        kernel += ["-Pmc", ",".join(capture.counters), "CSWITCH", "strict"]
    buffer_kb = capture.buffer_kb or BUFFER_KB
    kernel += ["-f", str(folder / "kernel.etl"), "-BufferSize", str(buffer_kb)]
    if capture.ring_s is not None and capture.kernel_buffers is not None:
        # xperf's ring is a file, and its size is in MB.
        ring_mb = -(-capture.kernel_buffers * buffer_kb // 1024)
        kernel += ["-FileMode", "Circular", "-MaxFile", str(ring_mb)]
    else:
        most = capture.buffer_count or MOST_BUFFERS
        kernel += ["-MinBuffers", str(min(FEWEST_BUFFERS, most)), "-MaxBuffers", str(most)]
    providers = PROVIDERS + (PRESENT_PROVIDERS if capture.presents else ())
    events = [capture.program, "-start", SESSION, "-on", "+".join(providers)]
    events += ["-f", str(folder / "events.etl")]
    if capture.event_buffers is not None:
        ring_mb = -(-capture.event_buffers * EVENTS_BUFFER_KB // 1024)
        events += ["-FileMode", "Circular", "-MaxFile", str(ring_mb)]
    return [kernel, events, _state(capture)]


def end(capture: Capture, folder: PurePath) -> list[list[str]]:
    """The commands that stop it and leave `trace.etl` in `folder`."""
    trace = str(folder / MAIN_FILE)
    if capture.kind == "wpr":
        return [[capture.program, "-stop", trace, SKIP_SYMBOLS, "-instancename", INSTANCE]]
    kernel, events = str(folder / "kernel.etl"), str(folder / "events.etl")
    return [
        _state(capture),
        [capture.program, "-stop", SESSION],
        [capture.program, "-stop"],
        [capture.program, "-merge", kernel, events, trace],
    ]


def cancel(capture: Capture) -> list[list[str]]:
    """The commands that stop it and keep nothing."""
    if capture.kind == "wpr":
        return [[capture.program, "-cancel", "-instancename", INSTANCE]]
    return [[capture.program, "-stop", SESSION], [capture.program, "-stop"]]


def without_newer_options(command: Sequence[str]) -> list[str]:
    """The command for a WPR that does not know the newest options."""
    return [word for word in command if word != SKIP_SYMBOLS]


def sources(program: str) -> list[str]:
    """The command that lists the counters of this machine."""
    return [program, "-pmcsources"]


def kernel_flags(program: str) -> list[str]:
    """The command that lists the kernel flags of an xperf."""
    return [program, "-providers", "KF"]


def _state(capture: Capture) -> list[str]:
    return [capture.program, "-capturestate", SESSION, "+".join(STATES)]


def shown(command: Sequence[str]) -> str:
    """A command as the user would type it at a Windows prompt."""
    return " ".join(f'"{word}"' if _needs_quotes(word) else word for word in command)


def _needs_quotes(word: str) -> bool:
    # A redirection must not be quoted.
    return word != ">" and (not word or any(letter in word for letter in " \t&|<>^()"))
