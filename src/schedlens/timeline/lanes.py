"""The content of lanes in a range: every slice, or exact sums in columns of time, as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from schedlens.errors import UnknownNameError
from schedlens.timeline.prepared import Timelines, split_sql

# Slices are sent up to this many per pixel on average, and up to this many in all.
_MOST_PER_PIXEL = 4
_MOST_SLICES = 120_000
MOST_PIXELS = 8192
_SPLIT = {"cpu": "cpu", "sibling": "sibling", "thread": "thread", "process": "thread"}
_DIRECT = {
    "parked": (
        "SELECT cpu AS lane, ts AS start_ns, dur AS dur_ns, "
        "CASE state WHEN 'parked' THEN 1 WHEN 'soft_parked' THEN 2 ELSE 3 END AS key, "
        "0 AS row FROM parking_spell({one}) WHERE state <> 'unparked'"
    ),
    "frame": (
        "SELECT 0 AS lane, start_ns, coalesce(dur_ns, 0) AS dur_ns, "
        "coalesce(stutter, false)::BIGINT AS key, frame AS row "
        "FROM frame_time(p_trace_id := {one}, p_from_ns := {start}, p_to_ns := {end})"
    ),
    "mark": (
        "SELECT 0 AS lane, ts AS start_ns, coalesce(dur, 0) AS dur_ns, "
        "(kind = 'workload_phase')::BIGINT AS key, rowid AS row FROM mark WHERE trace_id = {one}"
    ),
}
_VALUES = {
    "frequency": (
        "SELECT cpu AS lane, ts AS start_ns, coalesce(lead(ts) OVER "
        "(PARTITION BY cpu ORDER BY ts), {end}) - ts AS dur_ns, khz::DOUBLE AS value "
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


def lanes(timelines: Timelines, asked: Asked) -> pa.Table:
    """Slices or shares of the lanes; which of them is in the metadata of the schema.

    Times are exact: `shares` has the ns of each key in each column. Columns of shares may begin
    before the range and be narrower than a pixel: `start_ns` and `column_ns` in the metadata tell
    where they are. Raises `UnknownNameError` for a kind or a recording that does not exist.
    """
    if asked.kind not in KINDS:
        raise UnknownNameError("kind of lane", asked.kind, list(KINDS))
    first, last = timelines.of(asked.trace_id)
    if asked.kind in _SPLIT:
        return _split(timelines, asked, first)
    names = {"one": asked.trace_id, "start": first, "end": last}
    inside = (
        f"{asked.chosen} AND start_ns < {asked.end_ns} AND start_ns + dur_ns >= {asked.start_ns} "
        f"AND (start_ns + dur_ns > {asked.start_ns} OR dur_ns = 0)"
    )
    if asked.kind in _DIRECT:
        return _table(
            timelines,
            "SELECT lane::BIGINT AS lane, start_ns, dur_ns::BIGINT AS dur_ns, key::BIGINT AS key, "
            f"row::BIGINT AS row FROM ({_DIRECT[asked.kind].format(**names)}) WHERE {inside} "
            "ORDER BY lane, start_ns",
            {"shape": "slices"},
        )
    return _values(timelines, asked, _VALUES[asked.kind].format(**names), inside)


def as_bytes(table: pa.Table) -> bytes:
    """The table as an uncompressed Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _split(timelines: Timelines, asked: Asked, first: int) -> pa.Table:
    """Lanes whose parts and tiles are prepared."""
    kind = _SPLIT[asked.kind]
    own = f"trace_id = {asked.trace_id}"
    lane, where, group = "lane", f"{own} AND {asked.chosen}", ""
    source = f"tiles.{kind}_part"
    tiles = f"tiles.{kind}_tile"
    if asked.kind == "process":
        named = "(SELECT utid, coalesce(upid, -1) AS upid FROM thread WHERE "
        named += f"trace_id = {asked.trace_id}) AS n"
        source += f" JOIN {named} ON n.utid = lane"
        tiles += f" JOIN {named} ON n.utid = lane"
        lane = "n.upid"
        where = f"{own} AND {asked.chosen.replace('lane', 'n.upid')}"
    within = (
        f"{where} AND ts < {asked.end_ns} AND end_ns >= {asked.start_ns} "
        f"AND (end_ns > {asked.start_ns} OR ts = end_ns)"
    )
    width = max(1, min(asked.width, MOST_PIXELS))
    if asked.kind != "process":
        most = min(_MOST_SLICES, _MOST_PER_PIXEL * width * max(1, len(asked.ids) or 8))
        row = timelines.con.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {within} LIMIT {most + 1})"
        ).fetchall()
        if row[0][0] <= most:
            return _table(
                timelines,
                "SELECT lane, ts AS start_ns, end_ns - ts AS dur_ns, key, rowid AS row "
                f"FROM {source} WHERE {within} ORDER BY lane, ts, end_ns",
                {"shape": "slices"},
            )
    pixel = max(1, (asked.end_ns - asked.start_ns) // width)
    level = timelines.con.execute(
        f"SELECT max(width_ns) FROM tiles.level WHERE {own} AND width_ns <= {pixel}"
    ).fetchall()[0][0]
    if level is None:
        begin, column = asked.start_ns, pixel
        group = split_sql(
            f"SELECT {lane} AS lane, key, greatest(ts, {begin}) - {begin} AS b, "
            f"least(end_ns, {asked.end_ns}) - {begin} AS e FROM {source} WHERE {within}",
            column,
        )
    else:
        begin_column = (asked.start_ns - first) // level
        end_column = -(-(asked.end_ns - first) // level)
        begin, column = first + begin_column * level, level
        group = (
            f"SELECT {lane} AS lane, key, greatest(first, {begin_column}) - {begin_column} "
            f"AS first, least(first + columns, {end_column}) - greatest(first, {begin_column}) "
            "AS shown, ns // columns * shown AS ns, shown AS columns "
            f"FROM {tiles} WHERE {where} AND width_ns = {level} AND first < {end_column} "
            f"AND first + columns > {begin_column}"
        )
    return _table(
        timelines,
        'SELECT lane, "column"::INTEGER AS "column", key, sum(ns)::BIGINT AS ns FROM ('
        'SELECT lane, key, unnest(range(first, first + columns)) AS "column", ns // columns AS ns '
        f'FROM ({group})) GROUP BY lane, "column", key ORDER BY lane, "column", key',
        {"shape": "shares", "column_ns": str(column), "start_ns": str(begin)},
    )


def _values(timelines: Timelines, asked: Asked, source: str, inside: str) -> pa.Table:
    """A curve: its steps, or the time-weighted mean, minimum, and maximum of each column."""
    con = timelines.con
    width = max(1, min(asked.width, MOST_PIXELS))
    lanes_of = max(1, len(asked.ids))
    rows = con.execute(f"SELECT count(*) FROM ({source}) WHERE {inside}").fetchall()[0][0]
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
        f"least(start_ns + dur_ns, {asked.end_ns}) - {asked.start_ns} AS e "
        f"FROM ({source}) WHERE {inside}",
        pixel,
    )
    return _table(
        timelines,
        f"SELECT lane::BIGINT AS lane, {asked.start_ns} + c * {pixel} AS start_ns, "
        f"{pixel}::BIGINT AS dur_ns, sum(key * ns) / sum(ns) AS value, min(key) AS minimum, "
        "max(key) AS maximum FROM (SELECT lane, key, ns // columns AS ns, "
        f"unnest(range(first, first + columns)) AS c FROM ({cut})) GROUP BY lane, c "
        "ORDER BY lane, c",
        {"shape": "slices", "column_ns": str(pixel)},
    )


def _table(timelines: Timelines, sql: str, metadata: dict[str, str]) -> pa.Table:
    return timelines.con.sql(sql).to_arrow_table().replace_schema_metadata(metadata)
