"""Each recorded thread before its program is known: priority, affinity, ideal CPU, EcoQoS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schedlens.replay import affinities
from schedlens.replay.ops import Program

if TYPE_CHECKING:
    import duckdb

    from schedlens.replay import core_speeds, stranding

# A thread that ran for this share of its time on E cores, and for that long, has EcoQoS if it came
# there although a whole other core was idle, for this share of its slices. The recording shows only
# changes of it.
ECO_SHARE, ECO_NS, ECO_CHOICES = 0.9, 10_000_000, 0.1


def read(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    machine: core_speeds.RecordedMachine,
    is_windows: bool,
) -> dict[int, Program]:
    """A program without steps for each thread (utid) but the idle ones."""

    def rows(select: str, where: str = "", order: str = "") -> list[Any]:
        text = f"{select} WHERE trace_id = ?{where}" + (f" ORDER BY {order}" if order else "")
        return con.execute(text, [trace_id]).fetchall()

    every = list(range(len(machine.numbers)))
    place = {number: index for index, number in enumerate(machine.numbers)}
    affinity = {
        utid: [place[cpu] for cpu in cpus if cpu in place]
        for utid, cpus in affinities.longest(con, trace_id).items()
    }
    begun = rows("SELECT utid, arg_min(cpu, ts) FROM sched_slice", " GROUP BY utid")
    if is_windows:
        found = rows(
            "SELECT prev_utid, mode(prev_ideal_cpu) FROM context_switch",
            " AND prev_ideal_cpu IS NOT NULL GROUP BY prev_utid",
        )
        ideal = dict(found)
        # What never leaves its CPU has no record of its ideal one, on which it began if it could.
        # On an E core it may have begun for its EcoQoS.
        kinds = [cpu.core_type for cpu in machine.machine.cpus]
        for utid, cpu in begun:
            if cpu in place and kinds[place[cpu]] != "E":
                ideal.setdefault(utid, cpu)
    else:
        # Where it is when the replay begins.
        ideal = dict(begun)
    usual, default = ("min(priority)", 8) if is_windows else ("mode(priority)", 120)
    seen = dict(
        rows(
            f"SELECT utid, {usual} FROM sched_slice",
            " AND priority IS NOT NULL GROUP BY utid",
        )
    )
    eco = {
        utid
        for utid, qos in rows("SELECT utid, new_qos FROM qos_change", order="ts")
        if qos is not None and "eco" in qos.lower()
    }
    names = dict(rows("SELECT upid, name FROM process"))
    return {
        utid: Program(
            utid,
            tid,
            name or str(tid),
            names.get(upid) or "",
            upid,
            priority if priority is not None else seen.get(utid, default),
            affinity.get(utid) or every,
            place.get(ideal.get(utid, -1)),
            utid in eco,
            utid in affinity,
            bound is not None and affinity.get(utid) == [place.get(bound)],
        )
        for utid, tid, name, upid, priority, bound in rows(
            "SELECT utid, tid, name, upid, base_priority, kernel_bound_cpu("
            "(SELECT source FROM trace WHERE trace.trace_id = thread.trace_id), name) FROM thread",
            " AND NOT is_idle",
            "utid",
        )
    }


def infer_eco(
    program: Program,
    states: Sequence[Any],
    machine: core_speeds.RecordedMachine,
    cpus: stranding.Cpus,
) -> None:
    """Sets EcoQoS of a thread of Windows that ran on E cores by choice.

    `states`: start, end, state, CPU and reason of each of its states; its program has its times.
    """
    place = {number: index for index, number in enumerate(machine.numbers)}
    kinds = [cpu.core_type for cpu in machine.machine.cpus]
    if program.ideal is not None and kinds[program.ideal] == "E":
        # Its ideal processor explains it.
        return
    ran = sum(program.running_ns.values())
    slow = program.running_ns.get("E", 0)
    if ran < ECO_NS or slow < ECO_SHARE * ran:
        return
    other = {index for index in program.affinity if kinds[index] != "E"}
    cores = cpus.cores(other)
    chosen = free = 0
    for start, end, state, cpu, _ in states:
        if state == "running" and cpu in place and kinds[place[cpu]] == "E":
            chosen += 1
            # What began before the recording has shown its choice by the middle of its slice.
            at = start if start > 0 else (start + end) // 2
            free += any(cpus.is_free(core, at) for core in cores)
    program.eco |= free > ECO_CHOICES * chosen
