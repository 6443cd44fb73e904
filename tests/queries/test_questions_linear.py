"""No query is slower than linear: twice the recording takes at most three times as long."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from simulated import simulated_database
from tiled_recording import tile

from schedlens.ask import catalog
from schedlens.load import schema
from schedlens.simulate import cases

pytestmark = pytest.mark.alone

COPIES = 8
QUESTIONS = (
    "core_choice", "whole_idle_core", "thread_core_use", "frame_parking", "thread_parking",
    "path_switch", "frame_ledger", "frame_ledger(p_path := true)", "thread_frequency",
    "background_running", "pinned_sibling", "core_type_move", "short_run", "thread_timeline",
    "core_choice_timeline", "priority_timeline", "move_interval",
)  # fmt: skip
# Order conditions answered by comparing every row with every other.
LOOPS = {"NESTED_LOOP_JOIN", "BLOCKWISE_NL_JOIN", "IE_JOIN"}


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
