"""Windows recordings that begin before, or end after, the scheduler was recorded.

Sessions that are merged into one file start and stop one after another, and the lists of processes
and of code at the end are written for seconds after the kernel's session has ended.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from conftest import command
from etl_bytes import RELOG, SEQUENTIAL, START_TIME, Buffer, Log, process, switch
from etl_drawn import Read, at, life, slices, written

SECOND = 1_000_000_000
START_US, END_US = 2_000_010, 2_400_110
# The same in ns.
START, END = START_US * 1_000, END_US * 1_000


def late_and_early() -> Log:
    """Switches from 2.0 s to 2.4 s of a recording of 5 s: thread 8 is the last to enter CPU 0."""
    lists = [process(at(5_000_000), 100, b"drawn.exe", opcode=4)]
    # The kernel's session ended at 2.5 s.
    return Log(
        [
            Buffer(life() + slices(8, 2_000_000, 4000), cpu=0, sequence=1),
            Buffer([switch(at(END_US), 0, 8, state=2, reason=0), *lists], cpu=0, sequence=3),
            Buffer(slices(9, 2_000_005, 4000), cpu=1, sequence=2),
        ],
        mode=SEQUENTIAL | RELOG, cpus=2, buffer_size=1 << 19, end_time=START_TIME + 25_000_000,
    )  # fmt: skip


def test_cpus_are_unknown_where_the_scheduler_was_not_recorded(tmp_path: Path) -> None:
    tables = Read(written(tmp_path, late_and_early())).tables
    known = [row for row in tables["cpu_state_other"] if row["state"] != "unknown"]
    known += tables["sched_slice"]
    for cpu in (0, 1):
        own = [row for row in known if row["cpu"] == cpu]
        assert min(row["ts"] for row in own) == START
        assert max(row["ts"] + row["dur"] for row in own) == END
    # The thread that entered last did not run on for 2.6 s, and nobody was idle for 2 s before.
    ran = [row for row in tables["sched_slice"] if not row["is_idle"]]
    assert max(row["ts"] + row["dur"] for row in ran) <= END
    signs = sorted((row["cpu"], row["signalled_by"]) for row in tables["loss"])
    assert signs == [(cpu, f"stream_{edge}") for cpu in (0, 1) for edge in ("end", "start")]


def test_edges_are_named_with_the_options_that_leave_them_out(tmp_path: Path) -> None:
    file, out = written(tmp_path, late_and_early()), tmp_path / "out"
    analyze = ["analyze", str(file), "-o", str(out), "--no-report", "--only", "trace_quality"]
    found = json.loads(command(*analyze, "--json").stdout)["findings"]
    (edges,) = [row for row in found if row["kind"] == "early_end"]
    assert edges["severity"] == "info"
    assert edges["cost_ns"] == pytest.approx(2 * (5 * SECOND - (END - START)), abs=2_000_000)
    options = ["--from", "2.001", "--to", "2.400"]
    assert f"`{' '.join(options)}`" in edges["advice"]
    assert "loss" not in {row["kind"] for row in found}
    command(*analyze, *options)
    with duckdb.connect(str(out / "analysis.duckdb"), read_only=True) as con:
        unknown = con.execute("SELECT unknown_cpu_ns, edge_ns FROM trace_quality()").fetchall()
    assert unknown == [(0, 0)]
