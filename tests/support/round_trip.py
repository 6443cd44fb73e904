"""What trace_processor must read from an exported trace, and what it reads.

`sched` and `thread_state` are those of the Perfetto views, row by row, with the exact differences
that docs/perfetto.md lists. Each is a rule below.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import duckdb
from trace_engine import Engine, loaded

from schedlens.export import exported_ids, perfetto_trace

# ts, dur, cpu, tid, end_state, priority
SchedRows = Counter[tuple[int, int, int, int, str | None, int]]
# ts, dur, cpu, tid, state, blocked_function, waker's tid
StateRows = Counter[tuple[int, int, int | None, int, str | None, str | None, int | None]]
# cpu, ts, dur, name
GapRows = list[tuple[int, int, int, str]]

NO_PRIORITY = -1


class Written:
    """A recording of an analyzed session, and the trace that was written from it."""

    def __init__(self, con: duckdb.DuckDBPyConnection, trace_id: int, folder: Path) -> None:
        self.con, self.trace_id = con, trace_id
        self.path = folder / f"{trace_id}.perfetto-trace"
        perfetto_trace.save(con, trace_id, self.path)
        (start, hz, self.first, self.last) = self._rows(
            "SELECT start_clock, clock_hz, coalesce(first_ns, 0), duration_ns FROM trace"
        )[0]
        facts = {"start_clock": start, "clock_hz": hz, "first_ns": self.first}
        self.base = perfetto_trace.base_ns(facts)
        ids = exported_ids.assign(con, trace_id)
        self.tids = {thread.utid: thread.tid for thread in ids.threads}
        self.stand_ins = ids.gap_threads

    def _rows(self, sql: str, where: str = "trace_id = ?") -> list[tuple]:  # type: ignore[type-arg]
        return self.con.execute(f"FROM ({sql} WHERE {where})", [self.trace_id]).fetchall()

    def _tid(self, utid: int | None) -> int | None:
        return None if utid is None else self.tids.get(utid, 0)

    def _marks(self) -> list[tuple[int, int, int]]:
        """Slices of length 0 after which nothing is known of a thread: ts, cpu, tid."""
        rows = self.con.execute(
            "WITH s AS (SELECT *, lag(state) OVER (PARTITION BY utid ORDER BY ts, ts + dur) AS was "
            "FROM thread_state WHERE trace_id = $id), "
            "gap AS (SELECT ts, min(cpu) AS cpu FROM cpu_state "
            "WHERE trace_id = $id AND state = 'unknown' GROUP BY ts) "
            "SELECT s.ts, gap.cpu, s.utid FROM s JOIN gap USING (ts) "
            "WHERE s.state = 'unknown' AND was IN ('waiting', 'ready', 'new')",
            {"id": self.trace_id},
        ).fetchall()
        return [(ts, cpu, self.tids[utid]) for ts, cpu, utid in rows]

    def sched(self) -> SchedRows:
        """`sched` without the stand-ins for lost time."""
        rows = self.con.execute(
            # How a slice ended is not written if the state after it is unknown.
            "SELECT s.ts, s.dur, s.cpu, s.utid, "
            "CASE WHEN u.utid IS NULL THEN s.end_state END, s.priority "
            "FROM perfetto.sched(p_trace_id := $id) AS s LEFT JOIN (SELECT DISTINCT utid, ts FROM "
            "thread_state WHERE trace_id = $id AND state = 'unknown') AS u "
            "ON u.utid = s.utid AND u.ts = s.ts + s.dur",
            {"id": self.trace_id},
        ).fetchall()
        found: SchedRows = Counter(
            (ts, dur, cpu, self.tids.get(utid, 0), end, NO_PRIORITY if prio is None else prio)
            for ts, dur, cpu, utid, end, prio in rows
        )
        found.update((ts, 0, cpu, tid, None, NO_PRIORITY) for ts, cpu, tid in self._marks())
        return found

    def thread_state(self) -> StateRows:
        """`thread_state` without the stand-ins for lost time."""
        rows = self.con.execute(
            "SELECT utid, ts, dur, cpu, state, blocked_function, waker_utid "
            "FROM perfetto.thread_state(p_trace_id := ?) ORDER BY utid, ts, ts + dur",
            [self.trace_id],
        ).fetchall()
        ends = {
            (utid, ts + dur): end
            for ts, dur, utid, end in self.con.execute(
                "SELECT ts, dur, utid, end_state FROM perfetto.sched(p_trace_id := ?)",
                [self.trace_id],
            ).fetchall()
        }
        unknown_from = {(row[0], row[1]) for row in rows if row[4] is None}
        found: StateRows = Counter((ts, 0, cpu, tid, "Running", None, None)
                                   for ts, cpu, tid in self._marks())  # fmt: skip
        for utid, spells in groupby(rows, key=lambda row: row[0]):
            tid = self.tids[utid]
            seen = False
            # Neighbors of unknown state are one row; before the first event there is none.
            for unknown, run in groupby(spells, key=lambda row: row[4] is None):
                mine = list(run)
                if unknown and not seen:
                    continue
                if unknown:
                    start, end = mine[0][1], mine[-1][1] + mine[-1][2]
                    found[start, end - start, None, tid, None, None, None] += 1
                    continue
                for _, ts, dur, cpu, state, reason, waker in mine:
                    found[ts, dur, cpu, tid, state, reason, self._tid(waker)] += 1
                seen = True
            # What follows the last event of a life remains open.
            _, ts, dur, _, state, *_ = mine[-1]
            if ts + dur < self.last:
                start = ts
                if state == "Running":
                    start, state = ts + dur, ends.get((utid, ts + dur))
                    state = None if (utid, ts + dur) in unknown_from else state
                elif unknown:
                    start = mine[0][1]
                if state == "Running" or (seen and state is not None and start == ts):
                    continue
                found[start, ts + dur - start, None, tid, None, None, None] -= start < ts + dur
                found[start, self.last - start, None, tid, state, None, None] += 1
        return +found

    def gaps(self) -> GapRows:
        """Lost and offline time of each CPU, without parts of length 0."""
        rows = self._rows(
            "SELECT cpu, ts, dur, CASE state WHEN 'offline' THEN 'offline' ELSE 'lost events' END "
            "FROM cpu_state",
            "trace_id = ? AND state IN ('unknown', 'offline') AND dur > 0",
        )
        return _joined(rows)


class Read:
    """What trace_processor reads."""

    def __init__(self, written: Written) -> None:
        base, last = written.base, written.last
        with loaded(written.path) as engine:
            self.errors = self._errors(engine)
            sched = engine.rows(
                f"SELECT s.ts - {base} AS t, iif(s.dur = -1, {last} - s.ts + {base}, s.dur) AS d, "
                "s.cpu, iif(s.utid = 0, 0, t.tid) AS tid, s.end_state, s.priority, t.name "
                "FROM sched AS s JOIN thread AS t USING (utid)"
            )
            states = engine.rows(
                f"SELECT s.ts - {base} AS t, iif(s.dur = -1, {last} - s.ts + {base}, s.dur) AS d, "
                "s.cpu, t.tid, s.state, s.blocked_function, iif(w.utid = 0, 0, w.tid) AS waker "
                "FROM thread_state AS s JOIN thread AS t USING (utid) "
                "LEFT JOIN thread AS w ON w.utid = s.waker_utid"
            )
        self.sched: SchedRows = Counter(r[:6] for r in sched if r[3] not in written.stand_ins)
        # A wait of length 0, such as that of a thread woken while it ran, is not in the tables.
        self.thread_state: StateRows = Counter(
            r for r in states if r[3] not in written.stand_ins and (r[1] > 0 or r[4] == "Running")
        )
        self.gaps = _joined(
            [(r[2], r[0], r[1], r[6]) for r in sched if r[3] in written.stand_ins and r[1] > 0]
        )

    def _errors(self, engine: Engine) -> dict[str, int]:
        rows = engine.rows(
            "SELECT name, sum(value) AS n FROM stats WHERE value > 0 AND severity <> 'info' "
            "GROUP BY name"
        )
        return {str(name): int(count) for name, count in rows}


def _joined(rows: GapRows) -> GapRows:
    """Rows of one CPU and name that touch, as one."""
    found: GapRows = []
    for cpu, ts, dur, name in sorted(rows):
        if found and found[-1][0] == cpu and found[-1][3] == name:
            _, start, length, _ = found[-1]
            if start + length == ts:
                found[-1] = (cpu, start, length + dur, name)
                continue
        found.append((cpu, ts, dur, name))
    return found
