"""What the timeline reads: each thread's and CPU's parts, and their sums in columns of time.

The tables are in a catalog named `tiles`, in memory or in a file, and are filled for a recording
when it is first shown. All sums are exact: a column's time is split between its keys to the ns.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from schedlens.errors import UnknownNameError
from schedlens.load.schema import literal
from schedlens.timeline import keys

# Version of the tables below; a file with another one is made again.
VERSION = 1
# The narrowest columns of a recording: about this many; each level above has a quarter.
_FINEST_COLUMNS = 1 << 16
_LEVEL_FACTOR = 4
_COARSEST_COLUMNS = 256
KINDS = ("cpu", "thread", "sibling")

_TABLES = """
CREATE TABLE IF NOT EXISTS tiles.source (version INTEGER, stamp VARCHAR);
CREATE TABLE IF NOT EXISTS tiles.recording (
  trace_id BIGINT, start_ns BIGINT, end_ns BIGINT, kind VARCHAR, parts BIGINT);
CREATE TABLE IF NOT EXISTS tiles.level (trace_id BIGINT, width_ns BIGINT);
CREATE TABLE IF NOT EXISTS tiles.waiting (trace_id BIGINT, key BIGINT, reason VARCHAR);
""" + "".join(
    f"""
CREATE TABLE IF NOT EXISTS tiles.{kind}_part (
  trace_id BIGINT, lane BIGINT, ts BIGINT, end_ns BIGINT, key BIGINT);
CREATE TABLE IF NOT EXISTS tiles.{kind}_tile (
  trace_id BIGINT, width_ns BIGINT, lane BIGINT, first BIGINT, columns BIGINT, key BIGINT,
  ns BIGINT);
"""
    for kind in KINDS
)


@dataclass
class Timelines:
    """The recordings of a database, each prepared when it is first asked for.

    The database must be `con`'s current catalog. Not for several threads at once, except `of`.
    """

    con: duckdb.DuckDBPyConnection
    # Where the tables are kept; None: in memory. `stamp` names the state of the database.
    file: Path | None = None
    stamp: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.con.execute(
            f"ATTACH {literal(str(self.file) if self.file else ':memory:')} AS tiles (READ_WRITE)"
        )
        self.con.execute(_TABLES)
        known = self.con.execute("SELECT version, stamp FROM tiles.source").fetchall()
        if known != [(VERSION, self.stamp)]:
            names = [f"{kind}_{what}" for kind in KINDS for what in ("part", "tile")]
            for table in ("source", "recording", "level", "waiting", *names):
                self.con.execute(f"DROP TABLE tiles.{table}")
            self.con.execute(_TABLES)
            self.con.execute("INSERT INTO tiles.source VALUES (?, ?)", [VERSION, self.stamp])

    def of(self, trace_id: int) -> tuple[int, int]:
        """Start and end of a recording, whose tables are filled afterwards.

        Raises `UnknownNameError` for a recording that is not in the database.
        """
        with self._lock:
            found = self.con.execute(
                "SELECT start_ns, end_ns FROM tiles.recording WHERE trace_id = ? LIMIT 1",
                [trace_id],
            ).fetchall()
            return (found[0][0], found[0][1]) if found else self._fill(trace_id)

    def _fill(self, trace_id: int) -> tuple[int, int]:
        rows = self.con.execute(
            "SELECT coalesce(first_ns, 0), coalesce(duration_ns, 0) FROM trace WHERE trace_id = ?",
            [trace_id],
        ).fetchall()
        if not rows:
            ids = self.con.execute("SELECT trace_id FROM trace ORDER BY 1").fetchall()
            raise UnknownNameError("recording", str(trace_id), [str(row[0]) for row in ids])
        start, end = rows[0][0], max(rows[0][1], rows[0][0] + 1)
        self.con.execute("BEGIN")
        try:
            self._fill_parts(trace_id, start, end)
            for kind in KINDS:
                self._fill_tiles(kind, trace_id, start, end)
                self.con.execute(
                    f"INSERT INTO tiles.recording SELECT {trace_id}, {start}, {end}, '{kind}', "
                    f"count(*) FROM tiles.{kind}_part WHERE trace_id = {trace_id}"
                )
            self.con.execute("COMMIT")
        except BaseException:
            self.con.execute("ROLLBACK")
            raise
        return start, end

    def _fill_parts(self, one: int, start: int, end: int) -> None:
        self.con.execute(
            "INSERT INTO tiles.waiting SELECT trace_id, "
            f"{keys.FIRST_WAITING} + row_number() OVER (ORDER BY reason NULLS FIRST) - 1, reason "
            "FROM (SELECT DISTINCT trace_id, reason FROM thread_state "
            f"WHERE trace_id = {one} AND state = 'waiting')"
        )
        self.con.execute(_CPU_PARTS.format(one=one))
        self.con.execute(_SIBLING_PARTS.format(one=one))
        self.con.execute(
            _THREAD_PARTS.format(
                one=one, start=start, end=end, running=keys.running_sql("place.core_type"),
                obstacle=keys.obstacle_sql("obstacle"),
                ready=keys.READY, new=keys.NEW, unknown=keys.UNKNOWN, shared=keys.SHARED,
            )
        )  # fmt: skip

    def _fill_tiles(self, kind: str, one: int, start: int, end: int) -> None:
        widths = widths_of(end - start)
        if kind == KINDS[0]:
            for width in widths:
                self.con.execute("INSERT INTO tiles.level VALUES (?, ?)", [one, width])
        columns = "trace_id, width_ns, lane, first, columns, key, ns"
        for place, width in enumerate(widths):
            if place == 0:
                source = split_sql(
                    f"SELECT lane, key, ts - {start} AS b, end_ns - {start} AS e "
                    f"FROM tiles.{kind}_part WHERE trace_id = {one}",
                    width,
                )
            else:
                finer = (
                    f"FROM tiles.{kind}_tile WHERE trace_id = {one} "
                    f"AND width_ns = {widths[place - 1]}"
                )
                step = widths[place - 1]
                runs = split_sql(
                    f"SELECT lane, key, first * {step} AS b, (first + columns) * {step} AS e "
                    f"{finer} AND columns > 1",
                    width,
                )
                source = (
                    f"SELECT lane, key, first // {_LEVEL_FACTOR} AS first, 1 AS columns, ns "
                    f"{finer} AND columns = 1 UNION ALL ({runs})"
                )
            self.con.execute(
                f"INSERT INTO tiles.{kind}_tile ({columns}) "
                f"SELECT {one}, {width}, lane, first, columns, key, sum(ns)::BIGINT "
                f"FROM ({source}) GROUP BY lane, first, columns, key ORDER BY first, lane, key"
            )


def widths_of(length_ns: int) -> list[int]:
    """The widths of the columns of a recording, narrowest first: powers of two."""
    width = 1
    while length_ns // width > _FINEST_COLUMNS:
        width *= 2
    widths = [width]
    while length_ns // widths[-1] > _COARSEST_COLUMNS:
        widths.append(widths[-1] * _LEVEL_FACTOR)
    return widths


def split_sql(source: str, width: int) -> str:
    """SQL that splits intervals [b, e) with lane and key at multiples of `width`.

    Its rows are lane, key, first, columns, ns: the pieces in single columns, and one row for all
    columns that an interval fills from side to side.
    """
    return f"""
WITH piece AS NOT MATERIALIZED (
  SELECT lane, key, b, e, b // {width} AS f, (e - 1) // {width} AS l FROM ({source}) WHERE e > b
)
SELECT lane, key, f AS first, 1 AS columns, least(e, (f + 1) * {width}) - b AS ns FROM piece
UNION ALL
SELECT lane, key, l, 1, e - l * {width} FROM piece WHERE l > f
UNION ALL
SELECT lane, key, f + 1, l - f - 1, (l - f - 1) * {width} FROM piece WHERE l > f + 1
"""


_CPU_PARTS = f"""
INSERT INTO tiles.cpu_part
SELECT trace_id, cpu, ts, ts + dur,
  CASE state
    WHEN 'thread' THEN coalesce(utid, {keys.NO_NAME})
    WHEN 'interrupt' THEN {keys.INTERRUPT}
    WHEN 'offline' THEN {keys.OFFLINE}
    ELSE {keys.CPU_UNKNOWN}
  END
FROM cpu_state
WHERE trace_id = {{one}} AND state <> 'idle'
ORDER BY ts, cpu
"""

_SIBLING_PARTS = """
INSERT INTO tiles.sibling_part
SELECT trace_id, cpu, ts, ts + dur, 1 FROM sharing_slice WHERE trace_id = {one} AND dur > 0
ORDER BY ts, cpu
"""

_THREAD_PARTS = """
INSERT INTO tiles.thread_part
WITH
  place AS (FROM topology(p_trace_id := {one})),
  -- Only the running time of these has to be cut where a sibling begins or ends.
  sharer AS (SELECT DISTINCT utid FROM sharing_slice WHERE trace_id = {one} AND dur > 0),
  run AS NOT MATERIALIZED (
    SELECT utid, ts, ts + dur AS end_ns, cpu FROM thread_state
    WHERE trace_id = {one} AND state = 'running' AND dur > 0
  ),
  ran AS (FROM run SEMI JOIN sharer USING (utid)),
  -- Where the thread or whether its sibling is busy changes; nothing else splits a part.
  edge AS (
    SELECT utid, edge_ns, sum(run) AS run, sum(share) AS share, max(cpu) AS cpu,
      bool_or(run <> 0) AS cut
    FROM (
      SELECT utid, unnest([ts, end_ns]) AS edge_ns, unnest([1, -1]) AS run, 0 AS share,
        unnest([cpu, NULL]) AS cpu
      FROM ran
      UNION ALL
      SELECT utid, unnest([ts, ts + dur]), 0, unnest([1, -1]), NULL
      FROM sharing_slice WHERE trace_id = {one} AND dur > 0
    )
    GROUP BY utid, edge_ns
    HAVING cut OR sum(share) <> 0
  ),
  swept AS (
    SELECT utid, edge_ns AS ts,
      lead(edge_ns) OVER (PARTITION BY utid ORDER BY edge_ns) AS end_ns, sum(run) OVER w AS run,
      sum(share) OVER w AS share, last_value(cpu IGNORE NULLS) OVER w AS cpu
    FROM edge
    WINDOW w AS (PARTITION BY utid ORDER BY edge_ns ROWS UNBOUNDED PRECEDING)
  ),
  lane AS (
    SELECT s.utid, s.ts, s.end_ns,
      {running} + CASE WHEN s.share > 0 THEN {shared} ELSE 0 END AS key
    FROM swept AS s
    LEFT JOIN place ON place.cpu = s.cpu AND s.ts >= place.from_ns AND s.ts < place.to_ns
    WHERE s.run > 0
    UNION ALL
    SELECT s.utid, s.ts, s.end_ns, {running}
    FROM run AS s
    ANTI JOIN sharer ON sharer.utid = s.utid
    LEFT JOIN place ON place.cpu = s.cpu AND s.ts >= place.from_ns AND s.ts < place.to_ns
    UNION ALL
    SELECT utid, ts, ts + dur, {obstacle}
    FROM unordered.ready_obstacle_slice({one}, {start}, {end}, 100000)
    UNION ALL
    -- Periods that no row of ready_slice explains.
    SELECT t.utid, t.ts, t.ts + t.dur, {ready}
    FROM thread_state AS t
    ANTI JOIN (SELECT DISTINCT utid, ready_ts FROM ready_slice WHERE trace_id = {one}) AS r
      ON r.utid = t.utid AND r.ready_ts = t.ts
    WHERE t.trace_id = {one} AND t.state = 'ready'
    UNION ALL
    SELECT t.utid, t.ts, t.ts + t.dur,
      CASE t.state WHEN 'waiting' THEN w.key WHEN 'new' THEN {new} ELSE {unknown} END
    FROM thread_state AS t
    LEFT JOIN tiles.waiting AS w
      ON t.state = 'waiting' AND w.trace_id = {one} AND w.reason IS NOT DISTINCT FROM t.reason
    WHERE t.trace_id = {one} AND t.state NOT IN ('running', 'ready')
  )
SELECT {one}, utid, ts, end_ns, key FROM lane WHERE end_ns > ts
ORDER BY ts, utid
"""
