"""Counters that are read at every switch, proven by a recording before they are used."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlens.errors import RecorderError
from schedlens.machine import cpu_list

from . import perf_ladder
from .perf_command import Capture, CounterGroup, record_group

BASE = ("cycles", "instructions")

# Pinned first: a group that has to share its counters would take the switches with it. The second
# is for PMUs that cannot leave guests out, with which a clock is refused otherwise.
MODIFIERS = ("SD", "SGHD")

NO_PMU = "cycles and instructions per switch: this machine shows no hardware counters"
NOT_HERE = "counters per switch: they need the rights for tracepoints"


def add(capture: Capture, asked: Sequence[str], pmus: Mapping[str, Sequence[int]]) -> Capture:
    """The capture with counters: cycles and instructions where there are any, and those asked for.

    On hybrid parts (`pmus` names their core types and CPUs) each type has a group of its own.
    Raises `RecorderError` where those asked for cannot all count at once.
    """
    if capture.rung != "full":
        if asked:
            raise RecorderError(f"--counters: {capture.allow or 'not permitted here'} is needed")
        return capture
    if len(pmus) > 1:
        return add_by_type(capture, asked, pmus)
    base = _group(capture, BASE)
    if not asked:
        if base is None:
            return replace(capture, missing=(*capture.missing, NO_PMU))
        return replace(capture, groups=(base,))
    wanted = (*(BASE if base else ()), *(event for event in asked if event not in BASE))
    group = _group(capture, wanted)
    if group is None:
        raise RecorderError(_refusal(capture, wanted))
    missing = capture.missing if base else (*capture.missing, NO_PMU)
    return replace(capture, groups=(group,), missing=missing)


def _group(capture: Capture, events: Sequence[str]) -> CounterGroup | None:
    """The group that records all of them, if there is one."""
    for modifier in MODIFIERS:
        group = CounterGroup(tuple(events), modifier)
        with_it = replace(capture, groups=(group,))
        if not perf_ladder.attempt(with_it).ok:
            continue
        if not not_counted(capture, events, modifier):
            return group
    return None


def add_by_type(
    capture: Capture, asked: Sequence[str], pmus: Mapping[str, Sequence[int]]
) -> Capture:
    """The capture with a group of counters for each core type, in a file of its own.

    Raises `RecorderError` where those asked for cannot count.
    """
    groups, missing = [], list(capture.missing)
    for pmu, cpus in pmus.items():
        events = tuple(_of_pmu(event, pmu) for event in dict.fromkeys((*BASE, *asked)))
        group = _of_type(capture, events, pmu, cpu_list.text(cpus))
        if group is not None:
            groups.append(group)
        elif asked:
            raise RecorderError(_refusal(capture, events))
        else:
            missing.append(f"counters per switch on {pmu}")
    return replace(capture, groups=tuple(groups), missing=tuple(missing))


def _of_type(capture: Capture, events: tuple[str, ...], pmu: str, cpus: str) -> CounterGroup | None:
    """The group that records all of them on the CPUs of one core type, if there is one."""
    for modifier in MODIFIERS:
        group = CounterGroup(events, modifier, pmu, cpus)
        line = record_group(capture, group, perf_ladder.PLACE, until=perf_ladder.PROBE)
        if perf_ladder.attempt(capture, line).ok and not not_counted(
            capture, events, modifier, cpus
        ):
            return group
    return None


def _of_pmu(event: str, pmu: str) -> str:
    """An event of one core type: `cycles` as `cpu_core/cycles/`."""
    return event if "/" in event else f"{pmu}/{event}/"


def not_counted(
    capture: Capture, events: Sequence[str], modifier: str, cpus: str | None = None
) -> list[str]:
    """Events that perf's own count shows as not counted, or counted only part of the time.

    On all CPUs, or on those of the list `cpus`.
    """
    flags = modifier.replace("S", "")
    group = f"{{{','.join(events)}}}" + (f":{flags}" if flags else "")
    where = ["-C", cpus] if cpus else ["-a"]
    command = [capture.perf, "stat", *where, "-x", ",", "-e", group]
    done = perf_ladder.run([*command, "--", *perf_ladder.PROBE])
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
    """Which events cannot count at all, or that they cannot together."""
    alone = [event for event in events if _group(capture, (event,)) is None]
    if alone:
        got = perf_ladder.attempt(replace(capture, groups=(CounterGroup((alone[0],), "SGH"),)))
        why = f" ({got.said})" if got.said else ""
        return f"--counters: {', '.join(alone)} cannot be counted on this machine{why}"
    return (
        f"--counters: {', '.join(events)} cannot all count at once on this CPU: give fewer, or "
        "free a counter with `sudo sysctl kernel.nmi_watchdog=0`"
    )
