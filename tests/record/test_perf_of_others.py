"""perf.data as other commands record it: each context switch is as perf prints it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import needs_tracing
from decoded import decoded

pytestmark = pytest.mark.records

_SWITCHES = ("-e", "sched:sched_switch,sched:sched_waking,sched:sched_migrate_task")
_LOAD = ("perf", "bench", "sched", "pipe", "-l", "100")
COMMANDS: dict[str, tuple[str, ...]] = {
    "perf sched record": ("sched", "record"),
    "callchains": ("record", "-a", "-g", *_SWITCHES),
    "callchains of user space": ("record", "-a", "--call-graph", "dwarf,256", *_SWITCHES),
    "compressed": ("record", "-a", "-z", *_SWITCHES),
    "one process": ("record", *_SWITCHES),
    "one process with its CPU": ("record", "--sample-cpu", *_SWITCHES),
    "timestamps of the task": ("record", "-a", "-T", "-d", "-P", *_SWITCHES),
}
_LINE = re.compile(
    r"\[(\d+)\]\s+(\d+)\.(\d{9}):\s+sched:sched_switch: .*prev_pid=(\d+) .*==> .*next_pid=(\d+)"
)


def printed(trace: Path) -> list[tuple[int, int, int, int]]:
    """Time, CPU, and both threads of each switch as perf prints them."""
    done = subprocess.run(
        ["perf", "script", "--ns", "-G", "-i", str(trace)],
        capture_output=True, check=True, text=True, errors="replace",
    )  # fmt: skip
    return sorted(
        (int(s) * 1_000_000_000 + int(ns), int(cpu), int(prev), int(entered))
        for cpu, s, ns, prev, entered in _LINE.findall(done.stdout)
    )


def read(trace: Path) -> list[tuple[int, int, int, int]]:
    """The same as schedlens reads them."""
    tables = decoded(trace)
    start = tables["trace"]["start_clock"][0].as_py()
    tids = dict(
        zip(tables["thread"]["utid"].to_pylist(), tables["thread"]["tid"].to_pylist(), strict=True)
    )
    return sorted(
        (row["ts"] + start, row["cpu"], tids[row["prev_utid"]], tids[row["next_utid"]])
        for row in tables["context_switch"].to_pylist()
        if row["source"] == "switch"
    )


@pytest.fixture(autouse=True)
def _may_record() -> None:
    needs_tracing()


@pytest.mark.parametrize("name", COMMANDS)
def test_switches_are_as_perf_prints_them(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "perf.data"
    command = ["perf", *COMMANDS[name], "-o", str(trace), "--", *_LOAD]
    subprocess.run(command, capture_output=True, check=True)
    wanted = printed(trace)
    assert len(wanted) > 100
    assert read(trace) == wanted


def test_pipe_output_is_read_from_a_file(tmp_path: Path) -> None:
    trace = tmp_path / "perf.data"
    command = ["perf", "record", "-a", "-g", *_SWITCHES, "-o", "-", "--", *_LOAD]
    with trace.open("wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)
    wanted = printed(trace)
    assert len(wanted) > 100
    assert read(trace) == wanted
