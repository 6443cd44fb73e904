"""Counters read at every switch; a test recording proves that they work."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlens.errors import RecorderError
from schedlens.machine import cpu_list

from . import perf_fallback
from .perf_command import Capture, CounterGroup, record_group

BASE = ("cycles", "instructions")

# Pinned first: a group that shares its counters would also lose switches. The second modifier is
# for PMUs that cannot exclude guests; the kernel refuses a clock for them otherwise.
MODIFIERS = ("SD", "SGHD")

NO_PMU = "cycles and instructions per switch: this machine has no hardware counters"
NOT_HERE = "counters per switch: they need permission to use tracepoints"


def add(capture: Capture, requested: Sequence[str], pmus: Mapping[str, Sequence[int]]) -> Capture:
    """The capture with counters: the requested ones, and cycles and instructions if available.

    On hybrid parts, each core type has its own group; `pmus` maps core types to CPUs. Raises
    `RecorderError` if the requested counters cannot all count at once.
    """
    if capture.mode != "full":
        if requested:
            how = f"run `{capture.allow}` first" if capture.allow else "not permitted here"
            raise RecorderError(f"--counters: {how}")
        return capture
    if len(pmus) > 1:
        return add_by_type(capture, requested, pmus)
    base = _group(capture, BASE)
    if not requested:
        if base is None:
            return replace(capture, missing=(*capture.missing, NO_PMU))
        return replace(capture, groups=(base,))
    wanted = (*(BASE if base else ()), *(event for event in requested if event not in BASE))
    group = _group(capture, wanted)
    if group is None:
        raise RecorderError(_refusal(capture, wanted))
    missing = capture.missing if base else (*capture.missing, NO_PMU)
    return replace(capture, groups=(group,), missing=missing)


def _group(capture: Capture, events: Sequence[str]) -> CounterGroup | None:
    """The group that records all of these events; None if no group can."""
    for modifier in MODIFIERS:
        group = CounterGroup(tuple(events), modifier)
        # Counting takes a tenth of the time of a recording, and most virtual machines cannot count.
        if not_counted(capture, events, modifier):
            continue
        if perf_fallback.attempt(replace(capture, groups=(group,))).ok:
            return group
    return None


def add_by_type(
    capture: Capture, requested: Sequence[str], pmus: Mapping[str, Sequence[int]]
) -> Capture:
    """The capture with a group of counters for each core type, each in a separate file.

    Raises `RecorderError` if the requested counters cannot count.
    """
    groups, missing = [], list(capture.missing)
    for pmu, cpus in pmus.items():
        events = tuple(_of_pmu(event, pmu) for event in dict.fromkeys((*BASE, *requested)))
        group = _of_type(capture, events, pmu, cpu_list.text(cpus))
        if group is not None:
            groups.append(group)
        elif requested:
            raise RecorderError(_refusal(capture, events))
        else:
            missing.append(f"counters per switch on {pmu}")
    return replace(capture, groups=tuple(groups), missing=tuple(missing))


def _of_type(capture: Capture, events: tuple[str, ...], pmu: str, cpus: str) -> CounterGroup | None:
    """The group that records all of these on the CPUs of one core type; None if no group can."""
    for modifier in MODIFIERS:
        group = CounterGroup(events, modifier, pmu, cpus)
        line = record_group(capture, group, perf_fallback.PLACE, until=perf_fallback.PROBE)
        if not_counted(capture, events, modifier, cpus):
            continue
        if perf_fallback.attempt(capture, line).ok:
            return group
    return None


def _of_pmu(event: str, pmu: str) -> str:
    """An event of one core type: `cycles` becomes `cpu_core/cycles/`."""
    return event if "/" in event else f"{pmu}/{event}/"


def not_counted(
    capture: Capture, events: Sequence[str], modifier: str, cpus: str | None = None
) -> list[str]:
    """Events that `perf stat` could not count, or counted only part of the time.

    On all CPUs, or on those in the list `cpus`.
    """
    flags = modifier.replace("S", "")
    group = f"{{{','.join(events)}}}" + (f":{flags}" if flags else "")
    where = ["-C", cpus] if cpus else ["-a"]
    command = [capture.perf, "stat", *where, "-x", ",", "-e", group]
    done = perf_fallback.run([*command, "--", *perf_fallback.PROBE])
    if done.returncode != 0:
        return list(events)
    bad, seen = [], 0
    for row in csv.reader(done.stderr.splitlines()):
        if len(row) < 5 or row[0].startswith("#"):
            continue
        seen += 1
        # value, unit, event, time counted, share of the time counted
        if not row[0].replace(".", "").isdigit() or float(row[4] or 0) < 99.0:
            bad.append(row[2])
    return bad if seen == len(events) else list(events)


def _refusal(capture: Capture, events: Sequence[str]) -> str:
    """Why counting fails: events that cannot count at all, or that cannot count together."""
    alone = [event for event in events if _group(capture, (event,)) is None]
    if alone:
        got = perf_fallback.attempt(replace(capture, groups=(CounterGroup((alone[0],), "SGH"),)))
        why = f" ({got.said})" if got.said else ""
        return f"--counters: this machine cannot count {', '.join(alone)}{why}"
    return (
        f"--counters: this CPU cannot count {', '.join(events)} at once. Request fewer, or "
        "free a counter with `sudo sysctl kernel.nmi_watchdog=0`"
    )
