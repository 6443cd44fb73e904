"""Ready time against a fair share of the CPUs, on drawn recordings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import judged, outcome, plain

from schedlens.ask import summaries

MS = 1_000_000
ONE = [Cpu(0, 0)]
TWO = [Cpu(0, 0), Cpu(1, 1)]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def turns(priorities: dict[str, int], shares: dict[str, int], rounds: int) -> list[Slice]:
    """Threads that share CPU 0 in turns of these lengths in ms, all of them always runnable."""
    slices, now, last = [], 0, dict.fromkeys(shares, 0)
    for number in range(rounds):
        for name, ms in shares.items():
            slices.append(
                Slice(f"p/{name}", 0, now, ms * MS, ready=now - last[name],
                     wait=0 if number else None, end="preempted", priority=priorities[name])
            )  # fmt: skip
            now += ms * MS
            last[name] = now
    return slices


ASKED = "SELECT thread, weight, run_ns, ready_ns, fair_ready_ns, excess_ready_ns FROM fair_share"


# CPU 0  A 4 B 4 A 4 B 4 ... 80 ms: both always runnable, one CPU.
def test_equal_threads_on_one_cpu_wait_half_the_time(con: duckdb.DuckDBPyConnection) -> None:
    DrawnTrace(con, turns({"A": 120, "B": 120}, {"A": 4, "B": 4}, 10), ONE, 80 * MS)
    assert con.execute(ASKED + " ORDER BY thread").fetchall() == [
        ("A", 1024, 40 * MS, 40 * MS, 40 * MS, 0),
        ("B", 1024, 40 * MS, 40 * MS, 40 * MS, 0),
    ]
    # 4 ms at a time, one warning: waiting that the load explains is no fault.
    clean = outcome(con, "thread_summary")
    assert (clean.conclusion, plain(clean.reason)) == (
        "clean",
        "2 threads, no ready time beyond a fair share of the CPUs; the longest is 4 ms.",
    )


# Nice 5 (weight 335) against nice 0 (1024) on one CPU: 335 / 1359 is a quarter of it.
def test_fair_share_follows_nice_weight(con: duckdb.DuckDBPyConnection) -> None:
    DrawnTrace(con, turns({"A": 120, "N": 125}, {"A": 3, "N": 1}, 20), ONE, 80 * MS)
    assert con.execute(ASKED + " WHERE thread = 'N'").fetchall() == [
        ("N", 335, 20 * MS, 60 * MS, 60279617, -279617)
    ]
    for name in ("thread_summary", "priority_order"):
        assert outcome(con, name).conclusion == "clean"


# A starts at nice 0 with its longest slice, and runs at nice 5 for longer.
def test_weight_is_that_of_the_nice_level_of_most_runnable_time(
    con: duckdb.DuckDBPyConnection,
) -> None:
    later = [Slice("p/A", 0, (10 + 5 * n) * MS, 3 * MS, priority=125) for n in range(3)]
    DrawnTrace(con, [Slice("p/A", 0, 0, 5 * MS), *later], ONE, 80 * MS)
    weights = con.execute("SELECT weight FROM share_weight WHERE weight <> 1024").fetchall()
    assert weights == [(335,)]


# A starts at nice 0, then waits at nice 19 for most of the time.
def test_weight_of_a_starved_thread_is_that_of_its_waiting(con: duckdb.DuckDBPyConnection) -> None:
    starved = Slice("p/A", 0, 70 * MS, MS, ready=60 * MS, wait=0, priority=139)
    DrawnTrace(con, [Slice("p/A", 0, 0, 10 * MS), starved], ONE, 80 * MS)
    assert con.execute("SELECT weight FROM share_weight WHERE weight <> 1024").fetchall() == [(15,)]


# B may be a real-time thread, an equal one, or one of nice 19.
def test_thread_without_a_recorded_priority_is_judged_while_cpus_suffice(
    con: duckdb.DuckDBPyConnection,
) -> None:
    slices = turns({"A": 120, "B": 120}, {"A": 6, "B": 2}, 10)
    slices = [replace(one, priority=None) if one.thread == "p/B" else one for one in slices]
    slices[-2] = replace(slices[-2], end="blocked")
    # Then B waits for 20 ms while nothing runs.
    slices.append(Slice("p/B", 0, 110 * MS, MS, ready=20 * MS, wait=10 * MS, priority=None))
    DrawnTrace(con, slices, ONE, 120 * MS)
    ask = (
        "SELECT weight, ready_ns, crowded_ready_ns, fair_ready_ns, excess_ready_ns "
        "FROM fair_share WHERE thread = 'B'"
    )
    rows = [(None, 80 * MS, 60 * MS, None, None)]
    assert con.execute(ask).fetchall() == rows
    summaries.build(con)
    assert con.execute("SELECT count(*) FROM fair_share_sum").fetchall() == [(2,)]
    assert con.execute(ask).fetchall() == rows
    (found,) = judged(con, "thread_summary")
    assert found.cost_ns == 20 * MS
    assert "20 ms more than fair sharing explains" in plain(found.detail)


# The same turns at equal weight: N got 20 of the 40 ms of its share.
def test_thread_with_half_its_share_is_a_warning(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns({"A": 120, "N": 120}, {"A": 6, "N": 2}, 10), ONE, 80 * MS)
    (found,) = judged(con, "thread_summary")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("info", 20 * MS, 25.0)
    assert plain(found.detail).endswith(
        "60 ms in total, 20 ms more than fair sharing explains. Sharing between cgroups or "
        "autogroups, which were not recorded, may explain that."
    )
    trace.add("machine_setting", key="autogroup", value="0")
    (found,) = judged(con, "thread_summary")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("warning", 20 * MS, 25.0)
    assert plain(found.detail).endswith("20 ms more than fair sharing explains.")


# The group of A has three times the weight of the group of B, C and D.
def test_groups_share_before_their_threads(con: duckdb.DuckDBPyConnection) -> None:
    rounds = turns(dict.fromkeys("ABCD", 120), {"A": 9, "B": 1, "C": 1, "D": 1}, 10)
    trace = DrawnTrace(con, rounds, ONE, 120 * MS)
    ask = "SELECT thread, ready_ns, fair_ready_ns FROM fair_share ORDER BY thread"
    assert [fair for _, _, fair in con.execute(ask).fetchall()] == [90 * MS] * 4
    assert {found.severity for found in judged(con, "thread_summary")} == {"info"}
    for name in "ABCD":
        trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid(f"p/{name}"), source="reading",
                  cgroup="/one" if name == "A" else "/other")  # fmt: skip
    # Equal weights, as far as is known: half of the CPU each.
    assert [fair for _, _, fair in con.execute(ask).fetchall()] == [60 * MS] + [100 * MS] * 3
    trace.add("machine_setting", key="cpu_shares", value='{"/one": 300, "/other": 100}')
    assert con.execute(ask).fetchall() == [
        ("A", 30 * MS, 30 * MS), ("B", 110 * MS, 110 * MS),
        ("C", 110 * MS, 110 * MS), ("D", 110 * MS, 110 * MS),
    ]  # fmt: skip
    assert outcome(con, "thread_summary").conclusion == "clean"
    assert con.execute("FROM sharing_group_summary").fetchall() == [
        (1, "/one", [300], 1, 90 * MS, 75.0, 30 * MS, 30 * MS, 0),
        (1, "/other", [100], 3, 30 * MS, 25.0, 330 * MS, 330 * MS, 0),
    ]
    # A thread without group is of the root, and weighs more than a group of weight 100.
    con.execute("DELETE FROM thread_cgroup WHERE cgroup = '/one'")
    fair = "SELECT name, weights, fair_ready_ns FROM sharing_group_summary ORDER BY name"
    assert con.execute(fair).fetchall() == [
        ("/other", [100], round(120 * MS * (3 - 100 / 1124))),
        (None, None, round(120 * MS * 100 / 1124)),
    ]
    con.execute("DELETE FROM thread_cgroup")
    assert con.execute("FROM sharing_group_summary").fetchall() == []


# A weighs 9 times as much as B and C. It cannot use more than one of two CPUs.
def test_what_a_thread_cannot_use_is_shared_by_the_others(con: duckdb.DuckDBPyConnection) -> None:
    slices = [Slice("p/A", 0, 0, 80 * MS, priority=110)]
    slices += [replace(one, cpu=1) for one in turns({"B": 120, "C": 120}, {"B": 4, "C": 4}, 10)]
    DrawnTrace(con, slices, TWO, 80 * MS)
    rows = con.execute("SELECT thread, weight, fair_ready_ns FROM fair_share ORDER BY 1").fetchall()
    assert rows == [("A", 9548, 0), ("B", 1024, 40 * MS), ("C", 1024, 40 * MS)]


def test_cgroup_without_a_controller_is_no_group(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns({"A": 120, "B": 120}, {"A": 4, "B": 4}, 10), ONE, 80 * MS)
    for name, cgroup in (("A", "/user.slice/shell"), ("B", "/user.slice/web")):
        trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid(f"p/{name}"), cgroup=cgroup,
                  source="reading")  # fmt: skip
        trace.add("snapshot_cgroup", ts=0, edge="end", cgroup=cgroup)
    ask = "SELECT path, weights FROM sharing_group ORDER BY path"
    assert con.execute(ask).fetchall() == [
        (["/user.slice", "/user.slice/shell"], [1024, 1024]),
        (["/user.slice", "/user.slice/web"], [1024, 1024]),
    ]
    trace.add("machine_setting", key="cpu_shares", value='{"/user.slice": 200}')
    assert con.execute(ask).fetchall() == [(["/user.slice"], [200])] * 2
    con.execute("UPDATE machine_setting SET value = '{\"/\": 1024}'")
    con.execute("UPDATE thread_cgroup SET cgroup = '/'")
    assert con.execute(ask).fetchall() == []


@pytest.mark.parametrize("text", ["", "[1]", '{"/a": "many"}', '{"/a": -5}', '{"/a": 1e400}'])
def test_settings_that_cannot_be_read_give_the_default_weight(
    con: duckdb.DuckDBPyConnection, text: str
) -> None:
    trace = DrawnTrace(con, turns({"A": 120}, {"A": 4}, 1), ONE, 80 * MS)
    trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("p/A"), cgroup="/a", source="reading")
    for key in ("autogroups", "cpu_shares"):
        trace.add("machine_setting", key=key, value=text)
    trace.add("machine_setting", key="autogroup", value="1")
    trace.add("machine_setting", key="command_pid", value="x")
    rows = con.execute("SELECT path, weights FROM sharing_group").fetchall()
    assert rows == [(["/a"], [1024])]


def test_processes_that_are_each_other_s_parents_have_a_session(
    con: duckdb.DuckDBPyConnection,
) -> None:
    slices = [Slice("a/A", 0, 0, MS), Slice("b/B", 0, MS, MS)]
    trace = DrawnTrace(con, slices, ONE, 80 * MS)
    trace.add("machine_setting", key="autogroup", value="1")
    con.execute("UPDATE process SET pid = pid + 40")
    con.execute("UPDATE process SET parent_pid = (SELECT sum(pid) FROM process) - pid")
    paths = con.execute("SELECT path FROM sharing_group").fetchall()
    assert len(paths) == 2
    assert all(path[0].startswith("session of ") for (path,) in paths)


# Any schedule, in groups within groups: the pass over the schedule and the query agree.
@pytest.mark.parametrize("seed", range(4))
def test_summary_of_groups_equals_the_query(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    draw = random.Random(seed)
    names = [f"T{number}" for number in range(7)]
    priority = {name: draw.choice([120, 120, 125, 110, 50]) for name in names}
    slices, busy, ended = [], {0: 0, 1: 0}, dict.fromkeys(names, 0)
    for _ in range(200):
        cpu = min(busy, key=lambda one: busy[one])
        now = busy[cpu]
        name = draw.choice([name for name in names if ended[name] <= now])
        dur = draw.randrange(1, 5 * MS)
        ready = draw.randrange(now - ended[name] + 1)
        slices.append(Slice(f"p/{name}", cpu, now, dur, ready=ready, priority=priority[name],
                            wait=now - ended[name] - ready if ended[name] else None))  # fmt: skip
        busy[cpu] = ended[name] = now + dur
    trace = DrawnTrace(con, slices, TWO, max(busy.values()))
    for name in names[:-1]:
        cgroup = draw.choice(["/", "/a", "/a/x", "/a/y", "/b/z", "/b"])
        trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid(f"p/{name}"), cgroup=cgroup,
                  source="reading")  # fmt: skip
    trace.add("machine_setting", key="cpu_shares", value='{"/a": 300, "/a/x": 3, "/b": 70}')
    computed = con.execute("FROM fair_share ORDER BY utid").fetchall()
    summaries.build(con)
    assert con.execute("SELECT count(*) FROM fair_share_sum").fetchone() == (len(computed),)
    assert con.execute("FROM fair_share ORDER BY utid").fetchall() == computed
    assert any(row[9] for row in computed)


# Both on CPU 0 while CPU 1 is idle: nothing required sharing.
def test_ready_time_with_enough_cpus_is_all_excess(con: duckdb.DuckDBPyConnection) -> None:
    DrawnTrace(con, turns({"A": 120, "B": 120}, {"A": 20, "B": 20}, 2), TWO, 80 * MS)
    rows = con.execute(
        "SELECT thread, crowded_ready_ns, excess_ready_ns FROM fair_share ORDER BY thread"
    ).fetchall()
    assert rows == [("A", 0, 40 * MS), ("B", 0, 40 * MS)]
    assert [f.severity for f in judged(con, "thread_summary")] == ["critical", "critical"]


def test_ready_time_next_to_a_gap_is_not_judged(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(
        con,
        [Slice("p/A", 0, 50 * MS, MS, ready=40 * MS), Slice("p/A", 0, 60 * MS, MS, ready=2 * MS)],
        TWO,
        80 * MS,
    )  # fmt: skip
    assert [(f.severity, f.bound) for f in judged(con, "thread_summary")] == [("critical", "exact")]
    # Records of the other CPU are missing: the thread may have run there meanwhile.
    trace.add("loss", cpu=1, start_ns=20 * MS, end_ns=21 * MS, signalled_by="x")
    (found,) = judged(con, "thread_summary")
    assert (found.severity, found.bound) == ("info", "at_least")
    assert "was ready for up to 2 ms at a time" in plain(found.detail)
    assert "at least 42 ms" in plain(found.title)


def test_findings_of_other_programs_are_info_and_come_last(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(
        con,
        [Slice("other/O", 0, 60 * MS, MS, ready=50 * MS),
         Slice("cmd/C", 1, 60 * MS, MS, ready=30 * MS)],
        TWO, 80 * MS,
    )  # fmt: skip
    assert [(f.utid, f.severity) for f in judged(con, "thread_summary")] == [
        (trace.utid("other/O"), "critical"), (trace.utid("cmd/C"), "critical"),
    ]  # fmt: skip
    pid = con.execute("SELECT pid FROM process WHERE name = 'cmd'").fetchall()[0][0]
    trace.add("machine_setting", key="command_pid", value=str(pid))
    assert [(f.utid, f.severity) for f in judged(con, "thread_summary")] == [
        (trace.utid("cmd/C"), "critical"), (trace.utid("other/O"), "info"),
    ]  # fmt: skip


def test_waits_of_the_recorder_are_info_and_come_last(con: duckdb.DuckDBPyConnection) -> None:
    slices = [
        Slice("perf/perf", 0, 60 * MS, MS, ready=50 * MS),
        Slice("other/O", 1, 60 * MS, MS, ready=30 * MS),
    ]
    trace = DrawnTrace(con, slices, TWO, 80 * MS)
    assert [(f.utid, f.severity) for f in judged(con, "thread_summary")] == [
        (trace.utid("other/O"), "critical"), (trace.utid("perf/perf"), "info"),
    ]  # fmt: skip


def test_children_belong_to_the_recorded_command(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(
        con,
        [Slice("cmd/C", 0, 0, MS), Slice("child/K", 0, 2 * MS, MS),
         Slice("other/O", 0, 5 * MS, MS)],
        TWO, 80 * MS,
    )  # fmt: skip
    pid = con.execute("SELECT pid FROM process WHERE name = 'cmd'").fetchall()[0][0]
    trace.add("machine_setting", key="command_pid", value=str(pid))
    trace.add("wakeup", ts=MS, cpu=0, seq=9, kind="wakeup_new", utid=trace.utid("child/K"),
              waker_utid=trace.utid("cmd/C"))  # fmt: skip
    rows = con.execute("SELECT utid FROM command_thread ORDER BY utid").fetchall()
    assert rows == sorted([(trace.utid("cmd/C"),), (trace.utid("child/K"),)])


def test_short_chain_of_unbound_threads_is_not_reported(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trace = DrawnTrace(con, turns({"A": 120, "B": 120}, {"A": 4, "B": 4}, 3), TWO, 800 * MS)
    utids = [trace.utid("p/A"), trace.utid("p/B")]
    trace.add("quantum_chain", chain=1, cpu=0, ts=0, dur=24 * MS, hand_offs=5, utids=utids,
              slice_ns=4 * MS, skipped=0, yield_possible=False, serialized_ns=3_190_000,
              idle_elsewhere_ns=3_190_000, affinity_known=True)  # fmt: skip
    assert outcome(con, "quantum_end_chain").conclusion == "clean"
    # Their affinity excludes a CPU: the same time is the cost of binding.
    for utid in utids:
        trace.add("affinity", utid=utid, cpus=[0], source="snapshot")
    (found,) = judged(con, "quantum_end_chain")
    assert found.severity == "warning"
    assert "Widen the affinity" in found.advice
    # Unbound, except for 1 % of the window.
    con.execute("DELETE FROM affinity; UPDATE quantum_chain SET serialized_ns = 8000000")
    (found,) = judged(con, "quantum_end_chain")
    assert found.severity == "warning"
    assert "Widen the affinity" not in found.advice


def test_bound_workers_are_compared_with_their_own_cpus(con: duckdb.DuckDBPyConnection) -> None:
    trace = DrawnTrace(con, turns({"A": 120, "B": 120}, {"A": 4, "B": 4}, 3), TWO, 80 * MS)
    trace.add("run", step="s", workload="x", threads=2, recorded=True, oversubscribed=True,
              planned_cpus=[0, 0], start_ns=0, end_ns=80 * MS)  # fmt: skip
    for worker, name in enumerate(("p/A", "p/B")):
        trace.add("run_worker", worker=worker, utid=trace.utid(name), tid=trace.tid(name), cpu=0,
                  start_ns=0, end_ns=80 * MS, cpu_time_ns=1, iterations=1, bytes=0)  # fmt: skip
    # As planned: stated with the conclusion, and no finding.
    assert judged(con, "concurrency") == []
    assert "2 workers on 1 CPU were ready" in outcome(con, "concurrency").reason
    con.execute("UPDATE run SET planned_cpus = NULL")
    assert "as planned:" not in outcome(con, "concurrency").reason
