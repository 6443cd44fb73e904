"""Stacks of switches and wakeups as `perf script` prints them, and as schedlens names them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import duckdb

HEAD = re.compile(r"^\s*(\d+)/(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\S+):")
FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((\S.*)\)$")
# The events that become rows of a table.
EVENTS = {"context_switch": "sched:sched_switch", "wakeup": "sched:sched_waking"}


def recorded_stacks(con: duckdb.DuckDBPyConnection, table: str) -> dict[tuple[int, int], list[str]]:
    """Functions by (CPU, time) of each row, innermost first, without inlined ones."""
    nodes = {
        stack: (parent, frame, inlined)
        for stack, parent, frame, inlined in con.execute(
            "SELECT stack_id, parent_id, frame, is_inlined FROM stack_frame"
        ).fetchall()
    }
    found = {}
    for cpu, ts, stack in con.execute(
        f"SELECT cpu, ts, stack_id FROM {table} WHERE stack_id IS NOT NULL"
    ).fetchall():
        names = []
        node = stack
        while node is not None:
            node, frame, inlined = nodes[node]
            if not inlined:
                names.append(frame)
        found[cpu, ts] = names
    return found


def script_stacks(text: str, first: int, event: str) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """(CPU, time) of each such event with its functions, innermost first."""
    key: tuple[int, int] | None = None
    names: list[str] = []
    for line in [*text.splitlines(), ""]:
        head = HEAD.match(line)
        if head:
            is_wanted = head[6] == event
            at = int(head[4]) * 1_000_000_000 + int(head[5]) - first
            key, names = ((int(head[3]), at) if is_wanted else None), []
        elif not line.strip():
            if key and names:
                yield key, names
            key = None
        else:
            frame = FRAME.match(line)
            if frame:
                names.append(bare(frame[2]))


def bare(name: str) -> str:
    """A function without its version and offset, and without what distinguishes its aliases.

    The C library has `read` as `__libc_read` and `__GI___libc_read`, too, all at one address.
    """
    plain = name.partition("@")[0].removesuffix("(inlined)").strip()
    return plain.removeprefix("__GI_").lstrip("_").removeprefix("libc_")


def differences(
    con: duckdb.DuckDBPyConnection, text: str, table: str = "context_switch"
) -> tuple[int, int, Counter[tuple[str, str]]]:
    """What `perf script` names otherwise: how many stacks and functions it has, and the pairs of
    its name and ours. Fails if a stack of ours is shorter."""
    ((first,),) = con.execute("SELECT start_clock FROM trace").fetchall()
    expected = dict(script_stacks(text, first, EVENTS[table]))
    found = recorded_stacks(con, table)
    different: Counter[tuple[str, str]] = Counter()
    functions = 0
    for key, names in expected.items():
        ours = [bare(name) for name in found.get(key, [])]
        functions += len(names)
        for name, own in zip(names, ours, strict=False):
            if "[unknown]" not in name and name != own:
                different[name, own] += 1
        # Ours may go on where perf ends.
        assert len(ours) >= len(names) - 1, (names, ours)
    return len(expected), functions, different
