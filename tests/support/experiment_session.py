"""Session folders of experiments on machines that are not here, with given results.

Steps are not recorded (no perf.data): the work of their workers is in workload.json and
samples.bin, as the workload program writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
from prepared_database import prepare

from schedlens.ask import analysis, catalog, findings, judging
from schedlens.load import intervals, recording, step_file
from schedlens.load.session_file import SavedCapture, SavedExperiment, SessionFile, Step
from schedlens.machine.condition import Condition
from schedlens.machine.topology import Topology
from schedlens.record import batches
from schedlens.report import table as page_table
from schedlens.report.sections import Section, View, chapters

MS = 1_000_000
BATCHES = 20


def write(
    folder: Path,
    topology: Topology,
    steps: Sequence[Step],
    rates: Mapping[str, Sequence[float]],
    *,
    workers: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    machine: Mapping[str, Mapping[str, Any]] | None = None,
    experiment: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """A session whose steps ran 100 ms each; `rates` are iterations per second of each worker.

    `rates`, `workers` (more values in a worker's object), and `machine` (that of step.json) are
    by the name of a cell, or of a step if the repeats differ.
    """
    folder.mkdir(parents=True)
    made = SavedExperiment(**{"missing": (), **(experiment or {})})
    session = SessionFile(
        tool_version="0", created_utc="2026-01-01T00:00:00Z", host="made", command=("collect",),
        topology=topology.saved, os="made", kernel="made",
        settings={"cpu_model": "made", **(settings or {})}, capture=SavedCapture(mode="none"),
        changed=(), experiment=made, steps=tuple(replace(step, state="done") for step in steps),
    )  # fmt: skip
    _json(folder / "session.json", session.to_json())
    for number, step in enumerate(steps):
        begin = (number + 1) * 1000 * MS
        place = folder / step.name
        place.mkdir()
        _step(place, step, topology, begin, _of(machine or {}, step) or {})
        if step.workload is not None:
            _workload(place, step, begin, _of(rates, step) or (), _of(workers or {}, step) or ())
    return folder


JUDGES = (
    "pair_interference", "scaling_clock", "handoff_time", "shard_latency", "smt_boost",
)  # fmt: skip


def analyzed(folder: Path) -> duckdb.DuckDBPyConnection:
    """The session in a database in memory, judged by the experiments' analyzers.

    Without the interval tables: steps that were not recorded have none.
    """
    con = duckdb.connect()
    prepare(con)
    with mock.patch.object(intervals, "build"), mock.patch.object(catalog, "install"):
        failures = analysis.load(
            con, recording.gather([folder]), (None, None), lambda label, share: None
        )
    assert failures == []
    judging.store(con, judging.judge_all(findings.Scope(con), JUDGES))
    return con


def section(con: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    """The report section of that name, as the page gets it; fails if there is none."""
    [chapter] = [chapter for chapter in chapters() if chapter.name == name]
    made = chapter.section(View(con, None, 1, ""))
    assert isinstance(made, Section), made.reason
    answers = [page_table.table(answer) for answer in made.answers]
    shown = {"lead": made.lead, "answers": answers, "figures": [vars(f) for f in made.figures]}
    # The page takes no NaN and no value that JSON does not have.
    json.dumps(shown, allow_nan=False)
    return shown


def _of(values: Mapping[str, Any], step: Step) -> Any:
    cell = step.cell.name if step.cell is not None else ""
    return values.get(step.name, values.get(cell))


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _step(
    place: Path, step: Step, topology: Topology, begin: int, machine: Mapping[str, Any]
) -> None:
    content = step_file.planned(
        step, recorded=False, begin_mono_ns=begin, end_mono_ns=begin + 110 * MS
    )
    content = replace(content, seconds=0.1, machine=Condition(**machine))
    _json(place / "step.json", content.to_json())
    for edge, ts in (("begin", begin), ("end", begin + 110 * MS)):
        cpus = [
            {"cpu": cpu.cpu, "user_ns": 0, "system_ns": 0, "idle_ns": ts, "irq_ns": 0,
             "softirq_ns": 0, "steal_ns": 0}
            for cpu in topology.usable
        ]  # fmt: skip
        _json(place / f"{edge}.json", {"mono_ns": ts, "cpus": cpus, "threads": [], "cgroups": []})


def _workload(
    place: Path,
    step: Step,
    begin: int,
    rates: Sequence[float],
    more: Sequence[Mapping[str, Any]],
) -> None:
    cell = step.cell
    assert cell is not None
    rows, packed = [], [batches.MAGIC]
    for worker, rate in enumerate(rates):
        load = cell.loads[min(worker, len(cell.loads) - 1)]
        cpu = step.planned_cpus[worker] if step.planned_cpus else None
        start, length = begin + 5 * MS, 100 * MS // BATCHES
        done = round(rate * length / 1e9)
        for batch in range(BATCHES):
            ts = start + batch * length
            packed.append(
                batches.RECORD.pack(worker, cpu or 0, cpu or 0, 0, 0, ts, ts + length, done, 0)
            )
        rows.append(
            {
                "worker": worker, "pid": 100, "tid": 101 + worker, "name": f"w-{worker:02}",
                "cpu": cpu, "start_mono_ns": start, "end_mono_ns": start + 100 * MS,
                "cpu_time_ns": 100 * MS, "iterations": done * BATCHES, "bytes": 0,
                "batches": BATCHES, "kernel": load.kernel, "variant": load.variant or "default",
                "ns_per_iteration": 1e9 / rate, "core_cycles_per_iteration": 3e9 / rate,
                "core_ghz_before": 3.0, "core_ghz_after": 3.0, "counts": {}, "latency": None,
                **(more[worker] if worker < len(more) else {}),
            }
        )  # fmt: skip
    (place / "samples.bin").write_bytes(b"".join(packed))
    _json(
        place / "workload.json",
        {
            "schema": 1, "kernel": cell.workload, "variant": "default", "status": "ok",
            "interrupted": False, "options": {}, "proofs": [], "warnings": [], "clock": None,
            "workers": rows, "measured": {}, "memory": None,
        },
    )  # fmt: skip
