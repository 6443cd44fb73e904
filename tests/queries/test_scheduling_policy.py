"""What the policy of a thread changes, on drawn recordings."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import judged, outcome, plain

from schedlens.load import intervals

MS = 1_000_000
ONE = [Cpu(0, 0)]
TWO = [Cpu(0, 0), Cpu(1, 1)]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def turns(names: str, rounds: int, cpu: int = 0) -> list[Slice]:
    """Threads that take turns of 4 ms on a CPU, all of them always runnable."""
    others = (len(names) - 1) * 4 * MS
    return [
        Slice(f"p/{name}", cpu, (number * len(names) + place) * 4 * MS, 4 * MS,
              ready=others if number else place * 4 * MS, wait=0 if number else None,
              end="preempted", priority=120)
        for number in range(rounds)
        for place, name in enumerate(names)
    ]  # fmt: skip


def may_use_both(trace: DrawnTrace) -> None:
    """Threads that are bound to one CPU are left out."""
    for name in ("p/A", "p/B"):
        trace.add("affinity", utid=trace.utid(name), cpus=[0, 1], source="snapshot")


def set_policy(trace: DrawnTrace, name: str, *readings: tuple[int, str]) -> None:
    for ts, policy in readings:
        trace.add("thread_policy", ts=ts, utid=trace.utid(f"p/{name}"), tid=1, policy=policy)


def test_policy_is_that_of_the_longest_time(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns("ABC", 10), ONE, 120 * MS)
    # chrt sets the policy of a process that it then becomes.
    set_policy(trace, "A", (2 * MS, "other"), (30 * MS, "idle"))
    set_policy(trace, "B", (-MS, "other"), (90 * MS, "idle"))
    rows = con.execute(
        "SELECT thread.name, policy, weight FROM share_weight JOIN thread USING (utid) "
        "LEFT JOIN scheduling_policy USING (utid) ORDER BY 1"
    ).fetchall()
    assert rows == [("A", "idle", 3), ("B", "other", 1024), ("C", None, 1024)]


def test_thread_that_never_ran_has_the_weight_of_its_policy(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trace = DrawnTrace(con, turns("AB", 10), ONE, 80 * MS)
    con.execute("DELETE FROM sched_slice WHERE utid = ?", [trace.utid("p/B")])
    for policy, wanted in (("fifo", (0, False)), ("idle", (3, False)), ("other", (1024, True))):
        con.execute("DELETE FROM thread_policy")
        set_policy(trace, "B", (0, policy))
        rows = con.execute(
            "SELECT weight, is_unclear FROM share_weight WHERE utid = ?", [trace.utid("p/B")]
        ).fetchall()
        assert rows == [wanted]


# A and B take turns on CPU 0; both want all of it.
def test_threads_that_take_what_is_left_do_not_crowd(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns("AB", 10), ONE, 80 * MS)
    intervals.build(con, [1])
    (found,) = judged(con, "concurrency")
    # A is not known to wait after its last slice.
    assert (found.severity, found.cost_ns) == ("critical", 76 * MS)
    # One of them is in the background: the other does not wait for want of CPUs.
    set_policy(trace, "B", (0, "idle"))
    assert outcome(con, "concurrency").conclusion == "clean"


# A, B and C take turns, so that two of them are ready at any time but the last 8 ms.
def test_only_urgent_threads_count_as_crowded(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns("ABC", 10), ONE, 120 * MS)
    intervals.build(con, [1])
    (before,) = judged(con, "concurrency")
    set_policy(trace, "C", (0, "idle"))
    (found,) = judged(con, "concurrency")
    assert before.cost_ns == 2 * 112 * MS + 4 * MS
    # While A or B runs, the other one is ready: not while C runs, and not in the last slice of B.
    assert found.cost_ns == 76 * MS
    assert plain(found.detail).endswith(
        "Threads of SCHED_IDLE and of cgroups with cpu.idle are left out; they ran 40 ms."
    )
    [(busy,)] = con.execute(
        f"SELECT sum(ns) FROM ({found.evidence_sql}) WHERE busy = 1 AND ready = 1"
    ).fetchall()
    assert busy == found.cost_ns


# What is in a cgroup with cpu.idle takes what is left, too.
def test_threads_of_an_idle_cgroup_do_not_crowd(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns("AB", 10), ONE, 80 * MS)
    intervals.build(con, [1])
    trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("p/B"), cgroup="/batch/job",
              source="reading")  # fmt: skip
    trace.add("machine_setting", key="cpu_shares", value='{"/batch": 1024}')
    assert [found.kind for found in judged(con, "concurrency")] == ["all_cpus_busy"]
    con.execute("UPDATE machine_setting SET value = '{\"/batch\": 3}'")
    assert outcome(con, "concurrency").conclusion == "clean"


# B in the background runs while A is ready, in another group.
@pytest.mark.parametrize(
    ("cgroup", "settings", "wanted"),
    [
        (None, {}, "set cpu.idle of its cgroup to 1 or lower its cpu.weight, or write 19"),
        (None, {"autogroup": "1"}, "write 19 to /proc/PID/autogroup, or"),
        (None, {"autogroup": "1", "autogroups": '{"PID": "/autogroup-7 nice 19"}'},
         "the lowest already (nice 19 in /proc/PID/autogroup): move it to a cgroup"),
        ("/batch", {}, "set cpu.idle of /batch to 1 or lower its cpu.weight"),
        ("/batch", {"cpu_shares": '{"/batch": 3}'}, "/batch has cpu.idle already"),
    ],
)  # fmt: skip
def test_advice_for_background_is_about_its_group(
    con: duckdb.DuckDBPyConnection, cgroup: str | None, settings: dict[str, str], wanted: str
) -> None:
    trace = DrawnTrace(con, turns("AB", 10), TWO, 80 * MS)
    intervals.build(con, [1])
    may_use_both(trace)
    set_policy(trace, "B", (0, "idle"))
    [(pid,)] = con.execute("SELECT pid FROM process").fetchall()
    for key, value in settings.items():
        trace.add("machine_setting", key=key, value=value.replace("PID", str(pid)))
    if cgroup:
        trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("p/B"), cgroup=cgroup,
                  source="reading")  # fmt: skip
    (found,) = [one for one in judged(con, "priority_order") if one.kind == "higher_ready"]
    assert wanted in found.advice


# The other CPU works as well, if only in the background.
def test_background_keeps_a_cpu_busy(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(
        con, [Slice("p/A", 0, 0, 100 * MS), Slice("p/B", 1, 0, 100 * MS)], TWO, 100 * MS
    )
    set_policy(trace, "B", (0, "idle"))
    intervals.build(con, [1])
    assert plain(outcome(con, "concurrency").reason).endswith("(busy CPUs on average: 2).")


# Each of 20 slices of B takes 4 ms in which A is ready and may use the same CPU.
def test_background_that_runs_while_others_are_ready_is_named(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trace = DrawnTrace(con, turns("AB", 20), TWO, 160 * MS)
    may_use_both(trace)
    assert outcome(con, "priority_order").conclusion == "clean"
    set_policy(trace, "B", (0, "idle"))
    (found,) = judged(con, "priority_order")
    # A does not run again after the last slice of B, so that its waiting there is not known.
    assert (found.kind, found.severity, found.cost_ns) == ("higher_ready", "critical", 76 * MS)
    assert found.utid == trace.utid("p/B")
    assert "B (" in found.detail
    assert "with SCHED_IDLE ran longest, 76 ms" in plain(found.detail)
    assert "cpu.idle" in found.advice


def test_real_time_thread_outranks_the_background_as_all_others(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trace = DrawnTrace(con, turns("AB", 20), TWO, 160 * MS)
    may_use_both(trace)
    set_policy(trace, "B", (0, "idle"))
    con.execute("UPDATE sched_slice SET priority = 89 WHERE utid = ?", [trace.utid("p/A")])
    (found,) = [one for one in judged(con, "priority_order") if one.kind == "higher_ready"]
    assert found.cost_ns == 76 * MS
    # Its policy does not matter while it has a real-time priority, as one that it had for a while.
    con.execute("UPDATE sched_slice SET priority = 89")
    assert not [one for one in judged(con, "priority_order") if one.kind == "higher_ready"]


def test_fair_share_of_the_background_is_what_is_left(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns("AB", 10), ONE, 80 * MS)
    set_policy(trace, "B", (0, "idle"))
    rows = con.execute(
        "SELECT thread, weight, fair_ready_ns FROM fair_share ORDER BY thread"
    ).fetchall()
    # Of 80 ms, the weights 1024 and 3 leave 3/1027 to B.
    share = 80 * MS * 3 / 1027
    assert [(name, weight) for name, weight, _ in rows] == [("A", 1024), ("B", 3)]
    assert [ns for *_, ns in rows] == pytest.approx([share, 80 * MS - share], abs=2)
