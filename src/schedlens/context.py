"""What a session folder knows beside the trace, as batches of the base tables.

Times are those of the session folder (ns of CLOCK_MONOTONIC); the decoder moves them to ns 0 of
the trace, and finds the `utid` of each `tid`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from schedlens.recording import Json, Recording

Rows = list[dict[str, Any]]

# Columns that hold times of the session's clock.
TIMES = ("ts", "start_ns", "end_ns", "valid_from_ns")


def tables(
    recording: Recording, trace_id: int, schemas: Mapping[str, pa.Schema]
) -> dict[str, pa.RecordBatch]:
    """Batches by table name, only for tables with rows; columns as in the base tables."""
    made: dict[str, Rows] = {
        "cpu": list(_cpus(recording.session)),
        "machine_setting": _settings(recording),
        "run": _run(recording),
        "run_worker": _workers(recording.workload),
        "affinity": list(_affinity(recording)),
    }
    for edge, snapshot in recording.edges.items():
        for table, rows in _snapshot(edge, snapshot):
            made.setdefault(table, []).extend(rows)
    return {
        table: _batch(rows, schemas[table], trace_id, with_tid=table == "affinity")
        for table, rows in made.items()
        if rows
    }


def _batch(rows: Rows, schema: pa.Schema, trace_id: int, *, with_tid: bool) -> pa.RecordBatch:
    """Rows as a batch; a table without a column `tid` gets one if its `utid` is to be found."""
    fields = [field.with_nullable(True) for field in schema]
    if with_tid:
        fields.append(pa.field("tid", pa.int64()))
    wanted = pa.schema(fields)
    return pa.RecordBatch.from_pylist([{"trace_id": trace_id} | row for row in rows], schema=wanted)


def _cpus(session: Json) -> Iterable[dict[str, Any]]:
    for cpu in session.get("topology", {}).get("cpus", []):
        yield {**cpu, "valid_from_ns": None}


def _settings(recording: Recording) -> Rows:
    session = recording.session
    rows: Rows = [
        {"key": key, "value": None if value is None else str(value)}
        for key, value in session.get("settings", {}).items()
    ]
    allowed = session.get("topology", {}).get("allowed")
    if allowed is not None:
        rows.append({"key": "allowed_cpus", "value": ",".join(str(cpu) for cpu in allowed)})
    if recording.step.get("command") and recording.step.get("pid") is not None:
        rows.append({"key": "command_pid", "value": str(recording.step["pid"])})
    return rows


def _run(recording: Recording) -> Rows:
    step = recording.step
    if not step:
        return []
    overhead = step.get("overhead") or {}
    command = step.get("command")
    return [
        {
            "step": step["name"],
            "workload": step.get("workload"),
            "variant": recording.workload.get("variant"),
            "command": shlex.join(command) if command else None,
            "placement": step.get("placement"),
            "placements": step.get("placements"),
            "threads": step.get("threads"),
            "repeat": step.get("repeat"),
            "oversubscribed": step.get("oversubscribed"),
            "recorded": bool(step.get("recorded")),
            "start_ns": step.get("begin_mono_ns"),
            "end_ns": step.get("end_mono_ns"),
            "planned_cpus": step.get("planned_cpus"),
            "status": recording.workload.get("status"),
            "baseline_per_s": overhead.get("baseline_per_s"),
            "recorded_per_s": overhead.get("recorded_per_s"),
            "overhead_unit": overhead.get("unit"),
        }
    ]


def _workers(workload: Json) -> Rows:
    return [
        {
            "worker": worker["worker"],
            "tid": worker["tid"],
            "cpu": worker.get("cpu"),
            "start_ns": worker["start_mono_ns"],
            "end_ns": worker["end_mono_ns"],
            "cpu_time_ns": worker["cpu_time_ns"],
            "iterations": worker["iterations"],
            "bytes": worker["bytes"],
        }
        for worker in workload.get("workers", [])
    ]


def _affinity(recording: Recording) -> Iterable[dict[str, Any]]:
    """The masks that the snapshots show; the end's only where the thread is new or its mask is."""
    known: dict[int, list[int]] = {}
    for worker in recording.workload.get("workers", []):
        if worker.get("cpu") is not None:
            known[worker["tid"]] = [worker["cpu"]]
            yield {
                "tid": worker["tid"],
                "valid_from_ns": None,
                "cpus": [worker["cpu"]],
                "source": "pin",
            }
    for edge in ("begin", "end"):
        snapshot = recording.edges.get(edge, {})
        for thread in snapshot.get("threads", []):
            tid, cpus = thread["tid"], thread.get("cpus_allowed")
            if cpus is None or known.get(tid) == cpus:
                continue
            yield {
                "tid": tid,
                "valid_from_ns": snapshot["mono_ns"] if tid in known else None,
                "cpus": cpus,
                "source": "snapshot",
            }
            known[tid] = cpus


def _snapshot(edge: str, snapshot: Json) -> Iterable[tuple[str, Rows]]:
    if not snapshot:
        return
    head = {"ts": snapshot["mono_ns"], "edge": edge}
    drop = {"cpus_allowed"}
    for table, key in (
        ("snapshot_cpu", "cpus"),
        ("snapshot_thread", "threads"),
        ("snapshot_cgroup", "cgroups"),
    ):
        rows = [
            {k: v for k, v in row.items() if k not in drop} | head for row in snapshot.get(key, [])
        ]
        yield table, rows
