"""The experiment `scaling`: its plans, Y with its interval, and the stored calibration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import experiment_session
import pytest
import sysfs_machine as fake
from conftest import command
from drawn_trace import add, drawn_database
from judged import plain
from throughput_steps import Step, core_state, fill

from schedlens.experiments import scaling
from schedlens.load import calibration, recording
from schedlens.load.measured_cell import Load
from schedlens.machine import topology
from schedlens.record import cells

pytestmark = pytest.mark.slow


def read(machine: fake.FakeMachine, root: Path) -> topology.Topology:
    return topology.read(machine.write(root))


@pytest.fixture(autouse=True)
def _own_calibrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLENS_CALIBRATION_DIR", str(tmp_path / "calibration"))


def test_figure_13_plan_on_ten_cores_with_smt(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    made, missing = scaling.plan_cells(machine, Load("sha256"), "1,2,10,11,20")
    assert missing == []
    sweep = {cell.name: (cell.cpus, cell.placements) for cell in made if cell.place == "sweep"}
    assert sweep == {
        **{f"sweep-default-t{n:02}": (None, ("default",)) for n in (1, 2, 10, 11, 20)},
        "sweep-physical-t01": ((0,), ("physical", "siblings")),
        "sweep-physical-t02": ((0, 1), ("physical",)),
        "sweep-siblings-t02": ((0, 10), ("siblings",)),
        "sweep-physical-t10": (tuple(range(10)), ("physical",)),
        "sweep-siblings-t10": ((0, 10, 1, 11, 2, 12, 3, 13, 4, 14), ("siblings",)),
        "sweep-physical-t11": (tuple(range(11)), ("physical",)),
        "sweep-siblings-t11": ((0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5), ("siblings",)),
        "sweep-physical-t20": (tuple(range(20)), ("physical",)),
        "sweep-siblings-t20": (
            tuple(cpu for core in range(10) for cpu in (core, core + 10)), ("siblings",),
        ),
    }  # fmt: skip
    table = [cell for cell in made if cell.place == "table"]
    assert [(cell.workload, cell.cpus) for cell in table] == [
        (f"imul{n}", tuple(range(10))) for n in (1, 2, 3)
    ]
    knee = [cell.workload for cell in made if cell.place == "knee"]
    assert knee == [f"imul{n}" for n in range(1, 11)]
    seats = {(cell.loads[0].label, cell.place): cell.cpus for cell in made
             if cell.place in ("alone", "siblings")}  # fmt: skip
    assert seats["sha256", "alone"] == (0,)
    assert seats["sha256", "siblings"] == (0, 10)
    assert {label for label, _ in seats} == {"sha256", *(k.label for k in scaling.CALIBRATED)}


def test_hybrid_machine_is_calibrated_by_core_type(tmp_path: Path) -> None:
    made, _ = scaling.plan_cells(read(fake.eight_p_eight_e(), tmp_path), Load("sha256"), "1")
    found = [(cell.place, cell.cpus) for cell in made if cell.loads[0].kernel == "sha256"
             and cell.place in ("alone", "siblings")]  # fmt: skip
    # E cores have one logical CPU: alone only.
    assert sorted(found) == [("alone", (0,)), ("alone", (16,)), ("siblings", (0, 1))]


def test_machine_without_siblings_is_reported(tmp_path: Path) -> None:
    made, missing = scaling.plan_cells(read(fake.no_smt(), tmp_path), Load("sha256"), None)
    assert missing == ["the yield of the second thread: no core has two usable logical CPUs"]
    assert not [cell for cell in made if cell.place == "siblings"]


def _session(tmp_path: Path, repeats: int = 6) -> Path:
    """Y of sha256 in six repeats: 1.06, 1.05, 1.07, 1.04, 1.08, 1.06; of imul1: 2."""
    machine = read(fake.ten_cores_twenty_threads(), tmp_path / "root")
    made, missing = scaling.plan_cells(machine, Load("sha256"), "1,10")
    rates: dict[str, list[float]] = {}
    for cell in made:
        workers = max(cell.threads, len(cell.loads))
        each = 1e8 if cell.place in ("sweep", "table", "knee") else 1e9
        rates[cell.name] = [each] * workers
    both = {"sha256": 1.06, "imul1": 2.0, "matmul": 0.9, "scan": 1.3, "pointer_chase:private": 1.2}
    for label, gain in both.items():
        rates[f"{label}-U-both"] = [1e9 * gain / 2] * 2
    for repeat, gain in ((2, 1.05), (3, 1.07), (4, 1.04), (5, 1.08)):
        rates[f"sha256-U-both-r{repeat}"] = [1e9 * gain / 2] * 2
    # With ten cores in use the clock falls from 4.65 to 3.6 GHz.
    slower = [{"core_ghz_after": 3.6} for _ in range(10)]
    return experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(made, repeats, 3), rates,
        workers={"sweep-physical-t01": [{"core_ghz_after": 4.65}], "sweep-physical-t10": slower},
        machine={"sweep-physical-t10": {"energy": {"package-0": 5.0, "package-0/core": 3.0},
                                        "energy_ns": 100_000_000}},
        experiment={"name": "scaling", "missing": missing},
    )  # fmt: skip


def test_session_has_yield_clock_and_power(tmp_path: Path) -> None:
    folder = _session(tmp_path)
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT workload, round(yield, 3), round(yield_low, 3), round(yield_high, 3), repeats "
            "FROM core_yield"
        ).fetchall()
        assert rows == [
            ("imul1", 2.0, 2.0, 2.0, 6), ("matmul", 0.9, 0.9, 0.9, 6),
            ("pointer_chase", 1.2, 1.2, 1.2, 6), ("scan", 1.3, 1.3, 1.3, 6),
            ("sha256", 1.06, 1.04, 1.08, 6),
        ]  # fmt: skip
        turbo = con.execute(
            "SELECT threads, cores, ghz, watts, round(work_per_joule) FROM scaling_clock"
        ).fetchall()
        # Ten threads of 100 M/s at 50 W; the cores are part of the package.
        assert turbo == [(1, 1, 4.65, None, None), (10, 10, 3.6, 50.0, 2e7)]
        details = dict(
            con.execute(
                "SELECT kind, detail FROM finding WHERE analyzer = 'scaling_clock'"
            ).fetchall()
        )
        assert plain(details["sibling_yield"]).startswith(
            "Work of both SMT siblings of a core relative to one alone (Y): imul1 2"
        )
        assert plain(details["clock_falls"]) == (
            "The clock is 4.65 GHz with 1 core in use and 3.6 GHz with 10."
        )
        shown = experiment_session.section(con, "scaling_clock")
        assert "4.65 GHz with 1, 3.60 GHz with 10" in shown["figures"][0]["caption"]
        kept = calibration.store(con, recording.gather([folder])[0])
    assert kept is not None
    value = json.loads(kept.read_text())
    assert value["machine"] == {"host": "made", "cpu_model": "made", "cpus": 20}
    assert {row["workload"]: round(row["yield"], 3) for row in value["yields"]} == {
        "imul1": 2.0, "matmul": 0.9, "pointer_chase": 1.2, "scan": 1.3, "sha256": 1.06,
    }  # fmt: skip


def test_unknown_clock_is_neither_judged_nor_drawn(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path / "root")
    made, _ = scaling.plan_cells(machine, Load("sha256"), "1,10")
    sweep = [cell for cell in made if cell.place == "sweep"]
    unknown = [{"core_ghz_before": None, "core_ghz_after": None} for _ in range(10)]
    folder = experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(sweep, 1, 3),
        {cell.name: [1.5e8] * cell.threads for cell in sweep},
        workers={cell.name: unknown for cell in sweep}, experiment={"name": "scaling"},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        assert con.execute("SELECT DISTINCT ghz FROM scaling_clock").fetchall() == [(None,)]
        outcome = con.execute(
            "SELECT outcome, reason FROM analyzer_outcome WHERE analyzer = 'scaling_clock'"
        ).fetchall()
        assert outcome == [("not_applicable", "The clock of the cores is not known.")]
        shown = experiment_session.section(con, "scaling_clock")
        assert [figure["caption"] for figure in shown["figures"]] == [
            "Throughput of one thread: 150 million iterations/s with 1, 150 with 10."
        ]
        curves = experiment_session.section(con, "scaling_curve")
        assert "physical 1.5 billion iterations/s with 10" in curves["figures"][0]["caption"]
        # A step of one worker has no curve: the figure begins with ten.
        each = experiment_session.section(con, "run_throughput")
        assert [figure["caption"] for figure in each["figures"]] == [
            "Throughput of each worker of sha256: from 150 to 150 million iterations/s over all "
            "steps."
        ]


def test_later_recording_of_the_machine_uses_the_calibration(tmp_path: Path) -> None:
    folder = _session(tmp_path, repeats=1)
    with experiment_session.analyzed(folder) as con:
        assert con.execute("SELECT count(*) FROM calibration").fetchall() == [(0,)]
        kept = calibration.store(con, recording.gather([folder])[0])
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT DISTINCT workload, round(yield, 2), repeats FROM calibration ORDER BY 1"
        ).fetchall()
        assert rows == [
            ("imul1", 2.0, 1), ("matmul", 0.9, 1), ("pointer_chase", 1.2, 1), ("scan", 1.3, 1),
            ("sha256", 1.06, 1),
        ]  # fmt: skip
    # Another machine has another file; a damaged file is reported and ignored.
    assert kept is not None
    other = calibration.path(calibration.Machine("made", "made", 8))
    assert other != kept
    kept.write_text('{"schema": 1, "machine": 3')
    with experiment_session.analyzed(folder) as con:
        assert con.execute("SELECT count(*) FROM calibration").fetchall() == [(0,)]
        assert (
            con.execute(
                "SELECT count(*), count(DISTINCT trace_id) FROM problem WHERE place = 'calibration'"
            ).fetchall()
            == con.execute("SELECT count(*), count(*) FROM trace").fetchall()
        )


@pytest.fixture
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


def _kept(con: duckdb.DuckDBPyConnection, workload: str, gain: float) -> None:
    add(con, "calibration", trace_id=1, workload=workload, variant=None, core_type="U", repeats=6,
        measured_utc="2026-01-02T03:04:05Z", **{"yield": gain})  # fmt: skip


def test_work_uses_calibration_of_same_kernel_or_all(
    drawn: duckdb.DuckDBPyConnection,
) -> None:
    """One sibling of each of two cores is busy: 1 / Y of the work."""
    fill(drawn, [Step(["physical"], [0, 2], [1000, 1000])])
    core_state(drawn, 0, (100, 1))
    core_state(drawn, 2, (100, 1))
    sql = "SELECT work_low_pct, work_high_pct, yield_basis FROM reported_vs_real"
    assert drawn.execute(sql).fetchall() == [(50.0, 100.0, "assumed 1 to 2")]
    _kept(drawn, "imul1", 2.0)
    _kept(drawn, "scan", 1.25)
    assert drawn.execute(sql).fetchall() == [
        (50.0, 80.0,
         "range over the kernels of this machine's calibration of 2026-01-02T03:04:05Z"),
    ]  # fmt: skip
    _kept(drawn, "sha256", 1.6)
    assert drawn.execute(sql).fetchall() == [
        (62.5, 62.5, "this machine's calibration of 2026-01-02T03:04:05Z"),
    ]  # fmt: skip


def test_table_of_core_use_has_measured_work_ipc_and_energy(tmp_path: Path) -> None:
    """Ten cores at 3.6 GHz: three cycles an iteration with one to three chains, 48 to 50 W."""
    machine = topology.read(fake.ten_cores_twenty_threads().write(tmp_path / "root"))
    made, _ = scaling.plan_cells(machine, Load("imul1"), "1")
    made = [cell for cell in made if cell.place == "table"]
    ghz, watts = 3.6, {"table-imul1": 48, "table-imul2": 49, "table-imul3": 50}
    folder = experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(made, 6, 1),
        {cell.name: [1.2e9] * 10 for cell in made},
        workers={
            cell.name: [{"core_cycles_per_iteration": 3.0, "core_ghz_after": ghz,
                         "instructions_per_iteration": 3 + number}] * 10
            for number, cell in enumerate(made)
        },
        machine={
            name: {"energy": {"package-0": used / 10, "package-0/core": 1.0}, "energy_ns": 10**8}
            for name, used in watts.items()
        },
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT workload, unit, per_s, ipc, watts, joules_per_giga FROM use_of_cores"
        ).fetchall()
    assert [row[:2] for row in rows] == [(f"imul{n}", "iterations") for n in (1, 2, 3)]
    for row, ipc, used in zip(rows, (1.0, 4 / 3, 5 / 3), (48, 49, 50), strict=True):
        assert row[2:] == pytest.approx((1.2e10, ipc, used, used / 12))


@pytest.mark.alone
def test_small_run_on_this_machine_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    command(
        "collect", "--experiment", "scaling", "--workload", "add8", "--threads", "1,2",
        "--seconds", "0.03", "--warm-up", "0.05", "--repeat", "1", "-o", str(folder),
    )  # fmt: skip
    done = command("analyze", str(folder), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1)
    facts = json.loads(done.stdout)
    answer = facts["experiment"]["scaling"]
    assert {row["threads"] for row in answer["clock"]} <= {1, 2}
    assert [row["workload"] for row in answer["table"]] == ["imul1", "imul2", "imul3"]
    assert {"add8", "imul1"} <= {row["workload"] for row in answer["yield"]}
    assert Path(facts["calibration"]).parent == tmp_path / "calibration"
