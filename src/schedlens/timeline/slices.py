"""One slice of a thread: why it began and ended, who woke it, and who ran meanwhile."""

from __future__ import annotations

from typing import Any

from schedlens.timeline import keys, stacks
from schedlens.timeline.inventory import table
from schedlens.timeline.prepared import Timelines

# The chain of wakers is followed this far.
_MOST_HOPS = 32
# Wakeups are read at once from this long before a slice.
_NEAR_NS = 1_000_000
WHAT = ("next", "previous", "waker", "woken")

_SLICE = """
SELECT s.utid, t.name AS thread, t.tid, p.name AS process, p.pid, s.cpu, s.ts AS start_ns,
  s.dur AS dur_ns, s.priority, s.end_reason, s.ready_ns, s.wait_ns, s.waker_utid, s.prev_cpu,
  s.left_censored, s.right_censored, c.core, c.core_type
FROM sched_slice AS s
JOIN thread AS t ON t.utid = s.utid
LEFT JOIN process AS p ON p.upid = t.upid
LEFT JOIN topology(p_trace_id := {one}) AS c
  ON c.cpu = s.cpu AND s.ts >= c.from_ns AND s.ts < c.to_ns
WHERE s.trace_id = {one} AND s.utid = {utid} AND NOT s.is_idle AND s.ts <= {at}
  AND (s.ts + s.dur > {at} OR s.ts = {at})
ORDER BY s.ts DESC LIMIT 1
"""
_STATE = """
SELECT s.utid, t.name AS thread, t.tid, p.name AS process, p.pid, s.cpu, s.ts AS start_ns,
  s.dur AS dur_ns, s.state, s.reason, s.waker_utid
FROM thread_state AS s
JOIN thread AS t ON t.utid = s.utid
LEFT JOIN process AS p ON p.upid = t.upid
WHERE s.trace_id = {one} AND s.utid = {utid} AND s.ts <= {at} AND s.ts + s.dur > {at}
ORDER BY s.ts DESC LIMIT 1
"""
_OBSTACLES = """
SELECT obstacle, sum(dur)::BIGINT AS ns
FROM ready_obstacle_slice({one}, {ready}, {start}, 100000)
WHERE utid = {utid} AND ready_ts = {ready}
GROUP BY obstacle ORDER BY ns DESC, obstacle
"""
_WAKER = """
SELECT w.ts AS time_ns, w.cpu, w.waker_utid AS utid, t.name AS thread, t.tid,
  coalesce(w.in_interrupt, t.is_idle) AS in_interrupt
FROM wakeup AS w
LEFT JOIN thread AS t ON t.utid = w.waker_utid
WHERE w.trace_id = {one} AND w.utid = {utid} AND w.effective AND w.ts <= {at}
ORDER BY w.ts DESC, w.seq DESC LIMIT 1
"""
_NEAR = """
SELECT w.utid AS woken_utid, w.ts AS time_ns, w.cpu, w.waker_utid AS utid, t.name AS thread, t.tid,
  coalesce(w.in_interrupt, t.is_idle) AS in_interrupt
FROM wakeup AS w
LEFT JOIN thread AS t ON t.utid = w.waker_utid
WHERE w.trace_id = {one} AND w.effective AND w.ts > {since} AND w.ts <= {at}
ORDER BY w.ts DESC, w.seq DESC
"""
_INSTEAD = """
SELECT c.utid, t.name AS thread, t.tid,
  sum(clipped_ns(c.ts, c.dur, {ready}, {start}))::BIGINT AS ns
FROM cpu_state AS c
JOIN thread AS t ON t.utid = c.utid
WHERE c.trace_id = {one} AND c.cpu = {cpu} AND c.state = 'thread'
  AND c.ts < {start} AND c.ts + c.dur > {ready}
GROUP BY ALL ORDER BY ns DESC, c.utid
"""
_SIBLING = """
SELECT other.utid, t.name AS thread, t.tid, other.cpu,
  sum(clipped_ns(other.ts, other.dur, {start}, {end}))::BIGINT AS ns
FROM topology(p_trace_id := {one}) AS own
JOIN topology(p_trace_id := {one}) AS sibling
  ON sibling.core = own.core AND sibling.cpu <> own.cpu
JOIN cpu_state AS other ON other.trace_id = {one} AND other.cpu = sibling.cpu
LEFT JOIN thread AS t ON t.utid = other.utid
WHERE own.cpu = {cpu} AND {start} >= own.from_ns AND {start} < own.to_ns
  AND {start} >= sibling.from_ns AND {start} < sibling.to_ns
  AND other.state IN ('thread', 'interrupt') AND other.ts < {end}
  AND other.ts + other.dur > {start}
GROUP BY ALL ORDER BY ns DESC, other.utid
"""
_COUNTERS = """
SELECT counter, delta, ts AS start_ns, dur AS dur_ns FROM counter_delta
WHERE trace_id = {one} AND utid = {utid} AND cpu = {cpu} AND ts < {end} AND ts + dur > {start}
ORDER BY counter, ts
"""
_FREQUENCY = """
SELECT khz, ts AS start_ns FROM cpu_frequency
WHERE trace_id = {one} AND cpu = {cpu} AND ts <= {start} ORDER BY ts DESC LIMIT 1
"""
_FRAME = """
SELECT start_ns FROM frame
WHERE trace_id = {one} AND start_ns <= {at} AND start_ns + coalesce(dur_ns, 0) > {at}
ORDER BY start_ns DESC LIMIT 1
"""


def slice_at(timelines: Timelines, trace_id: int, utid: int, time_ns: int) -> dict[str, Any] | None:
    """All about the slice of a thread at a time; None if nothing of it is known then.

    If the thread did not run, the answer has `state`, and no CPU details. `sql` has the statement
    of each part. Only recordings with stacks have `left_stack`, `before_stack` and `waker_stack`.
    """
    timelines.of(trace_id)
    names: dict[str, Any] = {"one": trace_id, "utid": utid, "at": time_ns}
    used: dict[str, str] = {}

    def rows(name: str, sql: str) -> list[dict[str, Any]]:
        used[name] = sql.format(**names).strip()
        return table(timelines, used[name], {})

    found = rows("slice", _SLICE)
    if not found:
        found = rows("slice", _STATE)
        return {**found[0], "sql": used} if found else None
    own = found[0]
    start, ready = own["start_ns"], own["ready_ns"]
    names |= {"cpu": own["cpu"], "start": start, "end": start + own["dur_ns"]}
    own["state"] = "running"
    if ready is not None:
        names |= {"ready": start - ready, "at": start - ready}
        own["ahead"] = rows("ahead", _INSTEAD)
        used["obstacles"] = _OBSTACLES.format(**names).strip()
        own["ready"] = obstacles(timelines, trace_id, utid, start - ready, start)
    if own["waker_utid"] is not None:
        waker = rows("waker", _WAKER)
        own["waker"] = waker[0] if waker else None
    if stacks.recorded(timelines, trace_id):
        woken = {} if ready is None else {"woken": start - ready}
        own |= stacks.of_slice(timelines, {**names, **woken}, used)
    own["sibling"] = rows("sibling", _SIBLING)
    own["counters"] = rows("counters", _COUNTERS)
    frequency = rows("frequency", _FREQUENCY)
    own["frequency_khz"] = frequency[0]["khz"] if frequency else None
    own["chain"] = chain(timelines, trace_id, utid, start)
    own["sql"] = used
    return own


def obstacles(
    timelines: Timelines, trace_id: int, utid: int, ready_ns: int, start_ns: int
) -> list[dict[str, Any]]:
    """What `_OBSTACLES` returns, from the parts: the view reads the whole recording."""
    parts = timelines.parts_sql("thread", trace_id, ready_ns, start_ns)
    found = table(
        timelines,
        f"SELECT key, sum(overlap_ns(ts, end_ns, {ready_ns}, {start_ns}))::BIGINT AS ns "
        f"FROM ({parts}) WHERE lane = {utid} AND key >= {keys.READY} AND key < {keys.NEW} "
        "GROUP BY key",
        {},
    )
    name_of = {key: name for name, key in keys.OBSTACLES.items()}
    rows = [
        {
            "obstacle": name_of.get(row["key"], "unknown"),
            "name": keys.ready_name(row["key"]).removeprefix("ready: "),
            "ns": row["ns"],
        }
        for row in found if row["ns"] > 0
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["ns"], row["obstacle"]))


class _Wakeups:
    """The last wakeup of a thread before a time, from a short range that is read at once.

    A chain has up to 32 of them, and each statement costs more than reading the range.
    """

    def __init__(self, timelines: Timelines, trace_id: int) -> None:
        self._timelines = timelines
        self._trace_id = trace_id
        self._from: int | None = None
        self._near: dict[int, list[dict[str, Any]]] = {}

    def last(self, utid: int, at: int) -> dict[str, Any] | None:
        if self._from is None or at < self._from:
            self._read(at)
        for row in self._near.get(utid, ()):
            if row["time_ns"] <= at:
                return row
        one = {"one": self._trace_id, "utid": utid, "at": at}
        found = table(self._timelines, _WAKER.format(**one), {})
        return found[0] if found else None

    def _read(self, at: int) -> None:
        self._from = at - _NEAR_NS
        self._near = {}
        sql = _NEAR.format(one=self._trace_id, at=at, since=self._from)
        for row in table(self._timelines, sql, {}):
            self._near.setdefault(row.pop("woken_utid"), []).append(row)


def chain(timelines: Timelines, trace_id: int, utid: int, time_ns: int) -> list[dict[str, Any]]:
    """Wakeups back from a slice to the start of its frame or to an interrupt, latest first."""
    frame = table(timelines, _FRAME.format(one=trace_id, at=time_ns), {})
    until = frame[0]["start_ns"] if frame else None
    hops: list[dict[str, Any]] = []
    at, who = time_ns, utid
    wakeups = _Wakeups(timelines, trace_id)
    while len(hops) < _MOST_HOPS:
        hop = wakeups.last(who, at)
        if hop is None or (until is not None and hop["time_ns"] < until):
            break
        hops.append({**hop, "woken_utid": who})
        # A wakeup at the same time and by the same thread would be found again.
        if hop["in_interrupt"] or hop["utid"] is None or (hop["utid"], hop["time_ns"]) == (who, at):
            break
        at, who = hop["time_ns"], hop["utid"]
    return hops


def neighbor(
    timelines: Timelines, trace_id: int, time_ns: int, what: str, *, utid: int | None = None,
    cpu: int | None = None,
) -> dict[str, Any] | None:  # fmt: skip
    """The next or previous slice of a thread or a CPU, or a thread's waker or what it woke.

    For `next` and `previous`, `time_ns` is the start of the slice to go on from. None: there is
    none, or an interrupt was the waker.
    """
    if what not in WHAT:
        raise ValueError(f"what must be one of {', '.join(WHAT)}")
    timelines.of(trace_id)
    columns = "SELECT utid, cpu, ts AS start_ns, dur AS dur_ns FROM sched_slice"
    chosen = f"utid = {utid}" if utid is not None else f"cpu = {cpu}"
    own = f"trace_id = {trace_id} AND NOT is_idle"
    if what in ("next", "previous"):
        side, order = (">", "ts, cpu") if what == "next" else ("<", "ts DESC, cpu")
        sql = f"{columns} WHERE {own} AND {chosen} AND ts {side} {time_ns} ORDER BY {order} LIMIT 1"
        return _first(timelines, sql)
    here = _first(
        timelines,
        f"{columns.replace(' FROM', ', ready_ns, waker_utid FROM')} WHERE {own} AND {chosen} "
        f"AND ts <= {time_ns} AND (ts + dur > {time_ns} OR ts = {time_ns}) "
        "ORDER BY ts DESC LIMIT 1",
    )
    if here is None:
        return None
    start, end = here["start_ns"], here["start_ns"] + here["dur_ns"]
    if what == "woken":
        woken = _first(
            timelines,
            f"SELECT utid, ts FROM wakeup WHERE trace_id = {trace_id} AND effective "
            f"AND waker_utid = {here['utid']} AND ts >= {start} AND ts <= {end} "
            "ORDER BY ts, seq LIMIT 1",
        )
        if woken is None:
            return None
        return _first(
            timelines,
            f"{columns} WHERE {own} AND utid = {woken['utid']} AND ts >= {woken['ts']} "
            "ORDER BY ts LIMIT 1",
        )
    if here["waker_utid"] is None or here["ready_ns"] is None:
        return None
    at = start - here["ready_ns"]
    return _first(
        timelines,
        f"{columns} WHERE {own} AND utid = {here['waker_utid']} AND ts <= {at} "
        f"AND ts + dur >= {at} ORDER BY ts DESC LIMIT 1",
    )


def _first(timelines: Timelines, sql: str) -> dict[str, Any] | None:
    rows = table(timelines, sql, {})
    return rows[0] if rows else None
