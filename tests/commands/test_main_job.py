"""The main job on this machine: record a sweep, analyze it, and compare with independent clocks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from conftest import BIN, command
from laws import broken

import schedlens

pytestmark = pytest.mark.records

# /proc/stat counts in USER_HZ, which is 100 everywhere.
STEAL_STEP_NS = 10_000_000


def test_every_invariant_holds_on_a_real_recording(analysis: duckdb.DuckDBPyConnection) -> None:
    assert broken(analysis) == {}


def test_worker_run_time_equals_its_cpu_time_plus_steal(
    analysis: duckdb.DuckDBPyConnection,
) -> None:
    """The oracle is the thread's CPU clock, read by the thread itself at both ends.

    While the host runs something else, a vCPU looks busy to the guest's scheduler. The steal time
    of its CPUs may therefore separate the two values; the system reports it in steps of 10 ms.
    """
    workers = analysis.execute(
        """
        WITH inside AS (
          SELECT w.trace_id, w.worker, w.cpu_time_ns, w.end_ns - w.start_ns AS wall,
                 sum(greatest(0, least(s.ts + s.dur, w.end_ns) - greatest(s.ts, w.start_ns)))
                   AS run_ns,
                 list(DISTINCT s.cpu) AS cpus
          FROM run_worker AS w JOIN sched_slice AS s USING (utid)
          WHERE s.ts < w.end_ns AND s.ts + s.dur > w.start_ns
          GROUP BY ALL
        ),
        unseen AS (
          SELECT w.trace_id, w.worker,
                 sum(greatest(0, least(s.ts + s.dur, w.end_ns) - greatest(s.ts, w.start_ns)))
                   AS unknown_ns
          FROM run_worker AS w JOIN thread_state AS s USING (utid)
          WHERE s.state = 'unknown'
          GROUP BY ALL
        ),
        steal AS (
          SELECT trace_id, cpu, max(steal_ns) - min(steal_ns) AS stolen
          FROM snapshot_cpu GROUP BY ALL
        )
        SELECT inside.*, coalesce(any_value(unknown_ns), 0) AS unknown_ns,
               coalesce(sum(stolen), 0) AS stolen
        FROM inside LEFT JOIN unseen USING (trace_id, worker) LEFT JOIN steal
          ON steal.trace_id = inside.trace_id AND list_contains(inside.cpus, steal.cpu)
        GROUP BY ALL
        """
    ).fetchall()
    expected = analysis.execute("SELECT count(*) FROM run_worker").fetchone()
    assert expected is not None
    assert len(workers) == expected[0] >= 6
    for trace_id, worker, own, wall, run, cpus, unknown, stolen in workers:
        shown = (trace_id, worker, own, run, unknown, stolen)
        # A kernel that leaves out the switches of some threads leaves gaps in those of others.
        assert unknown <= 0.02 * wall, shown
        most = own * 1.01 + stolen + len(cpus) * STEAL_STEP_NS
        assert own * 0.99 - unknown <= run <= most, shown


def test_only_oversubscribed_workers_wait(
    analysis: duckdb.DuckDBPyConnection,
) -> None:
    cpus = len(analysis.execute("SELECT DISTINCT cpu FROM cpu WHERE online").fetchall())
    shares = analysis.execute(
        """
        SELECT run.threads, sum(s.dur)::DOUBLE / any_value(w.end_ns - w.start_ns) / run.threads
        FROM run JOIN run_worker AS w USING (trace_id)
        JOIN thread_state AS s USING (utid)
        WHERE s.state = 'ready' AND s.ts >= w.start_ns AND s.ts + s.dur <= w.end_ns
        GROUP BY run.threads, run.trace_id
        """
    ).fetchall()
    for threads, ready_share in shares:
        if threads > cpus:
            fair = 1 - cpus / threads
            # Other programs may increase it; a lower value would need CPUs that do not exist.
            assert ready_share >= fair - 0.05, (threads, ready_share)


def test_identical_plans_run_once_and_count_for_each_placement(
    analysis: duckdb.DuckDBPyConnection,
) -> None:
    siblings = analysis.execute(
        "SELECT count(*) FROM (SELECT trace_id, core FROM cpu WHERE online GROUP BY ALL "
        "HAVING count(*) > 1)"
    ).fetchone()
    covers = {tuple(row[0]) for row in analysis.execute("SELECT placements FROM run").fetchall()}
    if siblings == (0,):
        assert covers == {("default",), ("physical", "siblings")}
    points = analysis.execute(
        "SELECT placement, threads FROM scaling_curve ORDER BY ALL"
    ).fetchall()
    assert points == [(p, n) for p in ("default", "physical", "siblings") for n in (1, 2, 3)]


def test_database_opens_in_older_duckdb_shells(session: Path, tmp_path: Path) -> None:
    database = session / "analysis.duckdb"
    ask = "SELECT count(*) AS n FROM sibling_overlap; SELECT count(*) FROM thread_summary();"
    with duckdb.connect(str(database), read_only=True) as con:
        shell_2 = [con.execute(q).fetchone() for q in ask.split(";")[:2]]
    shell = BIN / "duckdb"
    assert shell.exists(), "the 1.x shell is a development dependency (duckdb-cli)"
    for script in (ask, f"ATTACH '{database}' AS a (READ_ONLY); USE a; {ask}"):
        target = [] if "ATTACH" in script else ["-readonly", str(database)]
        out = subprocess.run(
            [str(shell), "-csv", "-noheader", *target, "-c", script],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert out == [str(row[0]) for row in shell_2 if row]


def test_database_opens_in_a_notebook(session: Path) -> None:
    table = schedlens.open(session).sql("FROM trace")
    assert isinstance(table, pa.Table)
    assert table.num_rows == len([p for p in session.iterdir() if (p / "step.json").exists()])


def test_json_output_is_complete(session: Path, tmp_path: Path) -> None:
    facts = json.loads(command("analyze", str(session), "-o", str(tmp_path), "--json").stdout)
    assert {
        "database",
        "report",
        "traces",
        "findings",
        "outcomes",
        "problems",
        "not_loaded",
    } <= set(facts)
    assert facts["not_loaded"] == []
    for finding in facts["findings"]:
        assert finding["severity"] in {"critical", "warning", "info"}
        with duckdb.connect(facts["database"], read_only=True) as con:
            con.execute(finding["evidence_sql"]).fetchall()


def test_bad_step_is_reported_and_the_others_load(session: Path, tmp_path: Path) -> None:
    copy = tmp_path / "session"
    shutil.copytree(session, copy)
    steps = sorted(p for p in copy.iterdir() if (p / "step.json").exists())
    (steps[0] / "perf.data").write_bytes(b"not a recording")
    done = command("analyze", str(copy), "--json", check=False)
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    assert [f["label"] for f in facts["not_loaded"]] == [steps[0].name]
    assert len(facts["traces"]) == len(steps) - 1


def test_recordings_from_other_tools_load(session: Path, tmp_path: Path) -> None:
    files = sorted(session.glob("*/perf.data"))[:2]
    done = command("analyze", *map(str, files), "-o", str(tmp_path), "--json")
    facts = json.loads(done.stdout)
    assert len(facts["traces"]) == 2
    with duckdb.connect(str(tmp_path / "analysis.duckdb"), read_only=True) as con:
        assert broken(con) == {}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["analyze", "nowhere"], "nowhere does not exist"),
        (["analyze", "."], "neither a session folder"),
        (["analyze", "--from", "2", "--to", "1", "x"], "--from 2 is not before --to 1"),
        (["collect", "--workload", "sha265"], "sha256"),
        (["collect", "--workload", "sha256", "--threads", "0..x"], "0..x"),
        (["schedlens", "sql", "nowhere", "FROM x"], "nowhere does not exist: name a session"),
        (["schedlens", "sql", ".", "FROM x"], "analysis.duckdb does not exist: create it with"),
        (["schedlens", "inspect", "nowhere"], "nowhere does not exist"),
        (["schedlens", "queries", "sibling_overlp"], "sibling_overlap"),
        (["schedlens", "frobnicate"], "frobnicate"),
    ],
)
def test_wrong_command_prints_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = command(*arguments, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_version_option_prints_version() -> None:
    assert command("schedlens", "--version").stdout.strip() == f"schedlens {schedlens.__version__}"
    assert sys.version_info >= (3, 11)
