"""Sums over frames, frequencies and slices of the demo, each computed here from single overlaps."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

import duckdb
import pytest
from simulated import simulated_database

from schedlens.simulate import cases

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Frames on parked P and E cores, and on all of them with background work."""
    played = [(case.name, case.play()) for case in cases.CASES if case.name != "critical_path"]
    with simulated_database(tmp_path_factory.mktemp("demo"), played) as database:
        yield database


OVERLAP = "least(f.to_ns, s.ts + s.dur) - greatest(f.from_ns, s.ts)"
OVERLAPS = "s.trace_id = f.trace_id AND s.ts < f.to_ns AND s.ts + s.dur > f.from_ns"


def test_busy_cpus_of_frames_are_sums_of_overlaps(con: duckdb.DuckDBPyConnection) -> None:
    frames = (
        "(SELECT *, start_ns AS from_ns, start_ns + dur_ns AS to_ns FROM frame_concurrency) AS f"
    )
    different = con.execute(
        f"WITH summed AS (SELECT f.trace_id, f.upid, f.frame, "
        f"sum({OVERLAP}) AS covered, sum(s.busy * ({OVERLAP})) AS busy, "
        f"sum(s.ready * ({OVERLAP})) AS ready, sum(s.unknown * ({OVERLAP})) AS unknown, "
        f"sum(s.p * ({OVERLAP})) AS p, sum(s.e * ({OVERLAP})) AS e, "
        f"sum(s.smt * ({OVERLAP})) AS smt FROM {frames} JOIN concurrency_slice AS s "
        f"ON {OVERLAPS} GROUP BY ALL) "
        "SELECT count(*), count(*) FILTER (WHERE covered = dur_ns), "
        "count(*) FILTER (WHERE (f.busy, f.ready, f.unknown, f.p, f.e, f.smt) IS DISTINCT FROM "
        "(s.busy / dur_ns, s.ready / dur_ns, s.unknown / dur_ns, s.p / dur_ns, s.e / dur_ns, "
        f"s.smt / dur_ns)) FROM {frames} JOIN summed AS s USING (trace_id, upid, frame)"
    ).fetchone()
    assert different is not None
    assert different[0] > 300
    assert different == (different[0], different[0], 0)


def test_own_busy_cpus_of_frames_are_sums_of_overlaps(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute(
        f"SELECT f.own_busy, sum({OVERLAP}) / any_value(f.dur_ns) "
        "FROM (SELECT *, start_ns AS from_ns, start_ns + dur_ns AS to_ns FROM frame_concurrency) "
        "AS f JOIN (SELECT c.*, upid FROM cpu_state AS c JOIN thread USING (utid) "
        "WHERE state = 'thread') AS s "
        f"ON s.upid = f.upid AND {OVERLAPS} GROUP BY f.trace_id, f.upid, f.frame, f.own_busy"
    ).fetchall()
    assert len(found) > 300
    assert [row for row in found if row[0] != row[1]] == []


def test_busy_time_at_a_frequency_is_a_sum_of_overlaps(con: duckdb.DuckDBPyConnection) -> None:
    steps = "(SELECT *, from_ns + dur AS to_ns FROM frequency_interval) AS f"
    key = "f.trace_id, f.cpu, f.from_ns"
    busy = con.execute(
        f"SELECT f.busy_ns, sum({OVERLAP})::BIGINT FROM {steps} JOIN cpu_state AS s "
        f"ON s.cpu = f.cpu AND s.state IN ('thread', 'interrupt') AND {OVERLAPS} "
        f"GROUP BY {key}, f.busy_ns"
    ).fetchall()
    active = con.execute(
        f"SELECT f.active, sum((s.p + s.e + s.other) * ({OVERLAP})) / any_value(f.dur) "
        f"FROM {steps} JOIN concurrency_slice AS s ON {OVERLAPS} GROUP BY {key}, f.active"
    ).fetchall()
    assert min(len(busy), len(active)) > 20
    assert [row for row in busy + active if row[0] != row[1]] == []


def test_e_core_time_with_an_idle_p_core_is_a_sum_of_overlaps(
    con: duckdb.DuckDBPyConnection,
) -> None:
    idle: dict[int, list[tuple[int, int, frozenset[int]]]] = defaultdict(list)
    for trace_id, ts, dur, cpus in con.execute(
        "SELECT trace_id, ts, dur, cpus FROM whole_idle_core(p_min_idle_ns := 100000) "
        "WHERE core_type = 'P' ORDER BY ts"
    ).fetchall():
        idle[trace_id].append((ts, ts + dur, frozenset(cpus)))
    allowed = {
        utid: frozenset(cpus)
        for utid, cpus in con.execute(
            "SELECT utid, any_value(cpus) FROM affinity_spell GROUP BY utid HAVING count(*) = 1"
        ).fetchall()
    }
    slices: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for utid, ts, dur in con.execute(
        "SELECT utid, ts, dur FROM sched_slice JOIN topology USING (trace_id, cpu) "
        "WHERE core_type = 'E' AND NOT is_idle"
    ).fetchall():
        slices[utid].append((ts, ts + dur))
    expected = {}
    for utid in slices.keys() & allowed.keys():
        merged: list[list[int]] = []
        for begin, end, cpus in idle[utid >> 32]:
            if not cpus & allowed[utid]:
                continue
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([begin, end])
        begins = [begin for begin, _ in merged]
        total = 0
        for begin, end in slices[utid]:
            place = max(0, bisect_right(begins, begin) - 1)
            while place < len(merged) and merged[place][0] < end:
                total += max(0, min(end, merged[place][1]) - max(begin, merged[place][0]))
                place += 1
        expected[utid] = total
    found = dict(con.execute("SELECT utid, e_beside_idle_p_ns FROM core_choice").fetchall())
    assert len(expected) > 10
    assert sum(total > 0 for total in expected.values()) > 5
    assert {utid: found[utid] for utid in expected} == expected


def test_levels_are_the_time_at_each_number(con: duckdb.DuckDBPyConnection) -> None:
    numbers = "busy, unknown, ready, p, e, other, smt, online"
    different = con.execute(
        f"(SELECT trace_id, {numbers}, sum(dur)::BIGINT AS ns FROM concurrency_slice GROUP BY ALL) "
        f"EXCEPT SELECT trace_id, {numbers}, ns FROM concurrency_level"
    ).fetchall()
    assert different == []
    assert con.execute(
        "SELECT trace_id, sum(ns) FROM concurrency_level(p_from_ns := 1000, p_to_ns := 500001000) "
        "GROUP BY trace_id ORDER BY trace_id"
    ).fetchall() == [(1, 500_000_000), (2, 500_000_000)]
