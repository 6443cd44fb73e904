"""The experiment `shards`: CPUs of each placement, its numbers, and a small real run."""

from __future__ import annotations

import json
from pathlib import Path

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
        "by_topology": [0, 2, 4, 6, 8, 10, 12, 14],
    }
    made, missing = shards.plan(machine, "8", 5000.0)
    assert [(cell.name, cell.cpus) for cell in made] == [
        ("8-shards-by_number", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("8-shards-by_topology", (0, 2, 4, 6, 8, 10, 12, 14)),
    ]
    assert missing == []
    assert cells.words(cells.step(made[1], 1, 1)) == [
        "serve", "--threads", "8", "--variant", "open", "--cpus", "0,2,4,6,8,10,12,14",
        "--rate", "5000",
    ]  # fmt: skip


def test_identical_placements_share_one_cell(tmp_path: Path) -> None:
    # 10C/20T: CPUs n and n + 10 share a core, so the first ten CPUs are ten cores.
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    made, missing = shards.plan(machine, None, 5000.0)
    assert [cell.name for cell in made] == ["10-shards-by_topology"]
    assert missing == [
        "placing 10 shards by number or by topology selects the same CPUs (0-9): "
        "one cell covers both"
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
    whole = [row for row in answer["shards"] if row["worker"] is None]
    assert [row["shards"] for row in whole] == [1]
    served = json.loads((folder / "1-shards-by_topology-r1/workload.json").read_text())
    assert whole[0]["requests"] == served["workers"][0]["counts"]["requests"]
