"""Simulated recordings as folders of tables, to compare: one each, changed, or with a gap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from schedlens import _decoders
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

CASES = {case.name: case for case in cases.CASES}


def write(
    folder: Path,
    *,
    case: str = "critical_path",
    seed: int = 1,
    fixed: bool = False,
    seconds: float = 1.0,
    settings: dict[str, str] | None = None,
    gap: tuple[Sequence[int], int, int] | None = None,
    process: str | None = None,
) -> Path:
    """Writes a recording to `folder` and returns it.

    `settings` are machine settings. `gap` is (CPUs, from, to): all records of these CPUs in between
    are lost. `process` renames game.exe.
    """
    simulation = CASES[case].play(seed=seed, fixed=fixed, seconds=seconds)
    tables = simulated.base_tables(simulation, label=folder.name)
    schemas = _decoders.schemas()
    if settings:
        tables["machine_setting"] = pa.RecordBatch.from_pylist(
            [{"trace_id": 1, "key": key, "value": value} for key, value in settings.items()],
            schema=schemas["machine_setting"],
        )
    if gap:
        cpus, start, end = gap
        tables = {name: _without(rows, cpus, start, end) for name, rows in tables.items()}
        tables["loss"] = pa.RecordBatch.from_pylist(
            [
                {
                    "trace_id": 1, "cpu": cpu, "start_ns": start, "end_ns": end, "events": None,
                    "signalled_by": "buffer_lost",
                }
                for cpu in cpus
            ],
            schema=schemas["loss"],
        )  # fmt: skip
    if process:
        names = ["game.exe", process]
        for table, column in (("process", "name"), ("frame", "process")):
            rows = tables[table].to_pylist()
            for row in rows:
                if row[column] == names[0]:
                    row[column] = names[1]
            tables[table] = pa.RecordBatch.from_pylist(rows, schema=schemas[table])
    simulated.write_tables(tables, folder)
    return folder


def _without(rows: pa.RecordBatch, cpus: Sequence[int], start: int, end: int) -> pa.RecordBatch:
    names = rows.schema.names
    if "ts" not in names or "cpu" not in names:
        return rows
    ts, cpu = rows.column("ts"), rows.column("cpu")
    lost = pc.and_(
        pc.and_(pc.greater(ts, start), pc.less(ts, end)), pc.is_in(cpu, pa.array(cpus, cpu.type))
    )
    return rows.filter(pc.invert(pc.fill_null(lost, False)))
