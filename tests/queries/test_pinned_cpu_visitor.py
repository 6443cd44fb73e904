"""Pinned threads: which other threads ran on their CPU and whom they delayed."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

# ns      0    100  200  300  400  500  600  700  800  900  1000
# cpu 0   A A A A  V V V V  A A A A  K  A A A           A pinned to 0; V at 200, K at 600
# A       run ...  ready 250-400 ... run 400-600, ready 600-650, run 650-800
# cpu 1   V        W W W                                 isolated: W 300-500
SLICES = [
    Slice("game/A", 0, 0, 200),
    Slice("other/V", 1, 0, 100, end="preempted"),
    Slice("other/V", 0, 200, 200, ready=100, wait=0),
    Slice("game/A", 0, 400, 200, ready=150, wait=50, end="preempted"),
    Slice("other/W", 1, 300, 200),
    Slice("kernel/ksoftirqd/0", 0, 600, 50),
    Slice("game/A", 0, 650, 150, ready=50, wait=0),
]


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0), Cpu(1, 1)], 1000)
        drawn.add("affinity", utid=drawn.utid("kernel/ksoftirqd/0"), cpus=[0], source="snapshot")
        yield drawn


def _rows(
    con: duckdb.DuckDBPyConnection, call: str = "pinned_cpu_visitor"
) -> list[tuple[object, ...]]:
    return con.execute(
        "SELECT cpu, is_isolated, owners, thread, is_bound, slices, run_ns, run_pct, longest_ns, "
        f"owner_ready_ns FROM {call}"
    ).fetchall()


def test_no_pinned_cpu_has_no_visitors(trace: DrawnTrace) -> None:
    assert _rows(trace.con) == []


def test_lists_other_threads_on_a_pinned_cpu(trace: DrawnTrace) -> None:
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="snapshot")
    assert _rows(trace.con) == [
        (0, False, ["A"], "V", False, 1, 200, 20.0, 200, 150),
        (0, False, ["A"], "ksoftirqd/0", True, 1, 50, 5.0, 50, 50),
    ]


def test_pinned_thread_with_another_number_in_its_name_is_an_owner(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE thread SET name = 'stage/2' WHERE name = 'A'")
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="snapshot")
    assert [(row[2], row[3]) for row in _rows(trace.con)] == [
        (["stage/2"], "V"),
        (["stage/2"], "ksoftirqd/0"),
    ]


def test_thread_of_an_interrupt_is_no_owner_of_the_cpu_of_its_interrupt(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE thread SET name = 'irq/24-nvme0q1' WHERE name = 'V'")
    trace.add("affinity", utid=trace.utid("other/V"), cpus=[0], source="snapshot")
    assert _rows(trace.con) == []
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="snapshot")
    assert [(row[2], row[3], row[4]) for row in _rows(trace.con)] == [
        (["A"], "irq/24-nvme0q1", False),
        (["A"], "ksoftirqd/0", True),
    ]


def test_window_clips_slices_and_delays(trace: DrawnTrace) -> None:
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="pin")
    rows = _rows(trace.con, "pinned_cpu_visitor(p_from_ns := 300, p_to_ns := 500)")
    assert rows == [(0, False, ["A"], "V", False, 1, 100, 50.0, 100, 100)]


def test_workers_are_pinned_and_no_visitors(trace: DrawnTrace) -> None:
    for number, name in enumerate(("game/A", "other/V")):
        trace.add("run_worker", worker=number, utid=trace.utid(name), tid=trace.tid(name), cpu=0,
                  start_ns=0, end_ns=1000, cpu_time_ns=1, iterations=1, bytes=0)  # fmt: skip
    assert _rows(trace.con) == [(0, False, ["A", "V"], "ksoftirqd/0", True, 1, 50, 5.0, 50, 50)]


@pytest.mark.parametrize("value", ["1", "1-1", " 1 , 7-8", "1-999999999999", "1,x-y,,-"])
def test_isolated_cpus_come_from_the_kernel_setting(trace: DrawnTrace, value: str) -> None:
    trace.add("machine_setting", key="isolated_cpus", value=value)
    assert _rows(trace.con) == [
        (1, True, None, "W", False, 1, 200, 20.0, 200, 0),
        (1, True, None, "V", False, 1, 100, 10.0, 100, 0),
    ]


def test_process_filter_keeps_only_cpus_of_that_process(trace: DrawnTrace) -> None:
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="pin")
    trace.add("machine_setting", key="isolated_cpus", value="1")
    assert _rows(trace.con, "pinned_cpu_visitor(p_process := 'other')") == []
    assert len(_rows(trace.con, "pinned_cpu_visitor(p_process := 'game')")) == 2


def test_machine_with_one_cpu_has_no_pinned_threads(trace: DrawnTrace) -> None:
    trace.con.execute("DELETE FROM cpu WHERE cpu = 1")
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="snapshot")
    assert _rows(trace.con) == []
