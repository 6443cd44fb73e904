"""Repeats that others disturbed are measured again, together with what they are compared with."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import sysfs_machine as fake
from conftest import command

from schedlens.experiments import conduct
from schedlens.load import session_file
from schedlens.load.session_file import Step
from schedlens.machine import topology
from schedlens.record import host
from schedlens.record.option_groups import CollectOptions, ExperimentChoice, Sweep
from schedlens.record.request import Request


def conductor(root: Path, name: str, pairs: tuple[str, ...] = ()) -> conduct.Experiment:
    """An experiment of three repeats on 10 cores with 20 threads."""
    fake.ten_cores_twenty_threads().write(root)
    choice = ExperimentChoice(experiment=name, pairs=pairs)
    options = CollectOptions(choice=choice, sweep=Sweep(repeats=3))
    found = conduct.of(Request.checked(options, "linux"), host.linux(root))
    assert isinstance(found, conduct.Experiment)
    return found


def done(steps: list[Step]) -> list[Step]:
    return [replace(step, state="done") for step in steps]


def test_disturbed_pair_is_repeated_with_its_baselines(tmp_path: Path) -> None:
    made = conductor(tmp_path, "pairs", ("imul1+add1", "scan+scan"))
    steps = done(made.steps(topology.read(tmp_path)))
    assert made.replacements(steps, set()) == []
    disturbed = {"imul1+add1-siblings-r2"}
    more = made.replacements(steps, disturbed)
    assert {step.name for step in more} == {
        "imul1+add1-siblings-r4", "imul1-alone-cpu0-r4", "add1-alone-cpu0-r4",
    }  # fmt: skip
    first = len(steps)
    assert [step.cell.position for step in more if step.cell] == [first + 1, first + 2, first + 3]
    # Once the fourth repeat is clean, nothing is missing.
    assert made.replacements(steps + done(more), disturbed) == []
    assert made.shortfall(steps + done(more), disturbed) == []


def test_replacement_ends_at_twice_the_repeats_and_states_the_shortfall(tmp_path: Path) -> None:
    made = conductor(tmp_path, "pairs", ("imul1+add1",))
    steps = done(made.steps(topology.read(tmp_path)))
    while more := made.replacements(steps, {step.name for step in steps}):
        steps += done(more)
    assert max(step.repeat for step in steps) == 6
    assert set(Counter(step.cell.name for step in steps if step.cell).values()) == {6}
    assert made.shortfall(steps, {step.name for step in steps}) == [
        "4 of 4 cells have fewer than 3 undisturbed repeats, the fewest 0: `coverage_pct` shows "
        "the confidence of their intervals"
    ]


def test_failed_steps_count_as_missing(tmp_path: Path) -> None:
    made = conductor(tmp_path, "pairs", ("imul1+add1",))
    steps = done(made.steps(topology.read(tmp_path)))
    steps[0] = replace(steps[0], state="failed")
    assert made.replacements(steps, set())


@pytest.mark.alone
def test_real_disturbance_is_found_and_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    with contextlib.ExitStack() as hogs:
        for cpu in sorted(os.sched_getaffinity(0)):
            spin = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
            hogs.callback(subprocess.Popen([sys.executable, "-c", spin]).kill)
        done = command(
            "collect", "--experiment", "pairs", "--pair", "add1+add1", "--seconds", "0.1",
            "--warm-up", "0.05", "--repeat", "1", "-o", str(folder),
        )  # fmt: skip
    session = session_file.read(folder / "session.json")
    if session.capture.mode == "none":
        pytest.skip("context switches cannot be recorded here")
    assert all(step.state == "done" for step in session.steps)
    assert sorted({step.repeat for step in session.steps}) == [1, 2]
    assert "disturbed by other programs or the hypervisor: repeating" in done.stderr
    assert "have fewer than 1 undisturbed repeats" in done.stderr
