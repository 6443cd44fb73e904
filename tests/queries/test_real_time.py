"""Real-time and deadline threads on the machine that runs the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import command, needs_tracing

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "support" / "real_time_faults.py"
EVENTS = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new"
YIELDS = ",syscalls:sys_enter_sched_yield"


def judged(folder: Path, fault: str, events: str) -> tuple[list[dict[str, Any]], str]:
    """Findings of real_time in a recording of the program, and the database."""
    needs_tracing()
    file = folder / "perf.data"
    done = subprocess.run(
        ["perf", "record", "-q", "-a", "--switch-events", "-e", events, "-o", str(file), "--",
         sys.executable, str(PROGRAM), fault],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "refused" in done.stdout:
        pytest.skip(f"this machine refuses the policy: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
    output = command("analyze", str(file), "--only", "real_time", "--no-report", "--json")
    facts = json.loads(output.stdout)
    return facts["findings"], facts["database"]


def test_fifo_hog_is_found_with_the_delayed_thread(tmp_path: Path) -> None:
    found, database = judged(tmp_path, "fifo", EVENTS)
    (hog,) = [f for f in found if f["kind"] == "hog"]
    assert hog["severity"] in ("warning", "critical")
    # Of the 1.2 s the kernel leaves at most a twentieth to the other thread, which waits otherwise.
    assert hog["cost_ns"] >= 1_000_000_000
    assert "; others were ready for" in hog["detail"]
    # The kernel stops it for 5 % of each second: no lower priority is in its way meanwhile.
    with duckdb.connect(database, read_only=True) as con:
        stopped = con.execute(
            "SELECT bool_and(r.throttled), sum(r.dur) FROM context_switch AS c "
            "JOIN ready_slice AS r ON r.utid = c.prev_utid AND r.ready_ts = c.ts "
            "WHERE c.prev_utid = ? AND c.prev_priority < 100 AND c.prev_state & 255 = 0 "
            "AND c.next_priority >= 100",
            [hog["utid"]],
        ).fetchall()[0]
    # Where sched_rt_runtime_us is -1 and no server runs the others, it is never stopped.
    assert stopped == (None, None) or (stopped[0] and stopped[1] >= 10_000_000)


def test_deadline_thread_that_exhausts_its_runtime_is_reported(tmp_path: Path) -> None:
    found, database = judged(tmp_path, "deadline", EVENTS + YIELDS)
    (missed,) = [f for f in found if f["kind"] == "out_of_runtime"]
    with duckdb.connect(database, read_only=True) as con:
        yields = con.execute("SELECT recorded FROM recorded_kind WHERE kind = 'yields'").fetchall()
    # Without a single sched_yield record it is unknown whether calls were traced. The program makes
    # none; others on the machine may.
    known = ("warning", "critical") if yields == [(True,)] else ("info",)
    assert missed["severity"] in known
    times = int(missed["title"].split(" time")[0].rsplit(" ", 1)[1])
    # A job in each of 30 periods of 20 ms; the first and last may be incomplete.
    assert 20 <= times <= 40


def test_deadline_thread_without_runtime_is_throttled_and_not_in_the_way(tmp_path: Path) -> None:
    found, database = judged(tmp_path, "deadline", EVENTS)
    (missed,) = [f for f in found if f["kind"] == "out_of_runtime"]
    with duckdb.connect(database, read_only=True) as con:
        (throttled_ns,) = con.execute(
            "SELECT throttled_ns FROM ready_obstacle WHERE utid = ?", [missed["utid"]]
        ).fetchall()[0]
        # While it is a deadline thread: Python starts as any other program does.
        (ready_ns,) = con.execute(
            "SELECT sum(r.dur)::BIGINT FROM context_switch AS c "
            "JOIN ready_slice AS r ON r.utid = c.prev_utid AND r.ready_ts = c.ts "
            "WHERE c.prev_utid = ? AND c.prev_priority < 0",
            [missed["utid"]],
        ).fetchall()[0]
    assert ready_ns > 200_000_000
    assert throttled_ns >= 0.9 * ready_ns
    # No lower priority, unfair share or lack of CPUs made it wait.
    for analyzer in ("priority_order", "thread_summary"):
        output = command("analyze", str(tmp_path / "perf.data"), "--only", analyzer, "--no-report",
                         "--json")  # fmt: skip
        findings = json.loads(output.stdout)["findings"]
        assert [f for f in findings if f["kind"] == "higher_ready" or missed["utid"] == f["utid"]
                if f["severity"] == "critical"] == []  # fmt: skip


def test_deadline_thread_that_meets_deadlines_is_not_reported(tmp_path: Path) -> None:
    # A host that stops a virtual CPU for 10 ms uses up the runtime, which is then reported rightly.
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        found, _ = judged(tmp_path / str(number), "meets", EVENTS)
        if not [f for f in found if f["kind"] == "out_of_runtime"]:
            return
    pytest.fail("a thread that met its deadlines was reported in three recordings")
