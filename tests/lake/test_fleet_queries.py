"""A synthetic fleet with a known regression and a known outlier: what the queries answer.

6 machines record each of 8 builds twice. From build 1.4 on, ready times are 1.5 times as long; on
machine m002 they always are 3 times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
import synthetic_fleet

from schedlens.errors import NothingToReadError
from schedlens.fleet import fleet_page
from schedlens.lake import change_points, checkpoint, reading, sketches
from schedlens.lake.file_access import LakeFiles

MACHINES, BUILDS, EACH = 6, 8, 2


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthetic fleet, with a checkpoint."""
    place = tmp_path_factory.mktemp("fleet") / "lake"
    synthetic_fleet.write(
        place, machines=MACHINES, builds=BUILDS, per_build=EACH, slow_from=4, slow_machine=2
    )
    checkpoint.write(LakeFiles(place))
    return place


@pytest.fixture(scope="module")
def con(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of the fleet."""
    with reading.connect(lake, is_fleet_only=True) as opened:
        yield opened


def values(machine: int, build: int) -> list[float]:
    """All ready times of a machine and a build."""
    drawn = [
        synthetic_fleet.values(machine, build, number, slow_from=4, slow_machine=2)
        for number in range(EACH)
    ]
    return list(np.concatenate(drawn))


def test_counts_and_sums_are_exact_and_ranks_within_their_error(
    con: duckdb.DuckDBPyConnection,
) -> None:
    rows = con.execute(
        "SELECT name, recordings, count, sum_ns, min_ns, max_ns, p50_ns, p90_ns, p99_ns, "
        "rank_error_pct FROM fleet_distribution(p_by := 'build') ORDER BY name"
    ).fetchall()
    assert [row[0] for row in rows] == [f"1.{build}" for build in range(BUILDS)]
    for build, (_, recordings, *exact, p50, p90, p99, error) in enumerate(rows):
        every = np.sort([v for machine in range(MACHINES) for v in values(machine, build)])
        assert recordings == MACHINES * EACH
        assert exact == [len(every), int(every.sum()), int(every[0]), int(every[-1])]
        assert error == pytest.approx(0.678, abs=0.001)
        for rank, found in ((0.5, p50), (0.9, p90), (0.99, p99)):
            true = np.searchsorted(every, found, side="right") / len(every)
            # The error is stated at 99 % confidence; 24 of 24 within it are not certain.
            assert abs(true - rank) < 2 * error / 100, (build, rank)


def test_by_all_merges_everything(con: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT name, recordings, count FROM fleet_distribution('ready_ns', 'all')"
    number = MACHINES * BUILDS * EACH
    assert con.execute(sql).fetchall() == [("all", number, 500 * number)]
    with pytest.raises(duckdb.Error, match="p_by is machine, class, cpu_model, build or all"):
        con.execute("FROM fleet_distribution(p_by := 'moon')").fetchall()


def test_the_build_that_became_slower_is_found(con: duckdb.DuckDBPyConnection) -> None:
    ((build, before, change, slow, fast),) = con.execute(
        "SELECT build, before_build, change_pct, recordings, before_recordings "
        "FROM fleet_regression"
    ).fetchall()
    half = MACHINES * EACH * BUILDS // 2
    assert (build, before, slow, fast) == ("1.4", "1.3", half, half)
    assert change == pytest.approx(50, abs=8)


def test_a_steady_series_has_no_change() -> None:
    noise = np.random.default_rng(1)
    for _ in range(50):
        assert change_points.found(list(noise.lognormal(10, 0.2, 100))) == []
    steps = [100.0, 103, 98, 101, 99, 150, 151, 149, 152, 148]
    assert change_points.found(steps) == [5]
    assert change_points.found([1.0, 2.0, 1.0]) == []


def test_the_slow_machine_is_the_only_outlier(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT machine, machines, score > 10 FROM fleet_outlier").fetchall()
    assert rows == [("m002", MACHINES, True)]


def test_findings_are_added_up_with_their_worst_recording(con: duckdb.DuckDBPyConnection) -> None:
    number = MACHINES * BUILDS * EACH
    sql = "SELECT analyzer, recordings, machines, builds, cost_ns, worst_trace_id "
    assert con.execute(f"{sql} FROM fleet_finding").fetchall() == [
        ("ready_obstacle", number, MACHINES, BUILDS, 500 * number * (number + 1), number)
    ]
    of_one = con.execute(f"{sql}, recordings_pct FROM fleet_finding(p_build := '1.0')").fetchall()
    assert [(row[1], row[3], row[5], row[6]) for row in of_one] == [(12, 1, 12, 100)]


def test_classes_and_recordings_are_listed(con: duckdb.DuckDBPyConnection) -> None:
    number = MACHINES * BUILDS * EACH
    sql = "SELECT class, machines, recordings FROM fleet_machine_class"
    assert con.execute(sql).fetchall() == [("CPU, 4 P, Linux", MACHINES, number)]
    listed = "SELECT count(*), max(title) FROM fleet_recording(p_machine := 'm001')"
    assert con.execute(listed).fetchall() == [(BUILDS * EACH, "A title")]


def test_merged_sketches_have_the_error_of_one() -> None:
    drawn = np.random.default_rng(2).random((64, 2_000))
    import datasketches

    parts = []
    for row in drawn:
        sketch = datasketches.kll_doubles_sketch(sketches.K)
        sketch.update(row)
        parts.append(sketch.serialize())
    ranks = [0.01, 0.25, 0.5, 0.75, 0.99]
    for rank, found in zip(ranks, sketches.quantiles(parts, ranks), strict=True):
        assert abs((drawn <= found).mean() - rank) < 2 * sketches.rank_error()


def test_the_report_has_all_sections(lake: Path, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    fleet_page.write(str(lake), page)
    text = page.read_text(encoding="utf-8")
    assert re.search(r"<title>[^<]*Fleet of 96 recordings", text)
    with reading.connect(lake, is_fleet_only=True) as opened:
        shown = fleet_page.payload(opened)
    assert [section["name"] for section in shown["sections"]] == [
        "fleet_regression", "fleet_outlier", "fleet_build", "fleet_machine", "fleet_cpu_model",
        "fleet_machine_class", "fleet_recording",
    ]  # fmt: skip
    assert shown["absent"] == [["Recordings that were set aside", "all recordings were read"]]
    assert shown["findings"]["cards"][0]["title"] == "ready_obstacle in 100 % of the recordings"


def test_an_unknown_recording_is_an_error(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="has no recording 12345"):
        fleet_page.write_recording(str(lake), "12345", tmp_path / "one.html")
    assert not list(tmp_path.iterdir())
