"""No query is slower than linear: twice the recording takes at most three times as long."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from simulated import simulated_database
from tiled_recording import tile

from schedlens.ask import blank_database, catalog
from schedlens.load import schema
from schedlens.simulate import cases

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]
COPIES = 8
QUESTIONS = (
    "core_choice", "whole_idle_core", "thread_core_use", "frame_parking", "thread_parking",
    "path_switch", "frame_ledger", "frame_ledger(p_path := true)", "thread_frequency",
    "background_running", "pinned_sibling", "core_type_move", "short_run", "thread_timeline",
    "core_choice_timeline", "priority_timeline", "move_interval",
)  # fmt: skip
# Order conditions answered by comparing every row with every other.
LOOPS = {"NESTED_LOOP_JOIN", "BLOCKWISE_NL_JOIN", "IE_JOIN"}

# Views whose windows search backwards for a value, and why they never search far.
SEARCHES_BACK = {
    "background_running": "each switch gives all values of its thread",
    "core_choice": "two of three rows are the ends of slices",
}
# DuckDB counts the whole frame of each row again, so the time grows with the square of the rows.
COUNTS_AGAIN = re.compile(r"count\(\*\)\s+FILTER\s*\((?:[^()]|\([^()]*\))*\)\s*OVER\b")
# CPU 0 is idle and unknown in turn, and a thread is ready at the beginning.
DAMAGED = (
    "INSERT INTO trace BY NAME SELECT 1 AS trace_id, 'damaged' AS label, 'perf' AS source, "
    "0 AS first_ns, 10000::BIGINT * $rows AS duration_ns, 1 AS schema_version, '' AS tool_version",
    "INSERT INTO cpu_state_other BY NAME SELECT 1 AS trace_id, 0 AS cpu, 10000 * i AS ts, "
    "10000 AS dur, CASE WHEN i % 2 = 0 THEN 'idle' ELSE 'unknown' END AS state "
    "FROM range($rows) AS t(i)",
    "INSERT INTO ready_slice BY NAME SELECT 1 AS trace_id, 1 AS utid, 0 AS ts, 100 AS dur, "
    "0 AS ready_ts, false AS throttled, false AS cgroup_throttled, false AS idle_exit, "
    "100 AS idle_ns, false AS unknown_available, true AS affinity_known, 'all_busy' AS obstacle, "
    "false AS in_doubt, false AS may_be_idle",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A 0.25 s run repeated end to end, once and twice as often; some cores are unknown."""
    folder = tmp_path_factory.mktemp("linear")
    (play,) = [case for case in cases.CASES if case.name == "critical_path"]
    with simulated_database(folder, [("play", play.play(seed=1, seconds=0.25))]):
        pass
    made = []
    for copies in (COPIES, 2 * COPIES):
        made.append(folder / f"{copies}.duckdb")
        with duckdb.connect(str(made[-1])) as con:
            schema.create(con)
            con.execute(f"ATTACH '{folder / 'analysis.duckdb'}' AS source (READ_ONLY)")
            tile(con, "source", copies)
            con.execute("UPDATE core_state SET unknown = 1 WHERE ts // 1000 % 7 = 0")
            catalog.install(con)
    return made


def _spent(con: duckdb.DuckDBPyConnection, form: str) -> float:
    before = time.process_time()
    con.execute(f"SELECT count(*), bit_xor(hash(q)) FROM {form} AS q").fetchall()
    return time.process_time() - before


def test_doubling_rows_at_most_triples_query_time(files: list[Path]) -> None:
    worse = {}
    once, twice = (duckdb.connect(str(file), read_only=True) for file in files)
    with once, twice:
        rows = [con.execute("SELECT count(*) FROM sched_slice").fetchall() for con in (once, twice)]
        assert rows[1][0][0] == 2 * rows[0][0][0]
        for form in QUESTIONS:
            # 50 ms of slack for a busy machine: a loop over all pairs takes more.
            for _ in range(3):
                short, long = _spent(once, form), _spent(twice, form)
                if long <= 3 * short + 0.05:
                    break
            else:
                worse[form] = (short, long)
    assert worse == {}


def _operators(plan: Any) -> Iterator[tuple[str, str]]:
    for node in plan if isinstance(plan, list) else [plan]:
        yield node["name"].strip(), str(node.get("extra_info", {}).get("Conditions", ""))
        yield from _operators(node.get("children", []))


@pytest.mark.parametrize("form", [form.split("(")[0] for form in QUESTIONS if "(" not in form])
def test_no_query_plan_is_quadratic(files: list[Path], form: str) -> None:
    with duckdb.connect(str(files[0]), read_only=True) as con:
        (row,) = con.execute(f"EXPLAIN (FORMAT json) FROM {form}(p_trace_id := 1)").fetchall()
    found = list(_operators(json.loads(row[1])))
    assert len(found) > 5
    loops = [
        (name, conditions)
        for name, conditions in found
        if name in LOOPS and any(sign in conditions for sign in ("<", ">"))
    ]
    assert loops == []


def test_ready_obstacles_of_a_damaged_recording_take_linear_time(tmp_path: Path) -> None:
    made = []
    for rows in (20_000, 80_000):
        made.append(tmp_path / f"{rows}.duckdb")
        blank_database.place(made[-1])
        with duckdb.connect(str(made[-1])) as con:
            for sql in DAMAGED:
                con.execute(sql, {"rows": rows} if "$rows" in sql else None)
    once, more = (duckdb.connect(str(file), read_only=True) for file in made)
    with once, more:
        for _ in range(3):
            short, long = (_spent(con, "ready_obstacle_slice") for con in (once, more))
            if long <= 6 * short + 0.05:
                break
        else:
            pytest.fail(f"{short:.2f} s, and {long:.2f} s for four times the rows")


def test_no_window_searches_far_backwards_for_a_value() -> None:
    # DuckDB finds the last value that is not null by going backwards from each row.
    found = {query.full_name for query in catalog.load_all() if "IGNORE NULLS" in query.sql}
    assert found == set(SEARCHES_BACK)


def test_no_window_counts_with_a_filter() -> None:
    assert COUNTS_AGAIN.search("count(*) FILTER (WHERE sign(x) = 1) OVER (ORDER BY ts)")
    found = {query.full_name for query in catalog.load_all() if COUNTS_AGAIN.search(query.sql)}
    for folder in ("src", "analyzers", "reports"):
        for path in (ROOT / folder).rglob("*.py"):
            if COUNTS_AGAIN.search(path.read_text(encoding="utf-8")):
                found.add(path.name)
    assert found == set()
