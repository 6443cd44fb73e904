"""What another reader cannot give, and why: differences that are no mistake of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# `null`: the folder's value is NULL. `any`: values may differ. `missing`: rows that only the trace
# has. `extra`: rows that only the folder has.
Kind = Literal["null", "any", "missing", "extra"]


@dataclass(frozen=True)
class Known:
    """A difference that is expected; `where` narrows rows by a condition on their columns."""

    table: str
    column: str | None
    kind: Kind
    why: str
    where: str = "true"


_TOPOLOGY = "TraceProcessor tells no core, sibling, cache, package, NUMA node or processor group"
_NO_SOURCE = "TraceProcessor has no data source for it"
_OPTIONAL = "only there if it was asked for when the folder was written"
_CPU_LIST = "TraceProcessor's list of the CPUs fails where two records of the trace disagree"
_ONE_VALUE = "TraceProcessor tells one value for the whole life of a thread, no changes"

TRACEPROCESSOR = (
    Known("trace", "os", "any", "each reader writes the name of the system in its own way"),
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
        "cpu", None, "missing", "TraceProcessor tells the CPUs as they were at the begin",
        "valid_from_ns IS NOT NULL",
    ),
    Known("machine_setting", "value", "any", "each reader tells the settings that it finds"),
    Known("machine_setting", None, "missing", "each reader tells the settings that it finds"),
    Known("machine_setting", None, "extra", "each reader tells the settings that it finds"),
    Known("thread", "name", "any", _ONE_VALUE),
    Known("thread", "base_priority", "any", _ONE_VALUE),
    Known("thread_name", None, "missing", _ONE_VALUE),
    Known(
        "affinity", None, "missing", "TraceProcessor tells one mask of 64 bits a thread, without "
        "its processor group and without changes",
    ),
    Known(
        "wakeup", "waker_tid", "any", "the ready event of TraceProcessor names no waker: it is "
        "taken from the switches around it, unknown where records were lost",
    ),
    *(
        Known(table, None, "missing", _NO_SOURCE)
        for table in (
            "migration", "priority_change", "affinity_change", "ideal_cpu_change", "qos_change",
        )
    ),
    Known("interrupt_slice", "name", "null", "TraceProcessor names no routine without symbols"),
    Known(
        "cpu_idle", "state", "any", "TraceProcessor tells the C-state, the record the number of "
        "the state on that platform",
    ),
    Known(
        "cpu_frequency", "khz", "any", "TraceProcessor tells the mean of an interval, the record "
        "the frequency at a moment",
    ),
    Known(
        "cpu_frequency", None, "missing", "TraceProcessor fails without the capture state of "
        "Kernel-Processor-Power and Kernel-Power",
    ),
    *(
        Known("cpu_parking", column, "null", "TraceProcessor tells only parked or not")
        for column in ("soft_parked", "reason")
    ),
    Known(
        "cpu_parking", None, "missing", "TraceProcessor tells intervals of parked or not: soft "
        "parking and repeated rundowns are no change there",
        "soft_parked OR reason = 'rundown'",
    ),
    Known(
        "cpu_parking", None, "extra", "where TraceProcessor's intervals leave a hole the state is "
        "unknown",
        "parked IS NULL",
    ),
    Known(
        "frame", None, "missing", "presents that only the graphics kernel shows are not exported",
        "dialect = 'dxgkrnl'",
    ),
    Known("loss", None, "missing", "TraceProcessor tells how much was lost, not where"),
    Known("loss", None, "extra", "TraceProcessor tells how much was lost, not where"),
)  # fmt: skip

# Tables that the exporter leaves out unless, or if, it is told to.
OPTIONAL = (
    "cpu_parking", "cpu_frequency", "cpu_idle", "interrupt_slice", "counter_sample", "frame",
    "mark",
)  # fmt: skip


def known(source: str, held: frozenset[str]) -> tuple[Known, ...]:
    """The differences to expect of a folder of that source that holds those tables."""
    if source != "etw":
        return ()
    left_out = [Known(table, None, "missing", _OPTIONAL) for table in OPTIONAL if table not in held]
    return (*TRACEPROCESSOR, *left_out)
