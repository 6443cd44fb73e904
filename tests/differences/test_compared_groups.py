"""Groups of threads are compared like processes: service:NAME, container:ID, cgroup:PATH."""

from __future__ import annotations

from pathlib import Path

import compared_recordings
import duckdb
import pytest

import schedlens
from schedlens.differences import contrast, rules_file
from schedlens.differences.contrast import Comparison
from schedlens.errors import UnknownNameError

pytestmark = pytest.mark.slow

# Every thread of game.exe is in one service, all others are below another one.
CGROUPS = """
    INSERT INTO thread_cgroup
    SELECT
      t.trace_id, 0, t.utid, t.tid,
      CASE WHEN p.name = 'game.exe' THEN '/system.slice/game.service'
        ELSE '/system.slice/other.service/workers' END,
      'reading',
    FROM thread AS t JOIN process AS p USING (upid)
"""
GROUPS = ("service:game", "cgroup:/system.slice", "game.exe")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An analyzed run of each version, with cgroups."""
    found = []
    for fixed in (False, True):
        folder = tmp_path_factory.mktemp("fixed" if fixed else "fault")
        trace = compared_recordings.write(folder / "play", fixed=fixed)
        schedlens.analyze(trace, output=folder / "session").close()
        with duckdb.connect(str(folder / "session" / "analysis.duckdb")) as con:
            con.execute(CGROUPS)
        found.append(folder / "session")
    return found[0], found[1]


@pytest.fixture(scope="module")
def compared(sides: tuple[Path, Path]) -> Comparison:
    return contrast.compare(*sides, processes=GROUPS)


def test_group_of_one_process_differs_like_the_process(compared: Comparison) -> None:
    checked = set()
    for one in compared.differences:
        if one.subject is None or not one.subject.startswith("service:game"):
            continue
        same = compared.of(one.quantity, one.subject.replace("service:game", "game.exe"))
        assert (one.a, one.b, one.low, one.high, one.p) == (
            same.a, same.b, same.low, same.high, same.p,
        )  # fmt: skip
        checked.add(one.quantity)
    assert checked >= {
        "frame_p50_ns", "run_cpus", "ready_threads", "ready_all_busy_threads", "wakeup_p95_ns",
        "cycles_per_instruction", "counter_per_s", "e_core_pct",
    }  # fmt: skip


def test_group_of_several_processes_is_their_sum(
    sides: tuple[Path, Path], compared: Comparison
) -> None:
    for con_path, value in zip(sides, ("a", "b"), strict=True):
        with schedlens.open(con_path) as analysis:
            # The threads of all processes, over the blocks.
            (wanted,) = analysis.sql(
                "SELECT sum(run_ns) / any_value(total) AS cpus FROM block_process, "
                "(SELECT sum(dur_ns) AS total FROM time_block) WHERE process IS NOT NULL"
            )["cpus"].to_pylist()
        (series,) = (
            getattr(one, value)
            for one in compared.compared
            if (one.difference.quantity, one.difference.subject)
            == ("run_cpus", "cgroup:/system.slice")
        )
        assert series[0].whole() == pytest.approx(wanted)


def test_sql_of_a_group_returns_its_rows_on_the_session(
    sides: tuple[Path, Path], compared: Comparison
) -> None:
    with schedlens.open(sides[0]) as analysis:
        for one in compared.differences:
            if one.subject is not None and one.subject.startswith("service:game"):
                rows = analysis.sql(f"SELECT DISTINCT subject FROM ({one.sql})")
                assert one.subject in rows["subject"].to_pylist(), one.quantity


def test_rule_names_a_group(sides: tuple[Path, Path]) -> None:
    rules = rules_file.parsed(
        {"rule": [{"metric": "ready_threads", "subject": "service:game", "max_increase": 0.1},
                  {"metric": "counter_per_s", "subject": "service:game: cycles",
                   "max_increase_pct": 50}]}
    )  # fmt: skip
    found = contrast.compare(*sides, rules=rules)
    assert found.gate is not None
    assert {one.difference.subject for one in found.gate.judged if one.difference} == {
        "service:game", "service:game: cycles",
    }  # fmt: skip


def test_unknown_group_is_one_line_with_the_nearest(sides: tuple[Path, Path]) -> None:
    with pytest.raises(UnknownNameError, match="no group of side a named 'service:gam': did you"):
        contrast.compare(*sides, processes=["service:gam"])
