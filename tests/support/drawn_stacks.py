"""These slices with these stacks, as a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

MS = 1_000_000

# cpu 0  A A . . . . A A . A   A waits in take (2 ms), is ready (2 ms), then waits without a stack
# cpu 1  . . . B B B . . . .   B wakes A in release, at 4 ms
SLICES = [
    Slice("game/A", 0, 0, 2 * MS),
    Slice("game/A", 0, 6 * MS, 2 * MS, ready=2 * MS, wait=2 * MS, waker="game/B"),
    Slice("game/A", 0, 9 * MS, MS, wait=MS),
    Slice("game/B", 1, 3 * MS, 3 * MS),
]
# node: caller, function, module, inlined
FUNCTIONS = {
    1: (None, "main", "/bin/game", False),
    2: (1, "Queue::take", "/bin/game", True),
    3: (2, "pthread_mutex_lock", "/lib/libc.so.6", False),
    4: (1, "Queue::release", "/bin/game", False),
    5: (3, "schedule", "[kernel]", False),
    6: (4, None, "/lib/libfoo.so", False),
}


def node(number: int) -> int:
    return 1 << 32 | number


@contextmanager
def database_with_stacks() -> Iterator[duckdb.DuckDBPyConnection]:
    """The database; the stacks of functions are those of `FUNCTIONS`."""
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0), Cpu(1, 0, 1, "E")], 10 * MS)
        depths: dict[int | None, int] = {None: -1}
        for number, (caller, symbol, module, inlined) in FUNCTIONS.items():
            depths[number] = depths[caller] + 1
            drawn.add(
                "stack", stack_id=node(number), parent_id=caller and node(caller),
                depth=depths[number], frame_id=node(number),
            )  # fmt: skip
            drawn.add(
                "frame_symbol", frame_id=node(number), module=module, address=number,
                symbol=symbol, is_inlined=inlined, is_kernel=module == "[kernel]",
                unknown_reason=None if symbol else "stripped",
            )  # fmt: skip
        a, b = drawn.utid("game/A"), drawn.utid("game/B")
        database.execute(
            "UPDATE context_switch SET stack_id = ? WHERE prev_utid = ? AND ts = ?",
            [node(5), a, 2 * MS],
        )
        database.execute(
            "UPDATE wakeup SET stack_id = ?, in_interrupt = FALSE, waker_utid = ? "
            "WHERE utid = ? AND ts = ?",
            [node(6), b, a, 4 * MS],
        )
        for place, (ts, stack) in enumerate(((MS, 4), (4 * MS, 4), (5 * MS, None))):
            drawn.add(
                "sample", ts=ts, cpu=int(ts > MS), seq=100 + place,
                utid=a if ts == MS else b, event="cpu-clock", stack_id=stack and node(stack),
            )  # fmt: skip
        yield database
