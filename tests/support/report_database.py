"""A plausible database for the tests of the report, filled by code from a drawn timeline.

Each worker runs on its CPU for the whole step and is preempted every 20 ms by the CPU's own
kernel thread, for 100 us, while it remains ready:

    worker   ######## ######## ######## ...      # runs, the gap is ready
    kworker          #        #        ...
    idle CPU ________#________#________          _ idle

A worker of the placement `default` moves to another CPU in the middle of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
from prepared_database import prepare

from schedlens.ask import findings, judging

MS = 1_000_000
STEP_NS = 300 * MS
EDGE_NS = 10 * MS
PERIOD_NS = 20 * MS
KERNEL_NS = 100_000
BATCH_NS = 2 * MS
ALONE_BYTES_PER_MS = 157_286
SHARED_BYTES_PER_MS = 87_031
PLACEMENTS = ("default", "physical", "siblings")
HOSTILE = "<script>alert(1)</script>\"'`&<img src=x onerror=alert(2)>\u202e"


@dataclass(frozen=True)
class Machine:
    """Cores with two siblings each, numbered (n, n + cores)."""

    cores: int = 10
    packages: int = 1
    cores_per_llc: int = 10
    e_cores: int = 0

    @property
    def cpus(self) -> int:
        return 2 * (self.cores - self.e_cores) + self.e_cores

    def core(self, cpu: int) -> int:
        return cpu if cpu < self.cores else cpu - self.cores

    def planned(self, placement: str, threads: int) -> list[int]:
        """CPUs of the workers; `default` spreads them by a fixed shuffle."""
        every = list(range(self.cpus))
        if placement == "siblings":
            every.sort(key=lambda cpu: (self.core(cpu), cpu))
        elif placement == "default":
            every.sort(key=lambda cpu: (cpu * 7919 + 13) % 1009)
        return every[:threads]


@dataclass
class Tables:
    """Rows by table, all inserted at the end."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def add(self, table: str, *row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def insert(self, con: duckdb.DuckDBPyConnection) -> None:
        for table, rows in self.rows.items():
            names = [row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()]
            wide = [row + (None,) * (len(names) - len(row)) for row in rows]
            batch = pa.table(
                [pa.array(values) for values in zip(*wide, strict=True)],
                names=[f"c{i}" for i in range(len(names))],
            )
            con.register("batch", batch)
            con.execute(f"INSERT INTO {table} FROM batch")
            con.unregister("batch")


@dataclass(frozen=True)
class Step:
    """One step of the sweep."""

    trace_id: int
    placement: str
    threads: int
    workload: str = "sha256"

    @property
    def name(self) -> str:
        return f"{self.workload}-{self.placement}-t{self.threads:02d}-r1"


def sweep(threads: Sequence[int], placements: Sequence[str]) -> list[Step]:
    """These placements at these numbers of threads."""
    pairs = [(placement, count) for placement in placements for count in threads]
    return [Step(i, placement, count) for i, (placement, count) in enumerate(pairs, start=1)]


def create(
    *,
    machine: Machine | None = None,
    threads: Sequence[int] = (1, 10, 14, 20),
    name: str = "sha256",
    placements: Sequence[str] = PLACEMENTS,
) -> duckdb.DuckDBPyConnection:
    """A database of a whole sweep, with its intervals built and the analyzers' findings stored."""
    from schedlens.load import intervals

    machine = machine or Machine()
    con = duckdb.connect()
    prepare(con)
    tables = Tables()
    steps = sweep(threads, placements)
    for step in steps:
        _step(tables, machine, step, name)
    tables.insert(con)
    intervals.build(con, [step.trace_id for step in steps])
    judging.store(con, judging.judge_all(findings.Scope(con)))
    return con


def _step(tables: Tables, machine: Machine, step: Step, name: str) -> None:
    one = step.trace_id
    base = one << 32
    planned = machine.planned(step.placement, step.threads)
    tables.add(
        "trace", one, step.name, "perf", f"{step.name}/perf.data", "testbench", "Linux 6.1.0",
        "Drawn CPU 10C/20T", "monotonic", 1_000_000_000, 1_000_000_000, None, 0, STEP_NS, 0, 0,
        1, "test",
    )  # fmt: skip
    for key, value in (("hz", "250"), ("governor", "performance"), ("smt_control", "on")):
        tables.add("machine_setting", one, key, value)
    _machine(tables, machine, one)
    tables.add("process", one, base + 1, 100, "schedlens-workloads", None, None)
    tables.add("process", one, base + 2, 2, "kthreadd", None, None)
    for cpu in range(machine.cpus):
        tables.add(
            "thread", one, base + 1000 + cpu, 0, None, f"swapper/{cpu}", None, None, None, True
        )
        utid = base + 2000 + cpu
        tables.add(
            "thread", one, utid, 20 + cpu, base + 2, f"kworker/{cpu}:1", None, None, 120, False
        )
        tables.add("affinity", one, utid, None, [cpu], "kernel_thread")
    shared = step.placement
    tables.add(
        "run", one, step.name, step.workload, "simd", None, shared, [shared], step.threads, 1,
        False, True, 0, STEP_NS, planned if shared != "default" else None, "ok",
        1000.0 * step.threads, 990.0 * step.threads, "bytes",
    )  # fmt: skip
    tables.add("analysis_window", one, EDGE_NS, STEP_NS - EDGE_NS, "workers")
    homes = _homes(machine, step, planned)
    running: dict[int, list[tuple[int, int, int]]] = {cpu: [] for cpu in range(machine.cpus)}
    for worker, slices in enumerate(homes):
        utid = base + 3000 + worker
        tables.add(
            "thread", one, utid, 101 + worker, base + 1, f"{name} {worker}", 0, None, 120, False
        )
        allowed = [planned[worker]] if shared != "default" else list(range(machine.cpus))
        tables.add(
            "affinity", one, utid, None, allowed, "pin" if shared != "default" else "snapshot"
        )
        for cpu, begin, end in slices:
            running[cpu].append((begin, end, utid))
    for cpu in range(machine.cpus):
        _cpu(tables, one, base, cpu, sorted(running[cpu]))
    for worker, slices in enumerate(homes):
        _worker(tables, machine, step, worker, slices, homes)
    for cpu in range(machine.cpus):
        busy = sum(end - begin for begin, end, _ in running[cpu])
        for edge, at in (("begin", 0), ("end", STEP_NS)):
            grown = busy if edge == "end" else 0
            idle = (STEP_NS - busy) if edge == "end" else 0
            tables.add("snapshot_cpu", one, at, edge, cpu, grown, 0, idle, 0, 0, 0)


def _machine(tables: Tables, machine: Machine, one: int) -> None:
    per_package = machine.cores // machine.packages
    for cpu in range(machine.cpus):
        core = machine.core(cpu)
        efficient = core >= machine.cores - machine.e_cores
        kind = "U" if not machine.e_cores else "E" if efficient else "P"
        llc = core // machine.cores_per_llc * machine.cores_per_llc
        tables.add(
            "cpu", one, cpu, None, None, core, int(cpu >= machine.cores), kind,
            0 if efficient else 1 if machine.e_cores else 0, 600 if efficient else 1024, core, llc,
            core // per_package, core // per_package, 3_100_000, 4_600_000, True, None,
        )  # fmt: skip


def _homes(machine: Machine, step: Step, planned: list[int]) -> list[list[tuple[int, int, int]]]:
    """Where each worker runs and when: one CPU, or two for `default`."""
    if step.placement != "default" or step.threads == machine.cpus:
        return [[(cpu, 0, STEP_NS)] for cpu in planned]
    turned = planned[1:] + planned[:1]
    half = STEP_NS // 2
    return [
        [(here, 0, half), (there, half, STEP_NS)]
        for here, there in zip(planned, turned, strict=True)
    ]


def _cpu(
    tables: Tables, one: int, base: int, cpu: int, running: list[tuple[int, int, int]]
) -> None:
    """Slices and states of one CPU: its kernel thread every 20 ms, a worker or idle between."""
    kernel, idle = base + 2000 + cpu, base + 1000 + cpu
    offset = (cpu * 733) % 16 * MS + MS
    cuts = [*range(offset, STEP_NS, PERIOD_NS)]
    pieces: list[tuple[int, int, int]] = []
    at = 0
    for begin in [*cuts, STEP_NS]:
        for start, end, utid in _between(running, idle, at, begin):
            pieces.append((start, end, utid))
        if begin < STEP_NS:
            pieces.append((begin, begin + KERNEL_NS, kernel))
        at = begin + KERNEL_NS
    waiting_from = 0
    last_end: dict[int, int] = {}
    for seq, (start, end, utid) in enumerate(pieces):
        is_idle, is_kernel = utid == idle, utid == kernel
        follows = pieces[seq + 1][2] if seq + 1 < len(pieces) else None
        reason = None if is_idle else "blocked" if is_kernel else "preempted"
        if follows is None and not is_idle:
            reason = "trace_end"
        ready = 0 if is_kernel else None
        if not is_idle and not is_kernel and utid in last_end:
            ready = start - last_end[utid]
        wait = start - waiting_from if is_kernel else 0 if ready is not None else None
        tables.add(
            "sched_slice", one, utid, cpu, start, end - start, is_idle, None if is_idle else 120,
            reason, ready, wait, idle if is_kernel else None, cpu if ready is not None else None,
            start == 0, end == STEP_NS,
        )  # fmt: skip
        if is_idle:
            tables.add("cpu_state_other", one, cpu, start, end - start, "idle")
        if is_kernel:
            tables.add("thread_state_other", one, utid, waiting_from, start - waiting_from,
                       "waiting", "S", None, waiting_from == 0, False)  # fmt: skip
            tables.add(
                "wakeup", one, start, cpu, 2 * seq, utid, idle, cpu, cpu, "waking", True, None, True
            )
            waiting_from = end
        if not is_idle:
            last_end[utid] = end
        if follows is not None:
            state = 1 if is_kernel else 0
            tables.add("context_switch", one, end, cpu, 2 * seq + 1, utid, follows, state, None,
                       None, 120, 120, None, None, None, None, None, None, "switch")  # fmt: skip
    if waiting_from < STEP_NS:
        tables.add("thread_state_other", one, kernel, waiting_from, STEP_NS - waiting_from,
                   "waiting", "S", None, False, True)  # fmt: skip


def _between(
    running: list[tuple[int, int, int]], idle: int, start: int, end: int
) -> list[tuple[int, int, int]]:
    """The slices in [start, end): those of workers, with the idle thread in the gaps."""
    found = []
    at = start
    for begin, stop, utid in running:
        first, last = max(begin, start), min(stop, end)
        if last <= first:
            continue
        if at < first:
            found.append((at, first, idle))
        found.append((first, last, utid))
        at = last
    if at < end:
        found.append((at, end, idle))
    return found


def _worker(
    tables: Tables,
    machine: Machine,
    step: Step,
    worker: int,
    slices: list[tuple[int, int, int]],
    homes: list[list[tuple[int, int, int]]],
) -> None:
    """Measurements of the worker: batches at the speed of a core alone or shared."""
    one = step.trace_id
    utid = (one << 32) + 3000 + worker
    done = 0
    for begin in range(EDGE_NS, STEP_NS - EDGE_NS, BATCH_NS):
        cpu = next(c for c, b, e in slices if b <= begin < e)
        others = {
            machine.core(c)
            for other, found in enumerate(homes)
            for c, b, e in found
            if other != worker and b <= begin < e
        }
        speed = SHARED_BYTES_PER_MS if machine.core(cpu) in others else ALONE_BYTES_PER_MS
        size = speed * BATCH_NS // MS
        done += size
        tables.add("run_sample", one, worker, begin, begin + BATCH_NS, cpu, cpu, size // 64, size)
    preempted = 14 * KERNEL_NS
    tables.add(
        "run_worker", one, worker, utid, 101 + worker,
        slices[0][0] if step.placement != "default" else None, EDGE_NS, STEP_NS - EDGE_NS,
        STEP_NS - 2 * EDGE_NS - preempted, done // 64, done,
    )  # fmt: skip
