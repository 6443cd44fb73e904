"""Which bound a finding gets from loss in its recording, and how its text says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from stored_states import store

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.ask.judging import judge_all
from schedlens.ask.loss import bounded, limited, unjudged

MS = 1_000_000


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as con:
        yield DrawnTrace(
            con, [Slice("p/A", 0, 20 * MS, 10 * MS, ready=5 * MS), Slice("p/B", 1, 0, 10 * MS)],
            [Cpu(0, 0), Cpu(1, 1)], 100 * MS,
        )  # fmt: skip


def said(trace: DrawnTrace, metric: Metric, **more: object) -> tuple[str | None, str]:
    finding = Finding(
        "waited", "warning", "Waited 2 ms", "A waited 12 ms, then 2 ms.", "Wait.", "FROM trace",
        trace_id=1, cost_ns=2 * MS,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip
    found = bounded(Scope(trace.con), finding, metric)
    return found.bound, f"{found.title}: {found.detail}"


EXACT = ("exact", "Waited 2 ms: A waited 12 ms, then 2 ms.")
LEAST = ("at_least", "Waited at least 2 ms: A waited 12 ms, then at least 2 ms.")
METRICS: tuple[Metric, ...] = ("running", "ready", "frames", "measured")


@pytest.mark.parametrize("metric", METRICS)
def test_recording_without_loss_is_exact(trace: DrawnTrace, metric: Metric) -> None:
    assert said(trace, metric) == EXACT


def test_gap_in_window_leaves_lower_bound(trace: DrawnTrace) -> None:
    trace.add("loss", cpu=1, start_ns=50 * MS, end_ns=51 * MS, signalled_by="x")
    assert said(trace, "running") == LEAST
    assert said(trace, "ready") == LEAST
    # Frames from a file of their own do not pass through the recorder.
    assert said(trace, "frames") == EXACT
    trace.add("frame", frame=1, process="p", start_ns=0, dur_ns=MS, dialect="dxgi")
    assert said(trace, "frames") == (
        "range", f"{EXACT[1]} Records were lost: the cost is not exact.",
    )  # fmt: skip
    # Snapshots and the workload's own clocks do not pass through the recorder.
    assert said(trace, "measured") == EXACT


def test_stutter_that_lost_presents_may_explain_is_no_warning(trace: DrawnTrace) -> None:
    # Frames of 5 ms, one of 15 ms: three without the two present events that are lost.
    for number, start in enumerate([0, 5, 10, 15, 20, 35, 40, 45, 50]):
        length = 15 if start == 20 else 5
        trace.add("frame", frame=number, upid=1, process="p", start_ns=start * MS,
                  dur_ns=length * MS, dropped=False, dialect="dxgi")  # fmt: skip
    scope = Scope(trace.con)
    (found,) = judge_all(scope, only=["frame_time"]).findings
    assert (found.severity, found.bound) == ("critical", "exact")
    trace.add("loss", cpu=1, start_ns=24 * MS, end_ns=32 * MS, signalled_by="x")
    (found,) = judge_all(scope, only=["frame_time"]).findings
    # A lost present may also raise the median and so hide another stutter: no bound holds.
    assert (found.severity, found.bound) == ("info", None)


def test_gap_outside_the_finding_leaves_it_exact(trace: DrawnTrace) -> None:
    trace.add("loss", cpu=1, start_ns=50 * MS, end_ns=51 * MS, signalled_by="x")
    assert said(trace, "ready", start_ns=0, end_ns=50 * MS) == EXACT
    assert said(trace, "ready", start_ns=0, end_ns=50 * MS + 1) == LEAST


def test_gap_without_known_ends_bounds_every_finding(trace: DrawnTrace) -> None:
    trace.add("loss", cpu=None, start_ns=None, end_ns=None, events=3, signalled_by="x")
    assert said(trace, "ready", start_ns=0, end_ns=1) == LEAST


def test_unknown_time_of_a_thread_bounds_only_its_findings(trace: DrawnTrace) -> None:
    store(trace.con)
    trace.con.execute(
        "UPDATE thread_state SET state = 'unknown' WHERE state = 'waiting' AND utid = ?",
        [trace.utid("p/B")],
    )
    assert said(trace, "ready", utid=trace.utid("p/A")) == EXACT
    assert said(trace, "ready", utid=trace.utid("p/B")) == LEAST
    assert said(trace, "ready") == LEAST
    assert said(trace, "running") == EXACT


def test_unknown_time_of_a_cpu_bounds_running_time(trace: DrawnTrace) -> None:
    store(trace.con)
    trace.con.execute("UPDATE cpu_state SET state = 'unknown' WHERE cpu = 1 AND ts > 0")
    assert said(trace, "running") == LEAST


def test_bound_from_the_analyzer_is_kept_and_named(trace: DrawnTrace) -> None:
    assert said(trace, "ready", bound="at_least") == LEAST
    assert said(trace, "ready", bound="range") == ("range", EXACT[1])


def detailed(detail: str, missed_pct: float | None) -> str:
    finding = Finding("waited", "warning", "Waited", detail, "Wait.", "FROM trace", trace_id=1)
    return limited(finding, missed_pct).detail


def test_amounts_without_bound_are_of_what_was_recorded() -> None:
    note = " 12.3 % of the CPU time is unknown; amounts are of what was recorded."
    for plain in ("A ran at least 12 ms, 3 ms of it alone.", "A ran 43.6 % of the time on E."):
        assert detailed(plain, 12.3) == plain + note
        assert detailed(plain, None) == plain
    for bounded_already in ("A ran at least 12 ms, up to 3 ms alone.", "A took turns with B."):
        assert detailed(bounded_already, 12.3) == bounded_already


def test_absence_of_problems_is_limited_to_what_was_recorded(trace: DrawnTrace) -> None:
    def reasons() -> dict[str, str]:
        outcomes = judge_all(Scope(trace.con), ["priority_order", "trace_quality"]).outcomes
        return {said.analyzer: said.reason for said in outcomes}

    seen = reasons()
    assert "unknown" not in seen["priority_order"]
    store(trace.con)
    trace.con.execute("UPDATE cpu_state SET state = 'unknown', utid = NULL WHERE cpu = 1")
    trace.add("loss", cpu=1, start_ns=None, end_ns=None, signalled_by="not_recorded")
    unseen = " 50\u00a0% of the CPU time is unknown: problems there would not show."
    assert reasons()["priority_order"] == seen["priority_order"] + unseen


def test_absence_of_problems_is_limited_to_known_priorities(trace: DrawnTrace) -> None:
    def reasons() -> list[str]:
        judged = judge_all(Scope(trace.con), ["priority_order", "real_time"])
        return [said.reason for said in judged.outcomes]

    seen = reasons()
    # Half of the running time.
    trace.con.execute("UPDATE sched_slice SET priority = NULL WHERE cpu = 1")
    unseen = (
        " 50\u00a0% of the running time has no recorded priority: problems there would not show."
    )
    assert reasons() == [reason + unseen for reason in seen]


def test_absence_of_problems_in_several_recordings_counts_the_incomplete() -> None:
    assert unjudged([], 3) == ""
    said = unjudged([2.0, 50.0], 3)
    assert said.replace("\u00a0", " ") == (
        " Up to 50 % of the CPU time is unknown in 2 recordings: problems there would not show."
    )
