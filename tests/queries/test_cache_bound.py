"""Where cycles go, from counts that are injected: no machine here counts these events."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from experiment_session import section
from judged import concluded, plain, yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, core_type="P", efficiency_class=1), Cpu(1, 1, core_type="E")]
SLICES = [
    Slice("game/Main", 0, 0, 10 * MS, end="trace_end"),
    Slice("game/Short", 1, 0, 2 * MS),
]
# Of Main: 4,000 cycles, of which 2,400 stalled on L2 misses, 600 of these on L3 misses.
INTEL = {
    "cpu_core/cycles/": 4000,
    "cpu_core/instructions/": 2000,
    "cpu_core/l2_rqsts.miss/": 40,
    "longest_lat_cache.miss:u": 10,
    "cpu_core/cycle_activity.stalls_l2_miss/": 2400,
    "cpu_core/cycle_activity.stalls_l3_miss/": 600,
    "topdown-retiring": 200,
    "topdown-bad-spec": 100,
    "topdown-fe-bound": 100,
    "topdown-be-bound": 600,
    "uops_dispatched.port_1": 3000,
    "uops_dispatched.port_6": 1000,
    "some.other_event": 7,
}
AMD = {
    "cycles": 1000,
    "instructions": 500,
    "cache-misses": 5,
    "ex_ret_ops": 1200,
    "de_src_op_disp.all": 1500,
    "de_no_dispatch_per_slot.no_ops_from_frontend": 600,
    "de_no_dispatch_per_slot.backend_stalls": 3000,
}


def _count(trace: DrawnTrace, thread: str, cpu: int, dur: int, counts: dict[str, int]) -> None:
    for counter, delta in counts.items():
        trace.add(
            "counter_delta", cpu=cpu, utid=trace.utid(thread), ts=0, dur=dur, counter=counter,
            core_type="PE"[cpu], delta=delta,
        )  # fmt: skip


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 10 * MS)
        database.execute("UPDATE trace SET cpu_model = '12th Gen Intel(R) Core(TM) i9-12900K'")
        _count(trace, "game/Main", 0, 10 * MS, INTEL)
        _count(trace, "game/Short", 1, 2 * MS, {"cycles": 100, "instructions": 100})
        yield database


def test_injected_intel_counts_have_their_meaning(con: duckdb.DuckDBPyConnection) -> None:
    meanings = dict(con.execute("SELECT counter, meaning FROM counter_meaning").fetchall())
    assert meanings["longest_lat_cache.miss:u"] == "l3_misses"
    assert meanings["uops_dispatched.port_6"] == "port_6"
    assert meanings["cycles"] == meanings["cpu_core/cycles/"] == "cycles"
    assert "some.other_event" not in meanings


def test_injected_intel_counts_become_shares(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT * EXCLUDE (trace_id, tid, utid) FROM cache_bound").fetchall()
    assert rows == [
        ("game", "Main", "P", 10 * MS, 2, 20, 5, 45, 15, 20, 10, 10, 60,
         {"port_1": 75, "port_6": 25}),
        ("game", "Short", "E", 2 * MS, 1, *[None] * 8, None),
    ]  # fmt: skip


def test_injected_amd_counts_become_slots_of_six_a_cycle(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM counter_delta")
    con.execute("UPDATE trace SET cpu_model = 'AMD Ryzen 9 7950X'")
    utid = con.execute("SELECT utid FROM thread WHERE name = 'Main'").fetchone()
    assert utid
    for counter, delta in AMD.items():
        con.execute(
            "INSERT INTO counter_delta VALUES (1, 0, ?, 0, 100, ?, 'P', ?)",
            [utid[0], counter, delta],
        )
    rows = con.execute(
        "SELECT l2_misses_per_1000, l3_bound_pct, retiring_pct, bad_speculation_pct, "
        "frontend_pct, backend_pct FROM cache_bound"
    ).fetchall()
    assert rows == [(10, None, 20, 5, 10, 50)]


def test_generic_names_of_an_unknown_vendor_are_not_guessed(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("UPDATE trace SET cpu_model = NULL")
    rows = con.execute("SELECT DISTINCT meaning FROM counter_meaning ORDER BY ALL").fetchall()
    assert rows == [("cycles",), ("instructions",)]


def test_injected_l3_bound_thread_is_found(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "cache_bound")
    assert (found.kind, found.severity, found.cost_ns) == ("llc_bound", "warning", 4_500_000)
    assert plain(found.title) == "Busy thread is L3 bound for 45 % of its cycles"
    assert plain(found.detail) == (
        "In drawn-1, Main (1003) of game was stalled on loads from the last-level cache for 45 % "
        "of its cycles, 4.5 ms of 10 ms, at 20 L2 misses per 1000 instructions."
    )
    assert con.execute(found.evidence_sql).fetchall() == [("P", 10 * MS, 2, 20, 5, 45, 15)]
    con.execute("UPDATE counter_delta SET delta = 1000 WHERE counter LIKE '%stalls_l2%'")
    assert yielded(con, "cache_bound") == []
    assert concluded(con, "cache_bound").conclusion == "clean"
    con.execute("DELETE FROM counter_delta WHERE counter LIKE '%stalls%'")
    assert concluded(con, "cache_bound").conclusion == "not_applicable"


def test_section_draws_injected_slots_and_stalls(con: duckdb.DuckDBPyConnection) -> None:
    topdown, stalls = section(con, "cache_bound")["figures"]
    assert [trace["x"] for trace in topdown["plot"]["data"]] == [[20], [10], [10], [60]]
    assert [trace["x"] for trace in stalls["plot"]["data"]] == [[45], [15]]
