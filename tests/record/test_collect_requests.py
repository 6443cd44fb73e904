"""What `collect` plans, and what it refuses in one line."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from collect_command import collect

pytestmark = pytest.mark.alone


def test_a_dry_run_prints_the_plan_and_writes_nothing(workload: str, tmp_path: Path) -> None:
    done = collect("--workload", "imul1", "--threads", "1,2", "--dry-run", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("imul1-default-t01-r1 ") for line in lines)
    assert any(
        re.match(r"workload: .* run imul1 --threads 1 --seconds 1 --gate", line) for line in lines
    )
    if os.geteuid() == 0 and shutil.which("perf"):
        assert any(re.match(r"recorder: .*perf record .* -- cat$", line) for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_pairs_of_workers_need_even_numbers(workload: str, tmp_path: Path) -> None:
    done = collect("--workload", "spin_handoff", "--threads", "3", "-o", str(tmp_path / "s"))
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "collect: --threads: spin_handoff runs 2 workers together, so it cannot run 3: "
        "use a multiple of 2",
    )


FOOLISH = [
    (["--workload", "sha265"], "no workload named 'sha265': did you mean sha256"),
    (["--workload", "sha256", "--variant", "gpu"], "--variant: sha256 has "),
    (["--workload", "sha256", "--threads", "0"], "'0' is outside the range 1 to 4096"),
    (["--workload", "sha256", "--threads", "two"], "'two' is not a thread count"),
    (["--workload", "sha256", "--cpus", "0,9999"], "CPU 9999 is not online and allowed"),
    (["--workload", "sha256", "--cpus", "x"], "'x' is not a CPU or range"),
    (["--workload", "sha256", "--cpus", "0", "--placement", "default"], "exclude each other"),
    (["--workload", "sha256", "--seconds", "-1"], "--seconds: -1 is not between"),
    (["--workload", "sha256", "--seconds", "inf"], "--seconds: inf is not between"),
    (["--workload", "sha256", "--repeat", "0"], "--repeat must be at least 1"),
    (["--workload", "sha256", "--pid", "1"], "--workload and --pid exclude each other"),
    (["--workload", "sha256", "--depth", "3"], "--depth works only with queue, not sha256"),
    (["--workload", "queue", "--depth", "65"], "65 is not in the range 1<=x<=64"),
    (["--threads", "1..3"], "--threads needs --workload"),
    (["--pid", "4194305"], "no process 4194305 is running"),
    (["--process", "no such process"], "no process named 'no such process' is running"),
    (["--", "no-such-program"], "no program named 'no-such-program' on the path"),
    (["imul1", "--workload", "imul1"], "--workload and a command exclude each other"),
    (["--resume", "/nonexistent"], "does not exist"),
    (["--resume", "/tmp", "--seconds", "3"], "--resume uses the session's plan"),
    (["--counters", "no-such-event", "--seconds", "0.1"], "--counters: "),
    (["-o", "/proc/nowhere", "--seconds", "0.1"], "/proc/nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), FOOLISH)
def test_foolish_requests_get_one_line(
    arguments: list[str], message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "--workload" in arguments:
        request.getfixturevalue("workload")
    done = collect(*arguments, cwd=str(tmp_path))
    assert done.returncode == 2, done.stderr
    lines = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("not rec", "to rec", "recording mode"))
    ]
    assert len(lines) == 1, lines
    assert message in lines[0]
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_kernels_name_alone_is_met_with_the_option(workload: str, tmp_path: Path) -> None:
    done = collect("spin_handoff", cwd=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        2,
        "collect: no program named 'spin_handoff' on the path: did you mean "
        "--workload spin_handoff?\n",
    )
