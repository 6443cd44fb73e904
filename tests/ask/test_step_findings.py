"""Findings about the steps of a workload: scaling, reported and real use, the recorder's cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, add, drawn_database
from judged import judged, outcome, plain
from stored_states import store

pytestmark = pytest.mark.slow

MS = 1_000_000
SIBLINGS = [Cpu(0, 0, 0), Cpu(1, 0, 1), Cpu(2, 2, 0), Cpu(3, 2, 1)]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def _step(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    placement: str,
    cpus: Sequence[int],
    work: int,
    repeat: int = 1,
) -> None:
    """A step of 100 ms in which all workers together do `work` iterations."""
    DrawnTrace(con, [], SIBLINGS, 100 * MS, trace_id=trace_id)
    add(con, "run", trace_id=trace_id, step=f"step-{trace_id}", workload="sha256",
        placement=placement, placements=[placement], threads=len(cpus), repeat=repeat,
        recorded=True, oversubscribed=len(cpus) > 4, status="ok", start_ns=0,
        end_ns=100 * MS)  # fmt: skip
    for worker, cpu in enumerate(cpus):
        add(con, "run_worker", trace_id=trace_id, worker=worker, tid=worker, cpu=cpu, start_ns=0,
            end_ns=100 * MS, cpu_time_ns=1, iterations=work // len(cpus), bytes=0)  # fmt: skip


def test_reports_knee_costly_sibling_and_too_many_threads(
    con: duckdb.DuckDBPyConnection,
) -> None:
    plans = [("physical", [0], 1000), ("physical", [0, 2], 1400), ("physical", [0, 2, 1], 1410),
             ("physical", [0, 2, 1, 3, 0], 1200), ("siblings", [0, 1], 900)]  # fmt: skip
    for trace_id, (placement, cpus, work) in enumerate(plans, start=1):
        for repeat in (0, 1):
            _step(con, trace_id + 10 * repeat, placement, cpus, work, repeat + 1)
    found = judged(con, "scaling_curve")
    # Alone on the only core in use 1000, both there 900: 0.9. With two cores in use 700 alone
    # (and 470 with its SMT sibling busy), both 940: 940 / 700.
    assert [(f.severity, f.kind, plain(f.detail)) for f in found] == [
        (
            "warning",
            "too_many_threads",
            "sha256, physical: 5 threads, more than CPUs, do 14.9 % less than 3.",
        ),
        (
            "warning",
            "worse_placement",
            "sha256: with 2 threads the placement siblings does 35.7 % less than physical.",
        ),
        (
            "warning",
            "knee",
            "sha256, physical: beyond 1 thread each further thread adds 40 % of the throughput of "
            "the first, with 1 core still free.",
        ),
        (
            "info",
            "sibling_gains",
            "sha256: both SMT siblings of a core together do 12.1 % more than one alone "
            "(Y = 1.12).",
        ),
    ]


def test_threads_that_take_throughput_away_are_said_to_cost(
    con: duckdb.DuckDBPyConnection,
) -> None:
    _step(con, 1, "physical", [0], 1000)
    _step(con, 2, "physical", [0, 2], 800)
    (knee,) = (found for found in judged(con, "scaling_curve") if found.kind == "knee")
    assert plain(knee.title) == "Threads beyond 1 cost 20 % of the first"
    assert "each further thread costs 20 % of the throughput of the first" in plain(knee.detail)


def test_differences_within_the_spread_of_repeats_are_uncertain(
    con: duckdb.DuckDBPyConnection,
) -> None:
    plans = [("physical", [0], 1000), ("physical", [0, 2], 1400),
             ("physical", [0, 2, 1, 3, 0], 1200), ("siblings", [0, 1], 900)]  # fmt: skip
    for trace_id, (placement, cpus, work) in enumerate(plans, start=1):
        _step(con, trace_id, placement, cpus, work)

    def doubts() -> list[tuple[str, str, str]]:
        return sorted(
            (
                f.kind,
                f.severity,
                plain(f.detail).partition("(uncertain: ")[2].partition(" shows")[0],
            )
            for f in judged(con, "scaling_curve")
            if f.kind in ("knee", "too_many_threads", "worse_placement")
        )

    kinds = ("knee", "too_many_threads", "worse_placement")
    assert doubts() == [(kind, "info", "one repeat; `collect --repeat 3`") for kind in kinds]
    # The second repeat does better everywhere but at one thread, the third as much as the first:
    # the medians differ as before, and the ranges overlap.
    other = [1000, 1520, 1440, 1440]
    for trace_id, ((placement, cpus, _), work) in enumerate(zip(plans, other, strict=True), 11):
        _step(con, trace_id, placement, cpus, work, 2)
    third = [1000, 1400, 1200, 900]
    for trace_id, ((placement, cpus, _), work) in enumerate(zip(plans, third, strict=True), 21):
        _step(con, trace_id, placement, cpus, work, 3)
    assert doubts() == [
        (kind, "info", "the repeats overlap; a larger `--repeat`") for kind in kinds
    ]
    con.execute("DELETE FROM run WHERE repeat = 2")
    assert doubts() == [(kind, "warning", "") for kind in kinds]


def test_second_thread_costs_where_each_comparison_shows_it(
    con: duckdb.DuckDBPyConnection,
) -> None:
    def reported() -> list[tuple[str, str]]:
        found = [f for f in judged(con, "scaling_curve") if f.kind.startswith("sibling_")]
        return [(f.severity, plain(f.detail).partition("together ")[2]) for f in found]

    # With one core in use 1000 alone and 900 both.
    for trace_id, (cpus, work) in enumerate([([0], 1000), ([0, 1], 900)], start=1):
        _step(con, trace_id, "siblings", cpus, work)
    uncertain = "(uncertain: not compared at two numbers of cores in use)"
    assert reported() == [("info", f"do 10 % less than one alone (Y = 0.9) {uncertain}.")]
    # With two cores in use 800 alone, and both 760: Y = 0.95.
    for trace_id, (cpus, work) in enumerate([([0, 2], 1600), ([0, 1, 2, 3], 1520)], start=3):
        _step(con, trace_id, "physical", cpus, work)
    assert reported() == [("warning", "do 7.5 % less than one alone (Y = 0.925).")]
    con.execute("UPDATE run_worker SET iterations = 412 WHERE trace_id = 4")
    assert reported() == [
        ("info", "do 3.5 % less than one alone (Y = 0.965) (uncertain: from 0.9 to 1.03).")
    ]


def test_reports_misleading_cpu_usage(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [Slice("game/A", 0, 0, MS)], SIBLINGS, 100 * MS)
    for core in (0, 2):
        trace.add("core_state", core=core, ts=0, dur=100 * MS, online=2, unknown=0, busy=1,
                  threads=1)  # fmt: skip
    trace.add("run", step="s", workload="sha256", recorded=True, threads=2, placement="physical",
              placements=["physical"], status="ok")  # fmt: skip
    for cpu in range(4):
        for edge, factor in (("begin", 0), ("end", 1)):
            busy = factor * (cpu % 2 == 0)
            trace.add("snapshot_cpu", ts=factor, edge=edge, cpu=cpu, user_ns=100 * busy,
                      system_ns=0, irq_ns=0, softirq_ns=0, idle_ns=100 * (factor - busy),
                      steal_ns=0)  # fmt: skip
    # CPUs 0 and 2 are busy in the trace as well.
    store(con)
    con.execute("UPDATE cpu_state SET state = 'interrupt' WHERE cpu IN (0, 2)")
    # Reported 50 %, work between 50 (Y = 2) and 100 % (Y = 1): not conclusive.
    assert outcome(con, "reported_vs_real").conclusion == "clean"
    _step(con, 2, "physical", [0], 1000)
    _step(con, 3, "siblings", [0, 1], 1100)
    found = judged(con, "reported_vs_real")
    assert [(f.severity, f.trace_id, round(f.cost_pct or 0, 3)) for f in found] == [
        ("warning", 1, round(100 / 1.1 - 50, 3))
    ]


def test_reports_recorder_overhead(con: duckdb.DuckDBPyConnection) -> None:
    for trace_id, recorded in enumerate((99.0, 94.0, 93.0), start=1):
        _step(con, trace_id, "default", [0], 10)
        con.execute("UPDATE run SET baseline_per_s = 100, recorded_per_s = ? WHERE trace_id = ?",
                    [recorded, trace_id])  # fmt: skip
    found = judged(con, "recorder_cost")
    assert [(f.severity, f.trace_id) for f in found] == [("warning", 3)]
    assert found[0].kind == "recorder_overhead"
    assert plain(found[0].detail) == (
        "Recording cost 6 % of the throughput, the median of 3 steps; step-3 lost most, 7 %, and 1 "
        "other step."
    )


def test_recorder_overhead_below_batch_spread_is_noise(
    con: duckdb.DuckDBPyConnection,
) -> None:
    # Batches of 8, 10, 10 and 12 us: the quartiles of 125, 100, 100 and 83.3 thousand a second
    # are 95.8 and 106.25 thousand.
    _step(con, 1, "default", [0], 10)
    con.execute("UPDATE run SET baseline_per_s = 100, recorded_per_s = 93, "
                "overhead_unit = 'iterations'")  # fmt: skip
    for number, us in enumerate((8, 10, 10, 12)):
        add(con, "run_sample", trace_id=1, worker=0, start_ns=number * MS,
            end_ns=number * MS + us * 1000, cpu=0, end_cpu=0, iterations=1, bytes=0)  # fmt: skip
    clean = outcome(con, "recorder_cost")
    assert (clean.conclusion, plain(clean.reason)) == (
        "clean",
        "The cost of recording is below the noise of the batches (spread 10.4 %); 1 step compared.",
    )
