"""A recording damaged in ways that no detector's rules assume, as base tables."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from schedlens import _decoders

Tables = dict[str, pa.RecordBatch]
Row = dict[str, Any]

_TIMES = ("ts", "start_ns", "end_ns", "valid_from_ns", "displayed_ns", "duration_ns")
_LENGTHS = ("dur", "dur_ns")
# Record kinds that are stored in buffers and lost with them.
_RECORDED = ("context_switch", "wakeup", "interrupt_slice", "counter_sample", "priority_change")


@dataclass
class Spoilt:
    """Base tables, and the damage done to them."""

    tables: Tables
    done: list[str] = field(default_factory=list)
    lost_ns: int = 0
    """CPU time in signalled gaps."""
    dropped: int = 0
    """Switches dropped without a signal."""
    doubtful: dict[int, int] = field(default_factory=dict)
    """By utid: the longest time for which the record does not show whether it ran or was ready.

    A dropped switch looks like one that differed from the plan.
    """


def spoil(tables: Tables, chance: random.Random) -> Spoilt:
    """Each kind of damage with its own probability; three in ten recordings remain whole."""
    spoilt = Spoilt(dict(tables))
    if chance.random() < 0.3:
        return spoilt
    kinds: list[tuple[float, Callable[[Spoilt, random.Random], None]]] = [
        (0.4, coarse_clock),
        (0.3, signalled_loss),
        (0.3, dropped_switches),
        (0.4, reused_ids),
        (0.3, hotplug),
    ]
    for share, damage in kinds:
        if chance.random() < share:
            damage(spoilt, chance)
            spoilt.done.append(damage.__name__)
    return spoilt


def coarse_clock(spoilt: Spoilt, chance: random.Random) -> None:
    """A clock of 1 or 2 us: many records at one time, and zero-length slices."""
    step = chance.choice([1_000, 2_000])

    def down(value: int | None) -> int | None:
        return None if value is None else value // step * step

    for table, rows in _rows(spoilt):
        for row in rows:
            for length in _LENGTHS:
                begin = row.get("ts", row.get("start_ns"))
                if row.get(length) is not None and begin is not None:
                    row[length] = (begin + row[length]) // step * step - begin // step * step
            for time in _TIMES:
                if time in row and table != "trace":
                    row[time] = down(row[time])
        _put(spoilt, table, rows)


def signalled_loss(spoilt: Spoilt, chance: random.Random) -> None:
    """Buffers of one or several CPUs are lost, and the recorder reports it."""
    window = spoilt.tables["trace"].to_pylist()[0]["duration_ns"]
    cpus = [row["cpu"] for row in spoilt.tables["cpu"].to_pylist()]
    losses: list[Row] = []
    for _ in range(chance.randrange(1, 4)):
        begin = int(chance.uniform(0.05, 0.9) * window)
        end = begin + int(chance.uniform(0.002, 0.02) * window)
        for cpu in chance.sample(cpus, chance.randrange(1, 3)):
            if not any(one["cpu"] == cpu for one in losses):
                losses.append(
                    {
                        "trace_id": 1, "cpu": cpu, "start_ns": begin, "end_ns": end,
                        "events": None, "signalled_by": "buffer_lost",
                    }
                )  # fmt: skip
    spoilt.lost_ns += sum(one["end_ns"] - one["start_ns"] for one in losses)

    def kept(row: Row) -> bool:
        return not any(
            one["cpu"] == row["cpu"] and one["start_ns"] < row["ts"] < one["end_ns"]
            for one in losses
        )

    for table in _RECORDED:
        if table in spoilt.tables:
            _put(spoilt, table, [row for row in spoilt.tables[table].to_pylist() if kept(row)])
    _put(spoilt, "loss", losses)


def dropped_switches(spoilt: Spoilt, chance: random.Random) -> None:
    """One switch in a few hundred is not recorded, without a signal."""
    share = chance.choice([0.001, 0.004])
    rows = spoilt.tables["context_switch"].to_pylist()
    kept: list[Row] = []
    gone: list[Row] = []
    for row in rows:
        (kept if chance.random() >= share else gone).append(row)
    spoilt.dropped += len(gone)
    end = spoilt.tables["trace"].to_pylist()[0]["duration_ns"]
    for row in gone:
        for utid in (row["prev_utid"], row["next_utid"]):
            since = max(
                (one["ts"] for one in kept if one["cpu"] == row["cpu"] and one["ts"] <= row["ts"]),
                default=0,
            )
            until = min(
                (one["ts"] for one in kept if one["next_utid"] == utid and one["ts"] > row["ts"]),
                default=end,
            )
            spoilt.doubtful[utid] = max(spoilt.doubtful.get(utid, 0), until - since)
    _put(spoilt, "context_switch", kept)


def reused_ids(spoilt: Spoilt, chance: random.Random) -> None:
    """Different threads and processes get the same ids."""
    for table, name in (("thread", "tid"), ("process", "pid")):
        rows = spoilt.tables[table].to_pylist()
        living = [row for row in rows if row[name]]
        for row in chance.sample(living, len(living) // 3):
            row[name] = chance.choice(living)[name]
        _put(spoilt, table, rows)


def hotplug(spoilt: Spoilt, chance: random.Random) -> None:
    """A CPU on which nothing ran for long was offline meanwhile."""
    window = spoilt.tables["trace"].to_pylist()[0]["duration_ns"]
    switches = spoilt.tables["context_switch"].to_pylist()
    cpus = spoilt.tables["cpu"].to_pylist()
    for cpu in chance.sample(cpus, len(cpus)):
        own = [row for row in switches if row["cpu"] == cpu["cpu"]]
        last = own[-1]["ts"] if own else 0
        if window - last > 0.1 * window and (not own or own[-1]["next_utid"] == _idle(own[-1])):
            cpus.append({**cpu, "online": False, "valid_from_ns": last + 1_000_000})
            _put(spoilt, "cpu", cpus)
            return


def _idle(row: Row) -> int:
    """The idle thread of the CPU of a switch."""
    return (int(row["trace_id"]) << 32) + int(row["cpu"])


def _rows(spoilt: Spoilt) -> list[tuple[str, list[Row]]]:
    return [(table, rows.to_pylist()) for table, rows in spoilt.tables.items()]


def _put(spoilt: Spoilt, table: str, rows: list[Row]) -> None:
    spoilt.tables[table] = pa.RecordBatch.from_pylist(rows, schema=_decoders.schemas()[table])
