"""What the last seconds show of each CPU, the longest waits, and the busiest threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlens.machine.topology import Topology

if TYPE_CHECKING:
    import duckdb

MOST_WAITS = 8
MOST_THREADS = 6


@dataclass(frozen=True, slots=True)
class CpuNow:
    """A logical CPU; shares in percent, None if unknown.

    `siblings` are the other logical CPUs of its core. `queue` is the mean number of threads that
    were ready and then ran on it. `thread` ran on it longest.
    """

    cpu: int
    core: int | None
    core_type: str | None
    siblings: tuple[int, ...]
    state: str
    busy_pct: float | None
    interrupt_pct: float | None
    queue: float | None
    thread: str | None
    tid: int | None
    thread_pct: float | None


@dataclass(frozen=True, slots=True)
class WaitNow:
    """A ready thread that waited for a CPU, and the thread that ran there meanwhile."""

    process: str | None
    thread: str | None
    tid: int
    ready_ms: float
    cpu: int | None
    instead: str | None
    instead_tid: int | None
    why: str


@dataclass(frozen=True, slots=True)
class ThreadNow:
    """The running time of a thread on one core type, in percent of one CPU."""

    core_type: str | None
    process: str | None
    thread: str | None
    tid: int
    run_pct: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What looking costs, in percent of one CPU: this program, and perf."""

    own_pct: float
    recorder_pct: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The last `seconds`; `lost_pct` is the share of CPU time in which states are unknown."""

    seconds: float
    cpus: tuple[CpuNow, ...]
    waits: tuple[WaitNow, ...]
    threads: tuple[ThreadNow, ...]
    lost_pct: float
    cost: Cost | None = None


# In the order in which an obstacle is named if several took equally long.
_WHY = {
    "throttled_ns": "quota used up",
    "all_busy_ns": "all its CPUs busy",
    "idle_available_ns": "another CPU was idle",
    "parked_available_ns": "another CPU was parked",
    "idle_exit_ns": "its CPU woke up",
    "obstacle_unknown_ns": "unknown",
}

_CPUS = """
SELECT
  c.cpu, c.core_type, c.core, c.busy_pct, c.thread_ns, c.interrupt_ns, c.unknown_ns, c.offline_ns,
  span.dur_ns, queue.ready_ns, most.thread, most.tid, most.ns
FROM cpu_time AS c
JOIN analysis_span AS span USING (trace_id)
LEFT JOIN (
  SELECT cpu, sum(ready_ns)::BIGINT AS ready_ns FROM sched_slice WHERE NOT is_idle GROUP BY cpu
) AS queue USING (cpu)
LEFT JOIN (
  SELECT cpu, thread, tid, run_ns AS ns FROM thread_cpu
  QUALIFY row_number() OVER (PARTITION BY cpu ORDER BY run_ns DESC, utid) = 1
) AS most USING (cpu)
ORDER BY c.cpu
"""

_THREADS = f"""
SELECT place.core_type, t.process, t.thread, t.tid, sum(t.run_ns)::BIGINT AS run_ns
FROM thread_cpu AS t
JOIN (SELECT cpu, any_value(core_type) AS core_type FROM cpu GROUP BY cpu) AS place USING (cpu)
GROUP BY place.core_type, t.process, t.thread, t.tid, t.utid
QUALIFY row_number() OVER (PARTITION BY place.core_type ORDER BY sum(t.run_ns) DESC, t.utid)
  <= {MOST_THREADS}
ORDER BY place.core_type DESC, run_ns DESC, t.tid
"""

_WAITS = f"FROM worst_waits ORDER BY place LIMIT {MOST_WAITS}"


def of(con: duckdb.DuckDBPyConnection, machine: Topology) -> Picture:
    """The picture of a loaded recording of this machine."""
    rows = _rows(con, _CPUS)
    window_ns = max((row["dur_ns"] for row in rows), default=0)
    by_cpu = {row["cpu"]: row for row in rows}
    unknown = sum(row["unknown_ns"] for row in rows)
    cores: dict[int, list[int]] = {}
    for cpu in machine.cpus:
        if cpu.online and cpu.core is not None:
            cores.setdefault(cpu.core, []).append(cpu.cpu)
    allowed = {cpu.cpu for cpu in machine.usable}
    cpus = []
    for cpu in machine.cpus:
        row = by_cpu.get(cpu.cpu, {})
        share = 100.0 / window_ns if window_ns else 0.0
        near = cores.get(cpu.core, []) if cpu.core is not None else []
        cpus.append(
            CpuNow(
                cpu=cpu.cpu,
                core=cpu.core,
                core_type=cpu.core_type,
                siblings=tuple(other for other in near if other != cpu.cpu),
                state=_state(cpu.online, row.get("offline_ns") or 0, cpu.cpu in allowed),
                busy_pct=row.get("busy_pct"),
                interrupt_pct=share * row["interrupt_ns"] if row else None,
                queue=(row["ready_ns"] or 0) / window_ns if row and window_ns else None,
                thread=row.get("thread"),
                tid=row.get("tid"),
                thread_pct=share * row["ns"] if row.get("ns") is not None else None,
            )
        )
    return Picture(
        seconds=window_ns / 1e9,
        cpus=tuple(cpus),
        waits=tuple(_wait(row) for row in _rows(con, _WAITS)),
        threads=tuple(
            ThreadNow(
                row["core_type"], row["process"], row["thread"], row["tid"],
                100.0 * row["run_ns"] / window_ns,
            )
            for row in _rows(con, _THREADS)
        ),
        lost_pct=100.0 * unknown / (window_ns * len(rows)) if window_ns and rows else 0.0,
    )  # fmt: skip


def _state(online: bool, offline_ns: int, usable: bool) -> str:
    if not online:
        return "offline"
    if offline_ns:
        return "was offline"
    return "" if usable else "not allowed"


def _wait(row: dict[str, Any]) -> WaitNow:
    why = max(_WHY, key=lambda name: row[name] or 0)
    return WaitNow(
        process=row["process"],
        thread=row["thread"],
        tid=row["tid"],
        ready_ms=row["ready_ns"] / 1e6,
        cpu=row["entered_cpu"],
        instead=row["instead_thread"],
        instead_tid=row["instead_tid"],
        why=_WHY[why],
    )


def _rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    cursor = con.execute(sql)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
