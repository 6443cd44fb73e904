"""What the offline timeline contains: shares of each recording, and all slices where it matters."""

from __future__ import annotations

import base64
import contextlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import duckdb
import pyarrow as pa

from schedlens.ask import interruptible
from schedlens.ask.findings import Scope
from schedlens.output.terminal import visible
from schedlens.report.figures import short
from schedlens.timeline import inventory, lanes, parts, stacks
from schedlens.timeline.lanes import Asked
from schedlens.timeline.prepared import Timelines

DEFAULT_BYTES = 8_000_000
KINDS = ("cpu", "thread", "sibling", "parked")
# The kinds whose shares are known; the others have few slices.
SHARED = ("cpu", "thread", "sibling")
SMALL = ("parked", "frame", "mark", "guest", "parked_count", "frequency", "counter")
COLUMNS = (4096, 2048, 1024, 512, 256, 128, 64)
# Part of a recording's budget for the shares; the rest is for slices.
SHARES_PART = 0.4
# Part of it for the curves of all counters, and as much for those of frequencies.
CURVES_PART = 0.1
# A slice of a CPU or a thread takes about so many bytes in the page.
SLICE_BYTES = 14
# Curves have at most so many steps.
CURVE_COLUMNS = 2000
LEAST_AROUND_NS = 5_000_000
# A slice that is longer than this part of the recording is long: each CPU has at most so many.
_LONG_PART = 4096
# The stacks that most slices have, and how many of the innermost functions of each.
MOST_STACKS = 2_000
MOST_FRAMES = 24
MOST_WAITS = 200
WAITS_PER_THREAD = 5

MOST_MARKS = 50_000
LEAST_COLUMNS = 100
# A third of the time of zlib's default level, for 2.5 % more bytes.
_LEVEL = 4

# The stack with which each slice ended, and the one before it.
_LEFT = """, left_with AS (
  SELECT utid, ts, stack_id FROM left_stack({trace}) WHERE ts BETWEEN {earliest} AND {end}
)"""
_STACKS = """, l.stack_id AS left_stack,
  lag(l.stack_id) OVER (PARTITION BY s.utid ORDER BY s.ts) AS before_stack,
  w.stack_id AS waker_stack"""
_LEFT_JOIN = "LEFT JOIN left_with AS l ON l.utid = s.utid AND l.ts = s.ts + s.dur"

Range = tuple[int, int]
_EVER: Range = (-(1 << 62), 1 << 62)
Moments = Callable[[int], list[Range]]
"""The ranges of a recording around which its slices are worth their bytes, besides the findings."""


@dataclass(frozen=True)
class Stream:
    """A packed stream of one kind of lanes over a range."""

    kind: str
    shape: str
    from_ns: int
    to_ns: int
    data: str


@dataclass
class Recording:
    """One recording of the session with its window of the timeline."""

    timelines: Timelines
    moments: Moments
    trace_id: int
    start_ns: int
    end_ns: int
    stack_ids: Counter[int] = field(default_factory=Counter)
    """How many of the slices and samples in the page refer to each stack."""
    _drawn: set[tuple[int, int]] = field(default_factory=set)

    @property
    def span(self) -> Range:
        """Start and end."""
        return self.start_ns, self.end_ns

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        return inventory.table(self.timelines, sql, {})

    def asked(self, kind: str, span: Range, width: int = CURVE_COLUMNS) -> Asked:
        """A request for all lanes of a kind."""
        return Asked(self.trace_id, kind, *span, width)

    def drawn(self) -> set[tuple[int, int]]:
        """The lanes of threads, each with the keys of its parts."""
        if not self._drawn:
            summed = self.timelines.sums_sql("thread", self.trace_id, *self.span)
            rows = self.rows(f"SELECT DISTINCT lane, key FROM ({summed}) WHERE ns > 0")
            self._drawn.update((row["lane"], row["key"]) for row in rows)
        return self._drawn

    @cached_property
    def _long_slices(self) -> list[Range]:
        rows = self.rows(
            f"SELECT ts, ts + dur AS end_ns FROM sched_slice WHERE trace_id = {self.trace_id} "
            f"AND dur > {self._long_ns} AND NOT is_idle"
        )
        return [(row["ts"], row["end_ns"]) for row in rows]

    @property
    def _long_ns(self) -> int:
        return max(1, (self.end_ns - self.start_ns) // _LONG_PART)

    def earliest(self, time_ns: int) -> int:
        """A time before which no slice begins that is not over at `time_ns`.

        Tables are nearly in the order of the begin: a query with this limit reads few rows.
        """
        long = [start for start, end in self._long_slices if start <= time_ns < end]
        return min([time_ns - self._long_ns, *long])

    def estimated_bytes(self, span: Range) -> int:
        """About how many bytes the slices that begin in a range take."""
        return _estimated_bytes(self.timelines, self.trace_id, span)


def payload(
    con: duckdb.DuckDBPyConnection,
    shown: int,
    budget: int = DEFAULT_BYTES,
    timelines: Timelines | None = None,
    scope: Scope | None = None,
) -> dict[str, Any]:
    """The timeline of every recording for the page, in at most `budget` bytes of slices.

    `shown` is the recording that opens first; of several, it gets half of the budget. Without
    `timelines`, the recordings are prepared in memory. `scope` is that of the report, whose answers
    the timeline shares.
    """
    known = timelines or Timelines(con)
    try:
        return _payload(known, partial(_moments, scope or Scope(con)), shown, budget)
    finally:
        if timelines is None:
            known.detach()


@contextmanager
def meanwhile(
    scope: Scope, shown: int, budget: int, timelines: Timelines | None
) -> Iterator[Callable[[], dict[str, Any]]]:
    """A function that returns `payload`: while the block runs, a second thread makes it.

    Only of a large database, whose `timelines` are in a file: otherwise it is made when the
    function is called. The thread reads sums and short ranges, so it takes little of the memory
    that the questions need which are asked meanwhile.
    """
    if timelines is None or not timelines.in_file:
        yield lambda: payload(scope.con, shown, budget, timelines, scope)
        return
    # Asked here, because a cursor does not see the stored answers of another one.
    known = {
        trace: _moments(scope, trace)
        for trace, part in _budgets(timelines, shown, budget).items()
        if _estimated_bytes(timelines, trace, _EVER) > part
    }
    with timelines.cursor() as own, ThreadPoolExecutor(1) as pool:

        def moments(trace: int) -> list[Range]:
            return known[trace] if trace in known else _moments(Scope(own.con), trace)

        pending = pool.submit(_payload, own, moments, shown, budget)
        with interruptible.stopped(pending, own.stop):
            yield lambda: interruptible.result(pending, own.stop)


def _payload(timelines: Timelines, moments: Moments, shown: int, budget: int) -> dict[str, Any]:
    budgets = _budgets(timelines, shown, budget)
    return {
        "shown": shown if shown in budgets else next(iter(budgets), None),
        "recordings": [
            _recording(Recording(timelines, moments, trace, *timelines.of(trace)), part)
            for trace, part in budgets.items()
        ],
    }


def _budgets(timelines: Timelines, shown: int, budget: int) -> dict[int, int]:
    """The part of the budget that each recording gets."""
    sql = "SELECT trace_id FROM trace WHERE duration_ns > 0 ORDER BY trace_id"
    traces = [row["trace_id"] for row in inventory.table(timelines, sql, {})]
    if len(traces) == 1:
        return {traces[0]: budget}
    return {
        trace: int(budget / 2 if trace == shown else budget / 2 / (len(traces) - 1))
        for trace in traces
    }


def _estimated_bytes(timelines: Timelines, trace_id: int, span: Range) -> int:
    number: int = inventory.table(timelines, parts.count_sql(trace_id, *span), {})[0]["n"]
    return number * SLICE_BYTES


def _recording(one: Recording, budget: int) -> dict[str, Any]:
    overview = _overview(one)
    extra = _small_lanes(one, overview, budget)
    left = budget - sum(len(stream.data) for stream in extra)
    streams = []
    if one.estimated_bytes(one.span) <= left:
        streams = [_slices(one, kind, one.span) for kind in SHARED]
        if sum(len(stream.data) for stream in streams) > left:
            streams = []
        else:
            facts = _facts(one, one.span)
            if sum(len(stream.data) for stream in [*streams, *facts]) <= left:
                streams += facts
    if not streams:
        streams = _shares(one, int(left * SHARES_PART))
        left -= sum(len(stream.data) for stream in streams)
        streams += _around(one, overview["findings"], left)
    waits = _waits(one)
    if one.stack_ids:
        overview["stacks"] = _stacks(one)
    return {
        "overview": overview,
        "streams": [vars(stream) for stream in [*streams, *extra]],
        "waits": waits,
    }


def _stream(kind: str, span: Range, table: pa.Table) -> Stream:
    """A table as an uncompressed Arrow stream, deflated, in base64."""
    shape = table.schema.metadata[b"shape"].decode()
    data = base64.b64encode(zlib.compress(lanes.as_bytes(table.combine_chunks()), _LEVEL)).decode()
    return Stream(kind, shape, *span, data)


def _slices(one: Recording, kind: str, span: Range) -> Stream:
    """Every slice of a kind of lanes that overlaps the range, whole."""
    table = lanes.slices(one.timelines, one.asked(kind, span))
    return _stream(kind, span, table)


def _shares(one: Recording, budget: int) -> list[Stream]:
    """The finest shares of the whole recording that fit; the coarsest if none do."""
    made: list[Stream] = []
    count = len(SHARED) * max(1, len({lane for lane, _ in one.drawn()}))
    length = one.end_ns - one.start_ns
    prepared = [
        width for width in one.timelines.widths(one.trace_id) if length // width <= COLUMNS[0]
    ]
    widths = prepared or [max(1, -(-length // columns)) for columns in COLUMNS]
    for width in widths:
        # A column of a lane takes at least two bytes: do not make what cannot fit.
        if count * (length // width) * 2 > budget and width != widths[-1]:
            continue
        made = [
            _stream(kind, one.span, lanes.shares(one.timelines, one.asked(kind, one.span), width))
            for kind in SHARED
        ]
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
    wanted += one.moments(one.trace_id)
    whole = one.end_ns - one.start_ns
    chosen: list[Range] = []
    streams: list[Stream] = []
    for start, end in wanted:
        edge = max(LEAST_AROUND_NS, (end - start) // 4)
        begin, stop = max(one.start_ns, start - edge), min(one.end_ns, end + edge)
        # A finding about all of the recording has no moment.
        if stop - begin > 0.5 * whole or any(a <= begin and stop <= b for a, b in chosen):
            continue
        if one.estimated_bytes((begin, stop)) > budget:
            continue
        made = [_slices(one, kind, (begin, stop)) for kind in SHARED]
        made += _facts(one, (begin, stop))
        size = sum(len(stream.data) for stream in made)
        if size <= budget:
            budget -= size
            chosen.append((begin, stop))
            streams += made
    return streams


def _moments(scope: Scope, trace_id: int) -> list[Range]:
    """The longest stutters, then the worst waits; the analysis shares the answers."""
    frames = scope.call("frame_time", trace_id=trace_id)
    waits = scope.call("worst_waits", trace_id=trace_id)
    found = []
    for sql in (
        f"SELECT start_ns AS ts, dur_ns AS dur FROM ({frames}) WHERE stutter "
        "ORDER BY dur_ns DESC, start_ns LIMIT 50",
        f"SELECT ready_ts AS ts, ready_ns AS dur FROM ({waits}) ORDER BY place",
    ):
        # A question that needs more memory than it may have is left out.
        with contextlib.suppress(duckdb.OutOfMemoryException):
            found += [(row["ts"], row["ts"] + row["dur"]) for row in scope.rows(sql)]
    return found


def _facts(one: Recording, span: Range) -> list[Stream]:
    """What each slice of the range needs beyond its time: why it ended, what woke it, counters."""
    con, trace = one.timelines.con, one.trace_id
    has_stacks = stacks.recorded(one.timelines, trace)
    own = f"trace_id = {trace} AND dur > 0 AND ts < {span[1]} AND ts + dur > {span[0]}"
    near = f"NOT is_idle AND ts >= {one.earliest(span[0])} AND {own}"
    # Wakeups are found by their time: a recording has as many as slices.
    earliest = one.rows(
        f"SELECT coalesce(min(ts - ready_ns), 0) AS ns FROM sched_slice WHERE {near}"
    )[0]["ns"]
    found = con.sql(
        f"""
WITH woken AS (
  SELECT w.utid, w.ts, bool_or(coalesce(w.in_interrupt, t.is_idle)) AS in_interrupt,
    max(w.stack_id) AS stack_id
  FROM wakeup AS w
  LEFT JOIN thread AS t ON t.utid = w.waker_utid
  WHERE w.trace_id = {trace} AND w.effective AND w.ts BETWEEN {earliest} AND {span[1]}
  GROUP BY w.utid, w.ts
)
{_LEFT.format(trace=trace, earliest=earliest, end=span[1]) if has_stacks else ""}
SELECT s.utid AS lane, s.ts AS start_ns, s.dur AS dur_ns, s.cpu::BIGINT AS key, s.priority,
  s.end_reason, s.ready_ns, s.wait_ns, s.waker_utid AS waker, w.in_interrupt::INTEGER AS interrupt
  {_STACKS if has_stacks else ""}
FROM (FROM sched_slice WHERE {near}) AS s
LEFT JOIN woken AS w ON w.utid = s.utid AND w.ts = s.ts - s.ready_ns
{_LEFT_JOIN if has_stacks else ""}
ORDER BY s.utid, s.ts
"""
    ).to_arrow_table()
    counted = con.sql(
        "SELECT utid AS lane, ts AS start_ns, dur AS dur_ns, number AS key, cpu, "
        "delta::DOUBLE AS value FROM counter_delta JOIN (SELECT counter, row_number() OVER "
        f"(ORDER BY counter) - 1 AS number FROM counter_delta WHERE trace_id = {trace} "
        f"GROUP BY counter) USING (counter) WHERE {own} ORDER BY utid, ts"
    ).to_arrow_table()
    if has_stacks:
        sampled = con.sql(
            "SELECT utid AS lane, ts AS start_ns, 0::BIGINT AS dur_ns, stack_id FROM sample "
            f"WHERE trace_id = {trace} AND utid IS NOT NULL "
            f"AND ts BETWEEN {span[0]} AND {span[1]} ORDER BY utid, ts"
        ).to_arrow_table()
        one.stack_ids.update(
            number for number in sampled.column("stack_id").to_pylist() if number is not None
        )
        for name in stacks.IDS:
            one.stack_ids.update(
                number for number in found.column(name).to_pylist() if number is not None
            )
    metadata = {"shape": "slices"}
    streams = [_stream("fact", span, found.replace_schema_metadata(metadata))]
    if counted.num_rows:
        streams.append(_stream("counted", span, counted.replace_schema_metadata(metadata)))
    if has_stacks and sampled.num_rows:
        streams.append(_stream("sampled", span, sampled.replace_schema_metadata(metadata)))
    return streams


def _stacks(one: Recording) -> dict[str, Any]:
    """The functions of the stacks that most slices have: names, and for each stack their places."""
    chosen = [number for number, _ in one.stack_ids.most_common(MOST_STACKS)]
    names: dict[str, int] = {}
    of = {}
    for number, functions in stacks.frames(one.timelines, one.trace_id, chosen).items():
        shown = [visible(short(name, 120)) for name in functions[:MOST_FRAMES]]
        shown += ["…"] if len(functions) > MOST_FRAMES else []
        of[str(number)] = [names.setdefault(name, len(names)) for name in shown]
    return {"names": list(names), "of": of}


def _small_lanes(one: Recording, overview: dict[str, Any], budget: int) -> list[Stream]:
    """Frames, marks, guests, parking, and the curves of counters, frequencies, and parked CPUs."""
    made = []
    curves = Counter(row["kind"] for row in overview["counters"])
    for kind in SMALL:
        if not _may_have_lanes(one, kind, overview):
            continue
        # Curves of many CPUs have wider columns: every lane is whole.
        steps = int(budget * CURVES_PART) // SLICE_BYTES
        width = min(CURVE_COLUMNS, max(LEAST_COLUMNS, steps // max(1, curves[kind])))
        table = lanes.lanes(one.timelines, one.asked(kind, one.span, width))
        if kind in ("mark", "guest") and table.num_rows > MOST_MARKS:
            overview[f"{kind}s_omitted"] = table.num_rows - MOST_MARKS
            longest = table.sort_by([("dur_ns", "descending"), ("start_ns", "ascending")])
            ordered = longest.slice(0, MOST_MARKS).sort_by(
                [("lane", "ascending"), ("start_ns", "ascending")]
            )
            table = ordered.replace_schema_metadata(table.schema.metadata)
        if table.num_rows:
            made.append(_stream(kind, one.span, table))
    return made


def _may_have_lanes(one: Recording, kind: str, overview: dict[str, Any]) -> bool:
    """False if there are none, which takes less time to find out than planning the question."""
    if kind in ("frame", "guest"):
        return bool(overview[f"{kind}s"])
    if kind == "mark":
        return bool(overview["has_marks"])
    if kind == "parked":
        # Windows parks CPUs: without a record, it is unknown which.
        windows = (
            f"SELECT 1 FROM trace WHERE trace_id = {one.trace_id} AND is_windows_source(source)"
        )
        return overview["has_parking"] or bool(one.rows(windows))
    return any(row["kind"] == kind for row in overview["counters"])


def _overview(one: Recording) -> dict[str, Any]:
    """The overview of the server, with names that are safe to show, without what is not used."""
    found = inventory.overview(one.timelines, one.trace_id)
    drawn = one.drawn()
    used = {key for _, key in drawn}
    found["states"] = [state for state in found["states"] if state["key"] in used]
    seen = {lane for lane, _ in drawn}
    found["threads"] = [thread for thread in found["threads"] if thread["utid"] in seen]
    upids = {thread["upid"] for thread in found["threads"]}
    found["processes"] = [process for process in found["processes"] if process["upid"] in upids]
    for name in ("recordings", "threads", "processes", "states", "frames", "counters", "guests"):
        for row in found[name]:
            row["name"] = visible(short(row["name"], 80)) if row["name"] else None
    for row in found["findings"]:
        row["title"] = visible(row["title"])
    return found


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
ORDER BY period.state, dur DESC, ts, period.utid
LIMIT {MOST_WAITS}
"""
    )
