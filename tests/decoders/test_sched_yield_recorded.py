"""sched_yield was recorded but never called: the thread's slice ended with its quantum."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest
from decoders.test_throttled_by_its_slice import analyzed, line, threads, written
from tables_export import export, read_manifest, write_manifest, write_table

pytestmark = pytest.mark.slow

REASONS = (
    "SELECT DISTINCT end_reason FROM sched_slice WHERE NOT is_idle "
    "AND end_reason LIKE 'quantum_end%' ORDER BY ALL"
)
CHAINS = "SELECT hand_offs, skipped, yield_possible FROM quantum_end_chain"


def turns(slices: int, interrupted: bool = False) -> list[dict[str, Any]]:
    """Threads 5001 and 5002 alternate on CPU 0, 4 ms each; the tick is 1 ms, as HZ is unknown.

    `interrupted`: slices of 1 ms that 5003 interrupts for 20 us in the middle.
    """
    lines = threads(5001, 5002, 5003)
    lines += [line(0, 0, "running", tid=5001), line(0.01, 0, "ready", tid=5002)]
    now = 0.02
    lines += [line(now, 0, "switch", old=5001, new=5002, leaves="runnable_other")]
    running, waiting = 5002, 5001
    for _ in range(slices):
        if interrupted:
            lines += [
                line(now + 0.5, 0, "ready", tid=5003),
                line(now + 0.5, 0, "switch", old=running, new=5003, leaves="preempted"),
                line(now + 0.52, 0, "switch", old=5003, new=running),
            ]
            now += 1.02
        else:
            now += 4
        lines += [line(now, 0, "switch", old=running, new=waiting, leaves="quantum_end")]
        running, waiting = waiting, running
    lines += [line(now + 1, 0, "switch", old=running, new=0)]
    return lines


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_perf_event_without_records_counts_as_recorded(
    recorded: bool, interrupted: bool, tmp_path: Path
) -> None:
    path = written(tmp_path, turns(5, interrupted), yields=recorded)
    with analyzed(path) as con:
        assert con.execute("SELECT count(*) FROM sched_yield").fetchall() == [(0,)]
        reasons = con.execute(REASONS).fetchall()
        chains = con.execute(CHAINS).fetchall()
    # Interrupted slices are each too short for the state machine; the chain counts them as one.
    name = "quantum_end" if recorded else "quantum_end_or_yield"
    assert reasons == ([] if interrupted else [(name,)])
    assert chains == [(5, 5 if interrupted else 0, not recorded)]


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_empty_table_counts_as_recorded(recorded: bool, interrupted: bool, tmp_path: Path) -> None:
    with analyzed(written(tmp_path, turns(5, interrupted), yields=False)) as con:
        folder = export(con, tmp_path / "tables")
        if recorded:
            write_table(folder, "sched_yield", con.sql("FROM sched_yield").to_arrow_table())
            manifest = read_manifest(folder)
            manifest["tables"]["sched_yield"] = 0
            write_manifest(folder, manifest)
    with analyzed(folder) as con:
        reasons = con.execute(REASONS).fetchall()
        chains = con.execute(CHAINS).fetchall()
        [(why,)] = con.execute(
            "SELECT coalesce(why, '') FROM answerable WHERE question = 'quantum_end_chain'"
        ).fetchall()
    name = "quantum_end" if recorded else "quantum_end_or_yield"
    assert reasons == ([] if interrupted else [(name,)])
    assert chains == [(5, 5 if interrupted else 0, not recorded)]
    assert ("yields are not recorded" in why) != recorded


def test_recording_without_yields_says_they_were_traced(tmp_path: Path) -> None:
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    path = tmp_path / "perf.data"
    events = "sched:sched_switch,sched:sched_waking,syscalls:sys_enter_sched_yield"
    done = subprocess.run(
        [perf, "record", "-q", "-o", str(path), "-e", events, "--", "true"],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"perf cannot record tracepoints here: {done.stderr.strip()[:200]}")
    with analyzed(path) as con:
        assert _counted(con) == [("syscalls:sys_enter_sched_yield", 0)]


def _counted(con: duckdb.DuckDBPyConnection) -> list[Any]:
    return con.execute(
        "SELECT record, count FROM record_count WHERE record LIKE '%sched_yield%'"
    ).fetchall()
