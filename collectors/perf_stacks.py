"""Adds stacks and samples to a capture, and keeps what naming their functions needs."""

from __future__ import annotations

import gzip
import itertools
from dataclasses import replace
from pathlib import Path

from schedlens.errors import RecorderError

from . import perf_fallback
from .perf_command import MEBI, Capture, Sampling, buffer_bytes

KALLSYMS = Path("/proc/kallsyms")
# The copy in a session folder.
KALLSYMS_COPY = "kallsyms.gz"

HIDDEN = (
    "names of kernel functions: this system hides their addresses. Run "
    "`sudo sysctl kernel.kptr_restrict=0` first"
)
NO_BUILD_IDS = (
    "build ids: perf or the kernel is older than 5.12, so files that change before `analyze` are "
    "not noticed"
)
# A larger record needs a larger buffer, while the disk is as slow as before.
_LARGEST_BUFFER = {"fp": 64 * MEBI, "lbr": 64 * MEBI, "dwarf": 256 * MEBI}
# Cycles interrupt code that disabled interrupts, too, but need hardware counters: where there are
# none, perf would name a clock `cycles`.
_CYCLES, _CLOCK = "cycles", "cpu-clock"


def add(
    capture: Capture,
    stacks: str | None,
    samples_hz: int | None,
    *,
    memory_bytes: int,
    cpus: int,
    requested_buffer: bool,
) -> Capture:
    """The capture with callchains on switches and wakeups, and samples of what runs.

    Raises `RecorderError` if the kernel or the processor cannot record them.
    """
    if stacks is None and samples_hz is None:
        return capture
    option = "--stacks" if stacks else "--samples"
    if capture.mode != "full":
        how = f"run `{capture.allow}` first" if capture.allow else "not permitted here"
        raise RecorderError(f"{option}: {how}")
    if stacks and not requested_buffer:
        largest = _LARGEST_BUFFER[stacks]
        size = buffer_bytes(memory_bytes, cpus, largest)
        capture = replace(capture, buffer_bytes=max(size, capture.buffer_bytes))
    with_stacks = replace(capture, sampling=Sampling(stacks, build_ids=stacks is not None))
    got = perf_fallback.attempt(with_stacks)
    if not got.ok and stacks:
        with_stacks = replace(capture, sampling=Sampling(stacks))
        got = perf_fallback.attempt(with_stacks)
        if got.ok:
            with_stacks = replace(with_stacks, missing=(*with_stacks.missing, NO_BUILD_IDS))
    if not got.ok:
        why = f" ({got.said})" if got.said else ""
        if stacks == "lbr":
            raise RecorderError(
                f"--stacks lbr: this processor or kernel has no last branch records{why}. Use "
                "--stacks fp or --stacks dwarf"
            )
        raise RecorderError(f"{option}: perf cannot record them here{why}")
    if stacks and not kernel_addresses():
        with_stacks = replace(with_stacks, missing=(*with_stacks.missing, HIDDEN))
    if not samples_hz:
        return with_stacks
    sampling = with_stacks.sampling
    assert sampling is not None
    for event in (_CYCLES, _CLOCK) if capture.groups else (_CLOCK,):
        sampled = replace(
            with_stacks, sampling=replace(sampling, event=event, samples_hz=samples_hz)
        )
        got = perf_fallback.attempt(sampled)
        if got.ok:
            return sampled
    why = f" ({got.said})" if got.said else ""
    raise RecorderError(f"--samples: perf cannot sample {samples_hz} times a second here{why}")


def kernel_addresses() -> bool:
    """Whether this user sees the addresses of kernel functions."""
    try:
        with KALLSYMS.open(encoding="ascii", errors="replace") as file:
            return any(int(line.split(" ", 1)[0], 16) for line in itertools.islice(file, 8))
    except (OSError, ValueError):
        return False


def keep_kernel_symbols(folder: Path) -> None:
    """Copies the names of kernel functions into a session folder, if they are visible."""
    if not kernel_addresses() or (folder / KALLSYMS_COPY).exists():
        return
    aside = folder / f".{KALLSYMS_COPY}"
    with KALLSYMS.open("rb") as file, gzip.open(aside, "wb", compresslevel=1) as copy:
        # `address kind name [module]`: only functions can be in a stack.
        copy.writelines(line for line in file if line.split(b" ", 2)[1] in b"tTwW")
    aside.replace(folder / KALLSYMS_COPY)
