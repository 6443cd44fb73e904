"""What `schedlens doctor` checks, row by row."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.errors import SchedlensError, TopologyError, WorkloadError
from schedlens.machine import settings, topology
from schedlens.output.leftover import TemporaryFolder
from schedlens.record import changes, workload_program

if TYPE_CHECKING:
    from collectors import perf
else:
    from schedlens.collectors import perf

# Long enough for idle CPUs to switch a few times.
CHAIN_S = 0.3


@dataclass(frozen=True)
class Row:
    """One check; `advice` is a command or a consequence, None if there is nothing to do."""

    what: str
    ok: bool
    found: str
    advice: str | None = None


def examine() -> list[Row]:
    """All rows; makes and discards recordings of well under a second."""
    left = left_behind()
    rows = [*left, *_cpus(), *_settings()]
    before = changes.tracefs_mount()
    made = changes.Changes()
    # What a killed run left behind is reported, not repaired: only the mount is needed.
    mount = perf.program() is not None and not left
    try:
        if mount:
            made.mount_tracefs()
        rows += [_tracefs(before), *_recording()]
    except SchedlensError as error:
        rows.append(Row("recording", False, str(error)))
    finally:
        stuck = made.undo() if mount else []
        if made.is_shared:
            # A run in progress still needs the changes and will undo them.
            stuck = []
    rows += [Row("change", False, row.what, "`schedlens doctor --restore`") for row in stuck]
    rows.append(workloads())
    return rows


def left_behind() -> list[Row]:
    """What killed runs changed and did not restore."""
    return [
        Row("left behind", False, f"{row.what} by a killed run", "`schedlens doctor --restore`")
        for row in changes.left_behind()
    ]


def _cpus() -> list[Row]:
    try:
        return [cpus(topology.read())]
    except TopologyError as error:
        return [Row("CPUs", False, str(error))]


def cpus(machine: topology.Topology) -> Row:
    """How many logical CPUs there are, and of which types, if the system reports them."""
    online = [cpu for cpu in machine.cpus if cpu.online]
    cores = {cpu.core for cpu in online}
    types: dict[str, int] = {}
    for cpu in online:
        name = cpu.core_type or "unknown type"
        types[name] = types.get(name, 0) + 1
    parts = [f"{len(online)} online", f"{len(machine.usable)} allowed"]
    parts.append("cores unknown" if None in cores else f"{len(cores)} cores")
    parts.append("siblings" if machine.has_smt else "no siblings")
    parts += [f"{count} of type {name}" for name, count in sorted(types.items())]
    known = None not in cores
    advice = None if known else "cores are hidden: only --placement default and --cpus work"
    return Row("CPUs", known, ", ".join(parts), advice)


def _settings() -> list[Row]:
    found = settings.read()
    shown = ("scheduler", "hz", "preempt", "governor", "boost", "smt_control", "hypervisor")
    text = ", ".join(f"{key} {found[key] or 'unknown'}" for key in shown)
    clock = found["clocksource"]
    trusted = clock in ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
    return [
        Row("settings", True, text),
        Row(
            "clock",
            trusted,
            clock or "unknown",
            None if trusted else "timestamps cost more: batches are timed with clock_gettime",
        ),
    ]


def _tracefs(before: Path | None) -> Row:
    if before is not None:
        return Row("tracepoints", True, f"their file system is mounted at {before}")
    if os.geteuid() == 0:
        return Row(
            "tracepoints", True, "their file system is not mounted: collect mounts it temporarily"
        )
    return Row("tracepoints", False, "their file system is not mounted; only root can mount it")


def _recording() -> list[Row]:
    machine = topology.read()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    capture = perf.best_capture(cpus=len(machine.cpus), memory_bytes=memory)
    if capture.version is None:
        return [Row("perf", False, "not installed", capture.allow)]
    rows = [Row("perf", True, f"version {capture.version} at {capture.perf}")]
    best = capture.mode == "full"
    size = perf.size_text(capture.buffer_bytes)
    kind = f"mode '{capture.mode}', buffers of {size} per CPU"
    rows.append(Row("recording", best, kind, capture.allow))
    rows += [Row("not recorded", best, text) for text in capture.missing]
    if not best:
        return rows
    with_counters = perf.add_counters(capture, (), machine.pmus)
    events = [event for group in with_counters.groups for event in group.events]
    rows.append(
        Row("counters", True, ", ".join(events))
        if events
        else Row("counters", True, "none per switch: this machine has no hardware counters")
    )
    with TemporaryFolder() as folder:
        recorder = perf.Recorder(capture, folder)
        try:
            recorder.enable()
            begin = time.monotonic_ns()
            time.sleep(CHAIN_S)
            end = time.monotonic_ns()
            recorder.disable()
            recorder.stop()
        finally:
            recorder.abort()
        for check in perf.check(folder / perf.MAIN_FILE, capture, begin, end):
            rows.append(Row(check.check, check.ok, check.detail, check.advice))
    return rows


def workloads() -> Row:
    """How many kernels the workload program offers."""
    try:
        rows = workload_program.catalogue()
    except WorkloadError as error:
        return Row("workloads", False, str(error))
    return Row("workloads", True, f"{len(rows)} kernels in {workload_program.program()}")
