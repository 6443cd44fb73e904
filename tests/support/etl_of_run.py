"""Writes the .etl that Windows would have recorded of a workload's run, as the stand-in for WPR.

Called as a program: etl_of_run.py STEP FILE WITHOUT,... The threads run where and when the batches
of samples.bin say; `WITHOUT` names what such a recording then lacks, for negative controls.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

from recording_writer import write

SAMPLE = struct.Struct("<IHHIIqqQQ")
TICK_NS, SECOND_NS = 100, 1_000_000_000
KERNEL_POWER = "331c3b3a-2005-44c2-ac5e-77220c37d6b4"


def lines(step: Path, without: frozenset[str]) -> tuple[int, list[dict[str, Any]]]:
    """Start of the recording in ns of the clock, and its events."""
    workers = json.loads((step / "workload.json").read_text())["workers"]
    data = (step / "samples.bin").read_bytes()
    batches = sorted(
        (start // TICK_NS * TICK_NS, cpu, workers[worker]["tid"])
        for worker, cpu, _, _, _, start, *_ in SAMPLE.iter_unpack(data[8:])
    )
    begin = batches[0][0] - SECOND_NS // TICK_NS * TICK_NS
    cpus = sorted({0, 1} | {cpu for _, cpu, _ in batches})
    process = {"event": "process", "pid": workers[0]["pid"], "name": "schedlens-workloads.exe"}
    first: list[dict[str, Any]] = [
        {"ts": 0, "cpu": 0, "phase": "rundown_start", **process},
        *(
            {"ts": 0, "cpu": 0, "event": "thread", "phase": "rundown_start", "pid": one["pid"],
             "tid": one["tid"], "name": one["name"]}
            for one in workers
        ),
        {"ts": 0, "cpu": 0, "event": "counters", "names": ["InstructionRetired", "TotalCycles"]},
        # Image/DCStart: a record that is counted but not read.
        {"ts": 0, "cpu": 0, "event": "raw", "hook": 0x1403, "version": 3, "header": "system",
         "payload": "00" * 64},
        {"ts": 300, "cpu": 0, "event": "priority", "tid": workers[0]["tid"], "old": 8, "new": 9},
        {"ts": 400, "cpu": 0, "event": "idle", "state": 1}, {"ts": 500, "cpu": 0, "event": "idle"},
        {"ts": 700, "cpu": 0, "event": "interrupt", "start": 600, "kind": "isr"},
        {"ts": 900, "cpu": 0, "event": "interrupt", "start": 800, "kind": "dpc"},
        {"ts": 900, "cpu": 0, "event": "manifest", "provider": KERNEL_POWER, "id": 1,
         "payload": ""},
    ]  # fmt: skip
    first += [
        {"ts": 900, "cpu": cpu, "event": "power_rundown", "about": cpu, "parked": False}
        for cpu in cpus
    ]
    found, free, counted = [], dict.fromkeys(cpus, 0), dict.fromkeys(cpus, 0)

    def switch(at: int, cpu: int, old: int, new: int) -> dict[str, Any]:
        counted[cpu] += 0 if "counts" in without else 1000
        values = [] if "counters" in without else [counted[cpu], 2 * counted[cpu]]
        return {"ts": at, "cpu": cpu, "event": "switch", "old": old, "new": new, "counters": values}

    for start, cpu, tid in batches:
        at = max(start - begin - TICK_NS, free[cpu])
        if at > start - begin:
            continue
        found.append({"ts": at, "cpu": cpu, "event": "ready", "tid": tid})
        old = 4 if "chain" in without else 0
        found += [switch(at, cpu, old, tid), switch(at + 3 * TICK_NS, cpu, tid, 0)]
        free[cpu] = at + 3 * TICK_NS
    kinds = {
        "parking": ("power_rundown",), "interrupt": ("interrupt",), "counters": ("counters",),
        "kernel_power": ("manifest",), "image": ("raw",),
    }  # fmt: skip
    gone = {event for name in without for event in kinds.get(name, ())}
    rows = [row for row in [*first, *found] if row["event"] not in gone]
    return begin, sorted(rows, key=lambda row: row["ts"])


def main() -> None:
    """Writes the file."""
    step, out = Path(sys.argv[1]), Path(sys.argv[2])
    begin, rows = lines(step, frozenset(filter(None, sys.argv[3].split(","))))
    cpus = range(1 + max(row["cpu"] for row in rows))
    head = {
        "machine": {"cpus": [{"cpu": cpu, "core": cpu} for cpu in cpus]},
        "etl": {"clock": "qpc", "clock_hz": SECOND_NS // TICK_NS, "merged": True,
                "start_ticks": begin // TICK_NS},
    }  # fmt: skip
    write(head, rows, etl=out)


if __name__ == "__main__":
    main()
