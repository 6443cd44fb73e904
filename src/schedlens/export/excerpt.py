"""Which part of which recordings a scrubbed recording contains, and the rows of that part.

Inside the part, rows are those of the analyzed database. What is outside is left out: there the
state of each CPU and thread is unknown, as if its records were lost, so that the bounds of every
answer contain what the whole recording shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb

from schedlens.ask import judging
from schedlens.errors import NothingToReadError, UnknownNameError
from schedlens.load import schema, scrubbed_file

LEFT_OUT = "left_out"
# Analyzers of one recording that compare it with others, and what experiments need.
_COMPARES = ("smt_comparison",)
_EXPERIMENTS = {"pairs", "scaling", "smt-boost", "handoff", "shards", "workers", "baselines"}
_ONE_RECORDING = re.compile(r"(trace_id|utid)\s*:?=")


@dataclass(frozen=True)
class Part:
    """The time of a recording that is written; times in ns from its ns 0."""

    trace_id: int
    number: int
    """Its number in the file, from 1."""
    name: str
    """Its name in the file, by which it is compared with the same recordings as the original."""
    first_ns: int
    last_ns: int
    from_ns: int
    to_ns: int
    window: tuple[int, int, str]

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the recording is left out."""
        return self.from_ns <= self.first_ns and self.to_ns >= self.last_ns


@dataclass(frozen=True)
class Choice:
    """What the user wants: findings by number, kind or analyzer, and the time to keep."""

    findings: Sequence[str] = ()
    margin_ns: int = 0
    from_ns: int | None = None
    to_ns: int | None = None


@dataclass(frozen=True)
class Excerpt:
    """The parts to write, and the findings they are written for (rows of `finding`)."""

    parts: list[Part]
    findings: list[dict[str, Any]] = field(default_factory=list)


def choose(con: duckdb.DuckDBPyConnection, choice: Choice) -> Excerpt:
    """The parts of the recordings with the chosen findings: by default, all above info.

    Raises `UnknownNameError` and `NothingToReadError`.
    """
    found = _findings(con, choice.findings)
    bounded = choice.from_ns is not None or choice.to_ns is not None
    if not found and not bounded:
        raise NothingToReadError(
            "no finding is above info: choose some with --finding KIND (or --finding all), or a "
            "time with --from and --to"
        )
    every = not found or any(_concerns_all(row) for row in found)
    rows = con.execute(
        "SELECT trace_id, coalesce(trace.first_ns, 0), coalesce(trace.duration_ns, 0), "
        "coalesce(start_ns, 0), coalesce(end_ns, 0), coalesce(kind, 'trace') "
        "FROM trace LEFT JOIN analysis_window USING (trace_id) ORDER BY trace_id"
    ).fetchall()
    parts: list[Part] = []
    names = _Names(con)
    for trace_id, first, last, start, end, kind in rows:
        own = [row for row in found if row["trace_id"] in (None, trace_id)]
        if not own and not every:
            continue
        # A finding without times may be from all of the recording.
        begins = [row["start_ns"] if row["start_ns"] is not None else first for row in own]
        ends = [row["end_ns"] if row["end_ns"] is not None else last for row in own]
        begin = max(first, min(begins, default=first) - choice.margin_ns, choice.from_ns or first)
        until = min(last, max(ends, default=last) + choice.margin_ns)
        until = until if choice.to_ns is None else min(until, choice.to_ns)
        if begin > until:
            raise NothingToReadError(
                f"--from and --to leave out all of recording {trace_id}, whose findings are from "
                f"{min(begins, default=first) / 1e9:.3f} s to {max(ends, default=last) / 1e9:.3f} s"
            )
        number = len(parts) + 1
        parts.append(
            Part(
                trace_id, number, names.of(trace_id, number), first, last, begin, until,
                (start, end, kind),
            )
        )  # fmt: skip
    return Excerpt(parts, found)


class _Names:
    """Names for the recordings in a file: versions of one thing (recording_pair) remain that."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        pairs = con.execute(
            "SELECT first_trace_id, second_trace_id FROM recording_pair WHERE basis = 'name'"
        ).fetchall()
        self._base = {trace_id: base for base, other in pairs for trace_id in (base, other)}
        self._labels = {
            trace_id: re.sub(r"(\.perf)?\.(data|etl|dat|zst|gz)$", "", label.lower())
            for trace_id, label in con.execute("SELECT trace_id, label FROM trace").fetchall()
        }
        # By base: the number of the first version in the file, and how many there are.
        self._first: dict[int, int] = {}
        self._versions: dict[int, int] = {}

    def of(self, trace_id: int, number: int) -> str:
        """The name of a recording, of which this is the number in the file."""
        base = self._base.get(trace_id)
        if base is None:
            return f"recording{number}"
        first = self._first.setdefault(base, number)
        place = self._versions[base] = self._versions.get(base, 0) + 1
        word = self._version(trace_id, base)
        # The words that mark a version, such as `fixed`, say nothing; a number may be a build's.
        kept = word if re.fullmatch("[a-z]*", word) else str(place)
        return f"recording{first}-{kept}" if kept else f"recording{first}"

    def _version(self, trace_id: int, base: int) -> str:
        """The last word of a name that has one more than that of another version, or differs."""
        own = self._labels[trace_id]
        others = [self._labels[one] for one, of in self._base.items() if of == base]
        is_stem = any(other[: len(own)] == own and len(other) > len(own) for other in others)
        return "" if is_stem else re.split(r"[-_. ]", own)[-1]


def _findings(con: duckdb.DuckDBPyConnection, wanted: Sequence[str]) -> list[dict[str, Any]]:
    cursor = con.execute("FROM finding ORDER BY finding_id")
    names = [column[0] for column in cursor.description or []]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if not wanted:
        return [row for row in rows if row["severity"] != "info"]
    if "all" in wanted:
        return rows
    chosen: list[dict[str, Any]] = []
    for text in wanted:
        own = [
            row for row in rows if text in (str(row["finding_id"]), row["kind"], row["analyzer"])
        ]
        if not own:
            known = sorted({row["kind"] for row in rows})
            raise UnknownNameError("finding", text, known)
        chosen += [row for row in own if row not in chosen]
    return chosen


def _concerns_all(finding: dict[str, Any]) -> bool:
    """Whether a finding comes from several recordings: experiments, and comparisons."""
    known = judging.analyzers().get(finding["analyzer"])
    return (
        finding["trace_id"] is None
        or finding["analyzer"] in _COMPARES
        or (known is not None and bool(_EXPERIMENTS & set(known.needs)))
        or not _ONE_RECORDING.search(finding["evidence_sql"])
    )


@cache
def tables() -> tuple[str, ...]:
    """The tables of a scrubbed recording, `trace` first: records, session, states, experiments."""
    with duckdb.connect() as con:
        files = schema.create(con)
    wanted = ("base.sql", "derived.sql", "experiments.sql")
    return tuple(
        table
        for table, path in files.items()
        if path.name in wanted and table not in scrubbed_file.NOT_CONTAINED
    )


# How the rows of a part are chosen. Rows of a length are cut at its edges.
_CUT = ("sched_slice", "thread_state_other", "cpu_state_other", "cpu_idle", "interrupt_slice")
_AT_ONCE = (
    "context_switch", "wakeup", "migration", "sched_yield", "wait_event", "ideal_cpu_change",
    "counter_sample", "track_counter",
)  # fmt: skip
# What is set applies until it changes.
_SET = {
    "affinity_change": "ts", "cpu_parking": "ts", "cpu_frequency": "ts", "priority_change": "ts",
    "qos_change": "ts", "thread_name": "ts", "thread_cgroup": "ts", "thread_policy": "ts",
    "affinity": "valid_from_ns", "cpu": "valid_from_ns",
}  # fmt: skip
# Numbers over whole lengths, which cannot be cut.
_WHOLE = {
    "counter_delta": ("ts", "ts + dur"),
    "frame": ("start_ns", "start_ns + coalesce(dur_ns, 0)"),
    "run_sample": ("start_ns", "end_ns"),
}
_OF_THREADS = ("thread_name", "affinity", "affinity_change", "priority_change", "qos_change",
               "ideal_cpu_change", "thread_cgroup", "thread_policy", "snapshot_thread",
               "track_counter")  # fmt: skip
_KEPT_THREADS = "excerpt_thread"


def prepare(con: duckdb.DuckDBPyConnection, part: Part) -> None:
    """Creates the temporary table of the threads that the part needs."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE {_KEPT_THREADS} AS {_threads(part)}").fetchall()


def release(con: duckdb.DuckDBPyConnection) -> None:
    """Removes the temporary table."""
    con.execute(f"DROP TABLE IF EXISTS {_KEPT_THREADS}").fetchall()


def _threads(part: Part) -> str:
    if part.is_whole:
        return f"SELECT utid FROM thread WHERE trace_id = {part.trace_id}"
    at = f"trace_id = {part.trace_id} AND ts <= {part.to_ns}"
    return f"""
    SELECT DISTINCT utid FROM (
      SELECT unnest([utid, waker_utid]) AS utid FROM sched_slice
      WHERE {at} AND ts + dur >= {part.from_ns}
      UNION ALL
      SELECT unnest([utid, waker_utid]) FROM thread_state WHERE {at} AND ts + dur >= {part.from_ns}
      UNION ALL
      SELECT unnest([prev_utid, next_utid]) FROM context_switch WHERE {at} AND ts >= {part.from_ns}
      UNION ALL
      SELECT unnest([utid, waker_utid]) FROM wakeup WHERE {at} AND ts >= {part.from_ns}
      UNION ALL
      SELECT utid FROM run_worker WHERE trace_id = {part.trace_id}
      UNION ALL
      SELECT utid FROM guest_cpu WHERE trace_id = {part.trace_id}
      UNION ALL
      SELECT utid FROM frame WHERE trace_id = {part.trace_id}
      UNION ALL
      SELECT utid FROM thread WHERE trace_id = {part.trace_id} AND is_idle
    ) WHERE utid IS NOT NULL"""


def rows_of(con: duckdb.DuckDBPyConnection, table: str, part: Part, start_clock: int) -> str:
    """SQL of the rows of a table in a part, as they are written.

    `start_clock` is subtracted from the raw clocks of all recordings.
    """
    columns = [row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()]
    own = f"trace_id = {part.trace_id}"
    shown = {"trace_id": f"{part.number}::BIGINT"}
    shown |= {name: _moved(name, part) for name in columns if name in scrubbed_file.IDS}
    if table == "trace":
        shown |= {
            "label": f"'{part.name}'",
            "start_clock": f"start_clock - {start_clock}",
            "start_time_utc": "NULL::TIMESTAMP_NS",
        }
    elif table == "run":
        shown["step"] = f"'{part.name}'"
    elif table == "recording_identity":
        # Numbers of the recorder, which occur in no file but theirs.
        for name in ("recording_uid", "host_uid"):
            shown[name] = _small(name)
    elif table == "guest_cpu":
        shown["guest_uid"] = _small("guest_uid")
    if part.is_whole:
        return _select(table, columns, shown, own)
    return _cut(table, columns, shown, own, part)


def _cut(table: str, columns: list[str], shown: dict[str, str], own: str, part: Part) -> str:
    begin, end = part.from_ns, part.to_ns
    if table in _OF_THREADS:
        own += f" AND (utid IS NULL OR utid IN (FROM {_KEPT_THREADS}))"
    if table in _CUT:
        length = f"coalesce(dur, {part.last_ns} - ts)"
        own += (
            f" AND ((ts < {end} AND ts + {length} > {begin}) "
            f"OR ({length} = 0 AND ts BETWEEN {begin} AND {end}))"
        )
        left, right = f"ts < {begin}", f"ts + {length} > {end}"
        shown |= {
            "ts": f"greatest(ts, {begin})",
            "dur": f"CASE WHEN dur IS NOT NULL OR {right} "
            f"THEN overlap_ns(ts, ts + {length}, {begin}, {end}) END",
        }
        if "left_censored" in columns:
            shown["left_censored"] = f"left_censored OR {left}"
            shown["right_censored"] = f"right_censored OR {right}"
        for name in ("waker_utid", "prev_cpu"):
            if name in columns:
                shown[name] = f"CASE WHEN NOT {left} THEN {shown.get(name, name)} END"
        if table == "sched_slice":
            # `_cut_ready` has a ready period that begins before the part.
            inside = f"ts - coalesce(ready_ns, 0) >= {begin}"
            shown |= {
                name: f"CASE WHEN {inside} THEN {name} END" for name in ("ready_ns", "wait_ns")
            }
            shown["end_reason"] = (
                f"CASE WHEN {right} AND NOT is_idle THEN 'unknown' ELSE end_reason END"
            )
        rows = _select(table, columns, shown, own)
        if table == "thread_state_other":
            rows += _cut_ready(part)
        return rows + _unknown(table, columns, part)
    if table in _AT_ONCE:
        own += f" AND ts BETWEEN {begin} AND {end}"
    elif table in _SET:
        own += f" AND coalesce({_SET[table]}, {begin}) <= {end}"
    elif table in _WHOLE:
        first, last = _WHOLE[table]
        own += f" AND {first} >= {begin} AND {last} <= {end}"
    elif table == "loss":
        own += (
            f" AND coalesce(end_ns, {part.last_ns}) > {begin} "
            f"AND coalesce(start_ns, {part.first_ns}) < {end}"
        )
        shown |= {
            "start_ns": f"CASE WHEN start_ns IS NOT NULL THEN greatest(start_ns, {begin}) END",
            "end_ns": f"CASE WHEN end_ns IS NOT NULL THEN least(end_ns, {end}) END",
        }
    elif table == "mark":
        own += f" AND ts <= {end} AND ts + coalesce(dur, 0) >= {begin}"
    elif table == "thread":
        own += f" AND utid IN (FROM {_KEPT_THREADS})"
    elif table == "process":
        own += (
            f" AND upid IN (SELECT upid FROM thread WHERE utid IN (FROM {_KEPT_THREADS}) "
            "UNION SELECT upid FROM frame)"
        )
    rows = _select(table, columns, shown, own)
    return rows + _losses(part) if table == "loss" else rows


def _cut_ready(part: Part) -> str:
    """Ready periods that the part cuts, or whose slice is not in it."""
    begin, end = part.from_ns, part.to_ns
    return f"""
    UNION ALL BY NAME
    SELECT {part.number}::BIGINT AS trace_id, {_moved("utid", part)} AS utid,
      greatest(ts, {begin}) AS ts, overlap_ns(ts, until, {begin}, {end}) AS dur, 'ready' AS state,
      CASE WHEN ts >= {begin} THEN {_moved("waker_utid", part)} END AS waker_utid,
      ts < {begin} AS left_censored, until > {end} AS right_censored
    FROM (
      SELECT utid, waker_utid, ts - ready_ns AS ts, ts AS until,
        ts < {end} OR ts = {end} AND dur = 0 AS is_entered
      FROM sched_slice
      WHERE trace_id = {part.trace_id} AND NOT is_idle AND ready_ns > 0
    )
    WHERE ts < {end} AND until > {begin} AND NOT (ts >= {begin} AND is_entered)"""


# For each table of states: what its rows are of, and the view with all states.
_STATES = {"cpu_state_other": ("cpu", "cpu_state"), "thread_state_other": ("utid", "thread_state")}


def _unknown(table: str, columns: list[str], part: Part) -> str:
    """The time of each CPU, or of the life of each thread, before and after the part."""
    if table not in _STATES:
        return ""
    key, states = _STATES[table]
    values = {
        "trace_id": f"{part.number}::BIGINT",
        "cpu": "cpu",
        "utid": _moved("utid", part),
        "ts": "begin",
        "dur": "until - begin",
        "state": "'unknown'",
        "left_censored": "true",
        "right_censored": "true",
    }
    kept = f"AND utid IN (FROM {_KEPT_THREADS})" if key == "utid" else ""
    shown = ", ".join(f"{values.get(name, 'NULL')} AS {name}" for name in columns)
    return f"""
    UNION ALL BY NAME
    SELECT {shown} FROM (
      SELECT {key}, unnest([lives, greatest(lives, {part.to_ns})]) AS begin,
        unnest([least(dies, {part.from_ns}), dies]) AS until
      FROM (
        SELECT {key}, min(ts) AS lives, max(ts + dur) AS dies
        FROM {states} WHERE trace_id = {part.trace_id} {kept} GROUP BY {key} ORDER BY {key}
      )
    ) WHERE until > begin"""


def _losses(part: Part) -> str:
    spans = [(part.first_ns, part.from_ns), (part.to_ns, part.last_ns)]
    return "".join(
        f" UNION ALL BY NAME SELECT DISTINCT {part.number}::BIGINT AS trace_id, cpu, "
        f"{begin}::BIGINT AS start_ns, {end}::BIGINT AS end_ns, '{LEFT_OUT}' AS signalled_by "
        f"FROM cpu_state WHERE trace_id = {part.trace_id}"
        for begin, end in spans
        if end > begin
    )


def _select(table: str, columns: list[str], shown: dict[str, str], where: str) -> str:
    listed = ", ".join(f"{shown[name]} AS {name}" if name in shown else name for name in columns)
    return f"SELECT {listed} FROM {table} WHERE {where}"


def _moved(name: str, part: Part) -> str:
    """A number of a thread or process as one of the recording in the file."""
    return f"({name} - {part.trace_id << 32} + {part.number << 32})"


def _small(name: str) -> str:
    known = (
        "SELECT recording_uid AS uid FROM recording_identity UNION SELECT host_uid "
        "FROM recording_identity UNION SELECT guest_uid FROM guest_cpu"
    )
    smaller = f"(SELECT count(*) FROM ({known}) WHERE uid <= {name})"
    return f"CASE WHEN {name} IS NOT NULL THEN {smaller} END"
