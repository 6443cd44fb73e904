"""A thread is throttled only if it left runnable to the idle thread, not if it blocked.

Recordings are written as perf.data and loaded as `analyze` loads them; times in ms. The first
switch, at 5, is ns 0 of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from prepared_database import prepare
from recording_writer import write

from schedlens.ask import analysis
from schedlens.load.recording import Recording

pytestmark = pytest.mark.slow

MS = 1_000_000
PARTS = "throttled_ns, idle_exit_ns, idle_available_ns, unknown_ns, all_busy_ns"


def line(ts: float, cpu: int, event: str, **fields: Any) -> dict[str, Any]:
    """One event of the script, its time in ms."""
    return {"ts": int(ts * MS), "cpu": cpu, "event": event, **fields}


def threads(*tids: int) -> list[dict[str, Any]]:
    """Threads of process 5000 that exist at the start."""
    begin = [line(0, 0, "process", phase="rundown_start", pid=5000, name="game")]
    return begin + [
        line(0, 0, "thread", phase="rundown_start", pid=5000, tid=tid, name=f"t{tid}")
        for tid in tids
    ]


@contextmanager
def analyzed(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of one recording."""
    with duckdb.connect() as con:
        prepare(con)
        failed = analysis.load(con, [Recording("one", path)], (None, None), lambda *_: None)
        assert failed == []
        yield con


def written(folder: Path, lines: Iterable[dict[str, Any]], cpus: int = 1, **layout: Any) -> Path:
    """A perf.data of these events."""
    path = folder / "perf.data"
    head = {
        "machine": {"cpus": [{"cpu": cpu, "core": cpu} for cpu in range(cpus)]},
        "perf": layout,
    }
    write(head, lines, perf=path)
    return path


def test_thread_that_blocked_after_a_wakeup_is_not_throttled(tmp_path: Path) -> None:
    # Thread 5001 is woken at 15, while it runs, blocks at 20 and is back at 30: ready from 20.
    lines = [
        *threads(5001),
        line(0, 0, "running", tid=5001),
        line(5, 0, "switch", old=5001, new=0),
        line(8, 0, "ready", tid=5001),
        line(10, 0, "switch", old=0, new=5001),
        line(15, 0, "ready", tid=5001),
        line(20, 0, "switch", old=5001, new=0, leaves="blocked"),
        line(30, 0, "switch", old=0, new=5001),
        line(40, 0, "switch", old=5001, new=0),
    ]
    with analyzed(written(tmp_path, lines)) as con:
        rows = con.execute(f"SELECT {PARTS} FROM ready_obstacle(p_from_ns := {15 * MS})").fetchall()
    assert rows == [(0, MS, 9 * MS, 0, 0)]


def test_thread_that_left_runnable_to_the_idle_thread_is_throttled(tmp_path: Path) -> None:
    lines = [
        *threads(5001, 5002),
        line(0, 0, "running", tid=5001),
        line(5, 0, "switch", old=5001, new=0),
        line(8, 0, "ready", tid=5001),
        line(10, 0, "switch", old=0, new=5001),
        line(20, 0, "switch", old=5001, new=0, leaves="runnable_other"),
        line(30, 0, "switch", old=0, new=5001),
        line(40, 0, "switch", old=5001, new=0),
    ]
    with analyzed(written(tmp_path, lines)) as con:
        rows = con.execute(f"SELECT {PARTS} FROM ready_obstacle(p_from_ns := {15 * MS})").fetchall()
    assert rows == [(10 * MS, 0, 0, 0, 0)]
