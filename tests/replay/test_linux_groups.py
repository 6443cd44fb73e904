"""Drawn recordings of Linux: the groups of threads, and what a change of them does."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.errors import ChangeError
from schedlens.replay import affinities, alterations, linux_rules, prediction, work
from schedlens.replay.fidelity import Fidelity
from schedlens.replay.prediction import Baseline, Refused
from schedlens.replay.work import Work

MS = 1_000_000
ONE = [Cpu(0, 0)]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def turns(names: dict[str, int], rounds: int, each: int = 4 * MS) -> list[Slice]:
    """Threads with priorities that take turns on CPU 0 and never wait."""
    slices, now = [], 0
    for number in range(rounds):
        for name, priority in names.items():
            ready = (len(names) - 1) * each if number else now
            slices.append(
                Slice(name, 0, now, each, ready=ready, wait=0, priority=priority,
                      end="quantum_end_or_yield")
            )  # fmt: skip
            now += each
    return slices


def drawn(con: duckdb.DuckDBPyConnection, names: dict[str, int], **settings: object) -> DrawnTrace:
    rounds = 100
    trace = DrawnTrace(con, turns(names, rounds), ONE, len(names) * rounds * 4 * MS)
    for key, value in {"scheduler": "EEVDF", "hz": "250", **settings}.items():
        trace.add("machine_setting", key=key, value=value)
    return trace


def pids(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    return dict(con.execute("SELECT name, pid FROM process").fetchall())


def test_cgroups_and_autogroups_are_groups(con: duckdb.DuckDBPyConnection) -> None:
    trace = drawn(con, {"web/W": 120, "shell/S": 120, "job/J": 120}, autogroup="1",
                  cpu_shares='{"/slow": 512, "/": 1024}')  # fmt: skip
    known = {str(pids(con)["shell"]): "/autogroup-7 nice -5"}
    trace.add("machine_setting", key="autogroups", value=json.dumps(known))
    trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("web/W"), cgroup="/slow/web",
              source="reading")  # fmt: skip
    trace.add("snapshot_cgroup", ts=0, edge="end", cgroup="/slow", quota_ns=50 * MS,
              period_ns=100 * MS)  # fmt: skip
    rules = linux_rules.read(con, 1, 2)
    found = {group.name: (group.parent, group.shares, group.quota_ns) for group in rules.groups}
    job = f"session of {pids(con)['job']}"
    assert found == {
        "/": (None, 1024, None),
        "/slow": (0, 512, 50 * MS),
        "/slow/web": (1, 1024, None),
        "/autogroup-7": (0, 3121, None),
        job: (0, 1024, None),
    }
    names = {utid: rules.groups[place].name for utid, place in rules.of_thread.items()}
    assert names == {
        trace.utid("web/W"): "/slow/web",
        trace.utid("shell/S"): "/autogroup-7",
        trace.utid("job/J"): job,
    }
    assert (rules.tick_ns, rules.slice_ns) == (4 * MS, 1.4 * MS)


def test_latest_process_has_the_nice_value_of_its_autogroup(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trace = drawn(con, {"shell/S": 120, "job/J": 120}, autogroup="1")
    # The shell was read before it weighed its session, and the job that it started after that.
    known = {
        str(pids(con)["job"]): "/autogroup-7 nice -5",
        str(pids(con)["shell"]): "/autogroup-7 nice 0",
    }
    trace.add("machine_setting", key="autogroups", value=json.dumps(known))
    groups = linux_rules.read(con, 1, 1).groups
    assert [(group.name, group.shares) for group in groups[1:]] == [("/autogroup-7", 3121)]


def test_affinity_is_the_one_that_the_thread_had_for_longest(
    con: duckdb.DuckDBPyConnection,
) -> None:
    trace = drawn(con, {"web/W": 120, "job/J": 120})
    web, job = trace.utid("web/W"), trace.utid("job/J")
    end = 800 * MS
    for utid, from_ns, cpus in (
        # It set its affinity after its start, and widened it before its end.
        (web, None, [0, 1]), (web, 4 * MS, [0]), (web, end - 5 * MS, [0, 1]),
        (job, None, [1]), (job, end // 2 + MS, [0]),
    ):  # fmt: skip
        trace.add("affinity", utid=utid, valid_from_ns=from_ns, cpus=cpus, source="reading")
    assert affinities.longest(con, 1) == {web: [0], job: [1]}


def baseline(con: duckdb.DuckDBPyConnection, process: str) -> Baseline:
    found = prediction.baseline(con, 1, process=process)
    assert isinstance(found, Baseline), found
    return found


def test_without_frames_throughput_is_predicted(con: duckdb.DuckDBPyConnection) -> None:
    drawn(con, {"web/W": 120, "job/J": 120})
    base = baseline(con, "web")
    assert base.unit == "throughput"
    # It has the CPU half of the time.
    assert isinstance(base.figures, Work)
    assert base.figures.throughput == pytest.approx(0.5, rel=0.02)
    gains = {}
    for text in ("remove job", "nice J=5", "work W=-50%", "affinity J=0"):
        made = prediction.predict(base, [alterations.parse(text)])
        assert made.why is None
        gains[text] = made.gain_pct
    assert gains == {
        "remove job": pytest.approx(100, abs=3),
        # 3.05 of 4.05 instead of half.
        "nice J=5": pytest.approx(50.6, abs=3),
        "work W=-50%": pytest.approx(100, abs=3),
        "affinity J=0": 0,
    }


def test_interval_is_as_wide_as_the_largest_error_of_the_process(
    con: duckdb.DuckDBPyConnection,
) -> None:
    drawn(con, {"web/W": 120, "job/J": 120})
    base = baseline(con, "web")

    def half_width(errors: Fidelity) -> float:
        made = prediction.predict(replace(base, fidelity=errors), [alterations.parse("remove job")])
        found = (made.work or {})["throughput"]
        assert found is not None
        assert found.value - found.low == pytest.approx(found.high - found.value)
        return (found.high - found.value) / found.value

    assert base.recorded[0].goal is not None
    chance = base.recorded[0].goal.variation
    exact = Fidelity(None, 0.0, 0.0, {"throughput": 0.0})
    assert half_width(exact) == pytest.approx(math.hypot(prediction.LEAST_LINUX_ERROR, chance))
    waits, runs = replace(exact, ready_error=0.12), replace(exact, running_error=0.11)
    assert half_width(waits) == pytest.approx(math.hypot(0.12, chance))
    assert half_width(runs) == pytest.approx(math.hypot(0.11, chance))


def test_work_of_slices_that_overlap_counts_when_it_is_done() -> None:
    # Two threads on two CPUs, in slices of 1000 ns: nine tenths are done after nine tenths.
    slices = [(start, start + 1000, 500.0, utid) for start in (0, 1000) for utid in (1, 2)]
    found = work.goal(slices, {})
    assert found is not None
    assert (found.work_ns, found.took_ns) == (1800.0, 1800)
    # A third thread that begins at 1500 and ends last.
    found = work.goal([*slices, (1500, 4000, 2500.0, 3)], {})
    assert found is not None
    # 4050 of 4500 ns.
    assert found.took_ns == 3550


def test_chance_shows_in_how_much_neighboring_parts_of_a_recording_differ() -> None:
    def chance(amounts: list[float]) -> float:
        parts = [(100 * place, 100 * place + 100, done, 1) for place, done in enumerate(amounts)]
        return work._variation(parts, 0, 1000)

    assert chance([50.0] * 10) == 0
    # Neighbors differ by 20 of 100: a standard error of sqrt(200 / 10) of 100.
    assert chance([90.0, 110.0] * 5) == pytest.approx(2.262 * 2**0.5 * 20**0.5 / 100)
    # Of two phases only their border counts.
    assert chance([60.0] * 5 + [140.0] * 5) < chance([90.0, 110.0] * 5) * 1.4


def test_a_quota_can_be_set(con: duckdb.DuckDBPyConnection) -> None:
    trace = drawn(con, {"web/W": 120, "job/J": 120})
    trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("job/J"), cgroup="/jobs",
              source="reading")  # fmt: skip
    made = prediction.predict(baseline(con, "web"), [alterations.parse("quota /jobs=0.2")])
    assert made.gain_pct == pytest.approx(60, abs=4)
    with pytest.raises(ChangeError, match="no cgroup is named '/job'"):
        prediction.predict(baseline(con, "web"), [alterations.parse("quota /job=0.2")])


@pytest.mark.parametrize(("text", "gain"), [("quota /web=0.8", 97.7), ("quota /web=none", 141.7)])
def test_a_raised_quota_gives_more_of_the_cpu(
    con: duckdb.DuckDBPyConnection, text: str, gain: float
) -> None:
    # Of each 100 ms, the thread may run 40. 90 % of its work, 720 ms, take 1,740 ms; with 80 of
    # each 100 they take 880.
    slices = [
        Slice("web/W", 0, number * 100 * MS, 40 * MS, ready=60 * MS if number else 0, wait=0,
              priority=120, end="quantum_end_or_yield")
        for number in range(20)
    ]  # fmt: skip
    trace = DrawnTrace(con, slices, ONE, 2000 * MS)
    trace.add("machine_setting", key="scheduler", value="EEVDF")
    trace.add("thread_cgroup", ts=0, tid=1, utid=trace.utid("web/W"), cgroup="/web",
              source="reading")  # fmt: skip
    trace.add(
        "snapshot_cgroup", ts=0, edge="begin", cgroup="/web", quota_ns=40 * MS, period_ns=100 * MS
    )
    made = prediction.predict(baseline(con, "web"), [alterations.parse(text)])
    assert made.gain_pct == pytest.approx(gain, abs=1)


def test_background_gets_what_is_left(con: duckdb.DuckDBPyConnection) -> None:
    trace = drawn(con, {"web/W": 120, "job/J": 120, "late/L": 50})
    trace.add("thread_policy", ts=0, utid=trace.utid("job/J"), tid=1, policy="idle")
    trace.add("thread_policy", ts=0, utid=trace.utid("late/L"), tid=1, policy="rr")
    rules = linux_rules.read(con, 1, 1)
    assert rules.background == {trace.utid("job/J")}
    assert rules.round_robin == {trace.utid("late/L")}
    assert rules.packed([trace.utid("web/W"), trace.utid("job/J"), trace.utid("late/L")])[3] == [
        (0, False, False), (0, False, True), (0, True, False),
    ]  # fmt: skip


def test_changes_of_windows_do_not_fit_linux(con: duckdb.DuckDBPyConnection) -> None:
    drawn(con, {"web/W": 120, "job/J": 120})
    with pytest.raises(ChangeError, match="priority is a setting of Windows: use nice"):
        prediction.predict(baseline(con, "web"), [alterations.parse("priority W=9")])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"scheduler": "CFS"}, "the recorded scheduler is CFS, and the replay has the rules"),
        ({"scheduler": None}, "the recording does not say which scheduler its kernel has"),
    ],
)
def test_another_scheduler_is_refused(
    con: duckdb.DuckDBPyConnection, settings: dict[str, object], why: str
) -> None:
    drawn(con, {"web/W": 120, "job/J": 120}, **settings)
    found = prediction.baseline(con, 1)
    assert isinstance(found, Refused)
    assert found.why.startswith(why)
