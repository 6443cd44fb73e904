"""Loads what an experiment's step knows in addition to its trace."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from schedlens.errors import NothingToReadError
from schedlens.load.measured_cell import Cell
from schedlens.load.recording import Recording
from schedlens.load.step_file import Served, StepFile
from schedlens.machine.condition import Condition

if TYPE_CHECKING:
    import duckdb

_COUNTS = ("requests", "late_starts", "busy_ns", "interval_ns", "frames", "missed_frames",
           "work_ns")  # fmt: skip


def load(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """Fills `energy` from any step, and the experiment tables from a cell.

    Raises `NothingToReadError` if workload.json is malformed.
    """
    step = recording.step
    if step is None:
        return
    _energy(con, step, trace_id)
    if step.cell is None:
        return
    _cell(con, step, step.cell, trace_id)
    try:
        _workers(con, recording, step.cell, trace_id)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise NothingToReadError(
            f"{recording.label}: cannot read its cell ({type(error).__name__}: {error}): "
            "measure it again"
        ) from None


def _energy(con: duckdb.DuckDBPyConnection, step: StepFile, trace_id: int) -> None:
    used = step.machine.energy if step.machine is not None else {}
    rows = [(trace_id, domain, joules) for domain, joules in used.items()]
    if rows:
        con.executemany("INSERT INTO energy VALUES (?, ?, ?)", rows)


def _cell(con: duckdb.DuckDBPyConnection, step: StepFile, cell: Cell, trace_id: int) -> None:
    machine, facts = step.machine or Condition(), cell.facts
    row: list[Any] = [trace_id, cell.experiment, cell.name, cell.place, step.repeat, cell.position]
    row += [facts.smt, facts.boost, facts.load, facts.how, facts.handoffs, facts.offered_per_s]
    row += [step.command_ns, machine.throttles, machine.load]
    row += [round(statistics.median(machine.khz)) if machine.khz else None, machine.energy_ns]
    served = step.served or Served()
    row += [list(served.pids) or None, served.why]
    con.execute(f"INSERT INTO experiment_cell VALUES ({', '.join('?' * len(row))})", row)


def _workers(
    con: duckdb.DuckDBPyConnection, recording: Recording, cell: Cell, trace_id: int
) -> None:
    loads, predicted = cell.loads, cell.predicted
    rows, latencies = [], []
    for worker in recording.workload.get("workers", []):
        number = int(worker["worker"])
        load = loads[min(number, len(loads) - 1)]
        expected = predicted[number] if number < len(predicted) else None
        counts = worker.get("counts") or {}
        rows.append(
            [
                trace_id, number, load.label,
                worker["kernel"], worker.get("variant"), worker.get("ns_per_iteration"),
                worker.get("core_cycles_per_iteration"), worker.get("core_ghz_before"),
                worker.get("core_ghz_after"), expected.slowdown if expected else None,
                expected.basis if expected else None,
                *(counts.get(key) for key in _COUNTS),
                worker.get("core_ghz_during"), worker.get("instructions_per_iteration"),
            ]
        )  # fmt: skip
        latencies += [
            [trace_id, number, int(bucket), int(count)]
            for bucket, count in worker.get("latency") or []
        ]
    over_time = [
        [trace_id, int(worker["worker"]), int(ns), float(ghz)]
        for worker in recording.workload.get("workers", [])
        for ns, ghz in worker.get("core_ghz_over_time") or []
    ]
    if over_time:
        con.executemany("INSERT INTO worker_clock VALUES (?, ?, ?, ?)", over_time)
    if rows:
        con.executemany(
            f"INSERT INTO experiment_worker VALUES ({', '.join('?' * len(rows[0]))})", rows
        )
    served = recording.step.served if recording.step is not None else None
    if served is not None and served.requests is not None:
        con.execute(
            "INSERT INTO experiment_worker (trace_id, worker, label, kernel, requests, "
            "interval_ns) VALUES (?, 0, 'service', 'service', ?, ?)",
            [trace_id, served.requests, served.interval_ns],
        )
        latencies += [[trace_id, 0, upper, count] for upper, count in served.latency or ()]
    if latencies:
        # By column, because inserting thousands of buckets row by row is slow.
        columns = [list(column) for column in zip(*latencies, strict=True)]
        con.execute(
            "INSERT INTO worker_latency SELECT unnest(?), unnest(?), unnest(?), unnest(?)", columns
        )
        con.execute(
            "INSERT INTO request_latency SELECT trace_id, bucket_ns, sum(requests)::BIGINT "
            "FROM worker_latency WHERE trace_id = ? AND trace_id NOT IN "
            "(SELECT trace_id FROM experiment_worker WHERE frames IS NOT NULL) "
            "GROUP BY trace_id, bucket_ns ORDER BY bucket_ns",
            [trace_id],
        )
