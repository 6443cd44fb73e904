"""The content of lanes in a range: every slice, or exact sums in columns of time, as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from schedlens import _decoders
from schedlens.errors import UnknownNameError
from schedlens.timeline.columns import split_sql
from schedlens.timeline.prepared import Timelines

# Slices are sent up to this many per pixel on average, and up to this many in all.
_MOST_PER_PIXEL = 4
_MOST_SLICES = 120_000
MOST_PIXELS = 8192
# With more shares than this, a coarser level is sent.
MOST_SHARES = 200_000
# A lane for the frames of each process.
FRAME_LANE = "dense_rank() OVER (ORDER BY process, upid) - 1"
# A lane for each CPU of each guest.
GUEST_LANE = "dense_rank() OVER (ORDER BY guest, guest_trace_id, guest_cpu) - 1"
_SPLIT = {"cpu": "cpu", "sibling": "sibling", "thread": "thread", "process": "thread"}
_DIRECT = {
    "parked": (
        "SELECT cpu AS lane, ts AS start_ns, dur AS dur_ns, "
        "CASE state WHEN 'parked' THEN 1 WHEN 'soft_parked' THEN 2 ELSE 3 END AS key "
        "FROM parking_spell({one}) WHERE state <> 'unparked'"
    ),
    "frame": (
        f"SELECT {FRAME_LANE} AS lane, start_ns, dur_ns, "
        "coalesce(stutter, false)::BIGINT AS key, frame AS row "
        "FROM frame_time(p_trace_id := {one}, p_from_ns := {start}, p_to_ns := {end}) "
        "WHERE dur_ns > 0"
    ),
    "mark": (
        "SELECT 0 AS lane, ts AS start_ns, coalesce(dur, 0) AS dur_ns, "
        "(kind = 'workload_phase')::BIGINT AS key, name AS label "
        "FROM mark WHERE trace_id = {one} AND kind <> 'frame'"
    ),
    "guest": (
        f"SELECT {GUEST_LANE} AS lane, ts AS start_ns, dur AS dur_ns, CASE host_state "
        "WHEN 'running' THEN 0 WHEN 'ready' THEN 1 WHEN 'waiting' THEN 2 ELSE 3 END AS key, "
        "coalesce(guest_thread, 'thread ' || guest_tid, 'unknown') AS label "
        "FROM guest_slice({one})"
    ),
}
_VALUES = {
    "frequency": (
        "SELECT cpu AS lane, ts AS start_ns, coalesce(lead(ts) OVER "
        "(PARTITION BY cpu ORDER BY ts), {end}) - ts AS dur_ns, khz / 1000.0::DOUBLE AS value "
        "FROM cpu_frequency WHERE trace_id = {one}"
    ),
    "counter": (
        "SELECT id AS lane, ts AS start_ns, dur AS dur_ns, delta * 1e9 / dur AS value "
        "FROM counter_delta JOIN (SELECT counter, cpu, row_number() OVER (ORDER BY counter, cpu) "
        "AS id FROM (SELECT DISTINCT counter, cpu FROM counter_delta WHERE trace_id = {one})) "
        "USING (counter, cpu) WHERE trace_id = {one} AND dur > 0"
    ),
    "parked_count": (
        "SELECT 0 AS lane, ts AS start_ns, coalesce(lead(ts) OVER (ORDER BY ts), {end}) - ts "
        "AS dur_ns, value FROM (SELECT ts, sum(sum(step)) OVER (ORDER BY ts)::DOUBLE AS value "
        "FROM (SELECT unnest([ts, ts + dur]) AS ts, unnest([1, -1]) AS step "
        "FROM parking_spell({one}) WHERE state = 'parked') GROUP BY ts)"
    ),
}
KINDS = (*_SPLIT, *_DIRECT, *_VALUES)


@dataclass(frozen=True)
class Asked:
    """A request for lanes; without `ids` all lanes of the kind, ns of the recording."""

    trace_id: int
    kind: str
    start_ns: int
    end_ns: int
    width: int = 1000
    ids: Sequence[int] = ()

    @property
    def chosen(self) -> str:
        """SQL for the lanes."""
        return f"lane IN ({', '.join(map(str, self.ids))})" if self.ids else "true"

    @property
    def inside(self) -> str:
        """SQL for rows of the lanes within the range."""
        return (
            f"{self.chosen} AND start_ns < {self.end_ns} AND start_ns + dur_ns >= {self.start_ns} "
            f"AND (start_ns + dur_ns > {self.start_ns} OR dur_ns = 0)"
        )


def lanes(timelines: Timelines, asked: Asked) -> pa.Table:
    """Slices or shares of the lanes; which of them is in the metadata of the schema.

    Times are exact: `shares` has the ns of each key in each column. Columns of shares may begin
    before the range, and be narrower or up to twice as wide as a pixel: `start_ns` and `column_ns`
    in the metadata describe them. Raises `UnknownNameError` for a kind or a recording that does
    not exist.
    """
    if asked.kind not in KINDS:
        raise UnknownNameError("kind of lane", asked.kind, list(KINDS))
    first, last = timelines.of(asked.trace_id)
    if asked.kind in _VALUES:
        names = {"one": asked.trace_id, "start": first, "end": last}
        return _values(timelines, asked, _VALUES[asked.kind].format(**names))
    if asked.kind in _DIRECT:
        return slices(timelines, asked)
    width = max(1, min(asked.width, MOST_PIXELS))
    if asked.kind != "process":
        most = min(_MOST_SLICES, _MOST_PER_PIXEL * width * max(1, len(asked.ids) or 8))
        found = f"SELECT 1 FROM ({_parts(timelines, asked)}) WHERE {asked.chosen} LIMIT {most + 1}"
        if _number(timelines, f"SELECT count(*) FROM ({found})") <= most:
            return slices(timelines, asked)
    pixel = max(1, (asked.end_ns - asked.start_ns) // width)
    widths = timelines.widths(asked.trace_id)
    fitting = [column for column in widths if column <= 2 * pixel]
    column = fitting[-1] if fitting else pixel
    for wider in [one for one in widths if fitting and one > column]:
        if _shares_of(timelines, asked, column) <= MOST_SHARES:
            break
        column = wider
    return shares(timelines, asked, column)


def _shares_of(timelines: Timelines, asked: Asked, column: int) -> int:
    """How many shares the lanes have in columns of a level, if every run of columns is split."""
    first, _ = timelines.of(asked.trace_id)
    since, until = (asked.start_ns - first) // column, -(-(asked.end_ns - first) // column)
    chosen = "true" if asked.kind == "process" else asked.chosen
    return _number(
        timelines,
        f"SELECT coalesce(sum(overlap_ns(first, first + columns, {since}, {until})), 0) "
        f"FROM tiles.{_SPLIT[asked.kind]}_tile WHERE trace_id = {asked.trace_id} AND {chosen} "
        f"AND width_ns = {column} AND first < {until} AND first + columns > {since}",
    )


def slices(timelines: Timelines, asked: Asked) -> pa.Table:
    """Every slice of lanes that are not of processes or values."""
    first, last = timelines.of(asked.trace_id)
    if asked.kind in _DIRECT:
        source = _DIRECT[asked.kind].format(one=asked.trace_id, start=first, end=last)
        return _table(
            timelines,
            "SELECT * REPLACE (lane::BIGINT AS lane, dur_ns::BIGINT AS dur_ns, "
            f"key::BIGINT AS key) FROM ({source}) WHERE {asked.inside} ORDER BY lane, start_ns",
            {"shape": "slices"},
        )
    return _table(
        timelines,
        "SELECT lane, ts AS start_ns, end_ns - ts AS dur_ns, key "
        f"FROM ({_parts(timelines, asked)}) WHERE {asked.chosen} ORDER BY lane, ts, end_ns",
        {"shape": "slices"},
    )


def as_bytes(table: pa.Table) -> bytes:
    """The table as an uncompressed Arrow IPC stream, the same bytes for the same rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(_decoders.zero_nulls(batch))
    return bytes(sink.getvalue())


def shares(timelines: Timelines, asked: Asked, column: int) -> pa.Table:
    """The time of each key in each column of so many ns of the lanes of threads or CPUs.

    With the width of a prepared level, the columns begin with the recording; else with the range.
    """
    own = f"trace_id = {asked.trace_id}"
    first, _ = timelines.of(asked.trace_id)
    kind = _SPLIT[asked.kind]
    if column in timelines.widths(asked.trace_id):
        since = (asked.start_ns - first) // column
        until = -(-(asked.end_ns - first) // column)
        begin = first + since * column
        pieces = (
            f"SELECT lane, key, greatest(first, {since}) - {since} AS first, "
            f"overlap_ns(first, first + columns, {since}, {until}) AS shown, "
            "ns // columns * shown AS ns, shown AS columns "
            f"FROM tiles.{kind}_tile WHERE {own} AND width_ns = {column} AND first < {until} "
            f"AND first + columns > {since}"
        )
    else:
        begin = asked.start_ns
        pieces = split_sql(
            f"SELECT lane, key, greatest(ts, {begin}) - {begin} AS b, "
            f"least(end_ns, {asked.end_ns}) - {begin} AS e, 0 AS begins "
            f"FROM ({_parts(timelines, asked)})",
            column,
        )
    if asked.kind == "process":
        pieces = (
            "SELECT coalesce(thread.upid, -1) AS lane, key, first, columns, ns "
            f"FROM ({pieces}) AS piece JOIN thread ON {own} AND thread.utid = piece.lane"
        )
    return _table(
        timelines,
        'SELECT lane, "column"::INTEGER AS "column", key, sum(ns)::BIGINT AS ns FROM ('
        'SELECT lane, key, unnest(range(first, first + columns)) AS "column", ns // columns AS ns '
        f"FROM ({pieces}) WHERE {asked.chosen}) "
        'GROUP BY lane, "column", key ORDER BY lane, "column", key',
        {"shape": "shares", "column_ns": str(column), "start_ns": str(begin)},
    )


def _parts(timelines: Timelines, asked: Asked) -> str:
    kind = _SPLIT[asked.kind]
    return timelines.parts_sql(kind, asked.trace_id, asked.start_ns, asked.end_ns)


def _number(timelines: Timelines, sql: str) -> int:
    found: int = timelines.con.execute(sql).fetchall()[0][0]
    return found


def _values(timelines: Timelines, asked: Asked, source: str) -> pa.Table:
    """A curve: its steps, or the time-weighted mean, minimum, and maximum of each column."""
    width = max(1, min(asked.width, MOST_PIXELS))
    lanes_of = max(1, len(asked.ids))
    inside = asked.inside
    rows = _number(timelines, f"SELECT count(*) FROM ({source}) WHERE {inside}")
    if rows <= _MOST_PER_PIXEL * width * lanes_of:
        return _table(
            timelines,
            "SELECT lane::BIGINT AS lane, start_ns, dur_ns::BIGINT AS dur_ns, value, "
            f"value AS minimum, value AS maximum FROM ({source}) WHERE {inside} "
            "ORDER BY lane, start_ns",
            {"shape": "slices"},
        )
    pixel = max(1, (asked.end_ns - asked.start_ns) // width)
    cut = split_sql(
        f"SELECT lane, value AS key, greatest(start_ns, {asked.start_ns}) - {asked.start_ns} AS b, "
        f"least(start_ns + dur_ns, {asked.end_ns}) - {asked.start_ns} AS e, 0 AS begins "
        f"FROM ({source}) WHERE {inside}",
        pixel,
    )
    return _table(
        timelines,
        f"SELECT lane::BIGINT AS lane, {asked.start_ns} + c * {pixel} AS start_ns, "
        # Without the last digits of a sum of fractions: DuckDB's threads add up in any order.
        f"{pixel}::BIGINT AS dur_ns, "
        "greatest(min(key), least((sum(key * ns) / sum(ns))::FLOAT, max(key)))::DOUBLE AS value, "
        "min(key) AS minimum, max(key) AS maximum FROM (SELECT lane, key, ns // columns AS ns, "
        f"unnest(range(first, first + columns)) AS c FROM ({cut})) GROUP BY lane, c "
        "ORDER BY lane, c",
        {"shape": "slices", "column_ns": str(pixel)},
    )


def _table(timelines: Timelines, sql: str, metadata: dict[str, str]) -> pa.Table:
    return timelines.con.sql(sql).to_arrow_table().replace_schema_metadata(metadata)
