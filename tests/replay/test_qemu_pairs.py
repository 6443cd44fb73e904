"""Pairs on SMT siblings: the plan of the guest, and predictions from drawn recordings like its."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import qemu_pairs
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from fixture_files import FIXTURES
from linux_pairs import Answers

MS = 1_000_000
SECOND = 1000 * MS
# Two cores with two siblings each, as the guest has them.
CORES = [Cpu(0, 0, 0), Cpu(1, 0, 1), Cpu(2, 2, 0), Cpu(3, 2, 1)]
PROCESS = "schedlens-workl"


def steps(repeats: int) -> list[str]:
    """The runs that record_qemu.sh passes to the guest."""
    done = subprocess.run(
        [sys.executable, str(FIXTURES / "guest_session.py"), "--missing", "/nowhere", str(repeats)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().split(",")


def test_each_kind_is_recorded_faulty_and_fixed_in_turn() -> None:
    assert steps(2) == [
        f"{kind}-{state}-r{repeat:02}"
        for repeat in (1, 2)
        for kind in qemu_pairs.KINDS
        for state in ("faulty", "fixed")
    ]


def test_plan_pins_the_faulty_run_to_siblings_and_the_fixed_run_to_cores(tmp_path: Path) -> None:
    text = (FIXTURES / "qemu_plan_pairs.sh").read_text(encoding="utf-8")
    for path, own in (("/plan_session", FIXTURES / "qemu_plan_session.sh"),
                      ("/run/visit", tmp_path / "visit")):  # fmt: skip
        assert path in text
        text = text.replace(path, str(own))
    plan = tmp_path / "plan"
    plan.write_text(text, encoding="utf-8")
    # What qemu_guest_init.sh and the guest provide.
    stubs = """
    planned_cpus() { case $1 in siblings) echo 0,1 ;; physical) echo 0,2 ;; esac; }
    step() { echo "$SECONDS_PER_RUN s: $*"; }
    taskset() { :; }
    renice() { :; }
    """
    done = subprocess.run(
        ["sh", "-c", f"{stubs}\n. {plan}\nrecord_all 2> /dev/null"],
        env={**os.environ, "STEPS": ",".join(steps(1)), "ATTEMPT": "7"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "2 s: pinned-faulty-r01 7 sha256 siblings 2 0,1",
        "2 s: pinned-fixed-r01 7 sha256 physical 2 0,2",
        "2 s: visitor-faulty-r01 7 sha256 physical 1 0",
        "2 s: visitor-fixed-r01 7 sha256 physical 1 0",
    ]


def drawn_session(folder: Path, kind: str) -> Path:
    """An analyzed session with the faulty run of a kind, whose fix doubles the throughput."""
    threads = {f"{PROCESS}/sha256-00": 0}
    threads |= {f"{PROCESS}/sha256-01": 1} if kind == "pinned" else {"sh/sh": 1}
    slices = [
        Slice(name, cpu, start, 100 * MS, wait=0, end="quantum_end_or_yield")
        for name, cpu in threads.items()
        for start in range(0, 2 * SECOND, 100 * MS)
    ]
    with drawn_database(folder / "analysis.duckdb") as con:
        trace = DrawnTrace(con, slices, CORES, 2 * SECOND)
        con.execute(f"UPDATE trace SET label = '{kind}-faulty-r01', os = 'Linux 6.12.95'")
        for name, cpu in threads.items():
            trace.add("affinity", utid=trace.utid(name), cpus=[cpu], source="reading")
    for state, rate in (("faulty", 5e6), ("fixed", 1e7)):
        step = folder / f"{kind}-{state}-r01"
        step.mkdir()
        result = json.dumps({"measured": {"bytes_per_s": rate}})
        (step / "workload.json").write_text(result, encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", list(qemu_pairs.KINDS))
def test_fix_of_a_busy_sibling_is_predicted_from_the_faulty_run(tmp_path: Path, kind: str) -> None:
    found = {
        answers.name: answers for answers in qemu_pairs.compared(drawn_session(tmp_path, kind))
    }
    answers = found.pop(kind)
    assert answers.reasons == []
    ((ratio, true),) = answers.made
    assert true == 2.0
    # Without counters, a thread with a busy sibling runs at an assumed 0.5 to 0.75 of its speed.
    value, low, high = ratio
    assert value == pytest.approx(1 / 0.6, rel=0.02)
    assert low <= 1 / 0.75
    assert high >= 2.0
    assert answers.within() == 1
    assert [other.true for other in found.values()] == [[]]


def test_row_counts_predictions_and_names_each_reason_once() -> None:
    answers = Answers("pinned")
    answers.add(2.0, (1.7, 1.2, 2.1))
    answers.add(2.2, (1.6, 1.2, 2.1))
    answers.add(2.0, "lost events")
    answers.add(2.1, "lost events")
    figures, reason = answers.row().splitlines()
    assert " ".join(figures.split()) == "pinned 2.05 1.65 1.20 2.10 1/2 2"
    assert reason == "    cannot tell: lost events"
