"""A report with frames and everything that a timeline can mark: gaps, offline, wakeups, counters.

On CPU 4, an interrupt wakes A, A wakes B, and B wakes C, all in the third frame of `game`:

    A     ----####
    B         ...####
    C              ..####
    frame |  from 42 ms to 58 ms

An interrupt wakes `early` before a frame of `viewer` begins, and in it `early` wakes `late`:

    early ########
    late        .##
    frame   |  from 20 ms to 36 ms
"""

from __future__ import annotations

import duckdb
import report_with_frames

MS = report_with_frames.MS
BASE = (1 << 32) + 9000
# Thread, begin and length of its slice, ready time before it, and its waker; None: an interrupt.
CHAIN = (
    ("chained A", 50 * MS, MS, 0, None),
    ("chained B", 51 * MS, MS, MS // 2, 0),
    ("chained C", 52 * MS, MS, MS // 2, 1),
    ("early", 15 * MS, 16 * MS, 0, None),
    ("late", 31 * MS, MS, MS // 2, 3),
)


def create() -> duckdb.DuckDBPyConnection:
    """The database."""
    con = report_with_frames.create()
    con.execute("DELETE FROM cpu_state_other WHERE cpu = 7")
    con.execute(f"INSERT INTO cpu_state_other VALUES (1, 7, 0, {300 * MS}, 'offline')")
    con.execute(
        "INSERT INTO loss BY NAME SELECT 1 AS trace_id, 4 AS cpu, "
        f"{70 * MS} AS start_ns, {90 * MS} AS end_ns, 5 AS events, 'drawn' AS signalled_by"
    )
    con.execute(
        "INSERT INTO frame (trace_id, frame, process, start_ns, dur_ns, dialect) "
        f"VALUES (1, 1, 'viewer', {20 * MS}, {16 * MS}, 'dxgi')"
    )
    idle = con.execute("SELECT utid FROM thread WHERE is_idle AND name = 'swapper/4'").fetchall()
    for number, (name, begin, length, ready, waker) in enumerate(CHAIN):
        utid = BASE + number
        woken_by = idle[0][0] if waker is None else BASE + waker
        con.execute(
            "INSERT INTO thread (trace_id, utid, tid, upid, name, is_idle) "
            f"VALUES (1, {utid}, {900 + number}, {(1 << 32) + 1}, '{name}', false)"
        )
        con.execute(
            "INSERT INTO sched_slice BY NAME SELECT 1 AS trace_id, "
            f"{utid} AS utid, 4 AS cpu, {begin} AS ts, {length} AS dur, false AS is_idle, "
            f"120 AS priority, 'blocked' AS end_reason, {ready} AS ready_ns, "
            f"{woken_by} AS waker_utid, false AS left_censored, false AS right_censored"
        )
        con.execute(
            "INSERT INTO wakeup BY NAME SELECT 1 AS trace_id, "
            f"{begin - ready} AS ts, 4 AS cpu, {number} AS seq, {utid} AS utid, "
            f"{woken_by} AS waker_utid, 4 AS target_cpu, true AS effective, "
            f"{waker is None} AS in_interrupt, 'waking' AS kind"
        )
    con.execute(
        f"INSERT INTO counter_delta VALUES (1, 4, {BASE + 2}, {52 * MS}, {MS}, "
        "'cycles', 'P', 3000000)"
    )
    con.execute(
        "INSERT INTO cpu_frequency BY NAME SELECT 1 AS trace_id, unnest([1, 4]) AS cpu, 0 AS ts, "
        "3200000 AS khz"
    )
    return con
