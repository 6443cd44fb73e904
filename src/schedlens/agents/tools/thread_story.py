"""Explain what one thread did in a range: states, CPUs, who woke it, and who ran instead of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part, of_sql
from schedlens.errors import NothingToReadError, WindowError
from schedlens.load.schema import literal

_TIME = 9_200_000_000_000_000_000


class Arguments(BaseModel):
    """Which thread, and when."""

    model_config = ConfigDict(extra="forbid")
    session: str = Field(description="A session of list_sessions.")
    utid: int | None = Field(
        None, ge=-_TIME, le=_TIME, description="The thread, unique in the session. Or:"
    )
    thread: str | None = Field(None, description="The name of the thread.")
    recording: str | None = Field(None, description="With thread: the label of the recording.")
    from_ns: int | None = Field(
        None, ge=-_TIME, le=_TIME, description="Start in ns of the recording; default: the window."
    )
    to_ns: int | None = Field(None, ge=-_TIME, le=_TIME, description="End in ns.")


def answer(access: Access, given: Arguments) -> list[Part]:
    """The thread, and a part for each question."""
    who = access.select(given.session, _who(given))
    if not who.rows:
        raise NothingToReadError(
            "no thread matches: run_sql with SELECT utid, name, tid FROM thread lists them"
        )
    if len(who.rows) > 1:
        listed = ", ".join(f"{row[0]} ({row[3]})" for row in who.rows[:5])
        raise NothingToReadError(
            f"{len(who.rows)} threads match: pass one as utid: {listed}"
            + (" ..." if len(who.rows) > 5 else "")
        )
    row = dict(zip(who.columns, who.rows[0], strict=True))
    start = row["start_ns"] if given.from_ns is None else given.from_ns
    end = row["end_ns"] if given.to_ns is None else given.to_ns
    if start is None or end is None or start >= end:
        raise WindowError(f"from_ns {start} is not before to_ns {end}")
    utid, trace_id = row["utid"], row["trace_id"]
    inside = f"WHERE utid = {utid} AND ts < {end} AND ts + dur > {start}"
    clipped = f"clipped_ns(ts, dur, {start}, {end})"
    window = f"(p_trace_id := {trace_id}, p_from_ns := {start}, p_to_ns := {end})"
    asked = {
        "states": (
            f"SELECT state, count(*) AS times, sum({clipped})::BIGINT AS total_ns, "
            f"max({clipped})::BIGINT AS longest_ns FROM thread_state {inside} "
            "GROUP BY state ORDER BY total_ns DESC",
            "times are lower bounds, and the state unknown contains the rest; pass from_ns and "
            "to_ns for a part of the range",
        ),
        "cpus": (
            "SELECT cpu, (SELECT any_value(core_type) FROM cpu WHERE cpu.trace_id = s.trace_id "
            "AND cpu.cpu = s.cpu) AS core_type, run_ns, switches_in, longest_ns "
            f"FROM thread_cpu{window} AS s WHERE utid = {utid} ORDER BY run_ns DESC",
            "most running time first; pass a shorter range",
        ),
        "wakers": (
            "SELECT waker_utid, waker_thread, waker_process, from_idle, wakings, ready_ns, "
            f"ready_max_ns FROM waker_pair{window} WHERE utid = {utid} ORDER BY wakings DESC",
            "most wakeups first; from_idle: an interrupt; pass waker_utid as utid",
        ),
        "ran_instead": (
            "SELECT c.utid, t.name AS thread, r.entered_cpu AS cpu, sum(overlap_ns(c.ts, c.ts + "
            f"c.dur, greatest(r.ts, {start}), least(r.ts + r.dur, {end})))::BIGINT AS run_ns "
            "FROM ready_slice AS r JOIN cpu_state AS c ON c.trace_id = r.trace_id "
            "AND c.cpu = r.entered_cpu AND c.ts < r.ts + r.dur AND c.ts + c.dur > r.ts "
            "JOIN thread AS t ON t.utid = c.utid "
            f"WHERE r.utid = {utid} AND r.ts < {end} AND r.ts + r.dur > {start} "
            "GROUP BY ALL ORDER BY run_ns DESC",
            "while it was ready, on the CPU that it then got",
        ),
        "timeline": (
            f"SELECT greatest(ts, {start}) AS ts, {clipped} AS dur_ns, state, cpu, reason, "
            f"waker_utid FROM thread_state {inside} ORDER BY ts",
            "pass from_ns=the last ts for the next rows",
        ),
    }  # fmt: skip
    return [
        of_sql("thread", who, "start_ns and end_ns are the analyzed window"),
        *(
            of_sql(name, access.select(given.session, sql), narrow)
            for name, (sql, narrow) in asked.items()
        ),
    ]


def _who(given: Arguments) -> str:
    if (given.utid is None) == (given.thread is None):
        raise NothingToReadError("pass either utid or thread")
    test = (
        f"t.utid = {given.utid}"
        if given.utid is not None
        else f"t.name = {literal(str(given.thread))}"
    )
    if given.recording is not None:
        test += f" AND trace.label = {literal(given.recording)}"
    return (
        "SELECT t.utid, t.name AS thread, t.tid, trace.label AS recording, t.trace_id, "
        "p.name AS process, t.base_priority, w.start_ns, w.end_ns "
        "FROM thread AS t JOIN trace ON trace.trace_id = t.trace_id "
        "LEFT JOIN process AS p ON p.upid = t.upid "
        "LEFT JOIN analysis_window AS w ON w.trace_id = t.trace_id "
        f"WHERE {test} ORDER BY t.utid"
    )
