"""The experiment `pairs`: plans on machines that are not here, its numbers, a small real run."""

from __future__ import annotations

import json
from pathlib import Path

import experiment_session
import processors
import pytest
import sysfs_machine as fake
from conftest import command
from judged import plain

from schedlens.errors import PlanError
from schedlens.experiments import pairs, places, port_model, results
from schedlens.experiments.places import Place
from schedlens.load import session_file
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.machine import topology
from schedlens.record import cells

pytestmark = pytest.mark.slow


def read(machine: fake.FakeMachine, root: Path) -> topology.Topology:
    return topology.read(machine.write(root))


def found(machine: topology.Topology) -> dict[str, tuple[int, int]]:
    return {place.name: place.cpus for place in places.find(machine)[0]}


def test_siblings_are_read_and_never_guessed(tmp_path: Path) -> None:
    # 10C/20T: CPU n and n + 10 share a core.
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    assert found(machine) == {"siblings": (0, 10), "same_llc": (0, 1)}
    [missing] = places.find(machine)[1]
    assert missing == (
        "no usable CPUs are same_l2 (two cores that share an L2 cache); "
        "across_llc (two cores of one package with different last-level caches); "
        "across_package (two cores of different packages); "
        "p_beside_e (a core of the fastest type and one of the slowest)"
    )


def test_placements_on_hybrid_and_two_package_machines(tmp_path: Path) -> None:
    # 8 P cores of two siblings (2n, 2n + 1), 8 E cores that share an L2 in fours.
    hybrid = found(read(fake.eight_p_eight_e(), tmp_path / "hybrid"))
    assert hybrid == {
        "siblings": (0, 1), "same_l2": (16, 17), "same_llc": (0, 2), "p_beside_e": (0, 16),
    }  # fmt: skip
    packages = found(read(fake.two_packages(), tmp_path / "packages"))
    assert packages["siblings"] == (0, 8)
    assert packages["across_package"] == (0, 4)


def test_only_allowed_cpus_are_used_and_one_is_refused(tmp_path: Path) -> None:
    root = fake.ten_cores_twenty_threads().write(tmp_path)
    assert found(topology.read(root, allowed=(3, 5, 15))) == {
        "siblings": (5, 15), "same_llc": (3, 5),
    }  # fmt: skip
    with pytest.raises(PlanError, match="one is usable here"):
        places.find(topology.read(root, allowed=(3,)))


def test_unknown_cores_leave_only_a_place_of_two_cpus(tmp_path: Path) -> None:
    silent = topology.Topology((topology.Cpu(0, True), topology.Cpu(1, True)), (0, 1), {})
    there, missing = places.find(silent)
    assert there == [Place("two_cpus", (0, 1))]
    assert missing == [
        "places: the system does not report which logical CPUs share a core or a cache"
    ]


def test_default_plan_matches_articles(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    made, missing = pairs.plan(machine, full=False, only=())
    both = [cell for cell in made if cell.place != "alone"]
    assert len(both) == 27
    by_name = {cell.name: cell for cell in both}
    assert by_name["imul2+imul1-siblings"].cpus == (0, 10)
    assert by_name["imul2+imul1-siblings"].loads == (Load("imul2"), Load("imul1"))
    assert by_name["sha256+sha256-same_llc"].cpus == (0, 1)
    assert {cell.name for cell in both if cell.loads[0].kernel == "imul10"} == {
        "imul10+imul10-siblings", "imul10+imul10-same_llc",
    }  # fmt: skip
    alone = [cell for cell in made if cell.place == "alone"]
    assert {cell.cpus for cell in alone} == {(0,)}
    labels = {load.label for cell in both for load in cell.loads}
    assert {cell.loads[0].label for cell in alone} == labels | set(pairs.KNEE)
    assert len(missing) == 1


def test_stride_matches_articles_if_memory_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)

    def strides(short: dict[str, str]) -> tuple[set[str], list[str]]:
        monkeypatch.setattr(cells, "refusal", lambda load: short.get(load.label))
        made, missing = pairs.plan(machine, full=False, only=())
        labels = {load.label for cell in made for load in cell.loads}
        return {label for label in labels if label.startswith("mem_stride")}, missing[1:]

    assert strides({}) == ({"mem_stride:1g"}, [])
    why = "1 worker(s) need 1282 MiB of memory, 1024 MiB are available"
    assert strides({"mem_stride:1g": why}) == (
        {"mem_stride:64m"}, [f"mem_stride:1g: {why}: reading 64 MiB by 2 KiB instead"],
    )  # fmt: skip
    found, missing = strides({"mem_stride:1g": why, "mem_stride:64m": "none is left"})
    assert (found, missing) == (set(), [f"mem_stride:1g: {why}"])


def test_without_siblings_nearest_cores_are_used(tmp_path: Path) -> None:
    made, missing = pairs.plan(read(fake.no_smt(), tmp_path), full=False, only=())
    assert {cell.place for cell in made} == {"alone", "same_llc"}
    assert "siblings (two logical CPUs of one core)" in missing[0]


def test_hybrid_machine_runs_each_kernel_alone_on_both_core_types(tmp_path: Path) -> None:
    made, _ = pairs.plan(read(fake.eight_p_eight_e(), tmp_path), full=False, only=("imul1+scan",))
    alone = {(cell.loads[0].label, cell.cpus) for cell in made if cell.place == "alone"}
    assert alone == {("imul1", (0,)), ("imul1", (16,)), ("scan", (0,)), ("scan", (16,))}
    assert [cell.place for cell in made if cell.place != "alone"] == [
        "siblings", "same_l2", "same_llc", "p_beside_e",
    ]  # fmt: skip


def test_slowdown_in_cycles_does_not_follow_the_clock(tmp_path: Path) -> None:
    """Two loops of 3 cycles on two cores: the clock is 3.6 GHz alone and 4.0 GHz together."""
    machine = read(fake.no_smt(), tmp_path / "root")
    made, _ = pairs.plan(machine, full=False, only=("imul1+imul1",))
    steps = cells.shuffled(made, 6, 1)
    workers, rates = {}, {}
    for step in steps:
        assert step.cell is not None
        ghz = 3.6 if step.cell.place == "alone" else 4.0
        # A repeat's noise, the same for both.
        cycles = 3 * (1 + 0.001 * step.repeat)
        worker = {
            "core_ghz_before": ghz, "core_ghz_during": ghz,
            # In the second repeat, the clock rises by 3 % while a cell runs.
            "core_ghz_after": ghz * (1.03 if step.repeat == 2 else 1.0),
            "core_cycles_per_iteration": cycles, "instructions_per_iteration": 3,
        }  # fmt: skip
        workers[step.name] = [worker] * len(step.cell.cpus or ())
        rates[step.name] = [ghz * 1e9 / cycles] * len(step.cell.cpus or ())
    folder = experiment_session.write(
        tmp_path / "session", machine, steps, rates, workers=workers,
        experiment={"name": "pairs"},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        [row] = con.execute(
            "SELECT first_slowdown, first_slowdown_cycles, first_slowdown_cycles_low, "
            "first_slowdown_cycles_high, first_clock_factor, first_ipc, drifting, coverage_pct "
            "FROM pair_interference"
        ).fetchall()
        bases = con.execute("SELECT DISTINCT ipc_basis FROM pair_worker").fetchall()
    assert row[:6] == pytest.approx((0.9, 1.0, 1.0, 1.0, 0.9, 0.9965), abs=0.0005)
    assert row[6:] == (1, 96.875)
    assert bases == [("instructions of the loop",)]


def test_invalid_pairs_are_refused(tmp_path: Path) -> None:
    machine = read(fake.no_smt(), tmp_path)
    for text, why in (
        ("imul1", "KERNEL"),
        ("imul1+queue", "in pairs"),
        ("sha256:x+add1", "variants"),
    ):
        with pytest.raises(PlanError, match=why):
            pairs.plan(machine, full=False, only=(text,))


def test_each_repeat_shuffles_all_cells() -> None:
    some = [Cell("pairs", f"c{n}", "alone", (0,), (Load("imul1"),)) for n in range(12)]
    steps = cells.shuffled(some, 3, 7)
    orders = [[s.cell.name for s in steps if s.repeat == r and s.cell] for r in (1, 2, 3)]
    assert all(sorted(order) == sorted(cell.name for cell in some) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert [s.name for s in steps] == [s.name for s in cells.shuffled(some, 3, 7)]
    assert [s.cell.position for s in steps if s.cell] == list(range(1, 37))
    assert [s.cell.name for s in steps[:12] if s.cell] == orders[0]


def test_cell_becomes_workload_arguments() -> None:
    mixed = Cell("pairs", "a", "siblings", (0, 10), (Load("imul2"), Load("mem_stride", "64m")))
    assert cells.words(cells.step(mixed, 1, 1)) == [
        "imul2", "--threads", "1", "--alongside", "mem_stride:64m", "--cpus", "0,10",
    ]  # fmt: skip
    chase = Load("pointer_chase", "shared")
    alike = Cell("pairs", "b", "siblings", (0, 10), (chase, chase))
    assert cells.words(cells.step(alike, 1, 1)) == [
        "pointer_chase", "--threads", "2", "--variant", "shared", "--cpus", "0,10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # What the articles measured on Haswell, in cycles per iteration against running alone.
        ("imul1", "imul1", (1.0, 1.0)),
        ("imul2", "imul1", (1.0, 1.0)),
        ("imul2", "imul2", (4 / 3, 4 / 3)),
        ("add1", "imul1", (1.5, 1.0)),
        # By the rule: three multiplications in 3 cycles need all, one leaves two thirds.
        ("imul3", "imul1", (1.5, 1.0)),
        ("imul10", "imul10", (2.0, 2.0)),
        ("add8", "imul1", (1.0, 1.0)),
    ],
)
def test_model_reproduces_article_measurements(
    first: str, second: str, expected: tuple[float, float]
) -> None:
    assert port_model.slowdowns(first, second, port_model.HASWELL) == pytest.approx(expected)
    alone = {f"imul{n}": float(max(3, n)) for n in range(1, 11)} | {"add1": 1.0, "add8": 8.0}
    assert {k: port_model.cycles_alone(k, port_model.HASWELL) for k in alone} == alone


# 10C/20T. Alone imul1 does 1000 M/s, sha256 (as iterations) 10 M/s, imul10 100 M/s. In pairs:
# imul1 loses nothing; sha256 53 % each; on "two cores" imul10 halves, as on hidden siblings.
RATES = {
    "imul1-alone-cpu0": [1e9],
    "sha256-alone-cpu0": [1e7],
    "imul10-alone-cpu0": [1e8],
    "pointer_chase:private-alone-cpu0": [2.5e8],
    "imul1+imul1-siblings": [1e9, 1e9],
    "imul1+imul1-same_llc": [1e9, 1e9],
    "imul10+imul10-siblings": [5e7, 5e7],
    "imul10+imul10-same_llc": [5e7, 5e7],
    "sha256+sha256-siblings": [5.3e6, 5.3e6],
    "sha256+sha256-same_llc": [1e7, 1e7],
    "sha256+sha256-siblings-r3": [5.2e6, 5.2e6],
    "sha256+sha256-siblings-r5": [5.6e6, 5.6e6],
    "pointer_chase:private+pointer_chase:private-siblings": [1e9 / 6.5, 1e9 / 6.3],
    "pointer_chase:private+pointer_chase:private-same_llc": [2.5e8, 2.5e8],
}
PAIRS = (
    "imul1+imul1", "imul10+imul10", "sha256+sha256",
    "pointer_chase:private+pointer_chase:private",
)  # fmt: skip


def test_session_has_expected_numbers(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path / "root")
    made, missing = pairs.plan(machine, full=False, only=PAIRS)
    folder = experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(made, 6, 1), RATES,
        experiment={"name": "pairs", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT cell, repeats, round(combined, 4), round(combined_low, 4), "
            "round(combined_high, 4), coverage_pct, first_predicted FROM pair_interference "
            "WHERE first IN ('imul1', 'sha256') ORDER BY cell"
        ).fetchall()
        assert rows == [
            ("imul1+imul1-same_llc", 6, 2.0, 2.0, 2.0, 96.875, 1.0),
            ("imul1+imul1-siblings", 6, 2.0, 2.0, 2.0, 96.875, 1.0),
            ("sha256+sha256-same_llc", 6, 2.0, 2.0, 2.0, 96.875, None),
            ("sha256+sha256-siblings", 6, 1.06, 1.04, 1.12, 96.875, 1.887),
        ]
        advice = con.execute(
            "SELECT kernel, effect, round(added_pct, 1) FROM pair_advice"
        ).fetchall()
        assert advice == [
            ("imul1", "helps", 100.0), ("pointer_chase:private", "helps", 25.0),
            ("sha256", "helps", 6.0), ("imul10", "little", 0.0),
        ]  # fmt: skip
        answer = results.read(con, session_file.read(folder / "session.json"))
        assert answer is not None
        chase = answer["pairs"]["pointer_chase"]["private"]
        assert chase == {
            "cross_core_ns_per_hop": pytest.approx(4.0),
            "smt_sibling_ns_per_hop": pytest.approx(6.4),
            "smt_overhead_pct": pytest.approx(60.0),
            "siblings_detected": [0, 10],
        }
        shown = experiment_session.section(con, "pair_interference")
        assert [figure["plot"]["data"][0]["type"] for figure in shown["figures"]] == ["heatmap"] * 2
        assert shown["lead"].startswith("CPU 0 and CPU 1 share a core, although ")
        # If a PMU counts, each thread has its instructions per cycle.
        assert con.execute("SELECT count(first_ipc) FROM pair_interference").fetchall() == [(0,)]
        con.execute("UPDATE run_worker SET utid = 1000 * trace_id + worker")
        for counter, per_worker in (("cycles", 3000), ("instructions", 4000)):
            con.execute(
                "INSERT INTO counter_delta BY NAME SELECT trace_id, cpu, utid, start_ns AS ts, "
                "1000 AS dur, ? AS counter, ? * (worker + 1) + ? * worker AS delta FROM run_worker",
                [counter, per_worker, 500 if counter == "cycles" else 0],
            )
        ipc = con.execute(
            "SELECT DISTINCT round(first_ipc, 4), round(second_ipc, 4) FROM pair_interference"
        ).fetchall()
        # 4000 / 3000, and 8000 / 6500.
        assert ipc == [(1.3333, 1.2308)]
        found = con.execute(
            "SELECT kind, severity, title, detail, advice FROM finding "
            "WHERE analyzer = 'pair_interference' ORDER BY kind"
        ).fetchall()
        assert [row[:2] for row in found] == [
            ("hidden_siblings", "warning"), ("mispredicted", "info"),
            ("second_thread_gain", "info"),
        ]  # fmt: skip
        hidden, mispredicted, gain = found
        assert hidden[2] == "CPU 0 and CPU 1 share a core that is reported as two"
        assert mispredicted[3].startswith(
            "imul10 alongside imul10 (cores that share a last-level cache): imul10 takes 2 times "
            "as long as alone, the port model predicts 1 "
        )
        assert "+6 % for sha256 (4 to 12)" in plain(gain[3])
        assert gain[4].startswith("Leave SMT siblings idle for imul10; ")


def test_user_program_runs_alongside_each_kernel_class(tmp_path: Path) -> None:
    """Alone 1 s; with imul3 on the sibling 1.5 s, with scan 2 s; on two cores 1 s."""
    machine = read(fake.ten_cores_twenty_threads(), tmp_path / "root")
    made, _ = pairs.plan(machine, full=False, only=(), command=("make",))
    by_name = {cell.name: cell for cell in made}
    assert by_name["command-alone"].workload is None
    assert by_name["command-alone"].cpus == (0,)
    alongside = by_name["command+scan-siblings"]
    assert (alongside.cpus, alongside.facts) == ((10,), Facts(load="command", command_cpu=0))
    steps = cells.shuffled(made, 2, 1)
    folder = experiment_session.write(
        tmp_path / "session", machine, steps,
        {cell.name: [1e8] for cell in made if cell.loads},
    )  # fmt: skip
    times = {"command+imul3-siblings": 1.5, "command+scan-siblings": 2.0}
    for step in steps:
        cell = step.cell
        if cell is not None and cell.facts.load == "command":
            file = folder / step.name / "step.json"
            row = json.loads(file.read_text())
            row["command_ns"] = int(times.get(cell.name, 1.0) * 1e9)
            file.write_text(json.dumps(row))
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT kernel, alone_ns, slowdown, kernel_slowdown FROM command_beside "
            "WHERE place = 'siblings' ORDER BY slowdown DESC, kernel LIMIT 3"
        ).fetchall()
        assert rows == [
            ("scan", 10**9, 2.0, 1.0), ("imul3", 10**9, 1.5, 1.0), ("matmul", 10**9, 1.0, 1.0),
        ]  # fmt: skip
        [(kind, detail)] = con.execute(
            "SELECT kind, detail FROM finding WHERE analyzer = 'pair_interference'"
        ).fetchall()
    assert kind == "command_slowdown"
    assert plain(detail).startswith(
        "The program's time compared with running alone: +100 % alongside scan (SMT siblings), "
        "+50 % alongside imul3"
    )


def test_median_interval_follows_binomial_ranks(tmp_path: Path) -> None:
    from math import comb

    machine = read(fake.no_smt(), tmp_path / "root")
    made, _ = pairs.plan(machine, full=False, only=("imul1+imul1",))
    rates = {"imul1-alone-cpu0": [1e9], "imul1+imul1-same_llc": [1e9, 1e9]}
    folder = experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(made, 1, 1), rates
    )
    with experiment_session.analyzed(folder) as con:
        rows = con.execute("FROM median_rank").fetchall()
    assert len(rows) == 200
    for n, low, high, coverage in rows:
        outside = [2 * sum(comb(n, i) for i in range(rank)) / 2**n for rank in range(1, n // 2 + 2)]
        ranks = [rank for rank, chance in enumerate(outside, start=1) if chance <= 0.05]
        assert (low, high) == (max(ranks, default=1), n + 1 - max(ranks, default=1))
        assert coverage == pytest.approx(100 * (1 - min(1, outside[low - 1])), abs=1e-6)


@pytest.mark.alone
def test_small_run_on_this_machine_succeeds(tmp_path: Path) -> None:
    processors.needs_two()
    folder = tmp_path / "session"
    done = command(
        "collect", "--experiment", "pairs", "--pair", "imul1+add8", "--pair", "aes+aes",
        "--seconds", "0.05", "--repeat", "1", "-o", str(folder),
    )  # fmt: skip
    assert "not measured here: no usable CPUs are" in done.stderr
    done = command("analyze", str(folder), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1)
    answer = json.loads(done.stdout)["experiment"]["pairs"]
    places_here = {row["place"] for row in answer["cells"]}
    kernels = {(row["first"], row["second"]) for row in answer["cells"]}
    assert kernels <= {("imul1", "add8"), ("aes", "aes")}
    assert ("imul1", "add8") in kernels
    assert len(answer["cells"]) == len(kernels) * len(places_here)
    for row in answer["cells"]:
        # A disturbed repeat is measured again.
        assert row["repeats"] in (1, 2)
        # Registers only: neither can beat its speed alone by more than a disturbed clock allows.
        assert row["combined"] is not None
    session = json.loads((folder / "session.json").read_text())
    assert session["experiment"]["name"] == "pairs"
    assert {step["state"] for step in session["steps"]} == {"done"}
