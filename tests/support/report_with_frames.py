"""The database of a report with frames, one of them late, and a temporarily parked CPU.

frames   |16|16|16|16|16|   40   |16|16| ...   from 10 ms to 290 ms, 16 of them
CPU 3                      ____parked____      from 100 ms to 200 ms
CPU 5                                  parked  from 180 ms on
"""

from __future__ import annotations

import duckdb
import report_database

from schedlens.ask import findings, judging

MS = report_database.MS
LENGTHS = [16, 16, 16, 16, 16, 40, *[16] * 10]


def create() -> duckdb.DuckDBPyConnection:
    """One step of four workers on 6 P cores with siblings and 4 E cores, judged with its frames."""
    machine = report_database.Machine(cores=10, e_cores=4)
    con = report_database.create(machine=machine, threads=(4,), placements=("physical",))
    start = 10
    for number, length in enumerate(LENGTHS):
        con.execute(
            "INSERT INTO frame (trace_id, frame, process, start_ns, dur_ns, dialect) "
            "VALUES (1, ?, 'game', ?, ?, 'dxgi')",
            [number, start * MS, length * MS],
        )
        start += length
    assert start == 290
    for cpu, since, parked in (
        (3, None, False), (3, 100, True), (3, 200, False), (5, None, False), (5, 180, True),
    ):  # fmt: skip
        con.execute(
            "INSERT INTO cpu_parking VALUES (1, ?, ?, ?, false, NULL)",
            [None if since is None else since * MS, cpu, parked],
        )
    con.execute("DELETE FROM finding")
    judging.store(con, judging.judge_all(findings.Scope(con)))
    return con
