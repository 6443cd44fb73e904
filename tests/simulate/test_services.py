"""The services of `schedlens demo --case`: what their faults cost, and what is found."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest
from simulated import simulated_database

from schedlens.ask import judging
from schedlens.ask.findings import Scope
from schedlens.commands.demo import demo
from schedlens.errors import SessionError
from schedlens.simulate import plays, services
from schedlens.simulate.scheduler import Simulation

pytestmark = pytest.mark.slow

MS = 1_000_000


def _ran(simulation: Simulation, ms: int) -> Simulation:
    simulation.run(ms * MS)
    return simulation


def _latency_ns(simulation: Simulation) -> float:
    return mean(end - begin for begin, end in simulation.truth.requests)


def test_pinning_by_number_is_found_and_costs_latency(tmp_path: Path) -> None:
    ran = [
        ("pinning", _ran(services.pinning(False, 1), 40)),
        ("pinning-fixed", _ran(services.pinning(True, 1), 40)),
    ]
    cores = [
        {simulation.machine.cpus[min(thread.affinity)].core for thread in simulation.threads[:8]}
        for _, simulation in ran
    ]
    assert cores == [{0, 2, 4, 6}, {0, 2, 4, 6, 8, 10, 12, 14}]
    # The load is 0.5 of a core by topology; a core with two shards serves only 1.2 times as much.
    assert 1.5 < _latency_ns(ran[0][1]) / _latency_ns(ran[1][1]) < 4
    with simulated_database(tmp_path, ran) as con:
        found = judging.judge_all(Scope(con), only=["pinned_sibling"]).findings
        assert {finding.trace_id for finding in found} == {1}
        assert {finding.kind for finding in found} == {"pinned_to_one_core"}
        marks = con.execute("SELECT trace_id, name, marks FROM mark_summary").fetchall()
    served = [len(simulation.truth.requests) for _, simulation in ran]
    assert marks == [(1, "request", served[0]), (2, "request", served[1])]


def test_boost_and_smt_shorten_the_same_load() -> None:
    states = {
        (smt, boost): _ran(services.service(3, smt=smt, boost=boost), 60)
        for smt in (False, True)
        for boost in (False, True)
    }
    requests = {state: len(simulation.truth.requests) for state, simulation in states.items()}
    assert max(requests.values()) - min(requests.values()) < 20
    latency = {state: _latency_ns(simulation) for state, simulation in states.items()}
    assert latency[False, True] < latency[True, False] < latency[False, False]
    work = {
        state: sum(each.end - each.start for each in simulation.truth.slices)
        for state, simulation in states.items()
    }
    # Boost does the same work in 1 / 1.4 of the time; siblings that share a core need longer.
    assert work[False, True] / work[False, False] == pytest.approx(1 / services.BOOST, abs=0.01)
    assert work[True, False] > 1.02 * work[False, False]


def test_lock_of_one_queue_limits_the_throughput() -> None:
    faulty, fixed = (_ran(services.queues(fixed, 1), 20) for fixed in (False, True))
    # 4 us of each job under the lock: at most 250,000 jobs a second, whatever the workers do.
    assert 0.95 * 250_000 < len(faulty.truth.requests) / 0.02 <= 250_000
    # Alone, 8 workers do a job in (20 + 4 / 16) us.
    assert len(fixed.truth.requests) / 0.02 == pytest.approx(8e6 / 20.25, rel=0.05)


def test_demo_case_shows_its_recordings_and_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = plays.Demo(
        "pipeline",
        tuple((name, lambda _: _ran(services.queues(False, 1), 2)) for name, _ in
              plays.SERVICES["queues"].plays),
        plays.SERVICES["queues"].texts,
        plays.SERVICES["queues"].asks,
    )  # fmt: skip
    monkeypatch.setitem(plays.SERVICES, "queues", short)
    (tmp_path / "priority").mkdir()
    (tmp_path / "demo.txt").touch()
    arguments = ["demo", "--case", "queues", "--no-open", "-o", str(tmp_path)]
    demo.main(args=arguments[1:], standalone_mode=False)
    printed = capsys.readouterr().out
    assert printed.startswith("queues: workers take jobs one by one behind a lock;")
    assert f"schedlens sql {tmp_path} mark_summary\n" in printed
    # The recordings of another case, which a former demo left, are not part of this session.
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "queues", "queues-fixed",
    ]  # fmt: skip


def test_demo_keeps_a_folder_that_is_no_demo(tmp_path: Path) -> None:
    (tmp_path / "priority").mkdir()
    with pytest.raises(SessionError, match="is not a demo"):
        demo.main(args=["--case", "queues", "-o", str(tmp_path)], standalone_mode=False)
    assert (tmp_path / "priority").is_dir()
