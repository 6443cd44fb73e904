"""The recorded session with 10 cores and 20 CPUs: results of queries and findings.

The oracle is the text of `perf script` (switch_text.py) and the plan of the recording.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
import switch_text
from conftest import command
from fixture_files import qemu_session
from judged import plain

pytestmark = pytest.mark.slow

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None, reason="perf is not installed, and it is the oracle"
)

CORES = [(first, first + 1) for first in range(0, 20, 2)]
PAIR_STEP = "spin_handoff-pinned-t02-r1"
PINNED = [(placement, threads) for placement in ("physical", "siblings")
          for threads in (1, 10, 14, 20)]  # fmt: skip
# Share of cores with both CPUs busy, in percent, by counting.
BOTH_PCT = dict(zip(PINNED, (0, 0, 40, 100, 0, 50, 70, 100), strict=True))


class Analyzed(NamedTuple):
    """The session, its database and what `analyze` printed."""

    session: Path
    con: duckdb.DuckDBPyConnection
    said: list[str]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.con.execute(sql).fetchall()

    def window(self, step: str) -> tuple[int, int, int, int]:
        """Number of the recording, ns 0 on the monotonic clock, start and end of the window."""
        row = self.rows(
            "SELECT trace_id, start_clock, start_ns, end_ns FROM trace JOIN analysis_span "
            f"USING (trace_id) WHERE label = '{step}' AND clock_hz = 1000000000"
        )
        return row[0]

    def slices(self, step: str) -> list[switch_text.Slice]:
        """What ran where in the window, by the text of perf."""
        _, zero, begin, end = self.window(step)
        switches = switch_text.switches(self.session / step / "perf.data")
        return switch_text.slices(switches, zero + begin, zero + end)


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyzed]:
    session = qemu_session(tmp_path_factory)
    folder = tmp_path_factory.mktemp("qemu-findings")
    done = command("analyze", str(session), "-o", str(folder), "--no-report")
    with duckdb.connect(str(folder / "analysis.duckdb"), read_only=True) as con:
        yield Analyzed(session, con, done.stdout.splitlines())


def _step(placement: str, threads: int) -> str:
    return f"sha256-{placement}-t{threads:02}-r1"


@pytest.mark.parametrize(("placement", "threads"), PINNED)
def test_cores_with_both_siblings_busy(analyzed: Analyzed, placement: str, threads: int) -> None:
    trace_id = analyzed.window(_step(placement, threads))[0]
    both, none, one = analyzed.rows(
        f"SELECT both_pct, none_pct, one_pct FROM sibling_overlap_total(p_trace_id := {trace_id})"
    )[0]
    assert both == pytest.approx(BOTH_PCT[placement, threads], abs=3)
    assert none + one + both == pytest.approx(100)


@needs_perf
@pytest.mark.parametrize(("placement", "threads"), PINNED)
def test_shared_core_time_matches_perf_script(
    analyzed: Analyzed, placement: str, threads: int
) -> None:
    step = _step(placement, threads)
    trace_id, _, begin, end = analyzed.window(step)
    slices = analyzed.slices(step)
    expected = sum(switch_text.both_busy_ns(slices, pair) for pair in CORES)
    threads_only = analyzed.rows(
        f"SELECT coalesce(sum(least(ts + dur, {end}) - greatest(ts, {begin})), 0) FROM core_state "
        f"WHERE trace_id = {trace_id} AND threads > 1 AND ts < {end} AND ts + dur > {begin}"
    )
    assert threads_only == [(expected,)]
    # Interrupts in the idle thread are busy time as well, but absent from the switch text.
    found = analyzed.rows(f"SELECT both_ns FROM sibling_overlap_total(p_trace_id := {trace_id})")
    assert expected <= found[0][0] <= expected + 0.01 * len(CORES) * (end - begin)


def test_ten_pinned_threads_share_five_cores_while_five_are_idle(analyzed: Analyzed) -> None:
    trace_id, _, begin, end = analyzed.window("sha256-siblings-t10-r1")
    row = analyzed.rows(
        "SELECT any_cpu_ns, allowed_ns, affinity_ns, most_at_once "
        f"FROM sharing_by_affinity(p_trace_id := {trace_id})"
    )[0]
    # Each worker may use only one CPU: the scheduler could have avoided nothing.
    assert row[1:] == (0, row[0], 5)
    assert row[0] == pytest.approx(5 * (end - begin), rel=0.01)
    assert analyzed.rows(
        f"SELECT any_type_ns, most_at_once FROM avoidable_sharing_total(p_trace_id := {trace_id})"
    ) == [(0, 0)]


@needs_perf
@pytest.mark.parametrize("step", ["sha256-siblings-t10-r1", "sha256-siblings-t14-r1"])
def test_sharing_by_affinity_matches_perf_script(analyzed: Analyzed, step: str) -> None:
    trace_id, _, begin, end = analyzed.window(step)
    edges: list[tuple[int, int, int]] = []
    for slice_ in analyzed.slices(step):
        if slice_.tid:
            edges += [(slice_.begin, slice_.cpu // 2, 1), (slice_.end, slice_.cpu // 2, -1)]
    busy: Counter[int] = Counter()
    total = before = 0
    for ns, core, change in sorted(edges):
        spare = sum(number - 1 for number in busy.values() if number > 1)
        total += min(spare, len(CORES) - sum(number > 0 for number in busy.values())) * (
            ns - before
        )
        busy[core] += change
        before = ns
    found = analyzed.rows(f"SELECT any_cpu_ns FROM sharing_by_affinity(p_trace_id := {trace_id})")
    assert found[0][0] == pytest.approx(total, abs=0.05 * (end - begin))


def test_pair_on_one_cpu_is_one_chain(analyzed: Analyzed) -> None:
    trace_id = analyzed.window(PAIR_STEP)[0]
    chains = analyzed.rows(
        "SELECT trace_id, cpu, hand_offs, threads, serialized_ns, idle_elsewhere_ns = dur, "
        "allowed_cpus, pair_only, yield_possible, affinity_known FROM quantum_end_chain"
    )
    assert chains == [
        (trace_id, 5, 6, ["spin_handoff-00", "spin_handoff-01"], 0, True, [5], True, True, True)
    ]
    slice_ns, dur = analyzed.rows("SELECT slice_ns, dur FROM quantum_end_chain")[0]
    assert 15_000_000 <= slice_ns <= 17_000_000
    found = analyzed.rows(
        "SELECT severity, cost_ns, cpu, detail FROM finding WHERE analyzer = 'quantum_end_chain'"
    )
    assert [row[:3] for row in found] == [("info", dur, 5)]
    assert (
        "6 hand-offs after slices of about 16 ms: their affinity allows only CPU 5, while another "
        "CPU" in plain(found[0][3])
    )


@needs_perf
def test_hand_offs_of_the_chain_match_perf_script(analyzed: Analyzed) -> None:
    _, zero, _, _ = analyzed.window(PAIR_STEP)
    ts, dur, hand_offs = analyzed.rows("SELECT ts, dur, hand_offs FROM quantum_end_chain")[0]
    tids = {row[0] for row in analyzed.rows(
        f"SELECT tid FROM run_worker JOIN trace USING (trace_id) WHERE label = '{PAIR_STEP}'"
    )}  # fmt: skip
    switches = [
        switch
        for switch in switch_text.switches(analyzed.session / PAIR_STEP / "perf.data")
        if zero + ts <= switch.ns <= zero + ts + dur and switch.cpu == 5
    ]
    # The chain begins with a switch-in and ends with a switch-out, with hand-offs between.
    between = [s for s in switches[1:-1] if s.prev in tids and s.next in tids and s.prev != s.next]
    assert len(between) == hand_offs
    assert switches[0].ns == zero + ts
    assert switches[-1].ns == zero + ts + dur


def test_one_of_the_pair_is_ready_while_the_other_runs(analyzed: Analyzed) -> None:
    trace_id, _, begin, end = analyzed.window(PAIR_STEP)
    found = analyzed.rows(
        "SELECT run_ns, ready_ns, wait_ns, unknown_ns "
        f"FROM thread_summary(p_trace_id := {trace_id}) WHERE thread LIKE 'spin_handoff-%' "
        "ORDER BY thread"
    )
    (run_a, ready_a, *rest_a), (run_b, ready_b, *rest_b) = found
    assert (ready_a, ready_b, rest_a, rest_b) == (run_b, run_a, [0, 0], [0, 0])
    assert run_a + run_b == end - begin
    obstacles = analyzed.rows(
        f"SELECT ready_ns, all_busy_ns FROM ready_obstacle(p_trace_id := {trace_id}) "
        "WHERE thread LIKE 'spin_handoff-%' ORDER BY thread"
    )
    # The one CPU that they may use is never idle.
    assert obstacles == [(ready_a, ready_a), (ready_b, ready_b)]


@needs_perf
def test_worst_waits_equal_slices_of_the_other_thread(analyzed: Analyzed) -> None:
    trace_id = analyzed.window(PAIR_STEP)[0]
    names = dict(analyzed.rows(
        f"SELECT tid, name FROM thread WHERE trace_id = {trace_id} AND name LIKE 'spin_handoff-%'"
    ))  # fmt: skip
    slices = sorted(
        ((slice_.end - slice_.begin, names[slice_.tid])
         for slice_ in analyzed.slices(PAIR_STEP) if slice_.tid in names),
        reverse=True,
    )  # fmt: skip
    waits = analyzed.rows(
        "SELECT ready_ns, instead_thread, instead_ns, entered_cpu, thread <> instead_thread "
        f"FROM worst_waits(p_trace_id := {trace_id}) ORDER BY place LIMIT 5"
    )
    assert waits == [(ns, name, ns, 5, True) for ns, name in slices[:5]]


@needs_perf
@pytest.mark.parametrize("step", ["sha256-physical-t14-r1", "sha256-default-t10-r1", PAIR_STEP])
def test_running_time_of_each_worker_matches_perf_script(analyzed: Analyzed, step: str) -> None:
    trace_id, zero, begin, end = analyzed.window(step)
    slices = analyzed.slices(step)
    found = analyzed.rows(
        f"SELECT t.tid, t.run_ns, t.switches_in FROM thread_summary(p_trace_id := {trace_id}) AS t "
        "JOIN run_worker USING (utid)"
    )
    assert len(found) == int(step.split("-t")[1][:2])
    for tid, run_ns, switches_in in found:
        assert run_ns == switch_text.run_ns(slices, tid, zero + begin, zero + end)
        own = [s for s in slices if s.tid == tid]
        assert switches_in in (len(own) - 1, len(own))


WAKING = re.compile(
    r"^\s*.*?\s(?P<by>\d+)/\s*\d+\s+\[\d+\]\s+(?P<s>\d+)\.(?P<ns>\d{9}):\s+"
    r"sched:sched_(?:waking|wakeup_new):.*\spid=(?P<woken>\d+)\s"
)


@needs_perf
@pytest.mark.parametrize("step", ["sha256-siblings-t10-r1", PAIR_STEP])
def test_every_waker_pair_is_in_perf_script(analyzed: Analyzed, step: str) -> None:
    trace_id, zero, begin, end = analyzed.window(step)
    text = subprocess.run(
        ["perf", "script", "--ns", "-i", str(analyzed.session / step / "perf.data"),
         "-F", "comm,tid,pid,cpu,time,event,trace"],
        check=True, capture_output=True, timeout=300,
    ).stdout.decode("utf-8", "replace")  # fmt: skip
    recorded: Counter[int] = Counter()
    for line in text.splitlines():
        match = WAKING.match(line)
        if match:
            ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
            # A wakeup before the window may begin a ready time that ends in it.
            if zero + begin - 20_000_000 <= ns <= zero + end:
                recorded[int(match["woken"])] += 1
    found = analyzed.rows(f"SELECT tid, wakings FROM waker_pair(p_trace_id := {trace_id})")
    wakings: Counter[int] = Counter()
    for tid, number in found:
        wakings[tid] += number
    assert {tid: n for tid, n in wakings.items() if n > recorded[tid]} == {}
    assert sum(wakings.values()) == {"sha256-siblings-t10-r1": 8, PAIR_STEP: 1}[step]


def test_throughput_is_work_divided_by_interval(analyzed: Analyzed) -> None:
    points = analyzed.rows(
        "SELECT placement, threads, per_s, is_disturbed FROM scaling_curve "
        "WHERE workload = 'sha256'"
    )
    assert len(points) == 12
    for placement, threads, per_s, is_disturbed in points:
        path = analyzed.session / _step(placement, threads) / "workload.json"
        workers = json.loads(path.read_text())["workers"]
        expected = sum(w["bytes"] * 1e9 / (w["end_mono_ns"] - w["start_mono_ns"]) for w in workers)
        assert per_s == pytest.approx(expected)
        # Twenty emulated CPUs take turns on few real ones; one alone has one to itself.
        assert is_disturbed or threads == 1


def test_stopped_cpus_are_reported_and_no_curve_is_judged(analyzed: Analyzed) -> None:
    found = analyzed.rows(
        "SELECT severity, kind, detail FROM finding WHERE analyzer = 'scaling_curve' ORDER BY kind"
    )
    assert [row[:2] for row in found] == [("info", "implausible_yield"), ("info", "stalled_steps")]
    assert "more than two cores could: the steps are not comparable" in found[0][2]
    assert "none of the 13 points is judged" in found[1][2]


def test_edges_of_recording_are_not_loss(analyzed: Analyzed) -> None:
    rows = analyzed.rows(
        "SELECT gaps, chain_breaks, gap_ns, repaired_switches, unknown_cpu_ns, edge_ns, "
        "edge_gaps >= 19 FROM trace_quality"
    )
    # 20 CPUs stop one after another, the last with the recording.
    assert rows == [(0, 0, 0, 0, 0, 0, True)] * 13
    reasons = analyzed.rows("SELECT reason FROM analyzer_outcome WHERE analyzer = 'trace_quality'")
    assert len(reasons) == 1
    assert reasons[0][0].startswith(
        "No record is known to be missing in the window: 3,410 switches"
    )


def test_quiet_planned_session_has_no_warnings(analyzed: Analyzed) -> None:
    assert (
        analyzed.rows("SELECT title FROM finding WHERE severity IN ('critical', 'warning')") == []
    )


def test_affinity_is_named_as_reason_for_sharing(analyzed: Analyzed) -> None:
    found = analyzed.rows(
        "SELECT severity, bound, detail, cost_ns, cost_pct, advice FROM finding "
        "WHERE analyzer = 'avoidable_sharing'"
    )
    assert [row[:2] for row in found] == [("info", "exact")]
    # Five of the ten could have had a core of their own: five threads, over all of the window.
    _, _, begin, end = analyzed.window("sha256-siblings-t10-r1")
    assert found[0][3] == pytest.approx(5 * (end - begin), rel=0.01)
    assert found[0][4] == pytest.approx(500, rel=0.01)
    assert "is what its host claims" in found[0][5]
    assert found[0][2] == (
        "In sha256-siblings-t10-r1 (and 1 other recording), affinity kept 4.97 threads on average "
        "(at most 5) on a CPU whose SMT sibling was busy, while as many whole cores were idle, for "
        "362\u00a0ms in total. This time is added up over threads and CPUs."
    )


def test_summary_fits_a_screen(analyzed: Analyzed) -> None:
    assert analyzed.said[0].startswith("13 recordings, ")
    assert len(analyzed.said) <= 36
    signs = [
        line.split()[0]
        for line in analyzed.said
        if re.match(r"(crit|warn|info|clean|missing)", line)
    ]
    order = ["critical", "warning", "info", "clean", "missing"]
    assert signs == sorted(signs, key=order.index)
    typed = [line.split()[-1] for line in analyzed.said if line.startswith("  schedlens sql ")]
    assert typed == ["scaling_curve", "sibling_overlap", "step_disturbance"]
    for query in typed:
        assert len(analyzed.rows(f"FROM {query}")) >= 10


def test_every_finding_has_evidence_that_runs(analyzed: Analyzed) -> None:
    found = analyzed.rows(
        "SELECT evidence_sql, counter_evidence_sql FROM finding ORDER BY finding_id"
    )
    for evidence, counter in found:
        assert analyzed.rows(evidence), evidence
        if counter:
            analyzed.rows(counter)
