"""Counters of the workers of a pair, from counts that are injected: no machine here has a PMU."""

from __future__ import annotations

from pathlib import Path

import experiment_session
import sysfs_machine as fake

from schedlens.experiments import pairs
from schedlens.machine import topology
from schedlens.record import cells

# Of each worker: 4,000 cycles, of which 2,400 stalled on L2 misses, 600 of these on L3 misses.
COUNTS = {
    "cycles": 4000, "instructions": 2000, "l2_rqsts.miss": 40, "longest_lat_cache.miss": 10,
    "cycle_activity.stalls_l2_miss": 2400, "cycle_activity.stalls_l3_miss": 600,
    "topdown-retiring": 200, "topdown-bad-spec": 100, "topdown-fe-bound": 100,
    "topdown-be-bound": 600, "uops_dispatched.port_1": 3000, "uops_dispatched.port_6": 1000,
}  # fmt: skip


def test_injected_counts_are_columns_of_each_pair(tmp_path: Path) -> None:
    machine = topology.read(fake.ten_cores_twenty_threads().write(tmp_path / "root"))
    made, _ = pairs.plan(machine, full=False, only=("imul1+imul3",), command=())
    steps = cells.shuffled(made, 2, 1)
    rates = {cell.name: [1e9] * max(cell.threads, len(cell.loads)) for cell in made}
    folder = experiment_session.write(tmp_path / "session", machine, steps, rates)
    with experiment_session.analyzed(folder) as con:
        con.execute("UPDATE trace SET cpu_model = 'Intel(R) Xeon(R) w5-2445'")
        con.execute("UPDATE run_worker SET utid = 1000 * trace_id + worker")
        con.execute(
            "INSERT INTO thread BY NAME "
            "SELECT trace_id, utid, 100 + worker AS tid, 'w' AS name, FALSE AS is_idle "
            "FROM run_worker"
        )
        for counter, delta in COUNTS.items():
            # The second worker has twice the misses of L2; nothing else differs. Workers that were
            # not recorded have no slices: what they counted is within their interval.
            con.execute(
                "INSERT INTO counter_delta (trace_id, cpu, utid, ts, dur, counter, core_type, "
                "delta) SELECT trace_id, cpu, utid, start_ns + 1, 1000, $1, 'U', "
                "CASE WHEN worker = 1 AND $1 = 'l2_rqsts.miss' THEN 2 * $2 ELSE $2 END "
                "FROM run_worker",
                [counter, delta],
            )
        columns = ", ".join(
            f"{worker}_{name}"
            for worker in ("first", "second")
            for name in (
                "ipc", "l2_misses_per_1000", "l3_misses_per_1000", "l3_bound_pct",
                "memory_bound_pct", "retiring_pct", "bad_speculation_pct", "frontend_pct",
                "backend_pct", "port_pct",
            )
        )  # fmt: skip
        rows = con.execute(
            f"SELECT {columns} FROM pair_interference WHERE place = 'siblings'"
        ).fetchall()
        con.execute("DELETE FROM counter_delta WHERE counter NOT IN ('cycles', 'instructions')")
        without = con.execute(
            f"SELECT {columns} FROM pair_interference WHERE place = 'siblings'"
        ).fetchall()
    shares = (5, 45, 15, 20, 10, 10, 60, {"port_1": 75, "port_6": 25})
    assert rows == [(0.5, 20, *shares, 0.5, 40, *shares)]
    assert without == [(0.5, *[None] * 9, 0.5, *[None] * 9)]
