"""How to record again, so that what a recording lacks is there."""

from __future__ import annotations

from typing import Any

from schedlens.ask.findings import Scope
from schedlens.machine import cpu_list

# What samples everything, where only one event was to be sampled.
WITHOUT_FREQUENCY = (
    "Record without -F, which records tracepoints a few times per second only. To sample as well, "
    "give the frequency to one event: perf record -a -e "
    "sched:sched_switch,sched:sched_waking,cpu-clock/freq=99/"
)


def is_sampled(scope: Scope, trace_id: int) -> bool:
    """Whether most events of the tracepoints were not recorded, because of -F."""
    return bool(
        scope.rows(
            f"SELECT 1 AS one FROM problem WHERE trace_id = {trace_id} "
            "AND place LIKE 'sched:%' AND what LIKE '%(perf record -F)%'"
        )
    )


# Gaps that no record of the recorder explains, and those of the file: buffers do not help there.
_NOT_THE_RECORDER = (
    "chain_break", "stream_start", "stream_end", "late_start", "early_end", "not_recorded",
    "damaged", "truncated",
)  # fmt: skip
# How to give each recorder more memory, for recordings of `collect` and of others.
_LARGER_BUFFERS = {
    "perf": ("collect -m 32M, or --light", "perf record -m 32M"),
    "etw": (
        "collect --buffer-size 1Mx2048",
        "BufferSize and Buffers in the WPR profile, or xperf -BufferSize 1024 -MinBuffers 1024 "
        "-MaxBuffers 2048",
    ),
    "trace_cmd": ("trace-cmd record -b 32768",) * 2,
    "perfetto": ("buffers.size_kb of the trace config",) * 2,
}

# How each recorder records all CPUs.
_ALL_CPUS = {
    "perf": " (`perf record -a`, without -C)",
    "trace_cmd": " (trace-cmd record, without -M)",
}


def after_loss(scope: Scope, row: dict[str, Any]) -> str:
    """What to do about the loss in a row of `trace_quality`, by the recorder that made the
    recording.
    """
    trace_id = row["trace_id"]
    kinds = {
        found["signalled_by"]
        for found in scope.rows(
            f"SELECT DISTINCT signalled_by FROM loss WHERE trace_id = {trace_id}"
        )
    }
    if row["events_lost"] or row["buffers_lost"] or kinds - set(_NOT_THE_RECORDER):
        return (
            f"Record again with larger buffers{_larger(scope, row)} or to a faster disk; until "
            "then read the numbers of this recording as ranges."
        )
    if kinds & {"damaged", "truncated"}:
        return (
            "Copy the file again from where it was recorded, or record again: a part of it cannot "
            "be read, and its numbers are ranges."
        )
    own_only = scope.rows(
        "SELECT 1 AS one FROM recorded_kind "
        f"WHERE trace_id = {trace_id} AND kind = 'all_threads' AND NOT recorded"
    )
    if row["source"] == "perf" and own_only:
        return (
            "Record all programs with `perf record -a`: this recording shows only when chosen "
            "threads left a CPU, and not who ran otherwise."
        )
    silent = _cpus_without_records(scope, trace_id)
    if silent:
        noun = "CPU" if len(silent) == 1 else "CPUs"
        return (
            f"Record all CPUs{_ALL_CPUS.get(row['source'], '')}: nothing of {noun} "
            f"{cpu_list.text(silent)} was recorded, and what ran there is unknown."
        )
    if row["source"] == "perf" and row["has_switch_records"] is False:
        return (
            "Record again with `perf record --switch-events`, as `collect` does: the kernel writes "
            "no sched_switch for some switches, and PERF_RECORD_SWITCH contains most of them."
        )
    return (
        "Record again, or read the numbers of this recording as ranges. The recorder reported no "
        "lost events, so larger buffers are unlikely to help."
    )


def for_wakeups(scope: Scope, row: dict[str, Any]) -> str:
    """What to do where threads were switched in without a recorded wakeup, of a row of
    `trace_quality`.
    """
    trace_id = row["trace_id"]
    if scope.lacks(trace_id, ["wakeups"]):
        event = "ReadyThread (DISPATCHER)" if row["is_windows"] else "sched_waking"
        return f"Record {event} as well."
    if row["events_lost"] or row["buffers_lost"]:
        return (
            f"Record again with larger buffers{_larger(scope, row)}: wakeups are among the lost "
            "records."
        )
    if row["source"] == "perf" and scope.lacks(trace_id, ["all_threads"]):
        return (
            "Record all programs with `perf record -a`: wakeups by programs that were not chosen "
            "are missing."
        )
    return (
        "Do not record again for that: wakeups were recorded, but the system wrote none for these, "
        "which is usual for threads of the recorder and of the kernel. Other ready times are not "
        "affected."
    )


def _larger(scope: Scope, row: dict[str, Any]) -> str:
    """How to give the recorder of a row of `trace_quality` larger buffers, in parentheses."""
    collected = scope.rows(f"SELECT 1 AS one FROM run WHERE trace_id = {row['trace_id']}")
    options = _LARGER_BUFFERS.get(row["source"])
    return f" ({options[0 if collected else 1]})" if options else ""


def _cpus_without_records(scope: Scope, trace_id: int) -> list[int]:
    """CPUs that the recorder left out, as it states, or on which threads ran without a record, as
    wakings on other CPUs prove.
    """
    return [
        found["cpu"]
        for found in scope.rows(
            "SELECT DISTINCT loss.cpu FROM loss JOIN trace USING (trace_id) "
            f"WHERE trace_id = {trace_id} AND (signalled_by = 'not_recorded' "
            "OR signalled_by = 'late_start' AND start_ns <= first_ns AND end_ns >= duration_ns)"
        )
    ]
