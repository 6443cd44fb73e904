"""A CPU that goes offline and returns while perf records: offline, then unknown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import processors
import pyarrow as pa
import pytest
import recording_writer
from conftest import needs_tracing
from decoded import decoded

pytestmark = pytest.mark.alone

# Prints CLOCK_MONOTONIC around each change; kept short, since others may use the machine.
SCRIPT = """
import sys, time
control = sys.argv[1]
def put(value):
    before = time.monotonic_ns()
    with open(control, "w") as file:
        file.write(value)
    print(before, time.monotonic_ns(), flush=True)
time.sleep(0.15)
put("0")
time.sleep(0.3)
put("1")
time.sleep(0.3)
"""
SWITCH = "sched:sched_switch"
WAKINGS = f"{SWITCH},sched:sched_waking,sched:sched_wakeup_new,sched:sched_migrate_task"
STEPS = f"{WAKINGS},cpuhp:cpuhp_enter,cpuhp:cpuhp_exit"


@pytest.fixture
def control() -> Iterator[Path]:
    """The file that takes the last CPU offline; the CPU is online again afterwards."""
    needs_tracing()
    controls = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/online"))
    usable = [file for file in controls if os.access(file, os.W_OK) and file.read_text() == "1\n"]
    if not usable:
        pytest.skip("no CPU of this machine can be taken offline")
    file = usable[-1]
    with processors.taken_offline(file):
        try:
            # Permission alone does not decide: a container may refuse.
            file.write_text("0")
            file.write_text("1")
        except OSError as error:
            pytest.skip(f"no CPU of this machine can be taken offline: {error}")
        yield file


def _recorded(events: str, control: Path, folder: Path) -> tuple[dict[str, pa.Table], list[int]]:
    """The tables, and the times from ns 0 around going offline and around returning."""
    trace = folder / "perf.data"
    done = subprocess.run(
        ["perf", "record", "-q", "-a", "-k", "CLOCK_MONOTONIC", "-e", events, "-o", str(trace),
         "--", sys.executable, "-c", SCRIPT, str(control)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    tables = decoded(trace)
    start = tables["trace"]["start_clock"][0].as_py()
    return tables, [int(word) - start for word in done.stdout.split()]


def _rows(tables: dict[str, pa.Table], table: str, cpu: int) -> list[dict[str, Any]]:
    return [row for row in tables[table].to_pylist() if row["cpu"] == cpu]


def _last_switch(tables: dict[str, pa.Table], cpu: int) -> int:
    last: int = max(row["ts"] for row in _rows(tables, "context_switch", cpu))
    return last


def _run_ns(tables: dict[str, pa.Table], cpu: int) -> int:
    """Running time of the thread that takes the CPU down and up."""
    names = {row["utid"]: row["name"] for row in tables["thread"].to_pylist()}
    slices = _rows(tables, "sched_slice", cpu)
    return sum(row["dur"] for row in slices if names[row["utid"]] == f"cpuhp/{cpu}")


@pytest.mark.parametrize("events", [STEPS, WAKINGS], ids=["steps", "wakings"])
def test_offline_cpu_is_offline_and_then_unknown(
    events: str, control: Path, tmp_path: Path
) -> None:
    cpu = int(control.parent.name.removeprefix("cpu"))
    tables, (down, is_down, up, is_up) = _recorded(events, control, tmp_path)
    versions = [(row["online"], row["valid_from_ns"]) for row in _rows(tables, "cpu", cpu)]
    assert [online for online, _ in versions] == [True, False, True]
    first, offline, online = (since for _, since in versions)
    assert first is None
    assert down < offline < is_down
    assert up < online < is_up
    gaps = [
        (row["start_ns"], row["end_ns"])
        for row in _rows(tables, "loss", cpu) if row["signalled_by"] == "cpu_offline"
    ]  # fmt: skip
    [(silent, until), rest] = gaps
    assert until == offline
    assert _last_switch(tables, cpu) <= silent < offline
    # To the end.
    assert rest == (online, None)
    # It runs for a few ms, much less than the CPU is silent.
    assert _run_ns(tables, cpu) < is_down - down
    # All columns of the topology are repeated.
    rows = _rows(tables, "cpu", cpu)
    same = [{k: v for k, v in row.items() if k not in ("online", "valid_from_ns")} for row in rows]
    assert same[0] == same[1] == same[2]
    others = [row for row in tables["cpu"].to_pylist() if row["cpu"] != cpu]
    assert all(row["valid_from_ns"] is None for row in others)


def test_silent_cpu_without_wakeups_is_unknown_to_the_end(control: Path, tmp_path: Path) -> None:
    cpu = int(control.parent.name.removeprefix("cpu"))
    tables, (down, is_down, _, _) = _recorded(SWITCH, control, tmp_path)
    assert [row["online"] for row in _rows(tables, "cpu", cpu)] == [True]
    [(silent, until)] = [
        (row["start_ns"], row["end_ns"])
        for row in _rows(tables, "loss", cpu) if row["signalled_by"] == "cpu_offline"
    ]  # fmt: skip
    assert down < silent < is_down
    assert until is None
    assert _run_ns(tables, cpu) < is_down - down


def test_cpu_is_offline_between_hotplug_wakeups(tmp_path: Path) -> None:
    # ms      0 ....... 10 | 11      12         50                     60
    # CPU 0   runs; wakes    cpuhp/1 migration/1 cpuhp/1 (it returns)
    # CPU 1   runs      ends
    machine = {"cpus": [{"cpu": cpu, "core": cpu, "l2": cpu, "l3": 0} for cpu in range(2)]}
    ms = 1_000_000
    lines: list[dict[str, Any]] = [
        {"ts": 0, "cpu": 0, "event": "process", "phase": "rundown_start", "pid": tid, "parent": 2,
         "name": name, "command_line": ""}
        for tid, name in ((20, "cpuhp/1"), (21, "migration/1"), (100, "worker"))
    ]  # fmt: skip
    lines += [
        {"ts": 0, "cpu": 0, "event": "thread", "phase": "rundown_start", "pid": tid, "tid": tid,
         "name": name}
        for tid, name in ((20, "cpuhp/1"), (21, "migration/1"), (100, "worker"))
    ]  # fmt: skip
    ends = {0: 60, 1: 10}
    for cpu, end in ends.items():
        lines += [
            {"ts": at * ms + cpu * 500_000, "cpu": cpu, "event": "switch",
             "old": 0 if at % 2 else 100, "new": 100 if at % 2 else 0}
            for at in range(1, end + 1) if cpu or at > 10
        ]  # fmt: skip
    lines += [
        {"ts": at * ms + 1, "cpu": 0, "event": "ready", "tid": tid, "target": 1}
        for at, tid in ((11, 20), (12, 21), (50, 20))
    ]
    lines.sort(key=lambda line: line["ts"])
    trace = tmp_path / "drawn.perf.data"
    recording_writer.write({"machine": machine}, lines, perf=trace)
    tables = decoded(trace)
    zero = _last_switch(tables, 0) - 60 * ms
    versions = [(row["online"], row["valid_from_ns"]) for row in _rows(tables, "cpu", 1)]
    offline, online = zero + 12 * ms + 1, zero + 50 * ms + 1
    assert versions == [(True, None), (False, offline), (True, online)]
    gaps = [
        (row["start_ns"], row["end_ns"])
        for row in _rows(tables, "loss", 1) if row["signalled_by"] == "cpu_offline"
    ]  # fmt: skip
    assert gaps == [(zero + 10 * ms + 500_000, offline), (online, None)]
