"""What fixing a finding gains, next to what it cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import frames_with_worker
import pytest
import simulated

from schedlens.ask import added_up, gains, judging
from schedlens.ask.findings import Finding, Scope, ordered
from schedlens.load.arrow_folder import simulated as arrow_folder
from schedlens.replay.prediction import Baseline
from schedlens.report import frame_cost, todo
from schedlens.simulate import cases
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """1: the worker of each frame is bound to an E core, and a P core is idle. 2: spinning
    threads."""
    slow = frames_with_worker.simulation(on=machine(1, 1, smt=False), affinity=[1])
    slow.run(1000 * MS)
    every = [("slow", slow), ("parked", cases.CASES[2].play(seconds=3.0))]
    with simulated.simulated_database(tmp_path_factory.mktemp("gains"), every) as con:
        yield con


def finding(con: duckdb.DuckDBPyConnection, thread: str, **values: object) -> Finding:
    utid = con.execute(
        "SELECT utid FROM thread WHERE name = ? AND trace_id = ?",
        [thread, values.get("trace_id", 1)],
    ).fetchall()[0][0]
    made = Finding(
        kind="not_allowed_on_p_cores", severity="warning", title="t", detail="d.", advice="a",
        evidence_sql="SELECT 1", analyzer="core_type_residency", trace_id=1, utid=utid,
    )  # fmt: skip
    return replace(made, **values)  # type: ignore[arg-type]


def test_severity_and_order_follow_the_gain(con: duckdb.DuckDBPyConnection) -> None:
    large = finding(con, "Worker")
    # No change follows from the advice of this kind.
    other = finding(con, "Main", kind="other", cost_ns=10**9)
    made, replays = gains.weighed(Scope(con), [other, large])
    assert isinstance(replays[0].base, Baseline)
    first, second = ordered(made)
    assert first.severity == "warning"
    assert first.no_gain_reason == gains.NO_CHANGE
    assert first.gain_ns is None
    # Its ideal processor is the E core, which it keeps: the wider affinity gains nothing.
    assert second.severity == "info"
    assert second.fix == "affinity game.exe/Worker=any"
    assert second.frame_ns == 14_909_600
    assert second.gain_ns == 0
    assert second.fixed_low_ns is not None
    assert second.fixed_low_ns < 14_909_600


def test_large_gain_is_critical_and_none_is_info(con: duckdb.DuckDBPyConnection) -> None:
    _, replays = gains.weighed(Scope(con), [])
    tried = replays[0]
    assert isinstance(tried.base, Baseline)
    half = tried.predict(("work game.exe/Worker=-50%",))
    nothing = tried.predict(("priority game.exe/Main=9",))
    given = finding(con, "Worker", severity="critical")
    assert gains._severity(given, tried.base, half) == "critical"
    assert gains._severity(given, tried.base, nothing) == "info"
    # The changes that gain are tried together, and all are stored.
    rows: list[Any] = gains.gain_rows([tried])
    assert {row[2] for row in rows} == {"work game.exe/Worker=-50%", "priority game.exe/Main=9"}
    mean = next(row for row in rows if row[2].startswith("work") and row[3] == "mean")
    assert mean[4] == tried.base.frames.mean
    assert mean[6] < mean[5] < mean[7] < mean[4]


def test_finding_of_a_recording_that_cannot_tell_keeps_its_cost(
    con: duckdb.DuckDBPyConnection,
) -> None:
    given = finding(con, "AI 0", trace_id=2, severity="critical", cost_ns=5)
    (made,), replays = gains.weighed(Scope(con), [given])
    assert made.severity == "critical"
    assert made.no_gain_reason is not None
    assert made.no_gain_reason.startswith("AI 0 and AI 1 hand a CPU to each other only")
    # What its affinity rules out, and which API, thread and value change it.
    own = con.execute("SELECT tid FROM thread WHERE utid = ?", [made.utid]).fetchall()[0][0]
    assert made.advice == (
        f"a In this recording: SetThreadAffinityMask for AI 0 ({own}) of game.exe: CPUs 0-23."
    )
    assert gains.error_rows(replays)[-1] == (2, "game.exe", None, None, made.no_gain_reason)
    assert [row[2] for row in gains.error_rows(replays)[:-1]] == [
        "mean", "p50", "p95", "p99", "running", "ready",
    ]  # fmt: skip


def test_thread_that_no_frame_waits_for_is_slack(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    try:
        utid = finding(con, "Worker").utid
        assert utid is not None
        given = finding(con, "Worker", kind="other", severity="critical", about=(utid,))
        (kept,), _ = gains.weighed(Scope(con), [given])
        assert kept.severity == "critical"
        con.execute(f"DELETE FROM frame_path WHERE utid = {utid}")
        (made,), _ = gains.weighed(Scope(con), [given])
        assert made.severity == "warning"
        assert made.detail == "d. No frame waits for it: this time is slack."
    finally:
        con.execute("ROLLBACK")


def test_advice_names_apis_of_the_recorded_system(con: duckdb.DuckDBPyConnection) -> None:
    def advice() -> str:
        (found,) = judging.judge_all(Scope(con), only=["thread_summary"]).findings
        return found.advice

    assert "(SetThreadAffinityMask) or raise its priority (SetThreadPriority)" in advice()
    con.execute("BEGIN")
    try:
        con.execute("UPDATE trace SET source = 'perf'")
        assert "(taskset -p), raise its priority (nice, chrt)" in advice()
        (found,) = judging.judge_all(Scope(con), only=["thread_summary"]).findings
        # Then a thread of the kernel, on its own CPU only.
        con.execute("UPDATE sched_slice SET cpu = 3 WHERE utid = ?", [found.utid])
        con.execute("UPDATE thread SET name = 'kworker/3:1' WHERE utid = ?", [found.utid])
        judged = judging.judge_all(Scope(con), only=["thread_summary"]).findings
        (given,) = [one.advice for one in judged if one.utid == found.utid]
        assert "the kernel binds it to CPU 3, so keep those off that CPU" in given
        # And one that handles an interrupt, whose CPUs are those of the interrupt.
        con.execute("UPDATE thread SET name = 'irq/24-nvme0q1' WHERE utid = ?", [found.utid])
        judged = judging.judge_all(Scope(con), only=["thread_summary"]).findings
        (given,) = [one.advice for one in judged if one.utid == found.utid]
        assert "give its interrupt more CPUs (/proc/irq/24/smp_affinity_list)" in given
        assert "taskset" not in given
    finally:
        con.execute("ROLLBACK")


def test_cost_longer_than_the_window_says_what_it_is_added_up_over(
    con: duckdb.DuckDBPyConnection,
) -> None:
    scope = Scope(con)
    threads = "SELECT utid FROM thread WHERE trace_id = 1 AND NOT is_idle"
    number = len(scope.rows(threads))
    given = finding(con, "Main", cost_ns=11, evidence_sql=threads)
    made = added_up.worded(scope, given, 10)
    assert made.detail == f"d. This time is added up over {number} threads."
    assert added_up.worded(scope, made, 10) == made
    assert added_up.worded(scope, given, 11) == given
    by_cpu = replace(given, evidence_sql="SELECT cpu FROM cpu WHERE trace_id = 1")
    assert added_up.worded(scope, by_cpu, 10).detail == "d. This time is added up over 2 CPUs."
    other = replace(given, evidence_sql="SELECT 1 AS x")
    assert added_up.worded(scope, other, 10).detail.endswith("added up over threads and CPUs.")


def test_recording_of_many_switches_is_left_to_what_if(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gains, "MOST_SWITCHES", 10)
    (made,), _ = gains.weighed(Scope(con), [finding(con, "Worker")])
    assert made.no_gain_reason is not None
    assert made.no_gain_reason.endswith("`schedlens what-if` replays it whole")
    monkeypatch.setattr(gains, "MOST_SWITCHES", 10**6)
    monkeypatch.setattr(gains, "BUDGET_S", -1.0)
    (made,), _ = gains.weighed(Scope(con), [finding(con, "Worker")])
    assert made.no_gain_reason == gains.OUT_OF_TIME


def test_loss_is_in_time_a_frame_where_frames_are_recorded() -> None:
    found = {"cost_ns": 9 * MS, "bound": "exact", "cost_low_ns": None, "cost_high_ns": None}

    def lost(frames: int | None, **values: object) -> str | None:
        line = frame_cost.lost({**found, **values}, frames)
        return line and line.replace("\u00a0", " ")

    assert lost(3) == "Lost: 3 ms a frame, on average over 3 frames."
    assert lost(3, bound="at_least") == "Lost: at least 3 ms a frame, on average over 3 frames."
    ends = {"bound": "range", "cost_low_ns": 6 * MS, "cost_high_ns": 12 * MS}
    assert lost(3, **ends) == "Lost: 2 ms to 4 ms a frame, on average over 3 frames."
    assert lost(None) is None
    assert lost(3, cost_ns=None) is None


@pytest.mark.slow
def test_analysis_stores_prints_and_shows_gains(tmp_path: Path) -> None:
    case = cases.CASES[1].play()
    arrow_folder.write_folder(case, tmp_path / "path", label="path")
    done = subprocess.run(
        [BIN / "schedlens", "analyze", tmp_path / "path", "-o", tmp_path / "out"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = done.stdout.replace("\u00a0", " ")
    assert "Predicted with 'priority game.exe/Worker 0=14': mean frame" in said
    assert (
        "SetThreadPriority for Worker 0 (16) of game.exe: base priority 14 instead of 11." in said
    )
    assert re.search(r"Lost: at least \d[\d.]* (us|ms) a frame, on average over 2\d\d frames", said)
    with duckdb.connect(tmp_path / "out/analysis.duckdb", read_only=True) as con:
        found = con.execute(
            "SELECT fix, frame_ns, fixed_low_ns, fixed_frame_ns, fixed_high_ns FROM finding "
            "WHERE kind = 'worker_on_path'"
        ).fetchall()
        (fix, before, low, after, high) = found[0]
        assert low < after < high
        same = con.execute(
            "SELECT recorded, low, predicted, high FROM predicted_gain "
            "WHERE change = ? AND figure = 'mean'",
            [fix],
        ).fetchall()
        assert [round(value) for value in same[0]] == [before, low, after, high]
        errors = con.execute("SELECT max(error_pct), count(*) FROM replay_error").fetchall()
        assert errors[0][0] < 10
        assert errors[0][1] == 6
        rows = todo._SQL
        best = con.execute(rows).fetchall()
        assert best
        # With each finding: the gain of its fix, or why it has none.
        assert con.execute(
            "SELECT count(*) FROM finding WHERE fixed_frame_ns IS NULL AND no_gain_reason IS NULL "
            "AND trace_id IS NOT NULL"
        ).fetchall() == [(0,)]
    done = subprocess.run(
        [BIN / "schedlens", "what-if", tmp_path / "out", "--json", "--do", str(fix)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    again = json.loads(done.stdout)["recordings"][0]["predictions"][0]
    assert round(again["frames"]["mean"]["value"]) == after
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "What to do first" in page
