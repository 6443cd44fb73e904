"""Each analyzer on a drawn recording: its findings, their cost, and its conclusion without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import judged, outcome, plain
from stored_states import store

from schedlens.ask import judging
from schedlens.ask.findings import Finding, Scope

pytestmark = pytest.mark.slow

MS = 1_000_000
SIBLINGS = [Cpu(0, 0, 0), Cpu(1, 0, 1), Cpu(2, 2, 0), Cpu(3, 2, 1)]
NAMES = sorted(judging.analyzers())


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def _judge(con: duckdb.DuckDBPyConnection, name: str) -> list[Finding]:
    return judged(con, name)


def _brief(found: Sequence[Finding]) -> list[tuple[object, ...]]:
    return [(f.severity, f.cost_ns, f.cost_pct, f.bound) for f in found]


@pytest.mark.parametrize("name", NAMES)
def test_every_analyzer_reports_an_empty_database(
    con: duckdb.DuckDBPyConnection, name: str
) -> None:
    assert _judge(con, name) == []
    assert outcome(con, name).conclusion == "not_recorded"


@pytest.mark.parametrize("name", NAMES)
def test_clean_recording_lists_what_was_checked(con: duckdb.DuckDBPyConnection, name: str) -> None:
    # Two threads on a core each that block and run but are never ready for long.
    slices = [Slice("game/A", 0, n * 10 * MS, 4 * MS, ready=1000, wait=6 * MS - 1000)
             for n in range(1, 5)]  # fmt: skip
    slices += [Slice("game/B", 2, n * 10 * MS, 5 * MS, ready=1000, wait=5 * MS - 1000)
              for n in range(1, 5)]  # fmt: skip
    DrawnTrace(con, slices, SIBLINGS, 50 * MS)
    found = _judge(con, name)
    assert [finding.severity for finding in found if finding.severity != "info"] == []
    concluded = outcome(con, name)
    lacking = Scope(con).lacks(1, judging.analyzers()[name].needs)
    if lacking:
        assert (concluded.conclusion, sorted(concluded.missing)) == (
            "not_recorded",
            sorted(lacking),
        )
    else:
        assert concluded.conclusion in (["found"] if found else ["clean", "not_applicable"])
        assert concluded.reason


def test_every_analyzer_states_its_thresholds() -> None:
    for name, analyzer in judging.analyzers().items():
        module = __import__(analyzer.judge.__module__, fromlist=["judge"])
        text = module.__doc__ or ""
        assert text.splitlines()[0].endswith("."), name
        assert len(text.splitlines()) > 1, f"{name}: the headline alone gives no threshold"


def test_reports_longest_ready_time(con: duckdb.DuckDBPyConnection) -> None:
    # A is ready for 17 ms and 2 ms, B for 5 ms, C for 0.5 ms; window 100 ms.
    trace = DrawnTrace(
        con,
        [
            Slice("game/A", 0, 20 * MS, 10 * MS, ready=17 * MS),
            Slice("game/A", 0, 40 * MS, 10 * MS, ready=2 * MS, wait=8 * MS),
            Slice("game/B", 1, 50 * MS, 10 * MS, ready=5 * MS),
            Slice("game/C", 2, 50 * MS, 10 * MS, ready=MS // 2),
        ],
        SIBLINGS,
        100 * MS,
    )
    found = _judge(con, "thread_summary")
    assert _brief(found) == [
        ("critical", 19 * MS, 19.0, "exact"),
        ("warning", 5 * MS, 5.0, "exact"),
    ]
    assert [f.utid for f in found] == [trace.utid("game/A"), trace.utid("game/B")]
    assert "A (1005) of game was ready for up to 17 ms at a time" in plain(found[0].detail)
    assert con.execute(found[0].evidence_sql).fetchall()[0][1] == 17 * MS


def test_reports_critical_thread_on_e_cores(con: duckdb.DuckDBPyConnection) -> None:
    cpus = [Cpu(0, 0, core_type="P", efficiency_class=1), Cpu(1, 1, core_type="E")]
    DrawnTrace(
        con,
        [
            Slice("game/A", 0, 0, 30 * MS, end="preempted"),
            Slice("game/A", 1, 30 * MS, 10 * MS, wait=0),
            Slice("game/B", 1, 40 * MS, 20 * MS),
        ],
        cpus,
        100 * MS,
    )
    # A ran 40 % of the window, a quarter of it on E; B ran only 20 % of the window.
    found = _judge(con, "core_type_residency")
    assert _brief(found) == [("warning", 10 * MS, 10.0, "exact")]
    assert "ran 10 ms (25 % of its running time) on E cores" in plain(found[0].detail)


def test_thread_that_may_not_use_p_cores_is_advised_to_widen_its_affinity(
    con: duckdb.DuckDBPyConnection,
) -> None:
    cpus = [Cpu(0, 0, core_type="P", efficiency_class=1), Cpu(1, 1, core_type="E")]
    slices = [Slice("game/A", 1, 0, 40 * MS), Slice("tool/B", 0, 5 * MS, 2 * MS)]
    trace = DrawnTrace(con, slices, cpus, 100 * MS)
    utid = trace.utid("game/A")
    trace.add("affinity", utid=utid, cpus=[1], source="rundown")
    (found,) = _judge(con, "core_type_residency")
    assert found.kind == "not_allowed_on_p_cores"
    assert "(set before the recording) allows only CPUs 1, and no P core" in plain(found.detail)
    assert "affinity" in found.advice
    assert "P cores meanwhile" not in found.advice
    # Set within the recording, first by an unknown thread, then by a known one.
    trace.add("affinity_change", ts=5 * MS, cpu=0, utid=utid, cpus=[1], setter_utid=None)
    (found,) = _judge(con, "core_type_residency")
    assert "(since 5 ms; who set it is not recorded) allows only CPUs 1" in plain(found.detail)
    setter = trace.utid("tool/B")
    trace.add("affinity_change", ts=6 * MS, cpu=0, utid=utid, cpus=None, setter_utid=setter)
    (found,) = _judge(con, "core_type_residency")
    (tid,) = con.execute(f"SELECT tid FROM thread WHERE utid = {setter}").fetchall()[0]
    assert f"(set by B ({tid}) of tool at 6 ms) allows only CPUs 1" in plain(found.detail)
    trace.add("affinity_change", ts=7 * MS, cpu=0, utid=utid, cpus=[1], setter_utid=utid)
    (found,) = _judge(con, "core_type_residency")
    (tid,) = con.execute(f"SELECT tid FROM thread WHERE utid = {utid}").fetchall()[0]
    assert f"(set by A ({tid}) itself at 7 ms) allows only CPUs 1" in plain(found.detail)
    # Allowed on P for a while: what holds the P cores may be the cause.
    trace.add("affinity", utid=utid, valid_from_ns=20 * MS, cpus=[0, 1], source="event")
    assert [one.kind for one in _judge(con, "core_type_residency")] == ["on_e_cores"]


def test_reports_throttling_quota(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [Slice("game/A", 0, 0, MS)], SIBLINGS, 100 * MS)
    for edge, ts, held in (("begin", 0, 0), ("end", 100 * MS, 30 * MS)):
        trace.add("snapshot_cgroup", ts=ts, edge=edge, cgroup="/it's", usage_ns=ts,
                  throttled_ns=held, nr_throttled=1, quota_ns=1, period_ns=2)  # fmt: skip
    found = _judge(con, "throttled_cgroup")
    assert _brief(found) == [("critical", 30 * MS, 30.0, "range")]
    assert "cgroup /it's throttled its threads for 30 ms" in plain(found[0].detail)


def test_reports_thread_that_delays_a_pinned_thread(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(
        con,
        [
            Slice("other/V", 0, 0, 10 * MS),
            Slice("game/A", 0, 10 * MS, 10 * MS, ready=6 * MS),
        ],
        SIBLINGS,
        100 * MS,
    )
    trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="pin")
    found = _judge(con, "pinned_cpu_visitor")
    assert _brief(found) == [("warning", 6 * MS, 6.0, "exact")]
    assert (found[0].utid, found[0].cpu) == (trace.utid("other/V"), 0)


def test_reports_loss_recovered_switches_and_problems(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [Slice("game/A", 0, 0, 50 * MS)], SIBLINGS, 100 * MS)
    store(con)
    con.execute(
        f"UPDATE cpu_state SET state = 'unknown' WHERE cpu = 0 AND ts = {50 * MS};"
        "UPDATE context_switch SET source = 'switch_event' WHERE cpu = 0 AND seq = 0"
    )
    trace.add("loss", cpu=0, start_ns=50 * MS, end_ns=100 * MS, events=7, signalled_by="x")
    trace.add("problem", place="states", what="tick unknown", count=1)
    found = _judge(con, "trace_quality")
    assert [(f.severity, f.kind) for f in found] == [
        ("critical", "loss"), ("info", "recovered_switches"), ("info", "reader_problem"),
    ]  # fmt: skip
    assert (found[0].cost_ns, found[0].cost_pct, found[0].bound) == (50 * MS, 12.5, "range")
    assert found[1].title == "1 of 2 context switches were recovered"
    assert found[1].detail.startswith("1 of 2 context switches came from PERF_RECORD_SWITCH")
    assert found[2].detail == "Most often: tick unknown (1 time in 1 recording)."
    # Not recorded means no finding.
    turbo = outcome(con, "turbo_slope")
    assert (turbo.missing, turbo.record_with) == (
        ("frequency changes",), "perf record -a -e power:cpu_frequency",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ("DELETE FROM wakeup", "Record sched_waking as well."),
        (
            "UPDATE trace SET events_lost = 9",
            "Record again with larger buffers (perf record -m 32M): wakeups are among the lost "
            "records.",
        ),
        (
            "INSERT INTO problem VALUES (1, 'PERF_RECORD_THREAD_MAP', 'chosen threads', 1)",
            "Record all programs with `perf record -a`: wakeups by programs that were not chosen "
            "are missing.",
        ),
        (
            "SELECT 1",
            "Do not record again for that: wakeups were recorded, but the system wrote none for "
            "these, which is usual for threads of the recorder and of the kernel. Other ready "
            "times are not affected.",
        ),
    ],
)
def test_advice_for_unknown_ready_time_fits_its_cause(
    change: str, advice: str, con: duckdb.DuckDBPyConnection
) -> None:
    slices = [Slice(f"game/{name}", cpu, n * 10 * MS, 4 * MS, ready=1000, wait=6 * MS - 1000)
              for cpu, name in ((0, "A"), (2, "B")) for n in range(1, 9)]  # fmt: skip
    trace = DrawnTrace(con, slices, SIBLINGS, 100 * MS)
    con.execute(
        "UPDATE sched_slice SET ready_ns = NULL, wait_ns = NULL "
        f"WHERE utid = {trace.utid('game/B')} AND ts > {20 * MS}"
    )
    con.execute(change)
    (found,) = [f for f in _judge(con, "trace_quality") if f.kind == "unknown_ready_time"]
    assert (found.title, found.advice) == ("Ready time of 6 slices is unknown", advice)
    assert found.detail.endswith(f"6 of them are of B ({trace.tid('game/B')}).")
    rows = con.execute(found.evidence_sql).fetchall()
    assert rows == [(trace.utid("game/B"), "B", trace.tid("game/B"), 6)]


def test_counts_of_recovered_switches_are_exact_in_title_and_sentence(
    con: duckdb.DuckDBPyConnection,
) -> None:
    DrawnTrace(con, [Slice("game/A", 0, 0, 50 * MS)], SIBLINGS, 100 * MS)
    con.execute(
        "UPDATE context_switch SET source = 'switch_event' WHERE cpu = 0 AND seq = 0;"
        "INSERT INTO context_switch SELECT first.* REPLACE (i AS seq, 'switch' AS source) "
        "FROM (FROM context_switch WHERE cpu = 0 AND seq = 0) AS first, range(10, 1366) AS t(i)"
    )
    (found,) = _judge(con, "trace_quality")
    part = "1 of 1,358 context switches"
    assert found.title == f"{part} were recovered"
    assert found.detail.startswith(f"{part} came from PERF_RECORD_SWITCH")
    # `collect` counts those outside the window, too.
    con.execute(
        "UPDATE context_switch SET source = 'switch_event' WHERE seq = 10;"
        "UPDATE analysis_window SET start_ns = 1 WHERE start_ns = 0"
    )
    con.execute("UPDATE context_switch SET ts = 2 WHERE source = 'switch_event' AND seq = 0")
    (found,) = _judge(con, "trace_quality")
    assert found.detail.endswith("no data was lost. Outside the window: 1 more.")


def test_reports_steal_time(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [], SIBLINGS, 100 * MS)
    for edge, ts, steal in (("begin", 0, 5), ("end", 100 * MS, 2 * MS + 5)):
        trace.add("snapshot_cpu", ts=ts, edge=edge, cpu=1, steal_ns=steal)
    assert _brief(_judge(con, "steal")) == [("warning", 2 * MS, 2.0, "exact")]
    assert "host claims" not in _judge(con, "steal")[0].advice
    trace.add("machine_setting", key="hypervisor", value="none")
    assert "host claims" not in _judge(con, "steal")[0].advice
    con.execute("UPDATE machine_setting SET value = 'KVM'")
    assert "is what its host claims" in _judge(con, "steal")[0].advice
    con.execute("UPDATE snapshot_cpu SET steal_ns = 0")
    assert "host claims" in outcome(con, "steal").reason


def test_reports_more_runnable_threads_than_cpus(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [Slice("game/A", 0, 0, MS)], SIBLINGS, 100 * MS)
    for ts, dur, busy, ready in ((0, 20, 4, 3), (20, 60, 1, 0), (80, 20, 2, 5)):
        trace.add("concurrency_slice", ts=ts * MS, dur=dur * MS, busy=busy, unknown=0, ready=ready,
                  p=0, e=0, other=0, smt=0)  # fmt: skip
    found = _judge(con, "concurrency")
    assert _brief(found) == [
        ("warning", 60 * MS, 20.0, "exact"), ("info", None, 60.0, "exact"),
    ]  # fmt: skip


def test_reports_shared_and_avoidably_shared_cores(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [Slice("game/A", 0, 0, 40 * MS)], SIBLINGS, 100 * MS)
    for ts, dur, busy in ((0, 40, 2), (40, 40, 1), (80, 20, 0)):
        trace.add("core_state", core=0, ts=ts * MS, dur=dur * MS, online=2, unknown=0, busy=busy,
                  threads=busy)  # fmt: skip
    assert _brief(_judge(con, "sibling_overlap")) == [("info", 40 * MS, 50.0, "exact")]
    trace.add("avoidable_match", ts=0, dur=8 * MS, min_idle_ns=100_000, same_type=1, any_type=2)
    trace.add("avoidable_match", ts=0, dur=40 * MS, min_idle_ns=0, same_type=1, any_type=2)
    trace.add("sharing_slice", utid=trace.utid("game/A"), cpu=0, ts=0, dur=8 * MS,
              same_type_idle_ns=None, any_type_idle_ns=200_000, affinity_known=False)  # fmt: skip
    found = _judge(con, "avoidable_sharing")
    assert _brief(found) == [("critical", 16 * MS, 16.0, "at_least")]
    longest = "; A (1005) of game shared longest, 8 ms."
    assert f"8 ms of it a core of the same type{longest}" in plain(found[0].detail)
    # perf records the types of cores on hybrid processors of Intel only.
    con.execute("UPDATE cpu SET core_type = NULL")
    (one,) = _judge(con, "avoidable_sharing")
    assert one.cost_ns == 16 * MS
    assert f"a whole core that they may use was idle{longest}" in plain(one.detail)


def test_reports_ready_thread_while_a_cpu_is_idle_or_parked(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, [Slice("game/A", 0, 50 * MS, MS, ready=50 * MS)], SIBLINGS, 100 * MS)
    common = {"utid": trace.utid("game/A"), "ready_ts": 0, "throttled": False,
              "cgroup_throttled": False, "unknown_available": False,
              "affinity_known": True}  # fmt: skip
    trace.add("ready_slice", ts=0, dur=5 * MS, idle_exit=False, idle_ns=200_000, **common)
    trace.add("ready_slice", ts=5 * MS, dur=20 * MS, idle_exit=False, idle_ns=50_000,
              parked_ns=300_000, **common)  # fmt: skip
    trace.add("ready_slice", ts=25 * MS, dur=25 * MS, idle_exit=True, idle_ns=None,
              parked_ns=900_000, **common)  # fmt: skip
    trace.add("ready_match", ts=0, dur=5 * MS, min_idle_ns=100_000, threads=1)
    found = _judge(con, "ready_obstacle")
    assert _brief(found) == [
        ("critical", 20 * MS, 20.0, "at_least"), ("warning", 25 * MS, 25.0, "exact"),
        ("warning", 5 * MS, 5.0, "exact"),
    ]  # fmt: skip
    assert [f.kind for f in found] == ["ready_while_parked", "idle_exit", "ready_while_idle"]
    assert "A (1005) of game waited longest, 5 ms." in plain(found[2].detail)


# A runs for 75 us each time it is woken, after 50 us in which its CPU leaves an idle state. B also
# waits for its CPU, but runs longer. Once, A is kept from an idle CPU for 2 ms.
@pytest.mark.parametrize(("wakeups", "severity"), [(40, "info"), (400, "warning")])
def test_time_for_idle_cpus_to_wake_up_is_a_finding_and_not_unfair(
    con: duckdb.DuckDBPyConnection, wakeups: int, severity: str
) -> None:
    us = 1_000
    times = [n * 225 * us + 50 * us for n in range(wakeups)]
    slices = [Slice("server/A", 0, ts, 75 * us, ready=50 * us) for ts in times]
    slices += [Slice("server/B", 2, ts, 155 * us, ready=50 * us) for ts in times]
    slices += [Slice("server/A", 0, 98 * MS, 75 * us, ready=2 * MS)]
    DrawnTrace(con, slices, SIBLINGS, 100 * MS)
    con.execute(
        "INSERT INTO ready_slice BY NAME SELECT trace_id, utid, ts - ready_ns AS ts, "
        "ready_ns AS dur, ts - ready_ns AS ready_ts, cpu AS entered_cpu, true AS idle_exit, "
        "ready_ns AS idle_ns, 'idle_exit' AS obstacle, true AS affinity_known, "
        "false AS throttled, false AS cgroup_throttled, false AS unknown_available, "
        "false AS in_doubt, false AS may_be_idle FROM sched_slice WHERE ready_ns = ?",
        [50 * us],
    ).fetchall()
    (found,) = _judge(con, "ready_obstacle")
    spent = wakeups * 50 * us
    assert (found.kind, found.severity, found.cost_ns, found.bound) == (
        "idle_exit", severity, spent, "exact",
    )  # fmt: skip
    assert "A (1005) of server was ready for" in plain(found.detail)
    assert "typically 50 us each time" in plain(found.detail)
    assert con.execute(f"SELECT sum(dur) FROM ({found.evidence_sql})").fetchall() == [(spent,)]
    # Fair sharing explains nothing, and idle states all but 2 ms: too little next to 20 ms.
    unfair = [finding.cost_ns for finding in _judge(con, "thread_summary")]
    assert unfair == ([2 * MS] if wakeups == 40 else [])


def test_reports_threads_that_alternate_at_quantum_end(con: duckdb.DuckDBPyConnection) -> None:
    slices = [Slice(f"game/{'AB'[n % 2]}", 0, n * 4 * MS, 4 * MS, ready=4 * MS if n > 1 else 0,
                  wait=0 if n > 1 else None, end="quantum_end_or_yield")
             for n in range(6)]  # fmt: skip
    trace = DrawnTrace(con, slices, SIBLINGS, 100 * MS)
    utids = [trace.utid("game/A"), trace.utid("game/B")]
    trace.add("quantum_chain", chain=1, cpu=0, ts=0, dur=24 * MS, hand_offs=5, utids=utids,
              slice_ns=4 * MS, skipped=0, yield_possible=True, serialized_ns=24 * MS,
              idle_elsewhere_ns=24 * MS, affinity_known=True)  # fmt: skip
    found = _judge(con, "quantum_end_chain")
    assert _brief(found) == [("critical", 24 * MS, 24.0, "exact")]
    assert "2 threads (A, B) took turns on CPU 0 at quantum ends (or yields" in found[0].detail
    assert len(con.execute(found[0].evidence_sql).fetchall()) == 6


def test_findings_are_stored_most_severe_first(con: duckdb.DuckDBPyConnection) -> None:
    DrawnTrace(con, [Slice("game/<b>\x1b[31m", 0, 20 * MS, MS, ready=17 * MS)], SIBLINGS, 100 * MS)
    judging.store(con, judging.judge_all(Scope(con), only=["thread_summary", "steal"]))
    rows = con.execute("SELECT finding_id, severity, detail FROM finding").fetchall()
    assert [row[:2] for row in rows] == [(1, "critical")]
    assert con.execute(
        "SELECT analyzer, trace_id, outcome, missing FROM analyzer_outcome ORDER BY analyzer"
    ).fetchall() == [
        ("steal", None, "not_recorded", ["snapshots at the start and end of a step"]),
        ("thread_summary", None, "found", []),
    ]
    # A thread name cannot send escape sequences to the terminal.
    assert "\x1b" not in rows[0][2]
    assert "<b>\\x1b[31m" in rows[0][2]
