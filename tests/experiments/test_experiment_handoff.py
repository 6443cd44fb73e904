"""The experiment `handoff`: its plan, hand-offs per frame, its numbers, and a real run."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import experiment_session
import pytest
import sysfs_machine as fake
from conftest import command
from judged import plain

from schedlens.ask import judging
from schedlens.ask.findings import Finding, Rank, Scope
from schedlens.experiments import handoff
from schedlens.load import session_file
from schedlens.load.measured_cell import Facts
from schedlens.machine import topology
from schedlens.record import cells
from schedlens.report import overview, summary
from schedlens.report.sections import View

pytestmark = pytest.mark.slow


def read(machine: fake.FakeMachine, root: Path) -> topology.Topology:
    return topology.read(machine.write(root))


def test_plan_covers_one_cpu_siblings_and_cores_three_ways(tmp_path: Path) -> None:
    hops, frames, _ = handoff.plan(read(fake.ten_cores_twenty_threads(), tmp_path))
    assert [(cell.name, cell.cpus) for cell in hops[:4]] == [
        ("spin_handoff-same_cpu-spin", (0, 0)), ("spin_handoff-same_cpu-yield", (0, 0)),
        ("spin_handoff-same_cpu-park", (0, 0)), ("spin_handoff-siblings-spin", (0, 10)),
    ]  # fmt: skip
    assert [(cell.place, cell.cpus) for cell in frames[::3]] == [
        ("same_cpu", (0, 0)), ("siblings", (0, 10)), ("same_llc", (0, 1)),
    ]  # fmt: skip
    assert cells.words(cells.step(hops[5], 1, 1)) == [
        "spin_handoff", "--threads", "2", "--cpus", "0,10", "--how", "park",
    ]  # fmt: skip


def test_worst_case_needs_one_cpu(tmp_path: Path) -> None:
    root = fake.no_smt().write(tmp_path)
    hops, _, missing = handoff.plan(topology.read(root, allowed=(3,)))
    assert {cell.cpus for cell in hops} == {(3, 3)}
    assert missing == ["two workers need two logical CPUs; only one is usable here"]


@pytest.mark.parametrize(
    ("slice_ms", "expected"), [(4.0, 9), (3.5, 10), (35.0, 1), (31.25, 2), (0.07, 500), (100.0, 1)]
)
def test_hand_offs_per_frame_follow_from_35_ms(slice_ms: float, expected: int) -> None:
    assert handoff.handoffs_for(slice_ms * 1e6) == expected


def test_slice_length_comes_from_finished_steps(tmp_path: Path) -> None:
    hops, frames, _ = handoff.plan(read(fake.no_smt(), tmp_path / "root"))
    steps = cells.shuffled(hops, 2, 1)
    frame = cells.step(frames[0], 1, 99)
    frame = handoff.entered(frame, tmp_path, steps)
    assert frame.cell is not None
    assert frame.cell.facts.handoffs == 9
    for step in steps:
        if step.cell is not None and step.cell.name == "spin_handoff-same_cpu-spin":
            (tmp_path / step.name).mkdir()
            hop = {1: 3.0e6, 2: 4.0e6}[step.repeat]
            (tmp_path / step.name / "workload.json").write_text(
                json.dumps({"measured": {"ns_per_hop": hop}})
            )
    frame = handoff.entered(frame, tmp_path, steps)
    assert frame.cell is not None
    assert frame.cell.facts == Facts(how="spin", handoffs=10)
    assert cells.words(frame)[-4:] == ["--how", "spin", "--handoffs", "10"]


def session(tmp_path: Path) -> Path:
    """4 ms one way if both spin on one CPU: the hops of one thread are 8 ms apart."""
    machine = read(fake.no_smt(), tmp_path / "root")
    hops, frames, missing = handoff.plan(machine)
    steps = cells.shuffled(hops, 6, 1) + cells.shuffled(frames, 6, 2, after=36)
    rates, workers = {}, {}
    for cell in hops:
        slow = cell.place == "same_cpu" and cell.facts.how == "spin"
        rates[cell.name] = [125.0] * 2 if slow else [5e6] * 2
    for cell in frames:
        slow = cell.place == "same_cpu" and cell.facts.how == "spin"
        rates[cell.name] = [60.0, 60.0]
        ns = 36_000_000 if slow else 16_666_667
        counts = {"frames": 20, "missed_frames": 20 if slow else 0, "interval_ns": 20 * ns}
        workers[cell.name] = [{"counts": counts, "latency": [[ns, 20]]}, {}]
    for number, step in enumerate(steps):
        if step.cell is not None and step.workload == "frame":
            facts = replace(step.cell.facts, handoffs=9)
            steps[number] = replace(step, cell=replace(step.cell, facts=facts))
    return experiment_session.write(
        tmp_path / "session", machine, steps, rates, workers=workers,
        experiment={"name": "handoff", "missing": missing},
    )  # fmt: skip


def test_session_has_expected_numbers(tmp_path: Path) -> None:
    folder = session(tmp_path)
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT place, how, one_way_ns, handoffs, round(frames_per_s, 2), frames, missed_pct, "
            "coverage_pct FROM handoff_time WHERE how = 'spin'"
        ).fetchall()
        assert rows == [
            ("same_cpu", "spin", 4e6, 9, 27.78, 120, 100.0, 96.875),
            ("same_llc", "spin", 100.0, 9, 60.0, 120, 0.0, 96.875),
        ]
        shown = experiment_session.section(con, "handoff_time")
        assert shown["figures"][1]["caption"] == (
            "Frames per second of a 60 Hz loop with 9 hand-offs per frame; lowest: 27.8 "
            "(spin, one CPU)."
        )
        [(kind, detail, advice)] = con.execute(
            "SELECT kind, detail, advice FROM finding WHERE analyzer = 'handoff_time' "
            "AND severity = 'warning'"
        ).fetchall()
    assert kind == "slow_loop"
    assert plain(detail) == (
        "A 60 Hz loop with 9 hand-offs a frame reaches 27.8 frames a second where both threads "
        "spin on one CPU: each hand-off takes 4 ms."
    )
    assert advice == "Let the waiting thread park or yield, or give each thread its own CPU."


@pytest.mark.alone
def test_small_run_on_this_machine_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    command(
        "collect", "--experiment", "handoff", "--seconds", "0.1", "--warm-up", "0.05",
        "--repeat", "1", "-o", str(folder),
    )  # fmt: skip
    done = command("analyze", str(folder), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1)
    rows = json.loads(done.stdout)["experiment"]["handoff"]["cells"]
    found = {(row["place"], row["how"]): row for row in rows}
    spin, parked = found["same_cpu", "spin"], found["same_cpu", "park"]
    # A whole slice against a wakeup: the scheduler's tick is at least 1 ms.
    assert spin["one_way_ns"] > 3 * parked["one_way_ns"]
    slices: list[float] = []
    used = set()
    # The steps are in the order in which they ran; disturbed ones run again at the end.
    for step in session_file.read(folder / "session.json").steps:
        assert step.cell is not None
        if step.cell.name == "spin_handoff-same_cpu-spin":
            result = json.loads((folder / step.name / "workload.json").read_text())
            slices.append(result["measured"]["ns_per_hop"])
        elif step.workload == "frame":
            assert step.cell.facts.handoffs == handoff.handoffs_for(statistics.median(slices))
            used.add(step.cell.facts.handoffs)
    assert {row["handoffs"] for row in rows} <= used
    assert 0.999 * min(slices) <= spin["one_way_ns"] <= 1.001 * max(slices)


def words(text: str) -> str:
    """A text without the spaces and joiners that decide where a line may break."""
    return "".join(filter(str.isalnum, text))


def test_findings_of_the_experiment_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = session(tmp_path)
    with experiment_session.analyzed(folder) as con:
        noise = Finding(
            "stolen_cpu", "critical", "Hypervisor took CPU 0", "Detail.", "Advice.", "FROM steal",
            analyzer="steal",
        )  # fmt: skip
        found = judging.judge_all(Scope(con), experiment_session.JUDGES)
        judging.store(con, judging.Judgement([noise, *found.findings], found.outcomes))
        shown = summary.payload(View(con, None, 1, ""), set())
        rows = Scope(con).rows("SELECT * FROM finding ORDER BY finding_id")
        outcomes = Scope(con).rows("SELECT * FROM analyzer_outcome")
    titles = [card["title"] for card in shown["cards"]]
    # The report's first screen states the answer, and then what disturbed it.
    assert shown["verdict"]["kind"] == "experiment"
    answers = [row["detail"] for row in rows if row["rank"] == Rank.ANSWER]
    assert answers
    lead = next(row["title"] for row in rows if row["rank"] == Rank.ANSWER)
    said = [f"{lead}.", *answers]
    assert [words(line) for line in shown["verdict"]["lines"]] == [words(each) for each in said]
    assert [titles[place] for place in shown["top"]] == [noise.title]
    facts: dict[str, Any] = {
        "traces": [], "not_loaded": [], "not_answered": [], "findings": rows,
        "outcomes": outcomes,
        "database": "session/analysis.duckdb", "report": None, "calibration": None,
        "next_queries": [], "what_if": {"replays": [], "gains": []},
    }  # fmt: skip
    overview.show_findings(facts)
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:8].strip()]
    signs = [
        line.split()[0] for line in lines if line.split()[0] in ("critical", "warning", "info")
    ]
    assert signs == ["warning", "info", "critical"]
    assert "A hand-off takes" in lines[2]
    # Experiments that did not run give no judgment.
    assert not any("pair_interference" in line for line in lines if "missing" not in line)
