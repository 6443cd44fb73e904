"""What the offline timeline contains: shares of each recording, and all slices where it matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from schedlens.output.terminal import visible
from schedlens.report import pyramid
from schedlens.report.figures import short
from schedlens.report.pyramid import Stream

DEFAULT_BYTES = 8_000_000
KINDS = ("cpu", "thread", "sibling", "parked")
COLUMNS = (4096, 2048, 1024, 512, 256, 128, 64)
# Part of a recording's budget for the shares; the rest is for slices.
SHARES_PART = 0.4
# A slice of a CPU or a thread takes about so many bytes in the page.
SLICE_BYTES = 14
LEAST_AROUND_NS = 5_000_000
MOST_WAITS = 200
WAITS_PER_THREAD = 5

Range = tuple[int, int]


@dataclass
class Recording:
    """One recording of the session with its window of the timeline."""

    con: duckdb.DuckDBPyConnection
    trace_id: int
    start_ns: int
    end_ns: int

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        found: list[dict[str, Any]] = self.con.sql(sql).to_arrow_table().to_pylist()
        return found


def payload(
    con: duckdb.DuckDBPyConnection, shown: int, budget: int = DEFAULT_BYTES
) -> dict[str, Any]:
    """The timeline of every recording for the page, in at most `budget` bytes of slices.

    `shown` is the recording that opens first; of several, it gets half of the budget.
    """
    traces = con.execute(
        "SELECT trace_id, label, least(coalesce(first_ns, 0), 0), duration_ns FROM trace "
        "WHERE duration_ns > 0 ORDER BY trace_id"
    ).fetchall()
    listed = [
        {"trace_id": trace, "name": visible(short(label, 80)), "start_ns": first, "end_ns": last}
        for trace, label, first, last in traces
    ]
    recordings = []
    for trace, _, first, last in traces:
        part = budget / len(traces)
        if len(traces) > 1:
            part = budget / 2 if trace == shown else budget / 2 / (len(traces) - 1)
        recordings.append(_recording(Recording(con, trace, first, last), listed, int(part)))
    con.execute(f"DROP TABLE IF EXISTS {pyramid.TABLE}")
    known = [trace for trace, *_ in traces]
    return {"shown": shown if shown in known else next(iter(known), None), "recordings": recordings}


def _recording(one: Recording, listed: list[dict[str, Any]], budget: int) -> dict[str, Any]:
    span = (one.start_ns, one.end_ns)
    reasons = pyramid.wait_reasons(one.con, one.trace_id)
    pyramid.fill(one.con, one.trace_id, reasons, span)
    overview = _overview(one, listed, reasons)
    extra = _small_lanes(one)
    left = budget - sum(len(stream.data) for stream in extra)
    count = one.rows(f"SELECT count(*) AS n FROM {pyramid.TABLE}")[0]["n"]
    streams = []
    if count * SLICE_BYTES <= left:
        streams = [pyramid.slices(one.con, kind, *span) for kind in KINDS]
        if sum(len(stream.data) for stream in streams) > left:
            streams = []
        else:
            facts = _facts(one, span)
            if sum(len(stream.data) for stream in [*streams, facts]) <= left:
                streams.append(facts)
    if not streams:
        streams = _shares(one, int(left * SHARES_PART))
        left -= sum(len(stream.data) for stream in streams)
        streams += _around(one, overview["findings"], left)
    waits = _waits(one)
    return {
        "overview": overview,
        "streams": [stream.payload() for stream in [*streams, *extra]],
        "waits": waits,
    }


def _shares(one: Recording, budget: int) -> list[Stream]:
    """The finest shares of the whole recording that fit; the coarsest if none do."""
    made: list[Stream] = []
    lanes = one.rows(f"SELECT count(DISTINCT (kind, lane)) AS n FROM {pyramid.TABLE}")[0]["n"]
    for columns in COLUMNS:
        # A column of a lane takes at least two bytes: do not make what cannot fit.
        if lanes * columns * 2 > budget and columns != COLUMNS[-1]:
            continue
        span = (one.start_ns, one.end_ns)
        made = [pyramid.shares(one.con, kind, *span, columns) for kind in KINDS]
        if sum(len(stream.data) for stream in made) <= budget:
            break
    return made


def _around(one: Recording, findings: list[dict[str, Any]], budget: int) -> list[Stream]:
    """Every slice around each finding, stutter and worst wait, as far as the budget allows."""
    wanted = [
        (found["start_ns"], found["end_ns"])
        for found in findings
        if found["start_ns"] is not None and found["end_ns"] is not None
    ]
    wanted += [
        (row["start_ns"], row["start_ns"] + row["dur_ns"])
        for row in one.rows(
            f"SELECT start_ns, dur_ns FROM frame_time(p_trace_id := {one.trace_id}) WHERE stutter "
            "ORDER BY dur_ns DESC, start_ns LIMIT 50"
        )
    ]
    wanted += [
        (row["ready_ts"], row["ready_ts"] + row["ready_ns"])
        for row in one.rows(f"FROM worst_waits(p_trace_id := {one.trace_id}) ORDER BY place")
    ]
    whole = one.end_ns - one.start_ns
    chosen: list[Range] = []
    streams: list[Stream] = []
    for start, end in wanted:
        edge = max(LEAST_AROUND_NS, (end - start) // 4)
        begin, stop = max(one.start_ns, start - edge), min(one.end_ns, end + edge)
        # A finding about all of the recording has no moment.
        if stop - begin > 0.5 * whole or any(a <= begin and stop <= b for a, b in chosen):
            continue
        count = one.rows(
            f"SELECT count(*) AS n FROM {pyramid.TABLE} "
            f"WHERE start_ns < {stop} AND start_ns + dur_ns > {begin}"
        )[0]["n"]
        if count * SLICE_BYTES > budget:
            continue
        made = [pyramid.slices(one.con, kind, begin, stop) for kind in KINDS]
        made.append(_facts(one, (begin, stop)))
        size = sum(len(stream.data) for stream in made)
        if size <= budget:
            budget -= size
            chosen.append((begin, stop))
            streams += made
    return streams


def _facts(one: Recording, span: Range) -> Stream:
    """What each slice of the range needs beyond its time: why it ended, and what woke it."""
    found = one.con.sql(
        "SELECT utid AS lane, ts AS start_ns, dur AS dur_ns, cpu::BIGINT AS key, priority, "
        "end_reason, ready_ns, wait_ns, waker_utid AS waker FROM sched_slice "
        f"WHERE trace_id = {one.trace_id} AND NOT is_idle AND dur > 0 "
        f"AND ts < {span[1]} AND ts + dur > {span[0]} ORDER BY utid, ts"
    ).to_arrow_table()
    return Stream("fact", "slices", *span, pyramid.packed(found, {"shape": "slices"}))


def _small_lanes(one: Recording) -> list[Stream]:
    """Frames, marks, the count of parked CPUs, and frequencies."""
    trace = one.trace_id
    made = {
        "frame": "SELECT dense_rank() OVER (ORDER BY process) - 1 AS lane, start_ns, dur_ns, "
        "coalesce(stutter, false)::BIGINT AS key, frame AS row "
        f"FROM frame_time(p_trace_id := {trace}, p_from_ns := {one.start_ns}, "
        f"p_to_ns := {one.end_ns}) WHERE dur_ns > 0 ORDER BY lane, start_ns LIMIT 50000",
        "mark": "SELECT 0::BIGINT AS lane, ts AS start_ns, greatest(coalesce(dur, 0), 1) AS dur_ns,"
        " (kind = 'workload_phase')::BIGINT AS key, name AS label FROM mark "
        f"WHERE trace_id = {trace} AND kind <> 'frame' ORDER BY ts LIMIT 20000",
        "parked_count": "SELECT 0::BIGINT AS lane, ts AS start_ns, dur AS dur_ns, "
        f"(parked + soft_parked)::DOUBLE AS value FROM parked_count(p_trace_id := {trace}) "
        "WHERE dur > 0 ORDER BY ts LIMIT 20000",
        "frequency": "SELECT cpu::BIGINT AS lane, ts AS start_ns, "
        f"coalesce(lead(ts) OVER (PARTITION BY cpu ORDER BY ts), {one.end_ns}) - ts AS dur_ns, "
        f"khz / 1000.0::DOUBLE AS value FROM cpu_frequency WHERE trace_id = {trace} "
        "AND ts IS NOT NULL ORDER BY lane, start_ns LIMIT 40000",
    }
    streams = []
    for kind, sql in made.items():
        found = one.con.sql(sql).to_arrow_table()
        if found.num_rows:
            cast = pa.schema(
                [
                    pa.field(f.name, pa.float64()) if pa.types.is_decimal(f.type) else f
                    for f in found.schema
                ]
            )
            data = pyramid.packed(found.cast(cast), {"shape": "slices"})
            streams.append(Stream(kind, "slices", one.start_ns, one.end_ns, data))
    return streams


def _overview(one: Recording, listed: list[dict[str, Any]], reasons: list[str]) -> dict[str, Any]:
    trace = one.trace_id
    threads = one.rows(
        f"""
SELECT t.utid, t.tid, t.name, t.upid, coalesce(s.running_ns, 0)::BIGINT AS running_ns,
  coalesce(s.ready_ns, 0)::BIGINT AS ready_ns, 0 AS cost_ns
FROM thread AS t
JOIN (
  SELECT utid, sum(dur) FILTER (WHERE state = 'running') AS running_ns,
    sum(dur) FILTER (WHERE state = 'ready') AS ready_ns
  FROM thread_state WHERE trace_id = {trace} GROUP BY utid
) AS s USING (utid)
WHERE t.trace_id = {trace} AND NOT t.is_idle
ORDER BY running_ns DESC, t.utid
"""
    )
    for thread in threads:
        thread["name"] = visible(short(thread["name"], 60)) if thread["name"] else None
    upids = {thread["upid"] for thread in threads}
    processes = [
        {**row, "name": visible(short(row["name"], 60)) if row["name"] else None}
        for row in one.rows(f"SELECT upid, pid, name FROM process WHERE trace_id = {trace}")
        if row["upid"] in upids
    ]
    findings = one.rows(
        "SELECT finding_id AS id, kind, title, trace_id, utid, start_ns, end_ns FROM finding "
        f"WHERE trace_id = {trace} ORDER BY finding_id"
    )
    used = {
        row["key"]
        for row in one.rows(f"SELECT DISTINCT key FROM {pyramid.TABLE} WHERE kind = 'thread'")
    }
    names = dict(pyramid.STATES) | {
        pyramid.FIRST_REASON + i: (f"waiting: {visible(short(reason, 60))}", "waiting", None)
        for i, reason in enumerate(reasons)
    }
    return {
        "trace_id": trace,
        "recordings": listed,
        "start_ns": one.start_ns,
        "end_ns": one.end_ns,
        "cpus": one.rows(
            "SELECT DISTINCT ON (c.cpu) c.cpu, t.package, t.llc, t.core, t.core_type, t.smt_index "
            f"FROM (SELECT DISTINCT cpu FROM cpu_state WHERE trace_id = {trace}) AS c "
            f"LEFT JOIN topology(p_trace_id := {trace}) AS t USING (cpu) ORDER BY c.cpu"
        ),
        "processes": processes,
        "threads": threads,
        "states": [
            {"key": key, "name": name, "group": group, "core_type": core, "hatch": None}
            for key, (name, group, core) in sorted(names.items())
            if key in used
        ],
        "gaps": one.rows(f"SELECT cpu, start_ns, end_ns FROM loss WHERE trace_id = {trace}"),
        "counters": _counters(one),
        "findings": [{**found, "title": visible(found["title"])} for found in findings],
        "has_frames": _any(one, f"FROM frame WHERE trace_id = {trace} AND dur_ns > 0"),
        "has_marks": _any(one, f"FROM mark WHERE trace_id = {trace} AND kind <> 'frame'"),
        "has_parking": _any(one, f"FROM cpu_parking WHERE trace_id = {trace}"),
    }


def _counters(one: Recording) -> list[dict[str, Any]]:
    found = []
    if _any(one, f"FROM cpu_parking WHERE trace_id = {one.trace_id}"):
        found.append({"id": 0, "name": "parked CPUs", "unit": "CPUs", "kind": "parked_count"})
    for row in one.rows(
        f"SELECT DISTINCT cpu FROM cpu_frequency WHERE trace_id = {one.trace_id} ORDER BY cpu"
    ):
        name = f"frequency of CPU {row['cpu']}"
        found.append({"id": row["cpu"], "name": name, "unit": "MHz", "kind": "frequency"})
    return found


def _any(one: Recording, source: str) -> bool:
    return bool(one.rows(f"SELECT EXISTS ({source}) AS found")[0]["found"])


def _waits(one: Recording) -> list[dict[str, Any]]:
    """The longest periods in which each thread was ready or waiting."""
    # Only periods that reach a thread's last place are ranked, because there are millions of them.
    return one.rows(
        f"""
WITH period AS (
  SELECT utid, ts, dur, state, coalesce(reason, '') AS reason
  FROM thread_state
  WHERE trace_id = {one.trace_id} AND state IN ('ready', 'waiting')
    AND NOT left_censored AND NOT right_censored AND dur > 0
),
reach AS (
  SELECT utid, state, max(dur, {WAITS_PER_THREAD})[-1] AS least_ns FROM period GROUP BY utid, state
)
SELECT period.utid, ts AS start_ns, dur AS dur_ns, period.state, reason
FROM period
JOIN reach
  ON reach.utid = period.utid AND reach.state = period.state AND period.dur >= reach.least_ns
QUALIFY row_number() OVER (PARTITION BY period.utid, period.state ORDER BY dur DESC, ts)
  <= {WAITS_PER_THREAD}
ORDER BY period.state, dur DESC, ts
LIMIT {MOST_WAITS}
"""
    )
