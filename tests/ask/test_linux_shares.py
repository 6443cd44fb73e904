"""What groups of busy processes get on the machine that runs the tests, and what is fair."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from collect_command import collect
from conftest import command, needs_tracing
from new_cgroup import new_cgroup

pytestmark = pytest.mark.alone

PROGRAM = f"{sys.executable} {Path(__file__).parents[1] / 'support' / 'linux_faults.py'}"
CPUS = os.cpu_count() or 1


def shares(folder: Path, script: str) -> dict[str, dict[str, Any]]:
    """Records a script of the shell; returns the sums of the threads of each name."""
    needs_tracing()
    done = collect("-o", str(folder), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    command("analyze", str(folder), "--only", "thread_summary", "--no-report", check=False)
    asked = command(
        "schedlens", "sql", "--json", str(folder),
        "SELECT thread, count(*) AS threads, any_value(path) AS path, "
        "count(DISTINCT path) AS paths, any_value(weights) AS weights, "
        "sum(run_ns + ready_ns)::BIGINT AS active_ns, sum(ready_ns)::BIGINT AS ready_ns, "
        "sum(fair_ready_ns)::BIGINT AS fair_ns FROM fair_share JOIN sharing_group USING (utid) "
        "GROUP BY thread",
    )  # fmt: skip
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    return {row["thread"]: row for row in rows}


def unfair(row: dict[str, Any]) -> float:
    """Ready time beyond the fair one, as a part of the running and ready time."""
    return float((row["ready_ns"] - row["fair_ns"]) / row["active_ns"])


# A busy process in a session of its own gets a CPU; those of the crowd share the others.
def test_sessions_share_before_their_processes(tmp_path: Path) -> None:
    switch = Path("/proc/sys/kernel/sched_autogroup_enabled")
    if not switch.exists() or switch.read_text(encoding="ascii").strip() != "1":
        pytest.skip("this kernel does not group sessions (sched_autogroup_enabled)")
    found = shares(tmp_path / "s", f"setsid {PROGRAM} one & setsid {PROGRAM} crowd; wait")
    one, many = found["one"], found["crowd"]
    assert (one["threads"], many["threads"]) == (1, 3 * CPUS)
    assert (one["paths"], many["paths"]) == (1, 1)
    # If all shared as one group, each of seven threads would be owed 2/7 of two CPUs, not 1/6.
    assert many["fair_ns"] > (1 - CPUS / (3 * CPUS + 1)) * many["active_ns"]
    # That would be 0.12 more than fair.
    assert unfair(many) <= 0.08


def weighed(name: str, percent: int) -> AbstractContextManager[Path]:
    """A cgroup with a part of the default weight; skips if none can be created."""
    return new_cgroup(
        f"schedlens-test-{name}-{os.getpid()}",
        v1={"cpu.shares": percent * 1024 // 100}, v2={"cpu.weight": str(percent)},
    )  # fmt: skip


def test_cgroups_share_by_weight(tmp_path: Path) -> None:
    with weighed("heavy", 600) as heavy, weighed("light", 200) as light:
        # One that ends later has all CPUs then: two programs may start 0.1 s after one another.
        found = shares(tmp_path / "s", f"{PROGRAM} crowds heavy {heavy} light {light}")
    assert found["heavy"]["path"] == [f"/{heavy.name}"]
    assert (found["heavy"]["weights"], found["light"]["weights"]) == ([6144], [2048])
    # If all shared as one group, these would be -0.08 and 0.08.
    assert unfair(found["heavy"]) >= -0.05
    assert unfair(found["light"]) <= 0.05
    # 3/4 of all CPUs and 1/4. If all shared as one group, both would be owed the same.
    owed = {name: found[name]["active_ns"] - found[name]["fair_ns"] for name in ("heavy", "light")}
    assert owed["heavy"] > 2 * owed["light"]
