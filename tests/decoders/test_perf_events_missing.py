"""Events that perf does not record although the file describes them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import command, needs_tracing

pytestmark = pytest.mark.records

EVENTS = "sched:sched_switch,sched:sched_waking"


def recorded(file: Path, *options: str, events: str = EVENTS) -> Path:
    """A perf.data of all CPUs while threads send messages."""
    needs_tracing()
    subprocess.run(
        ["perf", "record", "-q", "-a", "-m", "8M", "-e", events, *options, "-o", str(file), "--",
         "perf", "bench", "sched", "messaging", "-g", "1", "-l", "50"],
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    return file


def analyzed(file: Path) -> dict[str, Any]:
    done = command(
        "analyze", str(file), "-o", str(file.with_suffix("")), "--no-report", "--json",
        "--only", "trace_quality",
    )  # fmt: skip
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def dumped(file: Path) -> list[tuple[int, str]]:
    """Time in ns and kind of each record with a time, in perf's dump."""
    dump = subprocess.run(
        ["perf", "script", "-D", "-i", str(file)],
        capture_output=True, text=True, errors="replace", check=True, timeout=120,
    ).stdout  # fmt: skip
    # For example: 1 5073842000 0x4f8 [0x48]: PERF_RECORD_SAMPLE(IP, 0x1): ...
    found = re.findall(r"^\d+ ([1-9]\d*) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: (\w+)", dump, re.MULTILINE)
    return [(int(time), name) for time, name in found]


def test_recording_starts_when_its_events_are_enabled(tmp_path: Path) -> None:
    file = recorded(tmp_path / "perf.data")
    records = dumped(file)
    first = min(time for time, name in records if name == "PERF_RECORD_SAMPLE")
    # perf follows threads from the start, and enables the events one CPU after another. A thread
    # may also end after the last sample.
    assert any(name == "PERF_RECORD_FORK" for time, name in records if time < first)
    last, _ = max(records)
    with duckdb.connect(analyzed(file)["database"], read_only=True) as con:
        start = con.execute("SELECT start_clock, first_ns, duration_ns FROM trace").fetchone()
        assert start == (first, 0, last - first)
        for column in ("sched_slice.ts", "thread.start_ns", "thread.end_ns", "thread_name.ts"):
            table = column.split(".")[0]
            early = con.execute(f"SELECT count(*) FROM {table} WHERE {column} < 0").fetchone()
            assert early == (0,), column
        # The thread that leaves first on the CPU that is enabled first ran for moments.
        (ran,) = con.execute("SELECT min(dur) FROM sched_slice WHERE ts = 0").fetchall()
        assert ran[0] < 5_000_000


@pytest.mark.parametrize("switches", ["sched_switch", "also PERF_RECORD_SWITCH"])
def test_sampled_tracepoints_are_not_read(tmp_path: Path, switches: str) -> None:
    more = ["--switch-events"] if switches.startswith("also") else []
    facts = analyzed(recorded(tmp_path / "perf.data", "-F", "99", *more))
    kind = "switch_records_only" if more else "no_switches"
    (found,) = [found for found in facts["findings"] if found["kind"] == kind]
    assert found["advice"].startswith("Record without -F")
    with duckdb.connect(facts["database"], read_only=True) as con:
        sources = con.execute("SELECT DISTINCT source FROM context_switch").fetchall()
        assert sources == ([("switch_event",)] if more else [])
        assert con.execute("SELECT count(*) FROM wakeup").fetchone() == (0,)
        places = con.execute("SELECT place FROM problem WHERE what LIKE '%perf record -F%'")
        assert {place for (place,) in places.fetchall()} == set(EVENTS.split(","))


def test_advised_events_are_recorded_completely(tmp_path: Path) -> None:
    file = recorded(tmp_path / "perf.data", events=f"{EVENTS},cpu-clock/freq=99/")
    facts = analyzed(file)
    assert "no_switches" not in {found["kind"] for found in facts["findings"]}
    printed = subprocess.run(
        ["perf", "script", "-F", "event", "-i", str(file)],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout.split()  # fmt: skip
    with duckdb.connect(facts["database"], read_only=True) as con:
        counted = con.execute(
            "SELECT record, count FROM record_count WHERE record LIKE 'sched:%' ORDER BY ALL"
        ).fetchall()
        assert con.execute("SELECT count(*) FROM context_switch").fetchone() == counted[0][1:]
        assert counted == [(name, printed.count(f"{name}:")) for name in sorted(EVENTS.split(","))]
        # Each takes the thread off its CPU that the one before put there, which few of a sample of
        # switches do. Some kernels leave out a few switches.
        (unchained,) = con.execute(
            "SELECT count(*) FROM (SELECT prev_utid, lag(next_utid) "
            "OVER (PARTITION BY cpu ORDER BY ts, seq) AS before FROM context_switch) "
            "WHERE prev_utid <> before"
        ).fetchall()
        assert unchained[0] < 0.2 * counted[0][1]
        assert not con.execute("FROM problem WHERE what LIKE '%perf record -F%'").fetchall()


def test_filtered_switches_are_a_warning(tmp_path: Path) -> None:
    condition = "prev_pid != 0"
    # The filter applies to the events of the option in front of it.
    more = ["--filter", condition, "-e", "sched:sched_waking"]
    file = recorded(tmp_path / "perf.data", *more, events="sched:sched_switch")
    (found,) = [f for f in analyzed(file)["findings"] if f["kind"] == "filtered_switches"]
    assert f"the filter `{condition}`" in found["detail"]
    other = ["-e", "sched:sched_waking", "--filter", "prio < 100"]
    whole = recorded(tmp_path / "whole.data", *other, events="sched:sched_switch")
    assert "filtered_switches" not in {f["kind"] for f in analyzed(whole)["findings"]}


# A thread is woken for the first time once: that says nothing about its waits.
def test_first_wakeups_alone_leave_waits_unknown(tmp_path: Path) -> None:
    file = recorded(
        tmp_path / "first.data", events="sched:sched_switch,sched:sched_wakeup_new"
    )  # fmt: skip
    (found,) = [
        finding for finding in analyzed(file)["findings"] if finding["kind"] == "unknown_ready_time"
    ]
    assert found["advice"] == "Record sched_waking as well."
    with duckdb.connect(str(tmp_path / "first" / "analysis.duckdb"), read_only=True) as con:
        assert con.execute("SELECT DISTINCT kind FROM wakeup").fetchall() == [("wakeup_new",)]
        times = con.execute(
            "SELECT wait_ns, unknown_ns FROM thread_summary WHERE thread = 'sched-messaging' "
            # Asleep at least once: S or D. One that is forked late may never be.
            "AND utid IN (SELECT prev_utid FROM context_switch WHERE prev_state & 3 <> 0)"
        ).fetchall()
        (waited,) = con.execute(
            "SELECT count(*) FROM thread_state WHERE state = 'waiting' AND dur > 0"
        ).fetchall()
    # Each of them waits for messages.
    assert {wait for wait, _ in times} == {None}
    assert all(unknown > 0 for _, unknown in times)
    assert waited[0] >= len(times) >= 10
