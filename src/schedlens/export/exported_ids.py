"""Ids of threads and processes that are unique in a trace: systems reuse theirs.

The first life keeps its id. Later lives, and a thread whose id another process has, get a number
above all recorded ones, and their name then ends in the recorded id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

# Ids are 32-bit signed numbers in a trace.
_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class ExportedProcess:
    """A process as the trace names it."""

    upid: int | None
    pid: int
    name: str | None
    parent: int | None


@dataclass(frozen=True)
class ExportedThread:
    """A thread as the trace names it; those of idle CPUs are not listed, their id is 0."""

    utid: int
    tid: int
    pid: int
    name: str


@dataclass(frozen=True)
class Ids:
    """All threads and processes of a trace."""

    processes: list[ExportedProcess]
    threads: list[ExportedThread]
    gap_threads: dict[int, int]
    """CPU of each stand-in for what ran in lost time, by its thread id."""


# A stand-in runs on a CPU while it is not known who does.
LOST, OFFLINE = "lost events", "offline"
STAND_INS = "schedlens: not recorded"


def lost_utid(cpu: int) -> int:
    """The `utid` of the stand-in for lost time of a CPU; real ones are positive."""
    return -1 - 2 * cpu


def offline_utid(cpu: int) -> int:
    """The `utid` of the stand-in for the time in which a CPU was offline."""
    return -2 - 2 * cpu


def assign(con: duckdb.DuckDBPyConnection, trace_id: int) -> Ids:
    """Unique ids for one recording."""
    processes = con.execute(
        "SELECT upid, pid, name, parent_pid FROM process WHERE trace_id = ? "
        "ORDER BY start_ns NULLS FIRST, upid",
        [trace_id],
    ).fetchall()
    threads = con.execute(
        "SELECT utid, tid, upid, name FROM thread WHERE trace_id = ? AND NOT is_idle "
        "ORDER BY start_ns NULLS FIRST, utid",
        [trace_id],
    ).fetchall()
    cpus = [row[0] for row in con.execute(
        "SELECT DISTINCT cpu FROM cpu_state WHERE trace_id = ? "
        "AND state IN ('unknown', 'offline') ORDER BY cpu",
        [trace_id],
    ).fetchall()]  # fmt: skip
    return _Assigned(processes, threads, cpus).ids()


class _Assigned:
    """The assignment in the making."""

    def __init__(self, processes: list[Any], threads: list[Any], cpus: list[int]) -> None:
        used = [row[1] for row in processes + threads if 0 < row[1] <= _LARGEST]
        self._next = max(used, default=0) + 1
        # Whose id a number is: the process that has it as pid, and the thread that has it as tid.
        self._pids: dict[int, int | None] = {}
        self._tids: set[int] = set()
        self._processes = {row[0]: self._process(*row) for row in processes}
        self._threads = [self._thread(*row) for row in threads]
        self._gaps(cpus)

    def ids(self) -> Ids:
        """What was assigned."""
        return Ids(list(self._processes.values()), self._threads, self._gap_threads)

    def _fresh(self) -> int:
        number = self._next
        while number in self._pids or number in self._tids:
            number += 1
        self._next = number + 1
        return number

    def _process(
        self, upid: int | None, pid: int, name: str | None, parent: int | None
    ) -> ExportedProcess:
        free = 0 < pid <= _LARGEST and pid not in self._pids
        number = pid if free else self._fresh()
        self._pids[number] = upid
        named = name if free else f"{name or 'process'} (pid {pid})"
        return ExportedProcess(upid, number, named, parent if free else None)

    def _thread(self, utid: int, tid: int, upid: int | None, name: str | None) -> ExportedThread:
        owner = self._processes.get(upid) if upid is not None else None
        # Only the main thread of a process may have the number of the process.
        free = 0 < tid <= _LARGEST and tid not in self._tids
        free = free and (tid not in self._pids or self._pids[tid] == upid)
        number = tid if free else self._fresh()
        self._tids.add(number)
        named = name or f"thread {tid}"
        if number != tid:
            named = f"{named} (tid {tid})"
        return ExportedThread(utid, number, owner.pid if owner else number, named)

    def _gaps(self, cpus: list[int]) -> None:
        self._gap_threads: dict[int, int] = {}
        if not cpus:
            return
        pid = self._fresh()
        self._pids[pid] = None
        self._processes[pid] = ExportedProcess(None, pid, STAND_INS, None)
        for cpu in cpus:
            for utid, name in ((lost_utid(cpu), LOST), (offline_utid(cpu), OFFLINE)):
                tid = self._fresh()
                self._tids.add(tid)
                self._gap_threads[tid] = cpu
                self._threads.append(ExportedThread(utid, tid, pid, name))
