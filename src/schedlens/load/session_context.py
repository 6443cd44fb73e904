"""What a session folder knows in addition to the trace, as batches of the base tables.

Times are those of the session folder (ns of CLOCK_MONOTONIC); the decoder shifts them to ns 0 of
the trace and finds the `utid` of each `tid`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from schedlens.errors import NothingToReadError
from schedlens.load.recording import Json, Recording

Rows = list[dict[str, Any]]

# Columns that hold times of the session's clock.
TIMES = ("ts", "start_ns", "end_ns", "valid_from_ns")


def tables(
    recording: Recording, trace_id: int, schemas: Mapping[str, pa.Schema]
) -> dict[str, pa.RecordBatch]:
    """Batches by table name, only for tables with rows; columns as in the base tables.

    Raises `NothingToReadError` if a file of the step is malformed.
    """
    try:
        return _tables(recording, trace_id, schemas)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NothingToReadError(
            f"{recording.label}: a file of the step is malformed ({type(error).__name__}: "
            f"{error}): record the step again"
        ) from None


def _tables(
    recording: Recording, trace_id: int, schemas: Mapping[str, pa.Schema]
) -> dict[str, pa.RecordBatch]:
    made: dict[str, Rows] = {
        "cpu": list(_cpus(recording)),
        "machine_setting": _settings(recording),
        "mark": _incident(recording),
        "run": _run(recording),
        "run_worker": _workers(recording.workload),
        "affinity": list(_affinity(recording)),
        "thread_cgroup": _thread_cgroups(recording),
        "thread_policy": _thread_policies(recording),
        "snapshot_cgroup": _cgroups_between(recording),
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
    """Rows as a batch; a table without a column `tid` gets one if its `utid` is still unknown."""
    fields = [field.with_nullable(True) for field in schema]
    if with_tid:
        fields.append(pa.field("tid", pa.int64()))
    wanted = pa.schema(fields)
    return pa.RecordBatch.from_pylist([{"trace_id": trace_id} | row for row in rows], schema=wanted)


def _cpus(recording: Recording) -> Iterable[dict[str, Any]]:
    """The CPUs of the session, and those that a snapshot shows in another state."""
    begin, end = (recording.edges.get(edge, {}) for edge in ("begin", "end"))
    for cpu in recording.topology.cpus if recording.topology is not None else ():
        number, online, row = cpu.cpu, cpu.online, asdict(cpu)
        if "online" in begin:
            online = number in begin["online"]
        yield {**row, "online": online, "valid_from_ns": None}
        if "online" in end and (number in end["online"]) != online:
            yield {**row, "online": not online, "valid_from_ns": end["mono_ns"]}


def _group_settings(recording: Recording) -> Rows:
    """Shares of cgroups and autogroups of processes, each the last one that was read."""
    readings = (recording.edges.get("begin", {}), recording.watch, recording.edges.get("end", {}))
    rows: Rows = []
    for key, name in (("cpu_shares", "shares"), ("autogroups", "autogroups")):
        found: Json = {}
        for reading in readings:
            found |= reading.get(name, {})
        if found:
            rows.append({"key": key, "value": json.dumps(found, sort_keys=True)})
    return rows


def _settings(recording: Recording) -> Rows:
    session, topology, step = recording.session, recording.topology, recording.step
    settings = session.settings if session is not None else {}
    rows: Rows = [{"key": key, "value": value} for key, value in settings.items()]
    if topology is not None and topology.allowed is not None:
        rows.append({"key": "allowed_cpus", "value": ",".join(map(str, topology.allowed))})
    if step is not None and step.command and step.pid is not None:
        rows.append({"key": "command_pid", "value": str(step.pid)})
    rows += _group_settings(recording)
    if step is not None and step.incident is not None:
        # The table `mark` has the time; these say what happened then.
        facts = asdict(step.incident)
        for key in ("kind", "tid", "measured", "limit"):
            if facts[key] is not None:
                rows.append({"key": f"incident_{key}", "value": str(facts[key])})
        if step.pid is not None:
            rows.append({"key": "incident_pid", "value": str(step.pid)})
    return rows


def _incident(recording: Recording) -> Rows:
    """The moment that made a ring save its events."""
    incident = recording.step.incident if recording.step is not None else None
    if incident is None:
        return []
    return [
        {
            "ts": incident.begin_mono_ns,
            "dur": incident.end_mono_ns - incident.begin_mono_ns,
            "name": f"incident: {incident.kind}",
            "kind": "incident",
        }
    ]


def _run(recording: Recording) -> Rows:
    step = recording.step
    if step is None:
        return []
    overhead = step.overhead
    return [
        {
            "step": step.name,
            "workload": step.workload,
            "variant": recording.workload.get("variant"),
            "command": _shown(step.command) if step.command else None,
            "placement": step.placement,
            "placements": step.placements,
            "threads": step.threads,
            "repeat": step.repeat,
            "oversubscribed": step.oversubscribed,
            "recorded": step.recorded,
            "start_ns": step.begin_mono_ns,
            "end_ns": step.end_mono_ns,
            "planned_cpus": step.planned_cpus,
            "status": recording.workload.get("status"),
            "baseline_per_s": overhead.baseline_per_s if overhead else None,
            "recorded_per_s": overhead.recorded_per_s if overhead else None,
            "overhead_unit": overhead.unit if overhead else None,
        }
    ]


def _shown(command: Sequence[str]) -> str:
    """A command as one line; bytes of it that are not UTF-8 become question marks."""
    return shlex.join(command).encode("utf-8", "replace").decode("utf-8")


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
    """The masks in the snapshots and in the readings between them, one row per change."""
    known: dict[tuple[int, int], list[int]] = {}
    for worker in recording.workload.get("workers", []):
        if worker.get("cpu") is not None:
            known[worker.get("pid", worker["tid"]), worker["tid"]] = [worker["cpu"]]
            yield {
                "tid": worker["tid"],
                "valid_from_ns": None,
                "cpus": [worker["cpu"]],
                "source": "pin",
            }
    for reading, source in _readings(recording):
        thread, cpus = (reading["pid"], reading["tid"]), reading.get("cpus_allowed")
        before = known.get(thread)
        if cpus is None or before == cpus:
            continue
        known[thread] = cpus
        row = {"tid": reading["tid"], "source": source}
        if before is None:
            # A snapshot at the start applies from the beginning. `store` extends the first reading
            # of a new thread to its start, once it knows which life of the id it belongs to.
            first = None if source == "snapshot" else reading["mono_ns"]
            yield {**row, "valid_from_ns": first, "cpus": cpus}
            continue
        # The mask changed at some time between two readings. Until the later one, only the CPUs
        # that both allow are certain.
        both = [cpu for cpu in cpus if cpu in before]
        since = reading.get("since_mono_ns")
        if both and both != before and since is not None:
            yield {**row, "valid_from_ns": since, "cpus": both}
        if both != cpus or since is None:
            yield {**row, "valid_from_ns": reading["mono_ns"], "cpus": cpus}


def _readings(recording: Recording) -> Iterable[tuple[Json, str]]:
    """All readings of threads in time order, each with its source."""
    begin, end = (recording.edges.get(edge, {}) for edge in ("begin", "end"))
    for row in begin.get("threads", []):
        yield {"mono_ns": begin["mono_ns"], **row}, "snapshot"
    for row in recording.watch.get("threads", []):
        yield row, "reading"
    for row in end.get("threads", []):
        yield {"mono_ns": end["mono_ns"], **row}, "snapshot"


def _thread_cgroups(recording: Recording) -> Rows:
    """The cgroups in which threads were found, one row per change."""
    return [{**row, "source": "reading"} for row in _changes(recording, "cgroup")]


def _thread_policies(recording: Recording) -> Rows:
    """The policies with which threads were found, one row per change."""
    return _changes(recording, "policy")


def _changes(recording: Recording, key: str) -> Rows:
    """The readings of threads in which a value differs from the one before."""
    known: dict[tuple[int, int], str] = {}
    rows: Rows = []
    for reading, _ in _readings(recording):
        thread, value = (reading["pid"], reading["tid"]), reading.get(key)
        if value is not None and known.get(thread) != value:
            known[thread] = value
            rows.append({"ts": reading["mono_ns"], "tid": reading["tid"], key: value})
    return rows


def _cgroups_between(recording: Recording) -> Rows:
    """Rows of `snapshot_cgroup` for cgroups that began or ended within the step."""
    begin, end = (recording.edges.get(edge, {}) for edge in ("begin", "end"))
    # Older sessions list only cgroups with threads, so missing ones may have existed before.
    if "online" not in begin or not end:
        return []
    at_begin = {row["cgroup"] for row in begin["cgroups"]}
    at_end = {row["cgroup"] for row in end["cgroups"]}
    watched = recording.watch.get("cgroups", [])
    rows: Rows = []
    for row in watched:
        values = {key: value for key, value in row.items() if key not in ("mono_ns", "ended")}
        if row["cgroup"] not in at_end:
            edge = "last" if row["ended"] else "end"
            rows.append({**values, "ts": row["mono_ns"], "edge": edge})
    # The counters of a cgroup that was created within the step started at 0.
    created = {row["cgroup"]: row for row in [*watched, *end["cgroups"]]}
    for cgroup, row in created.items():
        if cgroup not in at_begin:
            counters = ("usage_ns", "throttled_ns", "nr_throttled")
            zero = {key: None if row[key] is None else 0 for key in counters}
            rows.append({**zero, "cgroup": cgroup, "ts": begin["mono_ns"], "edge": "begin"})
    return rows


def _snapshot(edge: str, snapshot: Json) -> Iterable[tuple[str, Rows]]:
    if not snapshot:
        return
    drop = {"cpus_allowed", "policy", "mono_ns"}
    for table, key in (
        ("snapshot_cpu", "cpus"),
        ("snapshot_thread", "threads"),
        ("snapshot_cgroup", "cgroups"),
        ("snapshot_pressure", "pressure"),
    ):
        # A thread's clock is read some ms before or after those of the CPUs.
        rows = [
            {k: v for k, v in row.items() if k not in drop}
            | {"edge": edge, "ts": row.get("mono_ns", snapshot["mono_ns"])}
            for row in snapshot.get(key, [])
        ]
        yield table, rows
