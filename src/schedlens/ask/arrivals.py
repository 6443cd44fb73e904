"""What of a short recording arrived: kinds of events, chains, counters, parking, the clock.

`collect --selftest` asks this of a recording on a machine whose recorder was never tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pyarrow as pa

from schedlens import _decoders

State = Literal["ok", "FAIL", "none"]

# Keyword of the WPR profile, its events, and whether two seconds of any machine have some.
_WINDOWS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("CpuConfig", ("SystemConfig/",), True),
    ("Loader", ("Image/",), True),
    ("ProcessThread", ("Process/", "Thread/Start", "Thread/End", "Thread/DC"), True),
    ("CSwitch", ("Thread/CSwitch",), True),
    ("ReadyThread", ("Thread/ReadyThread",), True),
    ("ThreadPriority", ("Thread/SetPriority", "Thread/SetBasePriority"), True),
    ("IdleStates", ("Power/Idle",), True),
    ("DPC", ("PerfInfo/DPC", "PerfInfo/TimerDPC", "PerfInfo/ThreadedDPC"), True),
    ("Interrupt", ("PerfInfo/ISR",), True),
    ("Power", ("Power/Perf",), False),
    ("Kernel-Processor-Power", ("0f67e49f-fe51-4e9f-b490-6f2948cc6027",), True),
    ("Kernel-Power", ("331c3b3a-2005-44c2-ac5e-77220c37d6b4",), False),
)
_LINUX_ALWAYS = ("sched:sched_switch", "sched:sched_waking", "irq:softirq_entry")
# A recorder may lose a record without a sign of it, but not many.
_ENOUGH = 0.99

# The tables are no proof: the loader repairs a switch that does not follow from the one before.
_CHAINS = """
SELECT count(before), count(*) FILTER (WHERE before = old)
FROM (
  SELECT old, lag(new) OVER (PARTITION BY cpu ORDER BY number) AS before
  FROM (
    SELECT cpu, (fields->'OldThreadId')::BIGINT AS old, (fields->'NewThreadId')::BIGINT AS new,
      row_number() OVER () AS number
    FROM switches
  )
)
"""
# A batch takes its own time, so its thread must be running then, on the CPU that it names.
_BATCHES = """
SELECT count(*), count(*) FILTER (
  WHERE s.cpu = b.cpu AND b.start_ns < s.ts + s.dur
)
FROM (
  SELECT r.trace_id, w.utid, r.cpu, r.start_ns
  FROM run_sample AS r JOIN run_worker AS w USING (trace_id, worker)
  WHERE w.utid IS NOT NULL
) AS b
ASOF LEFT JOIN (FROM sched_slice WHERE dur > 0) AS s
  ON s.trace_id = b.trace_id AND s.utid = b.utid AND s.ts <= b.start_ns
"""


@dataclass(frozen=True)
class Arrival:
    """One answer; `none`: nothing arrived, which this machine or its two seconds may explain."""

    what: str
    state: State
    found: str


def events(facts: dict[str, Any], without: Sequence[str] = ()) -> list[Arrival]:
    """A row for each kind of event, from the facts of `inspect`; `without`: not requested."""
    if "hook" in str(facts.get("events", ())):
        return [
            _kind(name, _windows_count(facts["events"], starts), always)
            for name, starts, always in _WINDOWS
            if name not in without
        ]
    counts = facts.get("records_by_event", {})
    names = [str(event["name"]) for event in facts.get("events", ())]
    return [
        _kind(name, counts.get(name, 0), name in _LINUX_ALWAYS) for name in names if ":" in name
    ]


def _windows_count(events: Sequence[dict[str, Any]], starts: tuple[str, ...]) -> int:
    return sum(
        event["count"]
        for event in events
        if str(event["name"]).startswith(starts) or event.get("provider") in starts
    )


def _kind(name: str, count: int, always: bool) -> Arrival:
    state: State = "ok" if count else "FAIL" if always else "none"
    return Arrival(f"events of {name}", state, f"{count:,}")


def tables(con: duckdb.DuckDBPyConnection, counters: Sequence[str]) -> list[Arrival]:
    """What the analyzed recording shows; `counters`: those that were requested."""
    rows = [
        _share("batches are in slices", *_pair(con, _BATCHES), "batches of the workload"),
    ]
    counted = con.execute(
        "SELECT counter, count(*), sum(delta)::BIGINT FROM counter_delta GROUP BY 1 ORDER BY 1"
    ).fetchall()
    known = {name for name, _, total in counted if total}
    rows += [
        Arrival(f"counter {name}", "ok" if total else "FAIL", f"{total or 0:,} in {count:,} slices")
        for name, count, total in counted
    ]
    rows += [
        Arrival(f"counter {name}", "FAIL", "0 slices") for name in counters if name not in known
    ]
    if not counted and not counters:
        rows.append(Arrival("counters", "none", "this machine offers none"))
    return rows


def chains(path: str) -> Arrival:
    """Whether each switch of a Windows recording begins with the thread of the one before."""
    events = _decoders.events([path], style="arrow", names=["Thread/CSwitch"])
    batches = [batch for batch in events if isinstance(batch, pa.RecordBatch)]
    if not batches:
        return _share("switches chain", 0, 0, "switches")
    with duckdb.connect() as con:
        con.register("switches", pa.Table.from_batches(batches).select(["cpu", "fields"]))
        return _share("switches chain", *_pair(con, _CHAINS), "switches follow the one before")


def parking(con: duckdb.DuckDBPyConnection) -> Arrival:
    """Whether the parking state of each CPU is known from a rundown (Windows)."""
    known, every = _pair(
        con,
        "SELECT (SELECT count(DISTINCT cpu) FROM cpu_parking WHERE reason = 'rundown' "
        "OR ts IS NULL), (SELECT count(DISTINCT cpu) FROM context_switch)",
    )
    state: State = "ok" if known >= every > 0 else "FAIL"
    return Arrival("parking rundown", state, f"{known} of {every} CPUs")


def _share(what: str, of: int, good: int, noun: str) -> Arrival:
    state: State = "ok" if of and good >= of * _ENOUGH else "FAIL"
    return Arrival(what, state, f"{good:,} of {of:,} {noun}")


def _pair(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, int]:
    row = con.execute(query).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
