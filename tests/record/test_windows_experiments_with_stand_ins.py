"""Experiments as on Windows, with stand-ins for wpr, powercfg and the other commands of Windows.

There is no Windows here: the tests check the commands, their order, how experiments handle their
output, and that the boost mode is always restored.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import windows_buffers
import windows_texts
from record.test_windows_collect_with_stand_ins import load, run, stand_ins
from recording_writer import write
from windows_stand_ins import StandIns

from schedlens.commands import cli
from schedlens.errors import KnobError
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.record import cells, changes, former_settings
from schedlens.record.option_groups import CollectOptions, ExperimentChoice, Subject, Sweep
from schedlens.record.request import Request
from schedlens.record.windows import boost, experiments, power_plan
from schedlens.record.windows.options import Options
from schedlens.record.windows.runner import Runner

if TYPE_CHECKING:
    from collectors import etw
else:
    from schedlens.collectors import etw

pytestmark = pytest.mark.slow

__all__ = ["run"]

MS = 1_000_000
BEGIN_NS = 500_000_000_000
EDGES_NS = (BEGIN_NS + 10 * MS, BEGIN_NS + 1_010 * MS)
Run = Callable[..., tuple[int, str]]

SET = ["sub_processor", "perfboostmode"]


def switched(plan: str, mode: int) -> list[list[str]]:
    """The arguments with which powercfg sets a mode."""
    return [
        ["/setacvalueindex", plan, *SET, str(mode)],
        ["/setdcvalueindex", plan, *SET, str(mode)],
        ["/setactive", "scheme_current"],
    ]


def drawn_etl(path: Path) -> bytes:
    """Simulated: 1.02 s of two siblings, CPU 0 busy from 100 to 600 ms, CPU 1 idle."""
    cpus = [{"cpu": cpu, "core": 0, "l2": 0, "l3": 0} for cpu in (0, 1)]
    head = {"machine": {"cpus": cpus}, "etl": {"start_ticks": BEGIN_NS // 100}}
    process = {"pid": 100, "name": "work.exe", "phase": "rundown_start"}
    thread = {"pid": 100, "tid": 101, "phase": "rundown_start"}
    lines = [
        {"ts": 0, "cpu": 0, "event": "process", **process},
        {"ts": 0, "cpu": 0, "event": "thread", **thread},
        {"ts": 100 * MS, "cpu": 0, "event": "switch", "old": 0, "new": 101, "leaves": "blocked"},
        {"ts": 600 * MS, "cpu": 0, "event": "switch", "old": 101, "new": 0, "leaves": "blocked"},
        {"ts": 1_020 * MS, "cpu": 1, "event": "switch", "old": 0, "new": 101, "leaves": "blocked"},
    ]
    write(head, lines, path)
    return path.read_bytes()


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """A machine of one core with SMT that reports itself as Windows; boost is aggressive."""
    made = stand_ins(tmp_path, monkeypatch, drawn_etl(tmp_path / "drawn.etl"), EDGES_NS)
    made.power(2, 2)
    (made.home / "buffer").write_bytes(windows_buffers.one_core_of_two())
    monkeypatch.setenv("SCHEDLENS_STATE_DIR", str(tmp_path / "state"))
    return made


def test_boost_mode_is_switched_and_read_back(
    windows: StandIns,
) -> None:
    windows.power(3, 0)
    switch, why = boost.find()
    assert switch is not None, why
    # Mains and battery differ: neither on nor off, and yet it can be restored.
    assert switch.state() is None
    [(name, text)] = switch.contents()
    assert (name, text) == (f"powercfg {windows_texts.PLAN} perfboostmode", "3 0")
    switch.set("off")
    assert (switch.state(), windows.boost_modes) == ("off", (0, 0))
    switch.set("on")
    # The initial value is restored; if it was off, Windows' default mode.
    assert (switch.state(), windows.boost_modes) == ("on", (3, 2))
    asked = [words for words in windows.calls_of("powercfg") if words[0].startswith("/set")]
    assert asked[:3] == switched(windows_texts.PLAN, 0)
    assert former_settings.put_back([(name, text)]) == []
    assert windows.boost_modes == (3, 0)
    for wrong in ("3", "3 x", ""):
        assert former_settings.put_back([(name, wrong)]) == [name]


def test_boost_is_refused_where_the_power_mode_overlay_overrides_it(windows: StandIns) -> None:
    windows.texts([(list(power_plan.OVERLAY), windows_texts.OVERLAY)])
    # An overlay without a boost mode of its own changes nothing.
    assert boost.find()[0] is not None
    windows.power(2, 2, overlays=(windows_texts.BEST_PERFORMANCE,))
    switch, why = boost.find()
    assert switch is None
    assert why.startswith("the Power Mode 'best performance (ded574b5-")
    windows.texts([])
    assert boost.find()[0] is not None


def test_boost_mode_that_cannot_be_set_says_why(windows: StandIns) -> None:
    windows.power(2, 2, refuses=True)
    switch, _ = boost.find()
    assert switch is not None
    with pytest.raises(KnobError, match=r"^boost: `powercfg /setacvalueindex .*` failed: Unable"):
        switch.set("off")
    assert former_settings.put_back([(switch.contents()[0][0], "0 0")]) != []
    assert windows.boost_modes == (2, 2)
    (windows.home / "processor_power").write_text(windows_texts.GERMAN_PROCESSOR_POWER)
    assert boost.find() == (
        None, "the power plan has no boost mode: this processor or its firmware offers none",
    )  # fmt: skip
    (windows.bin / "powercfg").unlink()
    assert boost.find()[1].startswith("powercfg reports no power plan (")


_PARENT = """
import sys, time
from schedlens.experiments import smt_boost
from schedlens.record.windows import experiments
on = experiments.here()
states = smt_boost.States(on.knobs()[0], on)
states.begin()
for knob in on.knobs()[0].values():
    knob.set("off")
print(states._guard.pid, flush=True)
time.sleep(600)
"""


def test_guard_restores_boost_mode_when_parent_is_killed(
    windows: StandIns,
) -> None:
    windows.power(4, 1)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert parent.stdout is not None
        int(parent.stdout.readline())
        assert windows.boost_modes == (0, 0)
        [left] = changes.left_behind()
        assert (left.what, left.before) == (
            f"set powercfg {windows_texts.PLAN} perfboostmode", "4 1",
        )  # fmt: skip
        parent.send_signal(signal.SIGKILL)
        assert parent.wait(60) == -signal.SIGKILL
        deadline = time.monotonic() + 60
        # Its last action removes the entry from the journal.
        while changes.left_behind() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (windows.boost_modes, changes.left_behind()) == ((4, 1), [])
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()


def test_doctor_restores_boost_mode_after_a_killed_guard(
    windows: StandIns, capfd: pytest.CaptureFixture[str]
) -> None:
    switch, _ = boost.find()
    assert switch is not None
    changes.remember(switch.contents())
    switch.set("off")
    assert cli.run(cli.group, ["doctor"], name="schedlens") == 1
    assert "left behind" in capfd.readouterr().out
    assert cli.run(cli.group, ["doctor", "--restore"], name="schedlens") == 0
    assert f"undone: set powercfg {windows_texts.PLAN}" in capfd.readouterr().out
    assert windows.boost_modes == (2, 2)


def test_smt_boost_runs_with_stand_ins(
    windows: StandIns, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = run(
        "--experiment", "smt-boost", "--seconds", "0.1", "--repeat", "1", "-o", "session"
    )
    assert code == 0, said
    assert f"not measured here: {experiments.NO_SMT}" in said
    # The stand-in for the observer has one of two CPUs busy.
    assert "this machine is not quiet (50 % of all CPU time went to other programs)" in said
    session = load(Path("session/session.json"))
    assert session["experiment"]["other_users"] is None
    steps = {row["name"]: row for row in session["steps"]}
    assert set(steps) == {
        f"{how}-boost-{state}-r1" for how in ("closed", "open") for state in ("off", "on")
    }
    assert {row["state"] for row in steps.values()} == {"done"}
    assert {tuple(row["planned_cpus"]) for row in steps.values()} == {(0, 1)}
    for name in steps:
        step = load(Path("session") / name / "step.json")
        assert step["cell"]["facts"]["boost"] == name.split("-")[2]
        assert not (Path("session") / name / "baseline").exists()
    # The modes of the cells in order, then the initial one.
    modes = [words[4] for words in windows.calls_of("powercfg") if words[0] == "/setacvalueindex"]
    order = [row["cell"]["facts"]["boost"] for row in session["steps"]]
    wanted = {"on": "2", "off": "0"}
    expected = [
        wanted[now] for before, now in zip(["on", *order], order, strict=False) if before != now
    ]
    assert modes == [*expected, *(["2"] if order[-1] == "off" else [])]
    assert windows.boost_modes == (2, 2)
    assert changes.left_behind() == []
    assert cli.run(cli.group, ["analyze", "session", "--json", "--no-report"], name="x") in (0, 1)
    found = json.loads(capfd.readouterr().out)["experiment"]["smt-boost"]["cells"]
    assert [(row["load"], row["smt"], row["boost"], row["cpus"]) for row in found] == [
        ("closed", None, "off", 2), ("closed", None, "on", 2),
        ("open", None, "off", 2), ("open", None, "on", 2),
    ]  # fmt: skip
    assert all(row["per_s"] > 100 for row in found)


def runner(command: tuple[str, ...]) -> Runner:
    """The runner of `pairs` steps with a user's program."""
    options = CollectOptions(
        subject=Subject(command=command),
        sweep=Sweep(seconds=30.0, repeats=1),
        choice=ExperimentChoice(experiment="pairs"),
    )
    request = Request.checked(options, "windows")
    kind, program = etw.find()
    capture = etw.Capture(kind, program)
    etw.write_profile(capture, Path("schedlens.wprp"))
    return Runner(request, Options(), capture, Path("schedlens.wprp"))


def test_command_in_a_cell_is_bound_and_timed(windows: StandIns, tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    program = (
        "import os, pathlib, time; time.sleep(0.2); "
        "pathlib.Path('bound').write_text(str(os.sched_getaffinity(0)))"
    )
    runs = runner((sys.executable, "-c", program))
    facts = Facts(load="command")
    alongside = Facts(load="command", command_cpu=cpu)
    for cell in (
        Cell("pairs", "command-alone", "alone", (cpu,), facts=facts),
        Cell("pairs", "command+imul3", "siblings", (cpu,), (Load("imul3"),), facts=alongside),
    ):
        folder = tmp_path / cell.name
        folder.mkdir()
        row = runs.run(cells.step(cell, 1, 1), folder)
        assert Path("bound").read_text() == f"{{{cpu}}}"
        Path("bound").unlink()
        assert row.command_ns is not None
        assert 0.2e9 <= row.command_ns < 30e9
        assert row.warnings == ()
        # The second kernel ran until the program ended.
        if cell.loads:
            worker = load(folder / "workload.json")["workers"][0]
            assert worker["end_mono_ns"] - worker["start_mono_ns"] >= 0.2e9
    failing = runner((sys.executable, "-c", "raise SystemExit(3)"))
    folder = tmp_path / "failing"
    folder.mkdir()
    cell = Cell("pairs", "command+imul3", "siblings", (cpu,), (Load("imul3"),), facts=alongside)
    with pytest.raises(Exception, match="the command exited with code 3"):
        failing.run(cells.step(cell, 1, 1), folder)
    assert not (windows.home / "wpr.running").exists()


@pytest.mark.parametrize("name", ["pairs", "scaling", "handoff", "shards", "smt-boost"])
def test_dry_run_prints_what_each_cell_runs(name: str, windows: StandIns, run: Run) -> None:
    words = ["--experiment", name, "--dry-run", "--repeat", "2"]
    words += ["--pair", "imul1+add1"] if name == "pairs" else []
    code, said = run(*words)
    assert code == 0, said
    lines = said.splitlines()
    start = lines.index("to cancel instead: wpr -cancel -instancename schedlens")
    commands = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines[:start]}
    steps = [line.split()[0] for line in lines[start + 1 :] if line.split()[0][-3:-1] == "-r"]
    assert len(steps) == len(set(steps))
    first = [step for step in steps if step.endswith("-r1")]
    assert 2 * len(first) == len(steps)
    for step in first:
        assert commands[step].startswith("schedlens-workloads run "), step
        assert commands[step].endswith(" --gate --out STEP")
    assert lines[-1].startswith(f"{len(steps)} steps, about ")
    asked = [words for words in windows.calls_of("powercfg") if words[0].startswith("/set")]
    assert asked == []
    back = [line for line in lines if line.startswith("boost as it was: ")]
    if name == "smt-boost":
        assert lines.count("boost off: powercfg /setactive scheme_current") == 2
        assert back[0].endswith("/setacvalueindex scheme_current sub_processor perfboostmode AC")
    else:
        assert not any(line.startswith("boost ") for line in lines)


def test_ring_is_refused_for_experiments(windows: StandIns, run: Run) -> None:
    code, said = run("--experiment", "handoff", "--ring", "30", "-o", "session")
    assert (code, Path("session").exists()) == (2, False)
    assert "an experiment records each of its cells completely" in said


def test_busy_share_comes_from_two_snapshots() -> None:
    times = {"system_ns": 10, "irq_ns": 0, "softirq_ns": 5, "user_ns": 0, "idle_ns": 0}
    begin = {"cpus": [{"cpu": 0, **times}, {"cpu": 2, **times}]}
    after = {"system_ns": 20, "irq_ns": 5, "softirq_ns": 10, "user_ns": 5, "idle_ns": 75}
    end = {"cpus": [{"cpu": 0, **after}, {"cpu": 1, **after}]}
    assert experiments.busy_share(begin, end) == 0.25
    assert experiments.busy_share(begin, begin) is None
    assert experiments.busy_share({"cpus": []}, end) is None
