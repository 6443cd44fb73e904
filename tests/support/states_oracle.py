"""A second computation of thread states: from the text of `perf script`, one thread at a time.

It handles only recordings without loss and without missed switches, in which wakeups are recorded,
and shares nothing with the state machine that is checked against it.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

State = tuple[int, int, str]  # begin and end in ns, state

_LINE = re.compile(r"^\s*(?P<tid>-?\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<ns>\d{9}):\s+"
                   r"(?P<event>[\w:]+):\s*(?P<text>.*)$")  # fmt: skip
_SWITCH = re.compile(
    r"(?:prev_comm=.* prev_pid=(?P<prev>\d+) prev_prio=-?\d+ prev_state=(?P<state>\S+) ==> "
    r"next_comm=.* next_pid=(?P<next>\d+) next_prio=|"
    r".*:(?P<prev2>\d+) \[-?\d+\] (?P<state2>\S+) ==> .*:(?P<next2>\d+) \[)"
)
_WAKE = re.compile(r"(?:comm=.* pid=(?P<pid>\d+) prio=|.*:(?P<pid2>\d+) \[)")
_FORK = re.compile(r"(?:.* child_pid=(?P<child>\d+)|.*child=.*:(?P<child2>\d+))")


@dataclass
class Record:
    """One record that concerns a thread; `order` is the rank among records of equal time."""

    ns: int
    order: int
    kind: str
    state: str = ""


@dataclass
class Trace:
    """All records by thread, and the edges of the recording."""

    first: int = 0
    last: int = 0
    by_tid: dict[int, list[Record]] = field(default_factory=lambda: defaultdict(list))


def read(perf_data: Path) -> Trace:
    """The scheduler records of a recording, by way of perf's own text."""
    text = subprocess.run(
        ["perf", "script", "--ns", "-F", "tid,cpu,time,event,trace", "-i", str(perf_data)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    trace = Trace()
    times: list[int] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
        times.append(ns)
        event = match["event"].rpartition(":")[2]
        if event == "sched_switch" and (switch := _SWITCH.match(match["text"])):
            prev = int(switch["prev"] or switch["prev2"])
            following = int(switch["next"] or switch["next2"])
            state = switch["state"] or switch["state2"]
            trace.by_tid[prev].append(Record(ns, 0, "out", state))
            trace.by_tid[following].append(Record(ns, 2, "in"))
        elif event == "sched_waking" and (wake := _WAKE.match(match["text"])):
            trace.by_tid[int(wake["pid"] or wake["pid2"])].append(Record(ns, 1, "wake"))
        elif event == "sched_wakeup_new" and (wake := _WAKE.match(match["text"])):
            trace.by_tid[int(wake["pid"] or wake["pid2"])].append(Record(ns, 1, "new"))
        elif event == "sched_process_fork" and (fork := _FORK.match(match["text"])):
            child = int(fork["child"] or fork["child2"])
            trace.by_tid[child].append(Record(ns, 1, "fork"))
    trace.first, trace.last = min(times), max(times)
    return trace


def states(trace: Trace, tid: int, first: int, last: int) -> list[State]:
    """The states that tile the life of a thread, without empty ones."""
    records = sorted(trace.by_tid[tid], key=lambda r: (r.ns, r.order))
    found: list[State] = []
    moves = [r for r in records if r.kind in {"out", "in"}]
    if records[0].kind == "fork":
        at, now, wakes = records[0].ns, "new", []
        wakes = [r.ns for r in records if r.kind == "new"]
        entered = next((r.ns for r in moves if r.kind == "in"), last)
        ready = next((ns for ns in wakes if ns <= entered), entered)
        found += [(at, ready, "new"), (ready, entered, "ready")]
    elif moves and moves[0].kind == "in":
        wakes = [r.ns for r in records if r.kind == "wake" and r.ns <= moves[0].ns]
        ready = wakes[0] if wakes else first
        now = "waiting" if wakes else "unknown"
        found.append((first, ready if wakes else moves[0].ns, now))
        found.append((ready if wakes else moves[0].ns, moves[0].ns, "ready"))
    elif moves:
        moves.insert(0, Record(first, 2, "in"))
    is_missed = False
    for position, move in enumerate(moves):
        following = moves[position + 1].ns if position + 1 < len(moves) else last
        if move.kind == "in":
            found.append((move.ns, following, "running"))
            continue
        if move.state[0] in "XZ":
            break
        if move.state.startswith("R"):
            found.append((move.ns, following, "ready"))
            continue
        slice_began = moves[position - 1].ns
        after = [r.ns for r in records if r.kind == "wake" and move.ns <= r.ns <= following]
        during = [r.ns for r in records if r.kind == "wake" and slice_began <= r.ns < move.ns]
        off = "waiting"
        if after:
            ready = after[0]
        elif during:
            ready = move.ns
        else:
            ready = following
            # A wait without its wakeup may contain ready time, and so may a later one of the
            # thread that has no end: perf misses the wakeups of its own threads.
            is_missed |= position + 1 < len(moves) and move.ns < following
            off = "unknown" if is_missed else "waiting"
        found += [(move.ns, ready, off), (ready, following, "ready")]
    return joined([state for state in found if state[0] < state[1]])


def joined(found: list[State]) -> list[State]:
    """Equal neighboring states as one, so that both sides split alike."""
    whole: list[State] = []
    for begin, end, state in found:
        if whole and whole[-1][2] == state and whole[-1][1] == begin and state != "running":
            whole[-1] = (whole[-1][0], end, state)
        else:
            whole.append((begin, end, state))
    return whole
