"""Random schedules, each complete and as a recording with gaps shows it.

A schedule has for each cell of time the state of every CPU and every thread. `fill` writes its
base and derived rows, either all of them (the truth) or with gaps, in which records of some CPUs
are lost. A thread's state is then known only while it is seen running, or if no CPU has had a gap
since the last record of the thread.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import duckdb
import pyarrow as pa
from prepared_database import FOR_FEW_ROWS, prepare

from schedlens.load import intervals

CELL = 40_000
CELLS = 250
TYPES = ("P", "P", "P", "E", "E")
# Two siblings on each P core, one CPU on each E core.
CORES = (0, 0, 2, 2, 4, 4, 6, 7)
CPUS = range(len(CORES))
THREADS = range(1, 12)
TRACE_UTID = 32
# Marks a CPU whose records are lost.
LOST = -1

T = TypeVar("T")
# Rows by table and names of their columns.
Tables = dict[tuple[str, str], list[Sequence[object]]]


def core_type(cpu: int) -> str:
    """P, or E for the CPUs that have no sibling."""
    return "E" if CORES.count(CORES[cpu]) == 1 else "P"


@dataclass
class Schedule:
    """What happened: by cell, the thread on each CPU (None: idle) and the state of each thread.

    `seen` has the cells at which a record of the thread was written, with the CPU that wrote it.
    """

    on_cpu: dict[int, list[int | None]]
    state: dict[int, list[str]]
    seen: dict[int, list[tuple[int, int]]]
    allowed: dict[int, list[int]]
    wakers: dict[tuple[int, int], int]
    leaves: dict[tuple[int, int], str]
    priority: dict[int, int] = field(default_factory=dict)


def play(seed: int) -> Schedule:
    """A schedule of threads that wake, run, are preempted and block at random."""
    rng = random.Random(seed)
    allowed = {
        t: sorted(rng.sample(list(CPUS), rng.choice((1, 2, 4, 8)))) if t % 3 == 0 else list(CPUS)
        for t in THREADS
    }
    plan = Schedule(
        {cpu: [] for cpu in CPUS}, {t: [] for t in THREADS}, {t: [] for t in THREADS}, allowed,
        {}, {}, {t: rng.choice((100, 120, 120)) for t in THREADS},
    )  # fmt: skip
    state = dict.fromkeys(THREADS, "waiting")
    running: dict[int, int | None] = dict.fromkeys(CPUS)
    lazy = rng.choice((0.5, 0.9))
    for cell in range(CELLS):
        for cpu in CPUS:
            thread = running[cpu]
            if thread is None or rng.random() > 0.12:
                continue
            leaves = rng.choice(("blocked", "blocked", "preempted", "quantum_end"))
            state[thread] = "waiting" if leaves == "blocked" else "ready"
            plan.seen[thread].append((cell, cpu))
            plan.leaves[thread, cell] = leaves
            running[cpu] = None
        for thread in THREADS:
            left_now = (thread, cell) in plan.leaves
            if state[thread] == "waiting" and not left_now and rng.random() < 0.06:
                waker = rng.choice(list(CPUS))
                state[thread] = "ready"
                plan.seen[thread].append((cell, waker))
                plan.wakers[thread, cell] = waker
        for cpu in rng.sample(list(CPUS), len(CPUS)):
            queue = [
                t for t in THREADS
                if state[t] == "ready" and cpu in allowed[t] and (t, cell) not in plan.leaves
            ]  # fmt: skip
            if running[cpu] is None and queue and rng.random() < lazy:
                thread = rng.choice(queue)
                running[cpu], state[thread] = thread, "running"
                plan.seen[thread].append((cell, cpu))
        for cpu in CPUS:
            plan.on_cpu[cpu].append(running[cpu])
        for thread in THREADS:
            plan.state[thread].append(state[thread])
    return plan


def gaps(seed: int) -> dict[int, set[int]]:
    """Cells of each CPU whose records are lost: a few gaps, short and long."""
    rng = random.Random(seed)
    lost: dict[int, set[int]] = {cpu: set() for cpu in CPUS}
    for _ in range(rng.randint(1, 5)):
        begin, length = rng.randrange(CELLS), rng.choice((1, 2, 5, 20, 60))
        lost[rng.choice(list(CPUS))].update(range(begin, min(CELLS, begin + length)))
    return lost


def runs(cells: Sequence[T]) -> Iterator[tuple[int, int, T]]:
    """Begin, end and value of each run of equal cells."""
    at = 0
    for cell in range(1, len(cells) + 1):
        if cell == len(cells) or cells[cell] != cells[at]:
            yield at, cell, cells[at]
            at = cell


def known_states(plan: Schedule, lost: dict[int, set[int]], thread: int) -> list[str]:
    """The states of a thread that the records still show; unknown elsewhere."""
    open_gap = set().union(*lost.values())
    # A switch-out right after a gap has no slice before it: it counts as lost.
    records = {
        cell
        for cell, cpu in plan.seen[thread]
        if cell not in lost[cpu] and not ((thread, cell) in plan.leaves and cell - 1 in lost[cpu])
    }
    found, proven = [], True
    for cell in range(CELLS):
        on = next((cpu for cpu in CPUS if plan.on_cpu[cpu][cell] == thread), None)
        seen_running = on is not None and cell not in lost[on]
        proven = (proven or cell in records or seen_running) and cell not in open_gap
        found.append(plan.state[thread][cell] if proven or seen_running else "unknown")
    return found


def fill(tables: Tables, plan: Schedule, lost: dict[int, set[int]], trace_id: int) -> None:
    """Writes the rows of one recording; `build` computes its intervals."""
    base = trace_id << TRACE_UTID
    end = CELLS * CELL
    _insert(tables, "trace", "trace_id, label, source, first_ns, duration_ns, schema_version, "
            "tool_version", [(trace_id, f"t{trace_id}", "perf", 0, end, 1, "test")])  # fmt: skip
    _insert(tables, "analysis_window", "trace_id, start_ns, end_ns, kind",
            [(trace_id, 20 * CELL, (CELLS - 20) * CELL, "step")])  # fmt: skip
    _insert(tables, "cpu", "trace_id, cpu, core, smt_index, core_type, llc, package, online",
            [(trace_id, cpu, CORES[cpu], cpu - CORES[cpu] if CORES[cpu] < 6 else 0,
              core_type(cpu), 0, 0, True) for cpu in CPUS])  # fmt: skip
    _insert(tables, "machine_setting", "trace_id, key, value", [(trace_id, "hz", "250")])
    _insert(tables, "loss", "trace_id, cpu, start_ns, end_ns, events, signalled_by",
            [(trace_id, cpu, begin * CELL, stop * CELL, 9, "lost_record")
             for cpu in CPUS
             for begin, stop, gone in runs([cell in lost[cpu] for cell in range(CELLS)])
             if gone])  # fmt: skip
    _insert(tables, "process", "trace_id, upid, pid, name",
            [(trace_id, base + 900, 7, "even"), (trace_id, base + 901, 8, "odd")])  # fmt: skip
    _insert(tables, "thread", "trace_id, utid, tid, upid, name, is_idle", [
        *((trace_id, base + t, t, base + 900 + t % 2, f"worker {t}", False) for t in THREADS),
        *((trace_id, base + 500 + cpu, 0, None, f"swapper/{cpu}", True) for cpu in CPUS),
    ])  # fmt: skip
    _insert(tables, "affinity", "trace_id, utid, valid_from_ns, cpus, source",
            [(trace_id, base + t, None, plan.allowed[t], "snapshot") for t in THREADS])  # fmt: skip
    entered = _slices(tables, plan, lost, trace_id)
    _states(tables, plan, lost, trace_id, entered)
    _insert(tables, "wakeup", "trace_id, ts, cpu, seq, utid, waker_utid, kind, effective",
            [(trace_id, cell * CELL, cpu, 0, base + thread, base + 500 + cpu, "waking", True)
             for (thread, cell), cpu in plan.wakers.items()
             if cell not in lost[cpu]])  # fmt: skip


def _shown(plan: Schedule, lost: dict[int, set[int]], cpu: int) -> list[int | None]:
    """What the records show of a CPU: a thread, None for idle, LOST in gaps."""
    return [LOST if cell in lost[cpu] else plan.on_cpu[cpu][cell] for cell in range(CELLS)]


def _states(
    tables: Tables,
    plan: Schedule,
    lost: dict[int, set[int]],
    trace_id: int,
    entered: set[tuple[int, int]],
) -> None:
    """What the slices do not show. `entered`: threads and begins of those with their ready time."""
    base = trace_id << TRACE_UTID
    of_cpus = [
        (trace_id, cpu, begin * CELL, (stop - begin) * CELL, "idle" if what is None else "unknown")
        for cpu in CPUS
        for begin, stop, what in runs(_shown(plan, lost, cpu))
        if what is None or what == LOST
    ]
    of_threads: list[tuple[object, ...]] = []
    for thread in THREADS:
        known = known_states(plan, lost, thread)
        of_threads += [
            (trace_id, base + thread, begin * CELL, (stop - begin) * CELL, state,
             known[begin - 1 : begin] == ["unknown"], known[stop : stop + 1] in (["unknown"], []))
            for begin, stop, state in runs(known)
            if state != "running" and not (state == "ready" and (thread, stop) in entered)
        ]  # fmt: skip
    _insert(tables, "cpu_state_other", "trace_id, cpu, ts, dur, state", of_cpus)
    _insert(tables, "thread_state_other",
            "trace_id, utid, ts, dur, state, left_censored, right_censored",
            of_threads)  # fmt: skip


def _slices(
    tables: Tables, plan: Schedule, lost: dict[int, set[int]], trace_id: int
) -> set[tuple[int, int]]:
    """The slices; returns the thread and the begin of those whose ready time is known."""
    base, rows = trace_id << TRACE_UTID, []
    entered: set[tuple[int, int]] = set()
    known = {thread: known_states(plan, lost, thread) for thread in THREADS}
    last: dict[int, tuple[int, int]] = {}
    found = sorted(
        (begin, stop, cpu, what)
        for cpu in CPUS
        for begin, stop, what in runs(_shown(plan, lost, cpu))
        if what is not None and what != LOST
    )
    for begin, stop, cpu, thread in found:
        cut = begin - 1 in lost[cpu]
        cut_off = stop in lost[cpu]
        gone_cpu, gone = last.get(thread, (None, 0))
        between = known[thread][gone:begin]
        certain = not cut and "unknown" not in between
        ready = between[::-1].index("waiting") if "waiting" in between else len(between)
        if certain:
            entered.add((thread, begin))
        waker = plan.wakers.get((thread, begin - ready)) if certain else None
        rows.append((
            trace_id, base + thread, cpu, begin * CELL, (stop - begin) * CELL, False,
            plan.priority[thread],
            "unknown" if cut_off else plan.leaves.get((thread, stop), "trace_end"),
            ready * CELL if certain else None,
            (len(between) - ready) * CELL if certain and gone_cpu is not None else None,
            None if waker is None else base + 500 + waker,
            gone_cpu, cut, cut_off or stop == CELLS,
        ))  # fmt: skip
        last[thread] = (cpu, stop)
    _insert(tables, "sched_slice",
            "trace_id, utid, cpu, ts, dur, is_idle, priority, end_reason, ready_ns, wait_ns, "
            "waker_utid, prev_cpu, left_censored, right_censored", rows)  # fmt: skip
    return entered


def build(recordings: int, *, with_gaps: bool) -> duckdb.DuckDBPyConnection:
    """A database of these recordings: the truth, or the same with gaps."""
    con = duckdb.connect(config=FOR_FEW_ROWS)
    prepare(con)
    tables: Tables = {}
    for trace_id in range(1, recordings + 1):
        lost = gaps(trace_id) if with_gaps else {cpu: set() for cpu in CPUS}
        fill(tables, play(trace_id), lost, trace_id)
    for (table, names), rows in tables.items():
        columns = [name.strip() for name in names.split(",")]
        con.register("rows", pa.table(list(map(pa.array, zip(*rows, strict=True))), names=columns))
        con.execute(f"INSERT INTO {table} BY NAME FROM rows")
        con.unregister("rows")
    intervals.build(con, list(range(1, recordings + 1)))
    return con


def _insert(tables: Tables, table: str, names: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        tables.setdefault((table, names), []).extend(rows)
