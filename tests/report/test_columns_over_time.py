"""Three threads over 100 ns in columns: kinds of core, priorities, frequencies, states.

ns       0    10   20   30   40   50  ...  100
cpu 0 P  A----AAAAA-----     B----              A has a busy sibling 10..20
B                  r---------                   ready 20..40
cpu 2 E    C-----------
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.report import binned
from schedlens.report.sections import View

CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 0, 1, "P", 1), Cpu(2, 2, 0, "E", 0)]
SLICES = [
    Slice("game/A", 0, 0, 30, priority=10),
    Slice("game/B", 0, 40, 10, ready=20, priority=12),
    Slice("other/C", 2, 5, 20, priority=10),
]
SPAN: dict[str, Any] = {"start_ns": 0, "end_ns": 100, "dur_ns": 100}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 100)
        trace.add("sharing_slice", utid=trace.utid("game/A"), cpu=0, ts=10, dur=10,
                  affinity_known=True)  # fmt: skip
        for cpu, ts, khz in ((0, 0, 4_000_000), (0, 50, 3_000_000), (2, 20, 2_000_000)):
            trace.add("cpu_frequency", ts=ts, cpu=cpu, khz=khz)
        yield database


def test_core_types_in_columns(con: duckdb.DuckDBPyConnection) -> None:
    ask = "SELECT start_ns, dur_ns, p_alone, p_shared, e, other FROM core_choice_timeline({})"
    assert con.execute(ask.format("p_columns := 10")).fetchall() == [
        (0, 10, 1.0, 0.0, 0.5, 0.0),
        (10, 10, 0.0, 1.0, 1.0, 0.0),
        (20, 10, 1.0, 0.0, 0.5, 0.0),
        (40, 10, 1.0, 0.0, 0.0, 0.0),
    ]
    # The last column ends with the window: 7 columns of 13 ns in 85.
    window = "p_columns := 7, p_from_ns := 5, p_to_ns := 90, p_process := 'game'"
    found = con.execute(ask.format(window)).fetchall()
    assert [(row[0], row[1]) for row in found] == [(5, 13), (18, 13), (31, 13), (44, 13)]
    assert sum(row[1] * (row[2] + row[3]) for row in found) == pytest.approx(35, abs=1e-9)
    assert sum(row[1] * row[3] for row in found) == pytest.approx(10, abs=1e-9)


def test_priorities_in_columns(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT priority, start_ns, dur_ns, running, ready FROM priority_timeline(p_columns := 10)"
    ).fetchall()
    assert rows == [
        (10, 0, 10, 1.5, 0.0),
        (10, 10, 10, 2.0, 0.0),
        (10, 20, 10, 1.5, 0.0),
        (12, 20, 10, 0.0, 1.0),
        (12, 30, 10, 0.0, 1.0),
        (12, 40, 10, 1.0, 0.0),
    ]


def test_frequencies_in_columns(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core_type, start_ns, dur_ns, avg_khz, busy_pct "
        "FROM frequency_timeline(p_columns := 2)"
    ).fetchall()
    assert rows == [
        ("E", 0, 50, 2_000_000.0, 6.25),
        ("E", 50, 50, 2_000_000.0, 6.25),
        ("P", 0, 50, 4_000_000.0, 80.0),
        ("P", 50, 50, 3_000_000.0, 0.0),
    ]


def test_states_of_busiest_threads_in_columns(con: duckdb.DuckDBPyConnection) -> None:
    ask = "SELECT thread, run_ns, start_ns, dur_ns, state FROM thread_timeline({})"
    assert con.execute(ask.format("p_columns := 100")).fetchall() == [
        ("A", 30, 0, 30, "runs_p"),
        ("A", 30, 30, 70, "waiting"),
        ("C", 20, 0, 5, "waiting"),
        ("C", 20, 5, 20, "runs_e"),
        ("C", 20, 25, 75, "waiting"),
        ("B", 10, 0, 20, "waiting"),
        ("B", 10, 20, 20, "ready"),
        ("B", 10, 40, 10, "runs_p"),
        ("B", 10, 50, 50, "waiting"),
    ]
    # In columns of 34 ns A runs for most of the first.
    assert con.execute(ask.format("p_columns := 3, p_threads := 1")).fetchall() == [
        ("A", 30, 0, 34, "runs_p"),
        ("A", 30, 34, 66, "waiting"),
    ]


def test_column_figures_match_queries(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = View(con, None, 1, "drawn")
    kinds = binned.core_kinds(view, SPAN)
    assert kinds is not None
    (layer,) = kinds[1].plot["layers"]
    assert layer["start"] == list(range(100))
    alone, shared, slow = (series["values"] for series in layer["series"])
    assert (sum(alone), sum(shared), sum(slow)) == (30, 10, 20)
    assert (alone[9], alone[10], shared[10], slow[4], slow[5]) == (1, 0, 1, 0, 1)
    running, ready = binned.priorities(view, SPAN)
    assert [series["name"] for series in running[1].plot["layers"][0]["series"]] == [
        "priority 10", "priority 12",
    ]  # fmt: skip
    (waiting,) = ready[1].plot["layers"][0]["series"]
    assert (waiting["name"], sum(waiting["values"])) == ("priority 12", 20)
    monkeypatch.setattr(binned, "_PRIORITIES", 1)
    running, _ = binned.priorities(view, SPAN)
    assert [series["name"] for series in running[1].plot["layers"][0]["series"]] == [
        "priority 10", "other priorities",
    ]  # fmt: skip
    speed = binned.frequencies(view, SPAN)[0][1]
    slow, fast = (series["values"] for series in speed.plot["layers"][0]["series"])
    assert (slow[19], slow[20], fast[49], fast[50]) == (None, 2.0, 4.0, 3.0)
    states = binned.thread_states(view, SPAN)
    assert states is not None
    assert [thread["name"].split()[0] for thread in states[1].plot["threads"]] == ["A", "C", "B"]
    assert {code["name"]: code["dur_ns"] for code in states[1].plot["codes"]} == {
        "waits": 70 + 80 + 70, "unknown": 0, "runs on a P core": 40, "runs on an E core": 20,
        "runs, core type unknown": 0, "ready, without a CPU": 20,
    }  # fmt: skip
