"""`compare(a, b)`: what it aligns, reports, explains, and refuses to tell."""

from __future__ import annotations

from pathlib import Path

import compared_recordings
import duckdb
import fixture_files
import pytest

from schedlens.differences import contrast
from schedlens.differences.contrast import Comparison, compare
from schedlens.differences.machine_facts import Fact
from schedlens.errors import UnknownNameError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs of each of the two versions, 1 s each."""
    folder = tmp_path_factory.mktemp("repeats")
    for fixed in (False, True):
        for seed in range(4):
            name = f"{'fixed' if fixed else 'fault'}{seed}"
            compared_recordings.write(folder / name, fixed=fixed, seed=seed + 1)
    return folder


@pytest.fixture(scope="module")
def repeated(folder: Path) -> Comparison:
    """The four repeats of each version."""
    return compare(
        [folder / f"fault{seed}" for seed in range(4)],
        [folder / f"fixed{seed}" for seed in range(4)],
    )


def test_repeats_are_compared_recording_by_recording(repeated: Comparison) -> None:
    found = repeated.of("shared_core_pct")
    assert (found.units, found.number_a, found.number_b) == ("recordings", 4, 4)
    # Four and four recordings that are apart: 2 of 70 divisions are as extreme.
    assert found.p == pytest.approx(2 / 70)
    assert (found.verdict, found.is_worse) == ("lower", None)
    assert found.low is not None
    assert found.high is not None
    assert -80 < found.low < found.high < -60


def test_fix_of_the_critical_path_is_found_with_its_mechanism(repeated: Comparison) -> None:
    found = repeated.of("frame_p50_ns", "game.exe")
    assert (found.verdict, found.is_worse) == ("lower", False)
    moved = {(one.quantity, one.subject, one.analyzer) for one in repeated.mechanisms}
    # 22 workers on 24 logical CPUs: they waited for CPUs and shared cores.
    assert ("ready_threads", "game.exe", "ready_obstacle") in moved


def test_symptoms_come_first(repeated: Comparison) -> None:
    kinds = [one.is_symptom for one in repeated.differences]
    assert kinds == sorted(kinds, reverse=True)


def test_adjusted_p_values_are_those_of_all_differences(repeated: Comparison) -> None:
    tested = [one for one in repeated.differences if one.p is not None]
    ranked = sorted(tested, key=lambda one: float(one.p or 0.0))
    # Benjamini and Hochberg: the least of p m / rank over this and all higher ranks.
    for rank, one in enumerate(ranked):
        least = min(
            float(other.p or 0.0) * len(ranked) / (place + 1)
            for place, other in enumerate(ranked)
            if place >= rank
        )
        assert one.p_adjusted == pytest.approx(min(1.0, least))


def test_three_repeats_count_as_blocks_of_time(folder: Path) -> None:
    found = compare(
        [folder / f"fault{seed}" for seed in range(3)],
        [folder / f"fixed{seed}" for seed in range(3)],
        quantities=["shared_core_pct"],
    ).of("shared_core_pct")
    assert found.units == "blocks"


def test_hybrid_and_symmetric_machine_are_compared(tmp_path: Path) -> None:
    from schedlens.load.arrow_folder import simulated
    from schedlens.simulate import cases

    for name, machine in (("symmetric", cases.symmetric()), ("hybrid", cases.hybrid())):
        simulation = cases.priority(False, 1, machine)
        simulation.run(2_000_000_000)
        simulated.write_folder(simulation, tmp_path / name, label=name)
    quantities = ["ready_threads", "shared_core_pct"]
    found = compare(tmp_path / "symmetric", tmp_path / "hybrid", quantities=quantities)
    assert Fact("topology", "cores_E", None, "8") in found.machine
    assert Fact("topology", "online_cpus", "16", "24") in found.machine
    # On the symmetric machine background threads are ready about as long as they run.
    background = found.of("ready_threads", "services.exe")
    assert background.verdict == "lower"
    assert background.a is not None
    assert background.b is not None
    assert background.b < background.a / 5
    assert found.of("shared_core_pct").verdict == "lower"


def test_steps_of_one_name_are_aligned(tmp_path: Path) -> None:
    for side, steps in (("before", ("one", "two")), ("after", ("two", "three"))):
        for step in steps:
            compared_recordings.write(tmp_path / side / step, case="parked", seconds=0.4)
    sides = [[tmp_path / side / step for step in steps] for side, steps in (
        ("before", ("one", "two")), ("after", ("two", "three")))]  # fmt: skip
    by_name = compare(*sides, quantities=["shared_core_pct"])
    assert {one.step for one in by_name.differences} == {"two"}
    assert by_name.unmatched == ("one (only A)", "three (only B)")
    together = compare(*sides, align="all", quantities=["shared_core_pct"])
    assert {one.step for one in together.differences} == {contrast.ALL_STEPS}
    assert together.unmatched == ()


def test_settings_and_background_processes_that_differ_are_listed(tmp_path: Path) -> None:
    a = compared_recordings.write(
        tmp_path / "a", settings={"microcode": "0x1", "governor": "powersave", "smt": "on"}
    )
    b = compared_recordings.write(
        tmp_path / "b", settings={"microcode": "0x2", "governor": "performance", "smt": "on"},
        process="other.exe",
    )  # fmt: skip
    found = compare(a, b, quantities=["shared_core_pct"])
    facts = {(one.topic, one.key): (one.a, one.b) for one in found.machine}
    assert facts["machine", "microcode"] == ("0x1", "0x2")
    assert facts["power", "governor"] == ("powersave", "performance")
    assert ("setting", "smt") not in facts
    assert facts["background", "other.exe"][0] is None
    assert facts["background", "game.exe"][1] is None


def test_lost_records_widen_what_has_bounds_and_hide_the_rest(tmp_path: Path) -> None:
    whole = compared_recordings.write(tmp_path / "whole", seconds=2.0)
    # Records of 2 CPUs are lost for 40 ms, and those of all CPUs for 1.4 of 2 s.
    gaps = {"none": None, "short": ((0, 1), 500_000_000, 540_000_000),
            "long": (range(24), 500_000_000, 1_900_000_000)}  # fmt: skip
    found = {}
    for name, gap in gaps.items():
        fixed = compared_recordings.write(tmp_path / name, fixed=True, seed=2, seconds=2.0, gap=gap)
        found[name] = compare(whole, fixed, quantities=["shared_core_pct", "frame_p50_ns"])
    shared = {name: one.of("shared_core_pct") for name, one in found.items()}
    assert [shared[name].is_lossy for name in gaps] == [False, True, True]
    width = {name: (one.high or 0.0) - (one.low or 0.0) for name, one in shared.items()}
    assert 0 < width["none"] < width["short"]
    # For 40 ms, one core of eight may have shared: less than the difference of 68 points.
    assert [shared[name].verdict for name in ("none", "short")] == ["lower", "lower"]
    # All cores may have shared for most of the time.
    assert shared["long"].verdict == "cannot tell"
    assert found["none"].of("frame_p50_ns").difference is not None
    hidden = found["short"].of("frame_p50_ns")
    assert (hidden.verdict, hidden.difference) == ("cannot tell", None)
    assert hidden.reason == "records were lost, and this quantity has no bounds then"


def test_real_session_equals_itself_step_by_step(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    session = fixture_files.qemu_session(tmp_path_factory)
    found = compare(session, session, quantities=["work_per_s", "run_cpus"], keep=tmp_path)
    assert len({one.step for one in found.differences}) > 10
    assert {one.difference for one in found.differences} <= {0.0, None}
    assert {one.verdict for one in found.differences} == {"cannot tell"}
    assert found.machine == ()
    # A worker reports its total apart from its batches; alone, its interval is the window.
    with duckdb.connect(str(tmp_path / "a.duckdb"), read_only=True) as con:
        shares = con.execute(
            "SELECT b.done / w.iterations FROM run_worker AS w JOIN run USING (trace_id) JOIN "
            "(SELECT trace_id, sum(iterations) AS done FROM block_work GROUP BY trace_id) AS b "
            "USING (trace_id) WHERE run.threads = 1"
        ).fetchall()
    assert len(shares) == 3
    assert [share for (share,) in shares] == pytest.approx([1.0] * 3, rel=1e-3)


def test_unknown_quantity_is_named_with_the_choices(repeated: Comparison) -> None:
    with pytest.raises(UnknownNameError, match="did you mean frame_p95_ns, frame_p50_ns"):
        repeated.of("frame_p5_ns")
