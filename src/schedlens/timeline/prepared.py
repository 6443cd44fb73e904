"""What the timeline reads: each thread's and CPU's parts, and their sums in columns of time.

The parts are rows of the analysis (`parts`); what is prepared here finds and sums them fast.

The tables are in a catalog named `tiles`, in memory or in a file, and are filled for a recording
when it is first shown. All sums are exact: a column's time is split between its keys to the ns.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import duckdb

from schedlens import _decoders
from schedlens.errors import UnknownNameError
from schedlens.load.schema import literal
from schedlens.timeline import keys, parts
from schedlens.timeline.columns import cover, widths_of

# Version of the tables below; a file with another one is made again.
VERSION = 4
# A recording with fewer parts has no columns: splitting its parts is as fast as reading them.
LEAST_PARTS = 100_000
# Columns that have more rows for each part than this are not made: to read them would take as long
# as to split the parts.
ROWS_PER_PART = 0.25
# Parts longer than so many of the narrowest columns are listed, because the others are found by
# their begin alone: the tables of the analysis are nearly in time order.
_LONG_COLUMNS = 16
# Rows of a batch of parts.
_BATCH = 1 << 17

_TABLES = """
CREATE TABLE IF NOT EXISTS tiles.source (version INTEGER, stamp VARCHAR);
CREATE TABLE IF NOT EXISTS tiles.recording (
  trace_id BIGINT, start_ns BIGINT, end_ns BIGINT, long_ns BIGINT);
CREATE TABLE IF NOT EXISTS tiles.level (trace_id BIGINT, width_ns BIGINT);
CREATE TABLE IF NOT EXISTS tiles.waiting (trace_id BIGINT, key BIGINT, reason VARCHAR);
CREATE TABLE IF NOT EXISTS tiles.sharer (trace_id BIGINT, utid BIGINT);
CREATE TABLE IF NOT EXISTS tiles.thread_part (
  trace_id BIGINT, lane BIGINT, ts BIGINT, dur BIGINT, key BIGINT);
""" + "".join(
    f"""
CREATE TABLE IF NOT EXISTS tiles.{kind}_long (
  trace_id BIGINT, lane BIGINT, ts BIGINT, end_ns BIGINT, key BIGINT);
CREATE TABLE IF NOT EXISTS tiles.{kind}_tile (
  trace_id BIGINT, width_ns BIGINT, lane BIGINT, first BIGINT, columns BIGINT, key BIGINT,
  ns BIGINT, begins BIGINT);
"""
    for kind in parts.KINDS
)


class Timelines:
    """The recordings of a database, each prepared when it is first asked for.

    The database must be `con`'s current catalog. One object is for one thread at a time; `cursor`
    makes others.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        file: Path | None = None,
        stamp: str = "",
        *,
        least_parts: int = LEAST_PARTS,
        rows_per_part: float = ROWS_PER_PART,
    ) -> None:
        """Keeps the tables in `file`, or in memory; `stamp` names the state of the database.

        Recordings with at least `least_parts` parts get columns, of the widths that need at most
        `rows_per_part` rows for each part.
        """
        self.con = con
        self.in_file = file is not None
        self._least_parts = least_parts
        self._rows_per_part = rows_per_part
        self._lock = threading.Lock()
        self._reading: list[duckdb.DuckDBPyConnection] = []
        # Why threads of a prepared recording wait, in order of their keys.
        self._reasons: dict[int, list[str | None]] = {}
        found = con.execute("SELECT current_database()").fetchall()[0][0]
        self._catalog = '"' + found.replace('"', '""') + '"'
        if file is not None and self._is_complete(file, stamp):
            return
        con.execute(f"ATTACH {literal(str(file) if file else ':memory:')} AS tiles (READ_WRITE)")
        con.execute(_TABLES)
        if self._source() != [(VERSION, stamp)]:
            for (table,) in con.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'tiles'"
            ).fetchall():
                con.execute(f"DROP TABLE tiles.{table}")
            con.execute(_TABLES)
            con.execute("INSERT INTO tiles.source VALUES (?, ?)", [VERSION, stamp])

    def _source(self) -> list[tuple[int, str]]:
        return self.con.execute("SELECT version, stamp FROM tiles.source").fetchall()

    def _is_complete(self, file: Path, stamp: str) -> bool:
        """Attaches a file that has all recordings; only for reading, as several servers can."""
        if not file.exists():
            return False
        with contextlib.suppress(duckdb.Error):
            self.con.execute(f"ATTACH {literal(str(file))} AS tiles (READ_ONLY)")
            if (
                self._source() == [(VERSION, stamp)]
                and not self.con.execute(
                    "SELECT trace_id FROM trace EXCEPT SELECT trace_id FROM tiles.recording"
                ).fetchall()
            ):
                return True
        self.detach()
        return False

    def detach(self) -> None:
        """Writes the tables to their file, or forgets them."""
        with contextlib.suppress(duckdb.Error):
            self.con.execute("DETACH tiles")

    @contextmanager
    def cursor(self) -> Iterator[Timelines]:
        """The same recordings for another thread."""
        other = copy.copy(self)
        other.con = self.con.cursor()
        other._reading = []
        other._reasons = {}
        try:
            other.con.execute(f"USE {self._catalog}")
            yield other
        finally:
            other.con.close()

    def prepare_all(self) -> None:
        """Fills the tables of every recording."""
        for (trace_id,) in self.con.execute("SELECT trace_id FROM trace ORDER BY 1").fetchall():
            self.of(trace_id)

    def stop(self) -> None:
        """Interrupts the query of another thread that uses this object, so that it raises."""
        for con in (self.con, *self._reading):
            # It may have been closed meanwhile.
            with contextlib.suppress(duckdb.Error):
                con.interrupt()

    def of(self, trace_id: int) -> tuple[int, int]:
        """Start and end of a recording, whose tables are filled afterwards.

        Raises `UnknownNameError` for a recording that is not in the database.
        """
        found = self._known(trace_id)
        if found is None:
            with self._lock:
                found = self._known(trace_id) or self._fill(trace_id)
        return found

    def _known(self, trace_id: int) -> tuple[int, int] | None:
        rows = self.con.execute(
            "SELECT start_ns, end_ns FROM tiles.recording WHERE trace_id = ?", [trace_id]
        ).fetchall()
        return (rows[0][0], rows[0][1]) if rows else None

    def widths(self, trace_id: int) -> list[int]:
        """The widths of a recording's columns, narrowest first; none if it is small."""
        rows = self.con.execute(
            "SELECT width_ns FROM tiles.level WHERE trace_id = ? ORDER BY 1", [trace_id]
        ).fetchall()
        return [row[0] for row in rows]

    def all_parts_sql(self, kind: str, trace_id: int) -> str:
        """SQL of lane, ts, end_ns, and key of all parts of a recording."""
        return self._within(kind, trace_id, self.of(trace_id))

    def _within(self, kind: str, trace_id: int, span: tuple[int, int], near: str = "") -> str:
        """What `parts.sql` returns, also of a recording that is just being prepared."""
        if trace_id not in self._reasons:
            rows = self.con.execute(
                "SELECT reason FROM tiles.waiting WHERE trace_id = ? ORDER BY key", [trace_id]
            ).fetchall()
            self._reasons[trace_id] = [row[0] for row in rows]
        return parts.sql(kind, trace_id, span, self._reasons[trace_id], near)

    def parts_sql(self, kind: str, trace_id: int, start_ns: int, end_ns: int) -> str:
        """SQL of the parts of a range: those that overlap it, and those without a length inside."""
        rows = self.con.execute(
            "SELECT start_ns, end_ns, long_ns FROM tiles.recording WHERE trace_id = ?", [trace_id]
        ).fetchall()
        first, last, long_ns = rows[0]
        chosen = f"ts < {end_ns} AND end_ns >= {start_ns} AND (end_ns > {start_ns} OR ts = end_ns)"
        near = f"ts < {end_ns} AND ts >= {start_ns - long_ns} AND dur <= {long_ns}"
        own = self._within(kind, trace_id, (first, last), near)
        return (
            f"SELECT {parts.COLUMNS} FROM ({own}) WHERE {chosen} UNION ALL "
            f"SELECT {parts.COLUMNS} FROM tiles.{kind}_long "
            f"WHERE trace_id = {trace_id} AND {chosen}"
        )

    def sums_sql(self, kind: str, trace_id: int, start_ns: int, end_ns: int) -> str:
        """SQL of lane, key, ns, and begins, the number of parts that begin, within a range.

        Several rows of a lane and a key are to be added up.
        """
        first, last = self.of(trace_id)
        start, end = max(start_ns, first) - first, min(end_ns, last) - first
        widths = self.widths(trace_id)
        if widths and end_ns >= last:
            # Nothing is behind the end, so the last column of each level may be taken as whole.
            end = -(-end // widths[-1]) * widths[-1]
        segments, edges = cover(start, end, widths)
        pieces = [
            "SELECT lane, key, "
            f"ns // columns * overlap_ns(first, first + columns, {since}, {until}) AS ns, "
            f"CASE WHEN first >= {since} THEN begins ELSE 0 END AS begins "
            f"FROM tiles.{kind}_tile WHERE trace_id = {trace_id} AND width_ns = {width} "
            f"AND first < {until} AND first + columns > {since}"
            for width, since, until in segments
        ]
        pieces += [
            f"SELECT lane, key, overlap_ns(ts, end_ns, {first + since}, {first + until}) AS ns, "
            f"(ts >= {first + since})::BIGINT AS begins "
            f"FROM ({self.parts_sql(kind, trace_id, first + since, first + until)})"
            for since, until in edges
        ]
        empty = "SELECT 0::BIGINT AS lane, 0::BIGINT AS key, 0::BIGINT AS ns, 0::BIGINT AS begins"
        return " UNION ALL ".join(pieces) or f"{empty} WHERE false"

    def _fill(self, trace_id: int) -> tuple[int, int]:
        rows = self.con.execute(
            "SELECT least(coalesce(first_ns, 0), 0), coalesce(duration_ns, 0) FROM trace "
            "WHERE trace_id = ?",
            [trace_id],
        ).fetchall()
        if not rows:
            ids = self.con.execute("SELECT trace_id FROM trace ORDER BY 1").fetchall()
            raise UnknownNameError("recording", str(trace_id), [str(row[0]) for row in ids])
        start, end = rows[0][0], max(rows[0][1], rows[0][0] + 1)
        widths = widths_of(end - start)
        long_ns = _LONG_COLUMNS * widths[0]
        # Another cursor reads these rows to make the columns, so they are committed first.
        with self._transaction():
            self._forget(trace_id)
            rows = self.con.execute(
                f"INSERT INTO tiles.waiting SELECT {trace_id}, "
                f"{keys.FIRST_WAITING} + row_number() OVER (ORDER BY reason NULLS FIRST) - 1, "
                "reason FROM (SELECT DISTINCT reason FROM thread_state "
                f"WHERE trace_id = {trace_id} AND state = 'waiting') RETURNING key, reason"
            ).fetchall()
            self._reasons[trace_id] = [reason for _, reason in sorted(rows, key=itemgetter(0))]
            for sql in parts.fill(trace_id):
                self.con.execute(sql)
            for kind in parts.KINDS:
                long = self._within(kind, trace_id, (start, end), f"dur > {long_ns}")
                self.con.execute(
                    f"INSERT INTO tiles.{kind}_long SELECT {trace_id}, {parts.COLUMNS} "
                    f"FROM ({long}) ORDER BY ts, lane"
                )
        with self._transaction():
            prepared = self._worth_preparing(trace_id, (start, end), widths)
            for width in prepared:
                self.con.execute("INSERT INTO tiles.level VALUES (?, ?)", [trace_id, width])
            if prepared:
                for kind in parts.KINDS:
                    self._fill_tiles(kind, trace_id, (start, end), prepared)
            self.con.execute(
                "INSERT INTO tiles.recording VALUES (?, ?, ?, ?)", [trace_id, start, end, long_ns]
            )
        return start, end

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.con.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.con.execute("ROLLBACK")
            raise
        self.con.execute("COMMIT")

    def _forget(self, trace_id: int) -> None:
        """Deletes what an attempt that failed has left."""
        self._reasons.pop(trace_id, None)
        long = (f"{kind}_long" for kind in parts.KINDS)
        for table in ("waiting", "sharer", "thread_part", *long):
            self.con.execute(f"DELETE FROM tiles.{table} WHERE trace_id = ?", [trace_id])

    def _worth_preparing(self, one: int, span: tuple[int, int], widths: list[int]) -> list[int]:
        """The widths whose columns have far fewer rows than the parts; none if there are few parts.

        The parts of a lane with one key need about one row of each column that they are in.
        """
        if self.con.execute(parts.count_sql(one, *span)).fetchall()[0][0] < self._least_parts:
            return []
        counts = [
            row[0]
            for kind in parts.KINDS
            for row in self.con.execute(
                f"SELECT count(*) FROM ({self._within(kind, one, span)}) GROUP BY lane, key"
            ).fetchall()
        ]
        for place, width in enumerate(widths):
            columns = (span[1] - span[0]) // width + 1
            needed = sum(min(count, columns) for count in counts)
            if needed <= self._rows_per_part * sum(counts):
                return widths[place:]
        return widths[-1:]

    def _fill_tiles(self, kind: str, one: int, span: tuple[int, int], widths: list[int]) -> None:
        # A stream blocks its connection.
        with contextlib.closing(self.con.cursor()) as cursor:
            cursor.execute(f"USE {self._catalog}")
            self._reading.append(cursor)
            try:
                stream = cursor.sql(self._within(kind, one, span)).to_arrow_reader(_BATCH)
                for rows in _decoders.time_columns(stream, span[0], widths):
                    self.con.from_arrow(rows).select(f"{one}, *").insert_into(f"tiles.{kind}_tile")
            finally:
                self._reading.remove(cursor)
