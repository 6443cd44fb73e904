"""The moment that a finding leads to, on drawn recordings."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.report import moment
from schedlens.report.page import chosen_view

MS = 1_000_000


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


# CPU 0  B 20 ms, A 1 ms, ..., B 5 ms, A 1 ms, with A ready for 6 ms and 2 ms before.
@pytest.mark.parametrize(
    ("priorities", "policy", "source"),
    [((120, 120), "idle", "perf"), ((89, 120), None, "perf"), ((10, 8), None, "etw")],
)
def test_thread_that_ran_while_a_more_urgent_one_was_ready(
    priorities: tuple[int, int], policy: str | None, source: str, con: duckdb.DuckDBPyConnection
) -> None:
    urgent, other = priorities
    trace = DrawnTrace(
        con,
        [Slice("p/B", 0, 0, 20 * MS, end="preempted", priority=other),
         Slice("p/A", 0, 20 * MS, MS, ready=6 * MS, wait=14 * MS, priority=urgent),
         Slice("p/B", 0, 21 * MS, 5 * MS, ready=MS, wait=0, end="preempted", priority=other),
         Slice("p/A", 0, 26 * MS, MS, ready=2 * MS, wait=3 * MS, priority=urgent),
         # It waited for longer than A, which is not what the finding is about.
         Slice("p/B", 0, 60 * MS, MS, ready=33 * MS, wait=0, priority=other)],
        [Cpu(0, 0), Cpu(1, 1)],
        100 * MS,
    )  # fmt: skip
    con.execute("UPDATE trace SET source = ?", [source])
    if policy is not None:
        trace.add("thread_policy", ts=0, utid=trace.utid("p/B"), tid=1, policy=policy)
    finding = {
        "finding_id": 1, "analyzer": "priority_order", "kind": "higher_ready", "trace_id": 1,
        "utid": trace.utid("p/B"), "cpu": 0, "start_ns": 0, "end_ns": 100 * MS,
    }  # fmt: skip
    found = moment.picture(chosen_view(con, None, None), finding)
    assert found is not None
    # From 14 to 20 ms, and half as much around it.
    assert (found["from_ns"], found["to_ns"]) == (11 * MS, 23 * MS)
    assert [lane["name"] for lane in found["lanes"]] == ["A", "B", "CPU 0"]
    waiting, running = ([span[:3] for span in lane["spans"]] for lane in found["lanes"][:2])
    assert waiting == [
        [0, 3 * MS, "wait"], [3 * MS, 6 * MS, "ready"], [9 * MS, MS, "run"],
        [10 * MS, 2 * MS, "wait"],
    ]  # fmt: skip
    assert running[0] == [0, 9 * MS, "run"]
    assert f"&thread={finding['utid']}&at={14 * MS}&" in found["href"]
