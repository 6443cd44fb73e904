"""Loads what an experiment's step knows in addition to its trace."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from schedlens.errors import NothingToReadError
from schedlens.load.recording import Json, Recording

if TYPE_CHECKING:
    import duckdb

_FACTS = ("smt", "boost", "load", "how", "handoffs", "offered_per_s")
_COUNTS = ("requests", "late_starts", "busy_ns", "interval_ns", "frames", "missed_frames")


def load(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """Fills `energy` from any step, and the experiment tables from a cell.

    Raises `NothingToReadError` if step.json or workload.json is malformed.
    """
    try:
        _energy(con, recording.step, trace_id)
        if recording.step.get("cell"):
            _cell(con, recording.step, trace_id)
            _workers(con, recording, trace_id)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise NothingToReadError(
            f"{recording.label}: cannot read its cell ({type(error).__name__}: {error}): "
            "measure it again"
        ) from None


def _energy(con: duckdb.DuckDBPyConnection, step: Json, trace_id: int) -> None:
    used = (step.get("machine") or {}).get("energy") or {}
    rows = [(trace_id, str(domain), float(joules)) for domain, joules in used.items()]
    if rows:
        con.executemany("INSERT INTO energy VALUES (?, ?, ?)", rows)


def _cell(con: duckdb.DuckDBPyConnection, step: Json, trace_id: int) -> None:
    cell, machine = step["cell"], step.get("machine") or {}
    facts = cell.get("facts") or {}
    khz = machine.get("khz")
    row: list[Any] = [trace_id, cell["experiment"], cell["name"], cell["place"]]
    row += [int(step["repeat"]), int(cell["position"]), *(facts.get(key) for key in _FACTS)]
    row += [step.get("command_ns"), machine.get("throttles"), machine.get("load")]
    row += [round(statistics.median(khz)) if khz else None, machine.get("energy_ns")]
    con.execute(f"INSERT INTO experiment_cell VALUES ({', '.join('?' * len(row))})", row)


def _workers(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    cell = recording.step["cell"]
    loads, predicted = cell.get("loads") or [], cell.get("predicted") or []
    rows, latencies = [], []
    for worker in recording.workload.get("workers", []):
        number = int(worker["worker"])
        load = loads[min(number, len(loads) - 1)]
        variant = load.get("variant")
        expected = (predicted[number] if number < len(predicted) else None) or {}
        counts = worker.get("counts") or {}
        rows.append(
            [
                trace_id, number, f"{load['kernel']}:{variant}" if variant else load["kernel"],
                worker["kernel"], worker.get("variant"), worker.get("ns_per_iteration"),
                worker.get("core_cycles_per_iteration"), worker.get("core_ghz_before"),
                worker.get("core_ghz_after"), expected.get("slowdown"), expected.get("basis"),
                *(counts.get(key) for key in _COUNTS),
            ]
        )  # fmt: skip
        latencies += [
            [trace_id, number, int(bucket), int(count)]
            for bucket, count in worker.get("latency") or []
        ]
    if rows:
        con.executemany(
            f"INSERT INTO experiment_worker VALUES ({', '.join('?' * len(rows[0]))})", rows
        )
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
