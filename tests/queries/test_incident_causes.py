"""Who kept a thread from its CPU when a ring saved its events, also where records are lost."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.ask import judging
from schedlens.ask.findings import Finding, Scope

MS = 1_000_000
# The indexer runs on CPU 0, and so did the thread that is ready; another program runs on CPU 1.
RENDER = Slice("game/render", 0, 2 * MS, 8 * MS)
OTHERS = [Slice("game/indexer", 0, 20 * MS, 80 * MS), Slice("game/other", 1, 10 * MS, 95 * MS)]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as con:
        yield con


def drawn(con: duckdb.DuckDBPyConnection, slices: list[Slice]) -> DrawnTrace:
    trace = DrawnTrace(con, [*slices, *OTHERS], [Cpu(0, 0), Cpu(1, 1)], 120 * MS)
    trace.add("mark", ts=25 * MS, dur=70 * MS, kind="incident", name="incident: ready")
    for key, value in (("incident_kind", "ready"), ("incident_tid", str(trace.tid("game/render")))):
        trace.add("machine_setting", key=key, value=value)
    return trace


def cut(trace: DrawnTrace) -> None:
    """Render is ready from 30 ms on, until records are lost at 60 ms."""
    utid = trace.utid("game/render")
    trace.add("loss", cpu=1, start_ns=60 * MS, end_ns=90 * MS, signalled_by="lost_record")
    for ts, dur, state, left in ((30, 30, "ready", False), (60, 30, "unknown", True)):
        trace.add(
            "thread_state_other", utid=utid, ts=ts * MS, dur=dur * MS, state=state,
            left_censored=left, right_censored=True,
        )  # fmt: skip


def cause(con: duckdb.DuckDBPyConnection) -> Finding:
    (found,) = judging.judge_all(Scope(con), {"incident"}).findings
    return found


def test_thread_that_ran_on_the_cpu_of_the_switch_in_is_the_cause(
    con: duckdb.DuckDBPyConnection,
) -> None:
    drawn(con, [RENDER, Slice("game/render", 0, 100 * MS, 5 * MS, ready=70 * MS, wait=20 * MS)])
    assert cause(con).title.startswith("indexer kept render from its CPU for")


@pytest.mark.parametrize(
    ("target", "name"), [(None, "indexer"), (0, "indexer"), (1, "other")], ids=str
)
def test_cpu_of_the_wakeup_or_the_last_slice_is_meant_if_the_switch_in_is_lost(
    con: duckdb.DuckDBPyConnection, target: int | None, name: str
) -> None:
    trace = drawn(con, [RENDER])
    cut(trace)
    if target is not None:
        trace.add(
            "wakeup", ts=30 * MS, cpu=1, seq=99, kind="wakeup", effective=True, target_cpu=target,
            utid=trace.utid("game/render"),
        )  # fmt: skip
    found = cause(con)
    assert found.title.startswith(f"{name} kept render from its CPU for")
    assert con.execute("SELECT cpu, by_run_ns FROM incident").fetchall() == [(target or 0, 30 * MS)]


def test_cpu_that_is_not_recorded_is_said_to_be_so(con: duckdb.DuckDBPyConnection) -> None:
    trace = drawn(con, [])
    trace.add("thread", utid=trace.utid("game/render"), tid=trace.tid("game/render"),
              name="render", is_idle=False)  # fmt: skip
    cut(trace)
    found = cause(con)
    assert "the CPU that it waited for is not recorded" in found.title
    assert "ran instead" not in found.title + found.detail
