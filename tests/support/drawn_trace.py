"""A recording drawn by hand: rows of the base and derived tables, made from a list of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
from prepared_database import FOR_FEW_ROWS, prepare

from schedlens.ask import blank_database


@dataclass(frozen=True)
class Slice:
    """One slice of a thread (`process/thread`) on a CPU; times in ns.

    `ready` and `wait` are the times before the switch-in: waiting, then ready. `wait` None marks a
    first slice: the thread waits, left-censored, from the start of the trace.
    """

    thread: str
    cpu: int
    ts: int
    dur: int
    ready: int = 0
    wait: int | None = None
    end: str = "blocked"
    priority: int | None = 120
    waker: str | None = None


@dataclass(frozen=True)
class Cpu:
    """One logical CPU of the drawn machine."""

    cpu: int
    core: int
    smt_index: int = 0
    core_type: str | None = "U"
    efficiency_class: int = 0
    llc: int = 0
    package: int = 0


STATE_OF_END = {"blocked": 1, "exit": 16, "preempted": 256}


@contextmanager
def drawn_database(path: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with all tables and queries, in memory or in a file that older shells can read."""
    if path:
        blank_database.place(path)
        con = duckdb.connect(str(path))
    else:
        con = duckdb.connect(config=FOR_FEW_ROWS)
    try:
        if not path:
            prepare(con)
        yield con
    finally:
        con.close()


def add(con: duckdb.DuckDBPyConnection, table: str, **values: object) -> None:
    """One row; columns not named are NULL."""
    if table == "ready_slice":
        values = {"obstacle": "all_busy", "in_doubt": False, "may_be_idle": False, **values}
    names = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join("?" * len(values))
    con.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))
    if table == "ready_slice":
        judge_ready(con)


def judge_ready(con: duckdb.DuckDBPyConnection) -> None:
    """Fills in why the threads of `ready_slice` did not run, from its other columns."""
    con.execute(
        "UPDATE ready_slice SET obstacle = j.obstacle, in_doubt = j.in_doubt, "
        "may_be_idle = j.may_be_idle FROM judged_ready_slice AS j "
        "WHERE j.utid = ready_slice.utid AND j.ts = ready_slice.ts"
    )


def add_many(
    con: duckdb.DuckDBPyConnection, table: str, names: str, rows: Sequence[Sequence[object]]
) -> None:
    """Rows of the named columns."""
    marks = ", ".join("?" * len(names.split(",")))
    if rows:
        con.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)


class DrawnTrace:
    """Fills one recording; `utid(name)` gives the number of a thread for the expectations."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        slices: Sequence[Slice],
        cpus: Sequence[Cpu],
        duration_ns: int,
        trace_id: int = 1,
        window: tuple[int, int] | None = None,
    ) -> None:
        self.con = con
        self.trace_id = trace_id
        self.duration_ns = duration_ns
        self._numbers: dict[str, int] = {}
        for cpu in cpus:
            self.utid(f"swapper/{cpu.cpu}")
        self._machine(cpus, window or (0, duration_ns))
        self._slices(slices, cpus)
        self._states(slices)
        self._wakeups(slices)
        self._threads(cpus)

    def utid(self, name: str) -> int:
        """The thread's number, unique in the database."""
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        return self.trace_id << 32 | number

    def tid(self, name: str) -> int:
        """The thread's id as recorded."""
        return 1000 + (self.utid(name) & 0xFFFFFFFF)

    def add(self, table: str, **values: object) -> None:
        """One more row of this recording."""
        add(self.con, table, trace_id=self.trace_id, **values)

    def _machine(self, cpus: Sequence[Cpu], window: tuple[int, int]) -> None:
        self.add(
            "trace", label=f"drawn-{self.trace_id}", source="perf", start_clock=1_000_000_000,
            clock_hz=1_000_000_000, first_ns=0, duration_ns=self.duration_ns, events_lost=0,
            schema_version=1, tool_version="test",
        )  # fmt: skip
        kind = "trace" if window == (0, self.duration_ns) else "asked"
        self.add("analysis_window", start_ns=window[0], end_ns=window[1], kind=kind)
        for cpu in cpus:
            self.add(
                "cpu", cpu=cpu.cpu, core=cpu.core, smt_index=cpu.smt_index,
                core_type=cpu.core_type, efficiency_class=cpu.efficiency_class, llc=cpu.llc,
                package=cpu.package, online=True,
            )  # fmt: skip

    def _slices(self, slices: Sequence[Slice], cpus: Sequence[Cpu]) -> None:
        slice_rows: list[list[object]] = []
        states: list[list[object]] = []
        switches: list[list[object]] = []
        last_cpu: dict[str, int] = {}
        previous: dict[str, int | None] = {}
        for drawn in sorted(slices, key=lambda s: (s.ts, s.ts + s.dur)):
            previous[f"{drawn.thread}@{drawn.ts}"] = last_cpu.get(drawn.thread)
            last_cpu[drawn.thread] = drawn.cpu
        for cpu in cpus:
            idle = self.utid(f"swapper/{cpu.cpu}")
            now, seq, running, state = 0, 0, idle, 0
            ahead: list[Slice | None] = [
                *sorted((s for s in slices if s.cpu == cpu.cpu), key=lambda s: (s.ts, s.dur)),
                None,
            ]
            for slice_ in ahead:
                begin = slice_.ts if slice_ else self.duration_ns
                if begin > now:
                    if running != idle:
                        switches.append([self.trace_id, now, cpu.cpu, seq, running, idle, state])
                        seq, running, state = seq + 1, idle, 0
                    slice_rows.append([
                        self.trace_id, idle, cpu.cpu, now, begin - now, True, None, None, None,
                        None, None, None, now == 0, begin == self.duration_ns,
                    ])  # fmt: skip
                    states.append([self.trace_id, cpu.cpu, now, begin - now, "idle"])
                if slice_ is None:
                    continue
                utid = self.utid(slice_.thread)
                switches.append([self.trace_id, begin, cpu.cpu, seq, running, utid, state])
                seq, running, state = seq + 1, utid, STATE_OF_END.get(slice_.end, 0)
                slice_rows.append([
                    self.trace_id, utid, cpu.cpu, slice_.ts, slice_.dur, False, slice_.priority,
                    slice_.end, slice_.ready, slice_.wait,
                    self.utid(slice_.waker) if slice_.waker else None,
                    previous[f"{slice_.thread}@{slice_.ts}"], False, slice_.end == "trace_end",
                ])  # fmt: skip
                now = slice_.ts + slice_.dur
        add_many(
            self.con, "sched_slice",
            "trace_id, utid, cpu, ts, dur, is_idle, priority, end_reason, ready_ns, wait_ns, "
            "waker_utid, prev_cpu, left_censored, right_censored",
            slice_rows,
        )  # fmt: skip
        add_many(self.con, "cpu_state_other", "trace_id, cpu, ts, dur, state", states)
        add_many(
            self.con, "context_switch",
            "trace_id, ts, cpu, seq, prev_utid, next_utid, prev_state, source",
            [[*row, "switch"] for row in switches],
        )  # fmt: skip

    def _states(self, slices: Sequence[Slice]) -> None:
        rows: list[list[object]] = []
        names = dict.fromkeys(slice_.thread for slice_ in slices)
        for name in names:
            utid, now, left = self.utid(name), 0, "waiting"
            mine = sorted((s for s in slices if s.thread == name), key=lambda s: (s.ts, s.dur))
            for slice_ in mine:
                woken = slice_.ts - slice_.ready
                if woken > now:
                    rows.append([self.trace_id, utid, now, woken - now, "waiting"])
                now = slice_.ts + slice_.dur
                left = {"blocked": "waiting", "exit": ""}.get(slice_.end, "ready")
            if left and now < self.duration_ns:
                rows.append([self.trace_id, utid, now, self.duration_ns - now, left])
        add_many(
            self.con, "thread_state_other",
            "trace_id, utid, ts, dur, state, left_censored, right_censored",
            [[*row, False, False] for row in rows],
        )  # fmt: skip

    def _wakeups(self, slices: Sequence[Slice]) -> None:
        """One wakeup at the start of each ready time that follows a wait."""
        add_many(
            self.con, "wakeup", "trace_id, ts, cpu, seq, utid, kind, effective",
            [
                [self.trace_id, slice_.ts - slice_.ready, slice_.cpu, 0, self.utid(slice_.thread),
                 "waking", True]
                for slice_ in slices if slice_.ready and slice_.wait != 0
            ],
        )  # fmt: skip

    def _threads(self, cpus: Sequence[Cpu]) -> None:
        idle = {f"swapper/{cpu.cpu}" for cpu in cpus}
        processes: dict[str, int] = {}
        for name in list(self._numbers):
            upid = None
            if name not in idle:
                process = name.split("/")[0]
                upid = self.trace_id << 32 | processes.setdefault(process, len(processes) + 1)
            self.add(
                "thread", utid=self.utid(name), tid=0 if name in idle else self.tid(name),
                upid=upid, name=name if name in idle else name.split("/", 1)[-1],
                is_idle=name in idle,
            )  # fmt: skip
        for process, number in processes.items():
            self.add("process", upid=self.trace_id << 32 | number, pid=500 + number, name=process)
