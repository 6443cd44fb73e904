"""Known differences between readers, and their reasons: what another reader cannot provide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# `null`: the folder's value is NULL. `any`: values may differ. `missing`: rows that only the trace
# has. `extra`: rows that only the folder has.
Kind = Literal["null", "any", "missing", "extra"]


@dataclass(frozen=True)
class Known:
    """An expected difference; `where` limits it to rows that meet a condition."""

    table: str
    column: str | None
    kind: Kind
    why: str
    where: str = "true"


_TOPOLOGY = "TraceProcessor has no core, sibling, cache, package, NUMA node or processor group"
_NO_SOURCE = "TraceProcessor has no data source for it"
_OPTIONAL = "exported only on request"
_CPU_LIST = "TraceProcessor's list of the CPUs fails if two records of the trace disagree"
_ONE_VALUE = "TraceProcessor has one value for the whole life of a thread, no changes"

TRACEPROCESSOR = (
    Known("trace", "os", "any", "each reader names the system in its own way"),
    *(
        Known("cpu", column, "null", _TOPOLOGY)
        for column in (
            "group_no", "number_in_group", "core", "smt_index", "l2", "llc", "package",
            "numa_node", "max_khz",
        )
    ),
    *(
        Known("cpu", column, "null", _CPU_LIST)
        for column in ("core_type", "efficiency_class", "base_khz")
    ),
    Known(
        "cpu", None, "missing", "TraceProcessor shows the CPUs as they were at the start",
        "valid_from_ns IS NOT NULL",
    ),
    Known("machine_setting", "value", "any", "each reader reports the settings that it finds"),
    Known("machine_setting", None, "missing", "each reader reports the settings that it finds"),
    Known("machine_setting", None, "extra", "each reader reports the settings that it finds"),
    Known("thread", "name", "any", _ONE_VALUE),
    Known("thread", "base_priority", "any", _ONE_VALUE),
    Known("thread_name", None, "missing", _ONE_VALUE),
    Known(
        "affinity", None, "missing", "TraceProcessor has one mask of 64 bits per thread, without "
        "its processor group and without changes",
    ),
    Known(
        "context_switch", "prev_remaining_quantum", "null",
        "TraceProcessor's switch event has no remaining quantum",
    ),
    *(
        Known(table, column, "null", "the exporter writes no stacks")
        for table, column in (("context_switch", "next_stack_id"), ("wakeup", "stack_id"))
    ),
    Known(
        "wakeup", "waker_tid", "any", "TraceProcessor's ready event names no waker: the exporter "
        "takes it from the switches around the event; it is unknown if records were lost",
    ),
    *(
        Known(table, None, "missing", _NO_SOURCE)
        for table in (
            "migration", "priority_change", "affinity_change", "ideal_cpu_change", "qos_change",
        )
    ),
    Known("interrupt_slice", "name", "null", "TraceProcessor names no routine without symbols"),
    Known(
        "cpu_idle", "state", "any", "TraceProcessor reports the C-state, the record a "
        "platform-specific state number",
    ),
    Known(
        "cpu_frequency", "khz", "any", "TraceProcessor reports the mean of an interval, the record "
        "the frequency at one time",
    ),
    Known(
        "cpu_frequency", None, "missing", "TraceProcessor fails without the capture state of "
        "Kernel-Processor-Power and Kernel-Power",
    ),
    *(
        Known("cpu_parking", column, "null", "TraceProcessor reports only parked or not")
        for column in ("soft_parked", "reason")
    ),
    Known(
        "cpu_parking", None, "missing", "TraceProcessor reports intervals of parked or not, "
        "without soft parking and repeated rundowns",
        "soft_parked OR reason = 'rundown'",
    ),
    Known(
        "cpu_parking", None, "extra", "between TraceProcessor's intervals the state is "
        "unknown",
        "parked IS NULL",
    ),
    Known(
        "frame", None, "missing", "presents that only the graphics kernel records are not exported",
        "dialect = 'dxgkrnl'",
    ),
    Known("loss", None, "missing", "TraceProcessor reports how much was lost, not where"),
    Known("loss", None, "extra", "TraceProcessor reports how much was lost, not where"),
)  # fmt: skip

# Tables that the exporter writes only on request, or omits on request.
OPTIONAL = (
    "cpu_parking", "cpu_frequency", "cpu_idle", "interrupt_slice", "counter_sample", "frame",
    "mark",
)  # fmt: skip


def known(source: str, present: frozenset[str]) -> tuple[Known, ...]:
    """The expected differences of a folder with these tables from this source."""
    if source != "etw":
        return ()
    left_out = [
        Known(table, None, "missing", _OPTIONAL) for table in OPTIONAL if table not in present
    ]
    return (*TRACEPROCESSOR, *left_out)
