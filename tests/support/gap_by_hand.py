"""A schedule drawn by hand, with and without a gap on CPU 0, and what the records show.

    cell      0 1 2 3 4 5 6 7 8 9
    CPU 0     1 1 1 1 1 1 . . . .      the gap: cells 3 and 4
    CPU 1     2 2 2 2 . . 3 3 3 3      thread 3 is ready in cell 5
    CPU 2, 3  . . . . . . . . . .      another core

With the gap, thread 1 is unknown in it. Thread 2 leaves in cell 4 and has no later record, so it is
unknown from there. Thread 3 waits and is unknown from the gap to its wakeup in cell 5.
"""

from __future__ import annotations

import duckdb
from grid_schedule import CELL, Schedule, database, fill

from schedlens.load import intervals

STATES = {
    False: {1: "rrrrrrwwww", 2: "rrrrwwwwww", 3: "wwwww+rrrr"},
    True: {1: "rrr??rwwww", 2: "rrrr??????", 3: "www??+rrrr"},
}
NAMES = {"w": "waiting", "?": "unknown"}


def build(*, gap: bool) -> duckdb.DuckDBPyConnection:
    """A database with the recording as number 1 and its intervals."""
    lost = {3, 4} if gap else set()
    plan = Schedule(
        cpus={
            0: ["?" if cell in lost else 1 if cell < 6 else "." for cell in range(10)],
            1: [2, 2, 2, 2, ".", ".", 3, 3, 3, 3],
            2: ["."] * 10,
            3: ["."] * 10,
        },
        cores={0: 0, 1: 0, 2: 2, 3: 2},
        ready={3: [cell == 5 for cell in range(10)]},
        allowed={thread: [(0, frozenset(range(4)))] for thread in (1, 2, 3)},
    )
    con = database()
    fill(con, plan)
    for thread, cells in STATES[gap].items():
        for at, length, state in plan.runs(cells):
            if state in NAMES:
                con.execute(
                    "INSERT INTO thread_state_other "
                    "VALUES (1, ?, ?, ?, ?, NULL, NULL, false, false)",
                    [thread, at * CELL, length * CELL, NAMES[state]],
                )
    # The switches and wakeups of these slices, so that they count as recorded.
    con.execute(
        "INSERT INTO context_switch BY NAME SELECT trace_id, ts + dur AS ts, cpu, "
        "row_number() OVER (ORDER BY ts, cpu) AS seq, utid AS prev_utid, 1 AS prev_state, "
        "120 AS prev_priority, 'switch' AS source FROM sched_slice WHERE NOT is_idle"
    )
    con.execute(
        "INSERT INTO wakeup BY NAME SELECT trace_id, ts, 1 AS cpu, 0 AS seq, utid, "
        "'waking' AS kind, true AS effective FROM thread_state WHERE state = 'ready'"
    )
    if gap:
        con.execute("INSERT INTO loss VALUES (1, 0, ?, ?, 7, 'lost_record')", [3 * CELL, 5 * CELL])
    intervals.build(con, [1])
    return con
