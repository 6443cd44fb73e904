"""The moment of a finding: the link that opens it in the timeline, and a small picture of it."""

from __future__ import annotations

from typing import Any

from schedlens.ask.judging import analyzers
from schedlens.output.wording import duration
from schedlens.report.figures import short
from schedlens.report.sections import Rows, View

_MOST_CPUS = 5
# With more slices than this in a lane, the picture has columns with exact shares.
_MOST_SPANS = 120
_COLUMNS = 90
_LEAST_NS = 1_000_000
_MOST_NS = 60_000_000


def link(view: View, finding: dict[str, Any]) -> dict[str, Any] | None:
    """Range and thread of a finding's moment, and the fragment that opens it in the timeline.

    None if it concerns no single recording.
    """
    trace_id, utid = finding["trace_id"], finding["utid"]
    spans = view.kept("SELECT trace_id, label, first_ns, duration_ns FROM trace")
    known = {row["trace_id"]: row for row in spans}
    if trace_id is None or trace_id not in known:
        return None
    first, last = known[trace_id]["first_ns"] or 0, known[trace_id]["duration_ns"]
    start, end = _focus(view, finding, first, last)
    at = _moment(view, finding, start, end)
    around = max((end - start) // 2, (_LEAST_NS - (end - start)) // 2)
    start, end = max(first, start - around), min(last, end + around)
    if end <= start:
        return None
    thread = f"&thread={utid}&at={at}" if utid is not None else ""
    sort = f"&sort=cost&finding={finding['finding_id']}"
    return {
        "href": f"#recording={trace_id}&from={start}&to={end}{thread}{sort}",
        "from_ns": start,
        "to_ns": end,
        "recording": short(known[trace_id]["label"], 40) if len(known) > 1 else "",
        "said": f"{duration(end - start)} from {start / 1e6:,.1f} ms",
        "lanes": [],
    }


def picture(view: View, finding: dict[str, Any]) -> dict[str, Any] | None:
    """The same with the lanes of a small picture."""
    found = link(view, finding)
    if found is None:
        return None
    return {**found, "lanes": _lanes(view, finding, found["from_ns"], found["to_ns"])}


def _focus(view: View, finding: dict[str, Any], first: int, last: int) -> tuple[int, int]:
    """The part of the finding's range that shows it best: a stutter, a wait, a run, or itself."""
    start = finding["start_ns"] if finding["start_ns"] is not None else first
    end = finding["end_ns"] if finding["end_ns"] is not None else last
    trace_id, utid = int(finding["trace_id"]), finding["utid"]
    if end - start <= _MOST_NS and finding["start_ns"] is not None:
        return start, end
    delayed = _longest_delay(view, finding)
    if delayed:
        return max(start, delayed["from_ns"]), min(end, delayed["to_ns"])
    if finding["kind"] in ("stutter", "longer_frames", "worker_on_path"):
        found = _longest_frame(view, trace_id, start, end)
        if found:
            return found
    inside = f"trace_id = {trace_id} AND ts < {end} AND ts + dur > {start}"
    states = ("running", "ready") if _is_of_running(finding) else ("ready", "running")
    for state in states:
        chosen = f"state = '{state}' AND {inside}"
        if utid is not None:
            chosen += f" AND utid = {int(utid)}"
        elif state == "running":
            continue
        rows = view.rows(
            f"SELECT ts, dur FROM thread_state WHERE {chosen} ORDER BY dur DESC, ts, utid LIMIT 1"
        )
        if rows:
            ts, dur = rows[0]["ts"], min(rows[0]["dur"], _MOST_NS)
            return max(start, ts), min(end, ts + dur)
    return start, min(end, start + _MOST_NS)


def _longest_delay(view: View, finding: dict[str, Any]) -> dict[str, Any] | None:
    """When a thread ran for longest although a more urgent one was ready, and that one, `utid`.

    That is the end of a slice of the finding's thread, after which the other one got the CPU. None
    for findings of other kinds.
    """
    if finding["kind"] != "higher_ready" or finding["utid"] is None:
        return None
    rows = view.kept(
        f"""
SELECT
  urgent.utid,
  least(ran.dur, urgent.ready_ns, {_MOST_NS}) AS dur,
  urgent.ts - least(ran.dur, urgent.ready_ns, {_MOST_NS}) AS from_ns,
  urgent.ts AS to_ns
FROM sched_slice AS ran
JOIN sched_slice AS urgent
  ON urgent.trace_id = ran.trace_id AND urgent.cpu = ran.cpu AND urgent.ts = ran.ts + ran.dur
JOIN trace ON trace.trace_id = ran.trace_id
LEFT JOIN scheduling_policy AS own ON own.utid = ran.utid
LEFT JOIN scheduling_policy AS other ON other.utid = urgent.utid
WHERE ran.utid = {int(finding["utid"])} AND NOT urgent.is_idle AND urgent.ready_ns > 0
  AND CASE
    WHEN is_windows_source(trace.source) THEN urgent.priority > ran.priority
    ELSE urgent.priority < 100 AND urgent.priority < ran.priority
      OR own.policy = 'idle' AND other.policy IS DISTINCT FROM 'idle'
  END
ORDER BY dur DESC, from_ns
LIMIT 1
"""
    )
    return rows[0] if rows else None


def _moment(view: View, finding: dict[str, Any], start: int, end: int) -> int:
    """When the thread was longest in the state that the finding is about, within a range."""
    if finding["utid"] is None:
        return start
    states = ("running", "ready") if _is_of_running(finding) else ("ready", "running")
    rows = view.rows(
        f"SELECT greatest(ts, {start}) AS at, state FROM thread_state "
        f"WHERE trace_id = {int(finding['trace_id'])} AND utid = {int(finding['utid'])} "
        f"AND state IN {states} AND ts < {end} AND ts + dur > {start} "
        f"ORDER BY state = '{states[0]}' DESC, clipped_ns(ts, dur, {start}, {end}) DESC, ts LIMIT 1"
    )
    return int(rows[0]["at"]) if rows else start


def _is_of_running(finding: dict[str, Any]) -> bool:
    """Whether the cost is running time at the wrong place, instead of time spent waiting."""
    if finding["kind"] in ("higher_ready", "higher_on_e_cores"):
        return True
    judged = analyzers().get(finding["analyzer"])
    return judged is not None and judged.metric == "running"


def _longest_frame(view: View, trace_id: int, start: int, end: int) -> tuple[int, int] | None:
    asked = view.call("frame_time", trace_id=trace_id, process=view.process)
    rows = view.rows(
        f"SELECT start_ns, dur_ns FROM ({asked}) WHERE dur_ns IS NOT NULL "
        f"AND start_ns < {end} AND start_ns + dur_ns > {start} "
        "ORDER BY over_ns DESC NULLS LAST, dur_ns DESC, start_ns LIMIT 1"
    )
    if not rows:
        return None
    found = rows[0]
    return found["start_ns"], found["start_ns"] + found["dur_ns"]


def _lanes(view: View, finding: dict[str, Any], start: int, end: int) -> list[dict[str, Any]]:
    trace_id, utid = int(finding["trace_id"]), finding["utid"]
    clip = f"greatest(ts, {start}) - {start} AS at, clipped_ns(ts, dur, {start}, {end}) AS dur"
    inside = f"trace_id = {trace_id} AND ts < {end} AND ts + dur > {start}"
    types = {
        row["cpu"]: row["core_type"]
        for row in view.kept(view.call("topology"))
        if row["trace_id"] == trace_id
    }

    def states_of(thread: int) -> Rows:
        found = view.rows(
            f"SELECT {clip}, state, cpu FROM thread_state WHERE {inside} AND utid = {thread} "
            "ORDER BY ts"
        )
        for row in found:
            row["key"] = _thread_key(row, types)
        return found

    def lane_of(thread: int, states: Rows) -> dict[str, Any]:
        named = view.rows(f"SELECT thread, tid FROM thread_with_process WHERE utid = {thread}")
        name = short(named[0]["thread"] or named[0]["tid"], 14) if named else "thread"
        return {"name": name, "spans": _drawn(states, end - start)}

    lanes = []
    own: Rows = []
    delayed = _longest_delay(view, finding)
    if delayed:
        lanes.append(lane_of(delayed["utid"], states_of(delayed["utid"])))
    if utid is not None:
        own = states_of(int(utid))
        lanes.append(lane_of(int(utid), own))
        frames = _frame_lane(view, trace_id, start, end)
        if frames:
            lanes.insert(0, frames)
    rows = view.rows(
        f"SELECT {clip}, cpu, state, utid FROM cpu_state WHERE {inside} AND state <> 'idle' "
        "ORDER BY cpu, ts"
    )
    upids = {
        row["utid"]: row["upid"] for row in view.kept("SELECT utid, upid FROM thread_with_process")
    }
    home = upids.get(utid)
    by_cpu: dict[int, Rows] = {}
    for row in rows:
        row["key"] = _cpu_key(row, utid, home, upids)
        by_cpu.setdefault(row["cpu"], []).append(row)
    for cpu in _chosen(by_cpu, own, finding["cpu"]):
        lanes.append({"name": f"CPU {cpu}", "spans": _drawn(by_cpu.get(cpu, []), end - start)})
    return lanes


def _thread_key(row: dict[str, Any], types: dict[int, str | None]) -> str:
    if row["state"] == "running":
        kind = types.get(row["cpu"])
        return "run-e" if kind in ("E", "LP-E") else "run"
    return {"ready": "ready", "waiting": "wait"}.get(row["state"], "unknown")


def _cpu_key(
    row: dict[str, Any], utid: int | None, home: int | None, upids: dict[int, int | None]
) -> str:
    if row["state"] != "thread":
        return "unknown" if row["state"] in ("unknown", "offline") else "interrupt"
    if utid is not None and row["utid"] == utid:
        return "own"
    return "same" if home is not None and upids.get(row["utid"]) == home else "other"


def _frame_lane(view: View, trace_id: int, start: int, end: int) -> dict[str, Any] | None:
    rows = view.rows(
        f"SELECT greatest(start_ns, {start}) - {start} AS at, least(start_ns + dur_ns, {end}) - "
        f"greatest(start_ns, {start}) AS dur, stutter "
        f"FROM ({view.call('frame_time', trace_id=trace_id, process=view.process)}) "
        f"WHERE start_ns < {end} AND start_ns + dur_ns > {start} ORDER BY start_ns, frame"
    )
    for row in rows:
        row["key"] = "late" if row["stutter"] else "frame"
    return {"name": "frames", "spans": _drawn(rows, end - start)} if rows else None


def _chosen(by_cpu: dict[int, Rows], own: Rows, cpu: int | None) -> list[int]:
    """The CPUs of the thread and of the finding, then the busiest, in order of their numbers."""
    used: dict[int, int] = {}
    for row in own:
        if row["cpu"] is not None:
            used[row["cpu"]] = used.get(row["cpu"], 0) + row["dur"]
    listed = ([cpu] if cpu is not None else []) + sorted(used, key=lambda c: (-used[c], c))
    listed += sorted(by_cpu, key=lambda c: (-sum(row["dur"] for row in by_cpu[c]), c))
    return sorted(list(dict.fromkeys(listed))[:_MOST_CPUS])


def _drawn(rows: Rows, length: int) -> list[list[Any]]:
    """`[start, length, key, bottom, height]`: slices, or columns with the share of each key."""
    if len(rows) <= _MOST_SPANS:
        return [[row["at"], row["dur"], row["key"], 0, 1] for row in rows]
    width = length / _COLUMNS
    shares: list[dict[str, float]] = [{} for _ in range(_COLUMNS)]
    for row in rows:
        at, stop = row["at"], row["at"] + row["dur"]
        for column in range(int(at / width), min(_COLUMNS - 1, int(stop / width)) + 1):
            part = min(stop, (column + 1) * width) - max(at, column * width)
            if part > 0:
                share = shares[column]
                share[row["key"]] = share.get(row["key"], 0.0) + part / width
    found: list[list[Any]] = []
    for column, share in enumerate(shares):
        bottom = 0.0
        for key, part in sorted(share.items()):
            spot = [round(column * width), round(width), key, round(bottom, 3), round(part, 3)]
            found.append(spot)
            bottom += part
    return found
