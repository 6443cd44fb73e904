"""Scheduling computed from the text of `perf script`: the oracle, exact and slow.

It shares nothing with the decoders: text in, integers in ns out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# comm pid/tid [cpu] seconds.nanoseconds: event: fields
_LINE = re.compile(
    r"\[(?P<cpu>\d+)\]\s+(?P<seconds>\d+)\.(?P<fraction>\d{9}):\s+sched:sched_switch:\s"
    r".* prev_pid=(?P<prev>-?\d+) .*prev_state=(?P<state>\S+) ==> .* next_pid=(?P<next>-?\d+) "
)


@dataclass(frozen=True)
class Switch:
    """One sched_switch; `ns` of the recording's clock, idle threads are tid 0."""

    ns: int
    cpu: int
    prev: int
    state: str
    next: int


@dataclass(frozen=True)
class Slice:
    """A thread on a CPU from `begin` to `end`, in ns."""

    cpu: int
    tid: int
    begin: int
    end: int


def switches(trace: Path) -> list[Switch]:
    """The switches of a perf.data, in perf's order (by time)."""
    text = subprocess.run(
        ["perf", "script", "--ns", "-i", str(trace), "-F", "comm,pid,tid,cpu,time,event,trace"],
        check=True,
        capture_output=True,
        timeout=300,
    ).stdout.decode("utf-8", "replace")
    found = []
    for line in text.splitlines():
        match = _LINE.search(line)
        if match:
            ns = int(match["seconds"]) * 1_000_000_000 + int(match["fraction"])
            pair = int(match["prev"]), int(match["next"])
            found.append(Switch(ns, int(match["cpu"]), pair[0], match["state"], pair[1]))
    return found


def slices(found: Iterable[Switch], begin: int, end: int) -> list[Slice]:
    """What ran where in [begin, end], including idle threads.

    Before the first switch of a CPU its outgoing thread ran, after the last its incoming one.
    Raises `ValueError` if the outgoing thread is not the one that was switched in.
    """
    by_cpu: dict[int, list[Switch]] = {}
    for switch in found:
        by_cpu.setdefault(switch.cpu, []).append(switch)
    result = []
    for cpu, rows in sorted(by_cpu.items()):
        edges = [(begin, rows[0].prev)] + [(row.ns, row.next) for row in rows]
        for (since, tid), row in zip(edges, rows, strict=False):
            if row.prev != tid:
                raise ValueError(
                    f"CPU {cpu} at {row.ns}: {tid} was switched in, {row.prev} is switched out"
                )
            result.append(Slice(cpu, tid, since, row.ns))
        result.append(Slice(cpu, rows[-1].next, rows[-1].ns, end))
    clipped = (Slice(s.cpu, s.tid, max(s.begin, begin), min(s.end, end)) for s in result)
    return [slice_ for slice_ in clipped if slice_.end > slice_.begin]


def run_ns(found: Iterable[Slice], tid: int, begin: int, end: int) -> int:
    """Time on a CPU of one thread within [begin, end]."""
    return sum(
        max(0, min(slice_.end, end) - max(slice_.begin, begin))
        for slice_ in found
        if slice_.tid == tid
    )


def busy_ns(found: Iterable[Slice], cpu: int) -> int:
    """Time in which a CPU runs a thread that is not its idle thread."""
    return sum(
        slice_.end - slice_.begin for slice_ in found if slice_.cpu == cpu and slice_.tid != 0
    )


def both_busy_ns(found: Iterable[Slice], pair: Sequence[int]) -> int:
    """Time in which both CPUs of a pair run a thread that is not their idle thread."""
    edges: list[tuple[int, int]] = []
    for slice_ in found:
        if slice_.cpu in pair and slice_.tid != 0:
            edges += [(slice_.begin, 1), (slice_.end, -1)]
    total = depth = before = 0
    for ns, step in sorted(edges):
        if depth == 2:
            total += ns - before
        depth += step
        before = ns
    return total
