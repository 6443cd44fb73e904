"""The experiment `shards`: CPUs of each placement, its numbers, and a small real run."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import experiment_session
import pytest
import sysfs_machine as fake
from conftest import command
from judged import plain

from schedlens.errors import PlanError
from schedlens.experiments import shards
from schedlens.machine import topology
from schedlens.record import cells


def read(machine: fake.FakeMachine, root: Path) -> topology.Topology:
    return topology.read(machine.write(root))


def test_placement_by_number_shares_cores_if_siblings_are_adjacent(tmp_path: Path) -> None:
    # 8 P cores with siblings (2n, 2n + 1): eight shards by number use four cores.
    machine = read(fake.eight_p_eight_e(), tmp_path)
    assert shards.plans(machine, 8) == {
        "by_number": [0, 1, 2, 3, 4, 5, 6, 7],
        # A plan for siblings (n, n + 12), which on this machine are different cores.
        "by_offset": [0, 12, 1, 13, 2, 14, 3, 15],
        "by_topology": [0, 2, 4, 6, 8, 10, 12, 14],
    }
    made, missing = shards.plan(machine, "8", 5000.0)
    assert [(cell.name, cell.cpus) for cell in made] == [
        ("8-shards-by_number", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("8-shards-by_offset", (0, 12, 1, 13, 2, 14, 3, 15)),
        ("8-shards-by_topology", (0, 2, 4, 6, 8, 10, 12, 14)),
        ("sibling_idle", (0,)),
        ("sibling_busy", (0, 1)),
        ("sibling_at_5_pct", (0, 1)),
        ("two_on_one_core", (0, 1)),
    ]
    assert missing == []
    assert cells.words(cells.step(made[2], 1, 1)) == [
        "serve", "--threads", "8", "--variant", "open", "--cpus", "0,2,4,6,8,10,12,14",
        "--rate", "5000",
    ]  # fmt: skip


def test_identical_placements_share_one_cell(tmp_path: Path) -> None:
    # 10C/20T: CPUs n and n + 10 share a core, so the first ten CPUs are ten cores.
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    made, missing = shards.plan(machine, None, 5000.0)
    assert [(cell.name, cell.cpus) for cell in made] == [
        # The numbering trap: (n, n + 10) are the siblings of one core here.
        ("10-shards-by_offset", (0, 10, 1, 11, 2, 12, 3, 13, 4, 14)),
        ("10-shards-by_topology", tuple(range(10))),
        ("sibling_idle", (0,)),
        ("sibling_busy", (0, 10)),
        ("sibling_at_5_pct", (0, 10)),
        ("two_on_one_core", (0, 10)),
    ]
    by_name = {cell.name: cell for cell in made}
    assert cells.words(cells.step(by_name["sibling_at_5_pct"], 1, 1)) == [
        "serve", "--threads", "1", "--variant", "open", "--alongside", "housekeeping",
        "--cpus", "0,10", "--rate", "5000",
    ]  # fmt: skip
    assert by_name["two_on_one_core"].facts.offered_per_s == 10_000.0
    assert by_name["sibling_busy"].facts.offered_per_s == 5_000.0
    assert missing == [
        "placing 10 shards by number or by topology selects the same CPUs (0-9): "
        "one cell covers both"
    ]


def test_without_siblings_the_cells_of_one_core_are_missing(tmp_path: Path) -> None:
    made, missing = shards.plan(read(fake.no_smt(), tmp_path), None, 5000.0)
    assert [cell.place for cell in made] == ["by_topology"]
    assert missing[-1] == "a busy or an idle sibling: no core has two usable logical CPUs"


def test_busy_sibling_is_compared_with_an_idle_one(tmp_path: Path) -> None:
    """p99 9 us with the sibling idle, 18 us with it busy, 9.9 us with it at 5 %."""
    machine = read(fake.ten_cores_twenty_threads(), tmp_path / "root")
    made, missing = shards.plan(machine, None, 5000.0)
    made = [cell for cell in made if cell.place.startswith(("sibling", "two"))]
    counts = {"requests": 20_000, "late_starts": 1, "busy_ns": 10**7, "interval_ns": 10**8}
    slow = {"sibling_idle": 9_000, "sibling_busy": 18_000, "sibling_at_5_pct": 9_900,
            "two_on_one_core": 27_000}  # fmt: skip
    serving = {
        name: {"counts": counts, "latency": [[5_000, 19_700], [ns, 270], [2 * ns, 30]]}
        for name, ns in slow.items()
    }
    # What runs on the sibling serves no requests.
    workers = {
        name: [row, row if name == "two_on_one_core" else {"counts": {}}][: len(cell.cpus or ())]
        for (name, row), cell in zip(serving.items(), made, strict=True)
    }
    folder = experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(made, 6, 1),
        {cell.name: [2000.0] * cell.threads for cell in made}, workers=workers,
        experiment={"name": "shards", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT place, shards, p99_ns, p999_ns, p99_ratio, p99_ratio_low, p99_ratio_high, "
            "p999_ratio, coverage_pct FROM shard_latency WHERE worker IS NULL ORDER BY p99_ns"
        ).fetchall()
    assert rows == [
        ("sibling_idle", 1, 9_000, 18_000, None, None, None, None, 96.875),
        ("sibling_at_5_pct", 1, 9_900, 19_800, 1.1, 1.1, 1.1, 1.1, 96.875),
        ("sibling_busy", 1, 18_000, 36_000, 2.0, 2.0, 2.0, 2.0, 96.875),
        ("two_on_one_core", 2, 27_000, 54_000, 3.0, 3.0, 3.0, 3.0, 96.875),
    ]


# p99 in us with placement by topology, or with the sibling idle, in each of the six repeats, and by
# how much it is larger elsewhere; the p99.9 is twice as large.
BASES = (9.0, 9.5, 8.5, 10.0, 9.0, 8.0)
TIMES = {
    "by_topology": (1.0,) * 6,
    "by_offset": (3.1, 2.9, 3.0, 3.3, 2.8, 3.2),
    "sibling_idle": (1.0,) * 6,
    "sibling_at_5_pct": (1.06, 1.04, 1.05, 1.1, 0.98, 1.0),
    "sibling_busy": (2.0, 2.1, 1.9, 2.2, 1.8, 2.05),
    "two_on_one_core": (3.0, 3.2, 2.8, 3.4, 2.6, 3.1),
}


def _served(place: str, repeat: int) -> dict[str, Any]:
    """What a shard has counted in a repeat: 20,000 requests, 30 of them beyond the p99.9."""
    p99 = round(1000 * BASES[repeat - 1] * TIMES[place][repeat - 1])
    counts = {"requests": 20_000, "late_starts": 2_000, "busy_ns": 10**7, "interval_ns": 10**8}
    return {"counts": counts, "latency": [[5_000, 19_700], [p99, 270], [2 * p99, 30]]}


def test_whole_experiment_on_ten_cores_with_siblings(tmp_path: Path) -> None:
    """All cells that are planned for 10C/20T, with ratios and intervals of p99 and p99.9."""
    machine = read(fake.ten_cores_twenty_threads(), tmp_path / "root")
    made, missing = shards.plan(machine, None, 5000.0)
    assert {cell.place for cell in made} == set(TIMES)
    steps = cells.shuffled(made, 6, 1)
    workers, rates = {}, {}
    for step in steps:
        cell = step.cell
        assert cell is not None
        rates[step.name] = [2000.0] * cell.threads
        # What runs on the sibling serves no requests.
        serving = 1 if cell.place.startswith("sibling") else cell.threads
        served = _served(cell.place, step.repeat)
        workers[step.name] = [
            served if n < serving else {"counts": {}} for n in range(cell.threads)
        ]
    folder = experiment_session.write(
        tmp_path / "session", machine, steps, rates, workers=workers,
        experiment={"name": "shards", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT place, shards, cores, most_on_core, p99_low_ns, p99_high_ns, p999_low_ns, "
            "p999_high_ns, p99_ratio, p99_ratio_low, p99_ratio_high, p999_ratio, p999_ratio_low, "
            "p999_ratio_high, coverage_pct FROM shard_latency WHERE worker IS NULL ORDER BY place"
        ).fetchall()
        found = con.execute(
            "SELECT severity, kind, title FROM finding WHERE analyzer = 'shard_latency' "
            "ORDER BY kind"
        ).fetchall()
    expected = []
    for place, cores_of in {
        "by_offset": (10, 5, 2), "by_topology": (10, 10, 1), "sibling_at_5_pct": (1, 1, 2),
        "sibling_busy": (1, 1, 2), "sibling_idle": (1, 1, 1), "two_on_one_core": (2, 1, 2),
    }.items():  # fmt: skip
        p99 = [round(1000 * base * times) for base, times in zip(BASES, TIMES[place], strict=True)]
        # With six repeats, the interval with at least 95 % is from the least to the greatest.
        ends = (min(p99), max(p99), 2 * min(p99), 2 * max(p99))
        ratio: tuple[Any, ...] = (None,) * 3
        if place not in ("by_topology", "sibling_idle"):
            each = [own / round(1000 * base) for own, base in zip(p99, BASES, strict=True)]
            ratio = (pytest.approx(median(each)), min(each), max(each))
        expected.append((place, *cores_of, *ends, *ratio, *ratio, 96.875))
    assert rows == expected
    assert [(severity, kind, plain(title)) for severity, kind, title in found] == [
        # The trap: on this machine, n and n + 10 are siblings. Of all repeats together, 600 of the
        # 1,800 slow requests do not exceed these times.
        ("warning", "placement", "p99 is 25.6 us in pairs (n, n + cores), 9 us by topology"),
        ("info", "same_cpus", "Placement by number and by topology uses the same CPUs"),
        ("info", "sibling_busy", "A busy SMT sibling makes the p99 2.02 times as long"),
    ]


def test_default_is_one_shard_per_cpu(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    assert (shards.count(machine, "max"), shards.count(machine, "3")) == (20, 3)
    for wrong in ("0", "21", "1..3", "-1"):
        with pytest.raises(PlanError, match="use 1 to 20, one per CPU"):
            shards.count(machine, wrong)


def test_session_has_expected_numbers(tmp_path: Path) -> None:
    """p99 9 us by topology, 28 us by number; 200 requests per shard and repeat, 2 % slow ones."""
    machine = read(fake.eight_p_eight_e(), tmp_path / "root")
    made, missing = shards.plan(machine, "8", 5000.0)
    made = [cell for cell in made if cell.place in ("by_number", "by_topology")]
    counts = {"requests": 200, "late_starts": 100, "busy_ns": 50_000_000, "interval_ns": 10**8}
    workers = {
        cell.name: [{"counts": counts, "latency": [[5_000, 196], [slow, 4]]}] * 8
        for cell, slow in zip(made, (28_000, 9_000), strict=True)
    }
    folder = experiment_session.write(
        tmp_path / "session", machine, cells.shuffled(made, 6, 1),
        {cell.name: [2000.0] * 8 for cell in made}, workers=workers,
        experiment={"name": "shards", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT place, shards, cores, most_on_core, requests, p50_ns, p99_ns, late_pct, "
            "busy_pct FROM shard_latency WHERE worker IS NULL"
        ).fetchall()
        assert rows == [
            ("by_number", 8, 4, 2, 9600, 5_000, 28_000, 50.0, 50.0),
            ("by_topology", 8, 8, 1, 9600, 5_000, 9_000, 50.0, 50.0),
        ]
        # 1200 requests of a shard: 12 are beyond p99, 1.2 beyond p99.9.
        [each] = con.execute(
            "SELECT cpu, core, p99_ns, p999_ns FROM shard_latency "
            "WHERE worker = 3 AND place = 'by_number'"
        ).fetchall()
        assert each == (3, 2, 28_000, None)
        percentiles = con.execute(
            "SELECT percentile, latency_ns, low_ns, repeats FROM cell_latency "
            "WHERE cell = '8-shards-by_topology'"
        ).fetchall()
        assert percentiles == [
            (50.0, 5_000, 5_000, 6), (90.0, 5_000, 5_000, 6), (99.0, 9_000, 9_000, 6),
            (99.9, None, None, 0), (99.99, None, None, 0), (99.999, None, None, 0),
        ]  # fmt: skip
        shown = experiment_session.section(con, "shard_latency")
        assert shown["figures"][0]["caption"] == (
            "Latency of each shard. The highest p99 is 28 us: by_number, shard 0 on CPU 0."
        )
        [(severity, kind, title, detail)] = con.execute(
            "SELECT severity, kind, title, detail FROM finding WHERE analyzer = 'shard_latency'"
        ).fetchall()
    assert (severity, kind) == ("warning", "placement")
    assert plain(title) == "p99 is 28 us by CPU number, 9 us by topology"
    assert plain(detail) == (
        "8 shards placed by CPU number use 4 cores, p99 28 us; by topology they use 8 cores, p99 "
        "9 us."
    )


@pytest.mark.alone
def test_small_run_on_this_machine_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    command(
        "collect", "--experiment", "shards", "--threads", "1", "--seconds", "0.2", "--repeat", "1",
        "-o", str(folder),
    )  # fmt: skip
    done = command("analyze", str(folder), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1)
    answer = json.loads(done.stdout)["experiment"]["shards"]
    whole = [
        row for row in answer["shards"] if row["worker"] is None and row["place"] == "by_topology"
    ]
    assert [row["shards"] for row in whole] == [1]
    # A disturbed repeat is replaced by another one; if that is disturbed, too, both count.
    served = [
        json.loads(path.read_text())["workers"][0]["counts"]["requests"]
        for path in folder.glob("*-shards-by_topology-r*/workload.json")
    ]
    assert whole[0]["requests"] in ([sum(served)] if whole[0]["is_disturbed"] else served)
