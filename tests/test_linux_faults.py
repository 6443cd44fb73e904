"""Scheduling faults made, recorded and found on the machine that runs the tests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from collect_command import collect
from conftest import command, needs_tracing

Finding = dict[str, Any]
PROGRAM = Path(__file__).parent / "linux_faults.py"


def lines(text: str) -> list[dict[str, Any]]:
    """One JSON object a line."""
    return [json.loads(line) for line in text.splitlines()]


def found(folder: Path, analyzer: str, *asked: str) -> list[Finding]:
    """Records with these arguments and returns what an analyzer says of it."""
    needs_tracing()
    done = collect("-o", str(folder), *asked)
    assert done.returncode == 0, done.stderr
    told = command("analyze", str(folder), "--only", analyzer, "--no-report", "--json", check=False)
    assert told.returncode in (0, 1), told.stderr
    findings: list[Finding] = json.loads(told.stdout)["findings"]
    return [finding for finding in findings if finding["analyzer"] == analyzer]


# Two threads on one CPU, each spinning until the other has had its turn: only the clock moves them.
def test_a_spin_hand_off_is_a_chain(workload: str, tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU alone: there is no other that could stand idle")
    (first, *_) = found(
        tmp_path / "s", "quantum_end_chain", "--workload", "spin_handoff", "--cpus", "0,0",
        "--how", "spin", "--threads", "2", "--seconds", "1",
    )  # fmt: skip
    assert "took turns on CPU" in first["title"] or "hand-offs at the end" in first["title"]
    rows = lines(
        command(
            "schedlens", "sql", "--json", str(tmp_path / "s"),
            "SELECT hand_offs, len(utids) AS threads, slice_ns FROM quantum_end_chain "
            "ORDER BY hand_offs DESC LIMIT 1",
        ).stdout
    )  # fmt: skip
    (chain,) = rows
    # A second of slices of a few ms each; other programs may cut it into parts.
    assert chain["hand_offs"] >= 3
    assert 2 <= chain["threads"] <= 8


def test_more_busy_programs_than_cpus_are_told(tmp_path: Path) -> None:
    (first, *_) = found(tmp_path / "s", "concurrency", "--", sys.executable, str(PROGRAM), "crowd")
    assert first["severity"] in ("warning", "critical")
    assert "CPUs were busy and threads stood ready for" in first["title"]
    # Three programs for each CPU: two of them are ready at any time, over most of the window.
    assert first["cost_pct"] >= 30.0


def test_a_program_that_others_keep_off_is_named(tmp_path: Path) -> None:
    rows = found(tmp_path / "s", "thread_summary", "--", sys.executable, str(PROGRAM), "hog")
    told = [row for row in rows if row["severity"] in ("warning", "critical")]
    assert any("starved" in row["title"] or "hog" in row["title"] for row in told), rows
    starved = lines(
        command(
            "schedlens", "sql", "--json", str(tmp_path / "s"),
            "SELECT thread, run_ns, ready_ns FROM thread_summary "
            "WHERE thread IN ('starved', 'hog') ORDER BY thread",
        ).stdout
    )  # fmt: skip
    by_name = {row["thread"]: row for row in starved}
    assert {"starved", "hog"} <= by_name.keys()
    # The weight of nice 19 is 15, that of nice -15 is 29154: its share is a thousandth.
    assert by_name["starved"]["ready_ns"] >= 5 * by_name["starved"]["run_ns"]
