"""A snapshot of the system at one edge of a step: cumulative times of CPUs, threads, cgroups.

Threads start and end while it is taken; one that disappears midway is omitted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedlens.machine import cgroups, cpu_list, cpu_shares

Row = dict[str, Any]

# The columns of a CPU's line in /proc/stat; user and nice already include guest time.
_STAT = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# The scheduling policies by number (include/uapi/linux/sched.h), with the names of chrt.
POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
# The files of /proc/pressure.
_PRESSURES = ("cpu", "io", "memory", "irq")


def take(edge: str, proc: Path = Path("/proc")) -> Row:
    """The object of begin.json or end.json; `edge` is `begin` or `end`.

    The CPU counters are read next to the step: last at its start, first at its end. `mono_ns`
    (CLOCK_MONOTONIC) is the time of that reading.
    """
    if edge == "begin":
        threads = list(_threads(proc))
        groups = _groups(proc, threads)
        mono_ns, cpus = _cpus(proc)
    else:
        mono_ns, cpus = _cpus(proc)
        threads = list(_threads(proc))
        groups = _groups(proc, threads)
    # /proc/stat has a line for each online CPU.
    online = [row["cpu"] for row in cpus]
    return {
        "mono_ns": mono_ns,
        "online": online,
        "cpus": cpus,
        "threads": threads,
        "cgroups": groups,
        "shares": _shares(proc, groups),
        "autogroups": _autogroups(proc, threads),
        "pressure": pressure_rows(proc),
    }


def _cpus(proc: Path) -> tuple[int, list[Row]]:
    text = (proc / "stat").read_bytes()
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC), cpu_rows(text, os.sysconf("SC_CLK_TCK"))


def cpu_rows(text: bytes, ticks_per_second: int) -> list[Row]:
    """The rows of `snapshot_cpu` from the text of /proc/stat, in ns, with tick resolution.

    `user_ns` includes nice and guest time, `idle_ns` includes iowait; None if an old kernel lacks
    the column.
    """
    tick_ns = 1_000_000_000 // ticks_per_second
    rows = []
    for line in text.splitlines():
        head, *fields = line.split()
        if not head.startswith(b"cpu") or not head[3:].isdigit():
            continue
        ns = {name: int(value) * tick_ns for name, value in zip(_STAT, fields, strict=False)}
        rows.append(
            {
                "cpu": int(head[3:]),
                "user_ns": ns["user"] + ns["nice"],
                "system_ns": ns["system"],
                "idle_ns": ns["idle"] + ns.get("iowait", 0),
                "irq_ns": ns.get("irq"),
                "softirq_ns": ns.get("softirq"),
                "steal_ns": ns.get("steal"),
            }
        )
    return rows


def _threads(proc: Path) -> Iterator[Row]:
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    base = os.fspath(proc)
    masks: dict[bytes, list[int]] = {}
    for pid in _numbers(base):
        for tid in _numbers(f"{base}/{pid}/task"):
            folder = f"{base}/{pid}/task/{tid}"
            try:
                stat, status = _read(f"{folder}/stat"), _read(f"{folder}/status")
                group = cgroups.of_thread(_read(f"{folder}/cgroup").decode("utf-8", "replace"))
            except OSError:
                continue
            try:
                schedstat: bytes | None = _read(f"{folder}/schedstat")
            except OSError:
                schedstat = None
            mono_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            row = thread_row(stat, status, schedstat, tick_ns, masks)
            yield {"pid": int(pid), "tid": int(tid), "mono_ns": mono_ns, **row, "cgroup": group}


def thread_row(
    stat: bytes,
    status: bytes,
    schedstat: bytes | None,
    tick_ns: int,
    masks: dict[bytes, list[int]],
) -> Row:
    """A row of `snapshot_thread` from the files of one thread; `masks` caches parsed lists.

    `user_ns` + `system_ns` is the CPU time from schedstat, exact to the ns. It is divided as the
    kernel divides it: in proportion to the ticks in each. Without schedstat, both are in ticks.
    """
    # The name is in parentheses and may itself contain parentheses and blanks.
    begin, end = stat.index(b"(") + 1, stat.rindex(b")")
    fields = stat[end + 2 :].split()
    user_ns, system_ns = int(fields[11]) * tick_ns, int(fields[12]) * tick_ns
    if schedstat:
        ran_ns = int(schedstat.split()[0])
        ticks_ns = user_ns + system_ns
        system_ns = ran_ns * system_ns // ticks_ns if ticks_ns else 0
        user_ns = ran_ns - system_ns
    found: dict[bytes, bytes] = {}
    for line in status.splitlines()[-12:]:
        key, _, value = line.partition(b":")
        found[key] = value.strip()
    mask = found.get(b"Cpus_allowed_list")
    if mask is not None and mask not in masks:
        masks[mask] = cpu_list.parse(mask.decode("ascii"))
    return {
        "name": stat[begin:end].decode("utf-8", "replace"),
        "state": chr(fields[0][0]),
        "cpu": int(fields[36]),
        "policy": POLICIES.get(int(fields[38])),
        "user_ns": user_ns,
        "system_ns": system_ns,
        "voluntary": _count(found.get(b"voluntary_ctxt_switches")),
        "involuntary": _count(found.get(b"nonvoluntary_ctxt_switches")),
        "cpus_allowed": None if mask is None else masks[mask],
    }


def policy_of(stat: str) -> str | None:
    """The scheduling policy in the text of /proc/PID/stat; None for one that is not known."""
    return POLICIES.get(int(stat.rpartition(")")[2].split()[38]))


def _groups(proc: Path, threads: list[Row]) -> list[Row]:
    """All cgroups, with or without threads: one missing at the start was created in the step."""
    try:
        hierarchies = cgroups.mounts((proc / "self/mountinfo").read_text("utf-8", "replace"))
    except OSError:
        return []
    used = cgroups.with_ancestors({row["cgroup"] for row in threads if row["cgroup"]})
    used = sorted({*used, *cgroups.every(hierarchies)})
    return [cgroups.read(cgroup, hierarchies) for cgroup in used]


def _shares(proc: Path, groups: list[Row]) -> dict[str, int]:
    """The shares of the cgroups whose shares can be read."""
    try:
        hierarchies = cgroups.mounts((proc / "self/mountinfo").read_text("utf-8", "replace"))
    except OSError:
        return {}
    found = {row["cgroup"]: cpu_shares.of_cgroup(row["cgroup"], hierarchies) for row in groups}
    return {cgroup: shares for cgroup, shares in found.items() if shares is not None}


def pressure_rows(proc: Path) -> list[Row]:
    """Rows of `snapshot_pressure` by resource: time since boot, in ns; none if the kernel lacks it.

    `full_ns` is None if the kernel does not report it.
    """
    rows = []
    for resource in _PRESSURES:
        stalled: dict[bytes, int] = {}
        try:
            for line in (proc / "pressure" / resource).read_bytes().splitlines():
                stalled[line.partition(b" ")[0]] = int(line.rpartition(b" total=")[2]) * 1000
        except (OSError, ValueError):
            continue
        rows.append(
            {"resource": resource, "some_ns": stalled.get(b"some"), "full_ns": stalled.get(b"full")}
        )
    return rows


def _autogroups(proc: Path, threads: list[Row]) -> dict[str, str]:
    """The autogroups of processes, by process id."""
    pids = dict.fromkeys(row["pid"] for row in threads)
    found = {str(pid): cpu_shares.autogroup_of(pid, os.fspath(proc)) for pid in pids}
    return {pid: text for pid, text in found.items() if text is not None}


def _numbers(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _read(path: str) -> bytes:
    # One open and one read: Path.read_bytes takes three times as long, for thousands of files.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 65536)
    finally:
        os.close(handle)


def _count(text: bytes | None) -> int | None:
    return int(text) if text else None
