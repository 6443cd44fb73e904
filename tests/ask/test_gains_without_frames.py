"""What fixing a finding gains where no frames are recorded: throughput of a process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.ask import gains, judging
from schedlens.ask.findings import Finding, Scope, ordered
from schedlens.replay.prediction import Baseline, Refused
from schedlens.report import todo

MS = 1_000_000
ROUNDS = 100


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


# Two processes share CPU 0 in turns of 4 ms and never wait; CPU 1 is idle.
#
#   CPU 0  | web | job | web | job | ...
#   CPU 1
def drawn(con: duckdb.DuckDBPyConnection) -> DrawnTrace:
    slices, now = [], 0
    for number in range(ROUNDS):
        for name in ("web/W", "job/J"):
            ready = 4 * MS if number else now
            slices.append(
                Slice(name, 0, now, 4 * MS, ready=ready, wait=0, priority=120,
                      end="quantum_end_or_yield")
            )  # fmt: skip
            now += 4 * MS
    trace = DrawnTrace(con, slices, [Cpu(0, 0), Cpu(1, 1)], now)
    for key, value in {"scheduler": "EEVDF", "hz": "250"}.items():
        trace.add("machine_setting", key=key, value=value)
    for name in ("web/W", "job/J"):
        trace.add("affinity", utid=trace.utid(name), cpus=[0], source="reading")
    return trace


def finding(**values: Any) -> Finding:
    return Finding(
        **{
            "kind": "long_ready",
            "severity": "warning",
            "title": "t",
            "detail": "d.",
            "advice": "a",
            "evidence_sql": "SELECT 1",
            "analyzer": "ready_delay",
            "trace_id": 1,
            **values,
        }
    )


def test_gain_is_of_throughput_and_decides_severity(con: duckdb.DuckDBPyConnection) -> None:
    given = finding(utid=drawn(con).utid("web/W"))
    (made,), replays = gains.weighed(Scope(con, process="web"), [given])
    # Alone on CPU 1 it runs all the time instead of half of it.
    assert made.fix == "affinity web/W=any"
    assert made.gain_of == "throughput"
    assert made.gain_pct == pytest.approx(100, abs=3)
    assert made.gain_low_pct is not None
    assert made.gain_high_pct is not None
    # The interval of throughput is 10 % of the double on either side.
    assert made.gain_low_pct == pytest.approx(80, abs=3)
    assert made.gain_high_pct == pytest.approx(120, abs=3)
    assert made.severity == "critical"
    assert made.frame_ns is None
    text = todo.gain(asdict(made))
    assert text is not None
    assert text.replace("\u00a0", " ").startswith(
        "Predicted with 'affinity web/W=any': throughput +"
    )
    judging.store(con, judging.Judgement(ordered([made]), []), replays)
    (row,) = con.execute(todo._SQL).fetchall()
    assert row[2:5] == ("web", "affinity web/W=any", "throughput")
    assert con.execute(
        "SELECT figure, recorded, predicted / recorded, unit FROM predicted_gain"
    ).fetchall() == [
        ("throughput", pytest.approx(0.5, rel=0.02), pytest.approx(2, abs=0.03), "throughput")
    ]
    assert con.execute("SELECT gain_of, gain_pct FROM finding").fetchall() == [
        ("throughput", made.gain_pct)
    ]


def test_affinity_that_the_kernel_set_is_no_fix(con: duckdb.DuckDBPyConnection) -> None:
    utid = drawn(con).utid("web/W")
    con.execute("UPDATE thread SET name = 'kworker/0:1' WHERE utid = ?", [utid])
    (made,), _ = gains.weighed(Scope(con, process="web"), [finding(utid=utid)])
    assert made.no_gain_reason == gains.NO_CHANGE


def test_affinity_of_an_interrupt_thread_is_that_of_its_interrupt(
    con: duckdb.DuckDBPyConnection,
) -> None:
    utid = drawn(con).utid("web/W")
    (by_thread,), _ = gains.weighed(Scope(con, process="web"), [finding(utid=utid)])
    con.execute("UPDATE thread SET name = 'irq/24-nvme0q1' WHERE utid = ?", [utid])
    (made,), _ = gains.weighed(Scope(con, process="web"), [finding(utid=utid)])
    assert made.fix == "affinity web/irq/24-nvme0q1=any"
    assert "write 0-1 to /proc/irq/24/smp_affinity_list, for irq/24-nvme0q1" in made.advice
    assert "taskset -p -c 0-1" in by_thread.advice


def test_finding_about_another_process_keeps_its_cost(con: duckdb.DuckDBPyConnection) -> None:
    given = finding(utid=drawn(con).utid("job/J"), severity="critical")
    (made,), _ = gains.weighed(Scope(con, process="web"), [given])
    assert made.severity == "critical"
    assert made.gain_pct is None
    assert made.no_gain_reason == gains.OTHER_PROCESS.format("web")


def test_quota_gains_only_for_a_process_that_it_limits(con: duckdb.DuckDBPyConnection) -> None:
    trace = drawn(con)
    trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("job/J"), cgroup="/jobs",
              source="reading")  # fmt: skip
    # More than it needs, so that the replay is right.
    trace.add("snapshot_cgroup", ts=0, edge="end", cgroup="/jobs", quota_ns=90 * MS,
              period_ns=100 * MS)  # fmt: skip
    (web,), _ = gains.weighed(Scope(con, process="web"), [finding(kind="quota")])
    assert web.no_gain_reason == gains.OTHER_PROCESS.format("web")
    (job,), _ = gains.weighed(Scope(con, process="job"), [finding(kind="quota")])
    assert job.fix == "quota /jobs=none"
    assert job.gain_pct == pytest.approx(0, abs=1)
    assert job.severity == "info"


def test_recording_is_replayed_only_for_advice_that_a_replay_can_try(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    utid = drawn(con).utid("web/W")
    (made,), (tried,) = gains.weighed(Scope(con, process="web"), [finding(kind="x", utid=utid)])
    assert made.no_gain_reason == gains.NO_CHANGE
    assert isinstance(tried.base, Refused)
    assert tried.base.fidelity is None
    monkeypatch.setattr(gains, "MOST_WITHOUT_FRAMES", 10)
    (made,), (tried,) = gains.weighed(Scope(con, process="web"), [finding(utid=utid)])
    assert not isinstance(tried.base, Baseline)
    assert made.no_gain_reason is not None
    assert made.no_gain_reason.endswith("`schedlens what-if` replays it whole")
