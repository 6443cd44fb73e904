"""The case studies, simulated: answers of the queries against what the simulation did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pytest
from judged import yielded
from simulated import simulated_database

from schedlens.ask import findings
from schedlens.simulate import cases
from schedlens.simulate.scheduler import Simulation

pytestmark = pytest.mark.slow

MS = 1_000_000
S = 1_000_000_000
PRIORITY, PATH, PARKED, FIXED = 1, 2, 3, 4


@dataclass(frozen=True)
class Played:
    """The database, and the simulations by trace_id."""

    con: duckdb.DuckDBPyConnection
    by_trace: dict[int, Simulation]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.con.execute(sql).fetchall()]

    def found(self, analyzer: str) -> list[findings.Finding]:
        return yielded(self.con, analyzer, "game.exe")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    case = {case.name: case for case in cases.CASES}
    plays = [
        ("priority", case["priority"].play(seconds=0.5)),
        ("critical_path", case["critical_path"].play(seconds=0.5)),
        ("parked", case["parked"].play(seconds=1.6)),
        ("critical_path-fixed", case["critical_path"].play(fixed=True, seconds=0.5)),
    ]
    by_trace = {number: simulation for number, (_, simulation) in enumerate(plays, start=1)}
    with simulated_database(tmp_path_factory.mktemp("simulated"), plays) as con:
        yield Played(con, by_trace)


@pytest.mark.parametrize("trace_id", [PRIORITY, PATH, PARKED, FIXED])
def test_running_time_by_core_type_matches_simulation(played: Played, trace_id: int) -> None:
    simulation = played.by_trace[trace_id]
    kinds = {cpu.cpu: cpu.core_type for cpu in simulation.machine.cpus}
    expected = []
    for thread in simulation.threads:
        slices = [slice_ for slice_ in simulation.truth.slices if slice_.tid == thread.tid]
        run = sum(slice_.end - slice_.start for slice_ in slices)
        slow = sum(slice_.end - slice_.start for slice_ in slices if kinds[slice_.cpu] == "E")
        expected.append((thread.tid, run, run - slow, slow))
    rows = played.rows(
        "SELECT tid, run_ns, p_alone_ns + p_shared_ns, e_ns "
        f"FROM core_choice(p_trace_id := {trace_id}) ORDER BY tid"
    )
    assert rows == [row for row in sorted(expected) if row[0] in {got[0] for got in rows}]
    # Threads without a row never ran.
    assert all(row[1] == 0 for row in expected if row[0] not in {got[0] for got in rows})


def test_time_with_smt_sibling_busy_matches_simulation(played: Played) -> None:
    simulation = played.by_trace[PATH]
    machine = simulation.machine
    by_cpu: dict[int, list[tuple[int, int]]] = {}
    for slice_ in simulation.truth.slices:
        by_cpu.setdefault(slice_.cpu, []).append((slice_.start, slice_.end))
    (carrier,) = [thread for thread in simulation.threads if thread.name == "Worker 0"]
    threads_only = 0
    for slice_ in simulation.truth.slices:
        if slice_.tid == carrier.tid:
            threads_only += sum(
                max(0, min(slice_.end, end) - max(slice_.start, start))
                for sibling in machine.siblings(slice_.cpu)
                for start, end in by_cpu.get(sibling, [])
            )
    (row,) = played.rows(
        f"SELECT p_shared_ns FROM core_choice(p_trace_id := {PATH}) WHERE tid = {carrier.tid}"
    )
    # Interrupts of an idle sibling (a few microseconds each) are busy time too.
    assert threads_only <= int(str(row[0])) <= threads_only * 1.02


def test_four_of_five_runs_of_the_critical_thread_are_short(played: Played) -> None:
    rows = played.rows(
        f"SELECT thread, path_pct > 80 FROM path_thread(p_trace_id := {PATH}) WHERE path_pct > 25"
    )
    assert rows == [("Worker 0", True)]
    ((runs, short),) = played.rows(
        f"SELECT runs, short_runs FROM short_run(p_trace_id := {PATH}) WHERE thread = 'Worker 0'"
    )
    assert 4 * int(str(runs)) <= 5 * int(str(short)) <= 4 * int(str(runs)) + 20
    (found,) = played.found("short_run")
    assert found.trace_id == PATH
    assert "Worker 0" in found.detail
    # Every reported mid-frame switch happened in the simulation.
    slices = {
        (slice_.end, slice_.cpu): slice_.why
        for slice_ in played.by_trace[PATH].truth.slices
    }  # fmt: skip
    switches = played.rows(f"SELECT out_ns, from_cpu FROM path_switch(p_trace_id := {PATH})")
    assert switches
    assert {slices[int(str(ts)), int(str(cpu))] for ts, cpu in switches} == {"preempted"}


def test_low_priorities_hold_p_cores_while_the_render_thread_is_on_e(played: Played) -> None:
    found = played.found("priority_order")
    (place,) = [finding for finding in found if finding.kind == "higher_on_e_cores"]
    assert (place.trace_id, place.severity) == (PRIORITY, "critical")
    assert "Background" in place.detail


def test_smt_sharing_costs_two_fifths(played: Played) -> None:
    """Of two busy siblings each has 0.6 of its speed: 40 % of the shared time is lost."""
    rows = played.rows(
        "SELECT tax_pct, relative FROM smt_tax(p_least := 8) "
        "JOIN (SELECT utid, max(relative_to_p) FILTER (WHERE core_type = 'E') AS relative "
        "FROM thread_cpi GROUP BY utid) USING (utid) WHERE tax_ns IS NOT NULL"
    )
    assert len(rows) >= 3
    assert all(float(str(pct)) == pytest.approx(40, abs=1) for pct, _ in rows)
    # Work runs at speed 1 alone on a P core, at 0.55 on an E core.
    ((slow, fast),) = played.rows(
        "SELECT min(cpi) FILTER (WHERE core_type = 'E'), min(cpi) FILTER (WHERE core_type = 'P') "
        f"FROM thread_cpi(p_trace_id := {PARKED})"
    )
    assert float(str(slow)) == pytest.approx(3.7 / 6 / 0.55, rel=1e-3)
    assert float(str(fast)) == pytest.approx(4.9 / 6, rel=1e-3)


def test_frames_double_while_twelve_cpus_are_parked(played: Played) -> None:
    rows = played.rows(f"SELECT ts, dur, parked FROM parked_count(p_trace_id := {PARKED})")
    assert rows == [(0, S, 0), (S, 600 * MS, 12)]
    (found,) = played.found("parking")
    assert (found.severity, found.trace_id) == ("critical", PARKED)
    ((few, many),) = played.rows(
        "SELECT max(p50_ns) FILTER (WHERE parked = 0), max(p50_ns) FILTER (WHERE parked = 12) "
        f"FROM frame_parking(p_trace_id := {PARKED})"
    )
    lengths: dict[bool, list[int]] = {False: [], True: []}
    for frame in played.by_trace[PARKED].truth.frames:
        if frame.end <= S or frame.start >= S:
            lengths[frame.start >= S].append(frame.end - frame.start)
    for value, truth in ((few, lengths[False]), (many, lengths[True])):
        assert int(str(value)) == pytest.approx(sorted(truth)[len(truth) // 2], rel=0.03)


def test_chain_says_affinity_left_no_other_cpu(played: Played) -> None:
    ((cpu, threads, allowed, others_parked, outside, hand_offs),) = played.rows(
        "SELECT cpu, list_sort(threads), allowed_cpus, parked_cpus, ideal_outside, hand_offs "
        f"FROM quantum_end_chain(p_trace_id := {PARKED})"
    )
    assert (cpu, threads, allowed) == (16, ["AI 0", "AI 1"], list(range(16, 24)))
    assert (others_parked, outside) == ([9, 11, 13, 14, 15, *range(17, 24)], True)
    # A hand-off counts if the incoming thread was ready when the outgoing one was switched in.
    truth = played.by_trace[PARKED].truth
    entered = {
        (slice_.tid, slice_.end): slice_.start
        for slice_ in truth.slices
        if slice_.end > slice_.start
    }
    readied = {(span.tid, span.end): span.start for span in truth.ready}
    assert hand_offs == sum(
        readied[hand.taker, hand.ts] <= entered[hand.leaver, hand.ts] for hand in truth.handoffs
    )
    (found,) = played.found("quantum_end_chain")
    assert found.trace_id == PARKED
    assert (
        "the other CPUs their affinity allows were parked, and an ideal processor is outside "
        "their affinity" in found.detail
    )


def test_more_workers_did_not_shorten_the_sections(played: Played) -> None:
    (found,) = played.found("oversubscription")
    assert (found.trace_id, found.severity) == (PATH, "warning")
    assert found.title == "Pool has 23 workers on 24 logical CPUs (16 cores)"
    assert "23 threads Worker # of game.exe" in found.detail
    assert "with 11 threads" in found.detail
