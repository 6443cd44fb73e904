"""A simulated recording as base tables, as the .etl reader would produce them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from schedlens import __version__, _decoders
from schedlens.load.arrow_folder import layout
from schedlens.output import whole_file
from schedlens.simulate import emitted
from schedlens.simulate.scheduler import Simulation

Row = dict[str, Any]

START_CLOCK = 10_000_000_000
CLOCK_HZ = 10_000_000


def base_tables(
    simulation: Simulation, *, trace_id: int = 1, label: str = "simulated"
) -> dict[str, pa.RecordBatch]:
    """All base tables of a finished simulation by name; times in ns since its start."""
    schemas = _decoders.schemas()
    rows = _Rows(simulation, trace_id, label).rows
    return {
        table: pa.RecordBatch.from_pylist(
            [{"trace_id": trace_id, **row} for row in found], schema=schemas[table]
        )
        for table, found in rows.items()
    }


def write_folder(simulation: Simulation, folder: Path, *, label: str = "simulated") -> None:
    """Writes a simulation as a folder of tables that `analyze` reads."""
    write_tables(base_tables(simulation, label=label), folder)


def write_tables(tables: dict[str, pa.RecordBatch], folder: Path) -> None:
    """Writes base tables as such a folder; the manifest last."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = tables["trace"].to_pylist()[0]
    tables = {table: rows for table, rows in tables.items() if table != "trace"}
    for table, rows in tables.items():
        file = str(folder / f"{table}{layout.SUFFIX}")
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
    manifest = {
        "format": layout.FORMAT,
        "format_version": layout.VERSION,
        "source": "etw",
        "written_by": f"schedlens {__version__}, simulated",
        "trace": {name: facts[name] for name in layout.FACTS if facts.get(name) is not None},
        "tables": {table: rows.num_rows for table, rows in tables.items()},
    }
    whole_file.write_json(folder / layout.MANIFEST, manifest)


class _Rows:
    """Rows by table, without their trace_id."""

    def __init__(self, simulation: Simulation, trace_id: int, label: str) -> None:
        self.simulation = simulation
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._first = trace_id << 32
        width = len(simulation.machine.cpus)
        # Idle threads come first, one per CPU.
        self._utids = {
            thread.tid: self._first + width + number
            for number, thread in enumerate(simulation.threads)
        }
        self._upids = {
            process.pid: self._first + 1 + number
            for number, process in enumerate(simulation.processes)
        }
        self._seq = [0] * width
        # Every CPU is idle at the start.
        self._idle_since: list[int | None] = [0] * width
        self._trace(label)
        self._machine()
        self._threads()
        self._records()
        self._frames()
        self._requests()

    def _utid(self, tid: int, cpu: int) -> int:
        return self._first + cpu if tid == emitted.IDLE else self._utids[tid]

    def _trace(self, label: str) -> None:
        self.rows["trace"].append(
            {
                "label": label,
                "source": "etw",
                "os": "simulated by Windows' rules",
                "cpu_model": f"simulated {self.simulation.machine.name}",
                "clock_name": "qpc",
                "start_clock": START_CLOCK,
                "clock_hz": CLOCK_HZ,
                "first_ns": 0,
                "duration_ns": self.simulation.now,
                "events_lost": 0,
                "buffers_lost": 0,
                "schema_version": _decoders.SCHEMA_VERSION,
                "tool_version": __version__,
            }
        )

    def _machine(self) -> None:
        for cpu in self.simulation.machine.cpus:
            self.rows["cpu"].append(
                {
                    "cpu": cpu.cpu,
                    "group_no": 0,
                    "number_in_group": cpu.cpu,
                    "core": cpu.core,
                    "smt_index": cpu.smt_index,
                    "core_type": cpu.core_type,
                    "efficiency_class": cpu.efficiency_class,
                    "l2": cpu.l2,
                    "llc": 0,
                    "package": 0,
                    "numa_node": 0,
                    "max_khz": cpu.khz,
                    "online": True,
                }
            )
            self.rows["cpu_frequency"].append({"ts": 0, "cpu": cpu.cpu, "khz": cpu.khz})
            self.rows["cpu_parking"].append(
                {"ts": None, "cpu": cpu.cpu, "parked": False, "soft_parked": False}
            )

    def _threads(self) -> None:
        for cpu in self.simulation.machine.cpus:
            self.rows["thread"].append(
                {
                    "utid": self._first + cpu.cpu,
                    "tid": emitted.IDLE,
                    "upid": self._first,
                    "name": "Idle",
                    "is_idle": True,
                }
            )
        self.rows["process"].append({"upid": self._first, "pid": 0, "name": "Idle"})
        for process in self.simulation.processes:
            self.rows["process"].append(
                {"upid": self._upids[process.pid], "pid": process.pid, "name": process.name}
            )
        for thread in self.simulation.threads:
            utid = self._utids[thread.tid]
            existed = thread.start_ns == 0
            self.rows["thread"].append(
                {
                    "utid": utid,
                    "tid": thread.tid,
                    "upid": self._upids[thread.process.pid],
                    "name": thread.name,
                    "start_ns": None if existed else thread.start_ns,
                    "end_ns": thread.end_ns,
                    "base_priority": thread.base_priority,
                    "is_idle": False,
                }
            )
            self.rows["thread_name"].append({"utid": utid, "ts": None, "name": thread.name})
            self.rows["affinity"].append(
                {"utid": utid, "cpus": sorted(thread.affinity), "source": "rundown"}
            )
            self.rows["ideal_cpu_change"].append(
                {"ts": thread.start_ns, "cpu": 0, "utid": utid, "ideal_cpu": thread.ideal}
            )

    def _records(self) -> None:
        write: dict[type, Callable[[Any], None]] = {
            emitted.Switch: self._switch,
            emitted.Ready: self._ready,
            emitted.Park: self._park,
            emitted.Interrupt: self._interrupt,
            emitted.PriorityChange: self._priority,
        }
        for record in self.simulation.records:
            self._seq[record.cpu] += 1
            if type(record) in write:
                write[type(record)](record)
        for cpu in range(len(self._seq)):
            self._idles(cpu, self.simulation.now)
        for table in ("context_switch", "wakeup", "interrupt_slice"):
            self.rows[table].sort(key=lambda row: (row["ts"], row["cpu"], row["seq"]))

    def _idles(self, cpu: int, until: int) -> None:
        """Ends the idle period of a CPU, if there is one."""
        since = self._idle_since[cpu]
        if since is not None and until > since:
            self.rows["cpu_idle"].append(
                {"ts": since, "cpu": cpu, "dur": until - since, "state": 1}
            )
        self._idle_since[cpu] = None

    def _switch(self, record: emitted.Switch) -> None:
        cpu = record.cpu
        if record.prev == emitted.IDLE:
            self._idles(cpu, record.ts)
        if record.entered == emitted.IDLE:
            self._idle_since[cpu] = record.ts
        prev = self._utid(record.prev, cpu)
        self.rows["context_switch"].append(
            {
                "ts": record.ts,
                "cpu": cpu,
                "seq": self._seq[cpu],
                "prev_utid": prev,
                "next_utid": self._utid(record.planned, cpu),
                "prev_state": record.prev_state,
                "prev_wait_reason": record.wait_reason,
                "prev_wait_mode": 0,
                "prev_priority": record.prev_priority,
                "next_priority": record.next_priority,
                "prev_ideal_cpu": record.prev_ideal,
                "source": "switch",
            }
        )
        kind = self.simulation.machine.cpus[cpu].core_type
        for name, value in (("cycles", record.cycles), ("instructions", record.instructions)):
            self.rows["counter_sample"].append(
                {
                    "ts": record.ts,
                    "cpu": cpu,
                    "utid": prev,
                    "counter": name,
                    "core_type": kind,
                    "value": value,
                }
            )

    def _ready(self, record: emitted.Ready) -> None:
        self.rows["wakeup"].append(
            {
                "ts": record.ts,
                "cpu": record.cpu,
                "seq": self._seq[record.cpu],
                "utid": self._utid(record.tid, record.cpu),
                "waker_utid": self._utid(record.waker, record.cpu),
                "kind": "ready",
                "in_interrupt": record.in_interrupt,
            }
        )

    def _park(self, record: emitted.Park) -> None:
        soft = record.soft
        self.rows["cpu_parking"].append(
            {
                "ts": record.ts,
                "cpu": record.cpu,
                "parked": record.parked and not soft,
                "soft_parked": record.parked and soft,
                "reason": record.reason,
            }
        )

    def _interrupt(self, record: emitted.Interrupt) -> None:
        self.rows["interrupt_slice"].append(
            {
                "ts": record.ts,
                "cpu": record.cpu,
                "seq": self._seq[record.cpu],
                "dur": record.dur,
                "kind": record.kind,
            }
        )

    def _priority(self, record: emitted.PriorityChange) -> None:
        self.rows["priority_change"].append(
            {
                "ts": record.ts,
                "cpu": record.cpu,
                "utid": self._utid(record.tid, record.cpu),
                "old_priority": record.old,
                "new_priority": record.new,
                "kind": record.kind,
            }
        )

    def _frames(self) -> None:
        owners = {thread.tid: thread.process for thread in self.simulation.threads}
        for frame in self.simulation.truth.frames:
            process = owners[frame.tid]
            self.rows["frame"].append(
                {
                    "frame": frame.frame,
                    "upid": self._upids[process.pid],
                    "utid": self._utids[frame.tid],
                    "process": process.name,
                    "start_ns": frame.start,
                    "dur_ns": frame.end - frame.start,
                    "cpu_busy_ns": frame.present - frame.start,
                    "gpu_busy_ns": frame.gpu_end - frame.gpu_start,
                    "displayed_ns": frame.displayed,
                    "dropped": False,
                    "dialect": "dxgi",
                    "clock_residual_ns": 0,
                }
            )

    def _requests(self) -> None:
        for begin, end in sorted(self.simulation.truth.requests):
            self.rows["mark"].append(
                {"ts": begin, "dur": end - begin, "name": "request", "kind": "user"}
            )
