"""Steps of a workload: throughput, curve, yield, headroom, clock."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import add, drawn_database
from throughput_steps import LENGTH, MS, Step, core_state, fill


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def test_step_sums_its_workers(con: duckdb.DuckDBPyConnection) -> None:
    fill(con, [Step(["physical"], [0, 2], [1000, 3000])])
    row = con.execute(
        "SELECT unit, per_s, per_thread_per_s, batch_per_s, slowest_per_s, fastest_per_s, cpu_pct "
        "FROM run_throughput"
    ).fetchall()
    # 4000 and 12000 bytes in 0.1 s; by batches 1000 and 3000 bytes per millisecond.
    assert row == [("bytes", 160_000.0, 80_000.0, 4_000_000.0, 40_000.0, 120_000.0, 50.0)]


def test_kernels_without_data_count_iterations(con: duckdb.DuckDBPyConnection) -> None:
    fill(con, [Step(["default"], None, [500], workload="imul1")])
    con.execute("UPDATE run_worker SET bytes = 0")
    rows = con.execute("SELECT unit, per_s, batch_per_s FROM worker_throughput").fetchall()
    assert rows == [("iterations", 20_000.0, 500_000.0)]


def test_plan_shared_by_two_placements_is_in_both_curves(
    con: duckdb.DuckDBPyConnection,
) -> None:
    fill(con, [
        Step(["physical", "siblings"], [0], [1000]),
        Step(["physical"], [0, 2], [1000, 900]),
        Step(["siblings"], [0, 1], [600, 500]),
        Step(["siblings"], [0, 1, 2], [600, 500, 1000], status="failed"),
    ])  # fmt: skip
    rows = con.execute(
        "SELECT placement, threads, per_s, per_thread_per_s, speedup, efficiency_pct, "
        "added_thread_pct FROM scaling_curve"
    ).fetchall()
    assert rows == [
        ("physical", 1, 40_000.0, 40_000.0, 1.0, 100.0, None),
        ("physical", 2, 76_000.0, 38_000.0, 1.9, 95.0, 90.0),
        ("siblings", 1, 40_000.0, 40_000.0, 1.0, 100.0, None),
        ("siblings", 2, 44_000.0, 22_000.0, 1.1, 55.0, 10.0),
    ]
    alone = con.execute(
        "SELECT placement, threads, per_s, speedup FROM scaling_curve(p_trace_id := 2)"
    ).fetchall()
    assert alone == [("physical", 2, 76_000.0, None)]


# Of 5 repeats, the median is outside all of them with 2 / 2^5; of 9, ranks 2 to 8 suffice:
# 1 - 2 (1 + 9) / 2^9.
@pytest.mark.parametrize(
    ("work", "median", "low", "high", "coverage"),
    [
        ([1000, 1010, 1020, 1040, 5000], 1020, 1000, 5000, 93.75),
        ([1, 1000, 1000, 1010, 1020, 1030, 1040, 1050, 5000], 1020, 1000, 1050, 96.09375),
    ],
)
def test_bounds_of_the_median_state_their_coverage(
    con: duckdb.DuckDBPyConnection,
    work: list[int], median: int, low: int, high: int, coverage: float,
) -> None:  # fmt: skip
    fill(con, [Step(["default"], None, [w], repeat=n) for n, w in enumerate(work, start=1)])
    (row,) = con.execute(
        "SELECT repeats, per_s, low_per_s, high_per_s, spread_pct, coverage_pct FROM scaling_curve"
    ).fetchall()
    assert row[:4] == (len(work), 40.0 * median, 40.0 * low, 40.0 * high)
    assert row[4:] == pytest.approx((100 * (high - low) / median, coverage))


def test_one_repeat_has_no_spread_and_curve_from_two_no_speedup(
    con: duckdb.DuckDBPyConnection,
) -> None:
    fill(con, [Step(["default"], None, [1000, 1000])])
    rows = con.execute(
        "SELECT spread_pct, speedup, efficiency_pct, added_thread_pct FROM scaling_curve"
    ).fetchall()
    assert rows == [(None, None, None, None)]


def test_yield_compares_cores_at_equal_numbers_of_cores_in_use(
    con: duckdb.DuckDBPyConnection,
) -> None:
    # One core in use: 1000 alone, 1100 both: 1.1. Two in use: 800 alone, 960 both: 1.2.
    fill(con, [
        Step(["physical", "siblings"], [0], [1000]),
        Step(["siblings"], [0, 1], [600, 500]),
        Step(["physical"], [0, 2], [800, 800]),
        Step(["siblings"], [0, 1, 2, 3], [480, 480, 480, 480]),
        Step(["pinned"], [0, 0], [10, 10]),
        Step(["default"], None, [9999]),
    ])  # fmt: skip
    rows = con.execute(
        "SELECT workload, core_type, yield, yield_low, yield_high, pairs, reason FROM smt_yield"
    ).fetchall()
    assert [(*row[:2], *(round(v, 9) for v in row[2:5]), *row[5:]) for row in rows] == [
        ("sha256", "U", 1.15, 1.1, 1.2, 2, None)
    ]
    alone = con.execute(
        "SELECT yield, alone_per_s, reason FROM smt_yield(p_trace_id := 4)"
    ).fetchall()
    assert alone == [(None, None, "no step put a pinned worker alone on a core")]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Step(["physical"], [0], [1])], "no step put pinned workers on both siblings of a core"),
        ([Step(["siblings"], [0, 1], [1, 1])], "no step put a pinned worker alone on a core"),
    ],
)
def test_yield_is_null_with_its_reason(
    con: duckdb.DuckDBPyConnection, steps: list[Step], reason: str
) -> None:
    fill(con, steps)
    assert con.execute("SELECT yield, reason FROM smt_yield").fetchall() == [(None, reason)]


def test_without_siblings_there_is_no_yield(con: duckdb.DuckDBPyConnection) -> None:
    fill(con, [Step(["physical"], [0], [1000])])
    con.execute("UPDATE cpu SET core = cpu, smt_index = 0")
    assert con.execute("SELECT yield, reason FROM smt_yield").fetchall() == [
        (None, "the cores of this type have one logical CPU each")
    ]


def test_table_1_of_the_articles_is_reproduced(con: duckdb.DuckDBPyConnection) -> None:
    """One loop of n chains on one sibling of each core: the system shows 50 %, really n / 3."""
    for chains, port in ((1, 100 / 3), (2, 200 / 3), (3, 100.0)):
        for table in ("trace", "analysis_window", "run", "run_worker", "run_sample", "cpu",
                      "core_state", "snapshot_cpu"):  # fmt: skip
            con.execute(f"DELETE FROM {table}")
        fill(con, [Step(["physical"], [0, 2], [1000, 1000], workload=f"imul{chains}")])
        core_state(con, 0, (100, 1))
        core_state(con, 2, (100, 1))
        for cpu in range(4):
            for edge, factor in (("begin", 0), ("end", 1)):
                add(con, "snapshot_cpu", trace_id=1, ts=factor * LENGTH, edge=edge, cpu=cpu,
                    user_ns=factor * LENGTH * (cpu % 2 == 0), system_ns=0, irq_ns=0, softirq_ns=0,
                    idle_ns=factor * LENGTH * (cpu % 2), steal_ns=0)  # fmt: skip
        row = con.execute(
            "SELECT reported_busy_pct, cores_busy_pct, shared_of_busy_pct, work_low_pct, "
            "work_high_pct, yield_basis, port_pct, port_basis FROM reported_vs_real"
        ).fetchall()[0]
        assert row[:3] == (50.0, 100.0, 0.0)
        assert row[3:6] == (50.0, 100.0, "assumed 1 to 2")
        assert row[6] == pytest.approx(port)
        assert row[7] == "assumed: latency 3, one multiplier per core, unless more was measured"


def test_work_uses_the_measured_yield(con: duckdb.DuckDBPyConnection) -> None:
    """Y = 1.1: a core with one busy CPU does 1 / 1.1, with both all it can; a quarter is idle."""
    fill(con, [
        Step(["physical"], [0, 2], [1000, 1000]),
        Step(["siblings"], [0, 1, 2, 3], [550, 550, 550, 550]),
    ])  # fmt: skip
    core_state(con, 0, (50, 1), (50, 2))
    core_state(con, 2, (50, 0), (50, 1))
    row = con.execute(
        "SELECT reported_busy_pct, cores_busy_pct, shared_of_busy_pct, yield_low, work_low_pct, "
        "work_high_pct, yield_basis, port_pct FROM reported_vs_real(p_trace_id := 1)"
    ).fetchall()[0]
    work = 100 * (0.5 / 1.1 + 0.5 + 0.5 / 1.1) / 2
    assert row[0] is None
    assert row[1:4] == pytest.approx((75.0, 100 * 50 / 150, 1.1))
    assert row[4:6] == pytest.approx((work, work))
    assert row[6:] == ("measured", None)


def test_costly_second_thread_counts_less_than_the_core(
    con: duckdb.DuckDBPyConnection,
) -> None:
    fill(con, [
        Step(["physical"], [0, 2], [1000, 1000]),
        Step(["siblings"], [0, 1, 2, 3], [400, 400, 400, 400]),
    ])  # fmt: skip
    core_state(con, 0, (100, 1))
    core_state(con, 2, (100, 2))
    row = con.execute(
        "SELECT work_low_pct, work_high_pct FROM reported_vs_real(p_trace_id := 1)"
    ).fetchall()[0]
    assert row == pytest.approx((90.0, 90.0))


def test_core_without_siblings_counts_fully(con: duckdb.DuckDBPyConnection) -> None:
    fill(con, [Step(["physical"], [0], [1000])])
    con.execute("UPDATE cpu SET core = cpu, smt_index = 0")
    core_state(con, 0, (80, 1), (20, 0))
    con.execute("UPDATE core_state SET online = 1")
    row = con.execute(
        "SELECT work_low_pct, work_high_pct, yield_low, yield_basis FROM reported_vs_real"
    ).fetchall()
    assert row == [(80.0, 80.0, None, "no siblings")]


def test_multiplication_knee_gives_the_slots(con: duckdb.DuckDBPyConnection) -> None:
    # An iteration takes the same time up to 9 chains, then 10 / 9: latency 3 x three multipliers.
    work = {1: 9000, 3: 9000, 9: 8990, 10: 8100}
    fill(con, [Step(["physical"], [0], [w], workload=f"imul{n}") for n, w in work.items()])
    assert con.execute("FROM multiplier_slots").fetchall() == [("U", 10, 9)]
    assert con.execute("FROM multiplier_slots(p_trace_id := 1)").fetchall() == [("U", None, 1)]
    assert con.execute("FROM multiplier_slots(p_trace_id := 2)").fetchall() == []


def test_trace_time_is_cpu_time_plus_steal(con: duckdb.DuckDBPyConnection) -> None:
    """60 ms on CPU 0 in the trace, 40 ms by its clock; 30 ms stolen, of which it had 2 / 3."""
    fill(con, [Step(["physical"], [0], [1000])])
    con.execute("UPDATE run_worker SET utid = 7, cpu_time_ns = 40 * 1000000")
    add(con, "sched_slice", trace_id=1, utid=7, cpu=0, ts=0, dur=60 * MS, is_idle=False,
        left_censored=False, right_censored=False)  # fmt: skip
    add(con, "sched_slice", trace_id=1, utid=8, cpu=0, ts=60 * MS, dur=30 * MS, is_idle=False,
        left_censored=False, right_censored=False)  # fmt: skip
    for edge, steal in (("begin", 5 * MS), ("end", 35 * MS)):
        add(con, "snapshot_cpu", trace_id=1, ts=0, edge=edge, cpu=0, steal_ns=steal)
    rows = con.execute(
        "SELECT run_ns, cpu_time_ns, steal_ns, steal_share_ns, diff_ns, diff_pct, outside_pct "
        "FROM run_clock_check"
    ).fetchall()
    assert rows == [(60 * MS, 40 * MS, 30 * MS, 20 * MS, 0, 0.0, 0.0)]


def test_less_trace_time_than_cpu_time_is_out_of_range(con: duckdb.DuckDBPyConnection) -> None:
    fill(con, [Step(["physical"], [0], [1000])])
    con.execute("UPDATE run_worker SET utid = 7")
    add(con, "sched_slice", trace_id=1, utid=7, cpu=0, ts=0, dur=40 * MS, is_idle=False,
        left_censored=False, right_censored=False)  # fmt: skip
    rows = con.execute("SELECT steal_ns, diff_ns, outside_pct FROM run_clock_check").fetchall()
    assert rows == [(None, -10 * MS, -20.0)]


def test_recording_overhead_is_computed(con: duckdb.DuckDBPyConnection) -> None:
    fill(con, [Step(["physical"], [0], [1000]), Step(["default"], None, [1000])])
    con.execute(
        "UPDATE run SET baseline_per_s = 200, recorded_per_s = 190, "
        "overhead_unit = 'bytes' WHERE trace_id = 1"
    )
    add(con, "record_count", trace_id=1, record="sched:sched_switch", count=500)
    rows = con.execute(
        "SELECT trace_id, unit, round(cost_pct, 9), records, records_per_s FROM recorder_cost"
    ).fetchall()
    assert rows == [(1, "bytes", 5.0, 500, 5000.0)]
