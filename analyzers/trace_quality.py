"""How far the recordings can be trusted, and what they cannot answer.

A recording without context switches of either kind answers nothing about who ran: critical. A
recording of PERF_RECORD_SWITCH alone has exact running times and is info. Else judged is what
lies inside the window: recorders start and stop their CPUs one after another, so every recording
has edges, which are told as such. Unknown CPU time in the window is told from 0.1 % (from there
bounds are shown), a warning from 1 % (the accuracy the other numbers claim), critical from 10 %.
Switches that only the second kind of record shows cost nothing and are told, since tools that read
the first kind alone read such a file wrong; stays of which the readiness is unknown are told from
1 % of the switches. A CPU clock that differs from the running time in the trace by 1 % or more,
beyond the error of its reading, is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope, Severity
from schedlens.output.wording import count, duration, elsewhere, percent, thread_name

NEEDS: tuple[str, ...] = ()
METRIC: Metric = "measured"

TOLD_PCT = 0.1
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0
UNEXPLAINED_SHARE = 0.01
# A gap between a thread's CPU clock and its running time in the trace, beyond the reading error.
CLOCK_GAP_PCT = 1.0

# Kinds of problem that trace_quality counts by where they lie.
_PLACED = ("switch-in without a waking%", "the thread that leaves%", "the records of a CPU end%")


def judge(scope: Scope) -> Iterable[Finding]:
    """Loss, mended switches, problems, and questions without an answer."""
    rows = scope.rows(
        "SELECT q.*, trace.source FROM trace_quality AS q JOIN trace USING (trace_id)"
    )
    blind = [row for row in rows if not _switches(row)]
    if blind:
        yield _blind(blind[0], len(blind) - 1)
    own = [row for row in rows if _switches(row) and not row["switches"]]
    if own:
        yield _switch_records_only(own[0], len(own) - 1)
    lost = sorted(
        (row for row in rows if _is_lossy(row)),
        key=lambda row: (-_inner_pct(row), row["trace_id"]),
    )
    if lost:
        yield _loss(scope, lost[0], len(lost) - 1)
    elif len(blind) < len(rows):
        yield _whole([row for row in rows if _switches(row)])
    rows = [row for row in rows if row["switches"]]
    yield from _edges(rows)
    yield from _mended(rows)
    yield from _unexplained(rows)
    yield from _clock(scope)
    yield from _problems(scope)
    yield from _unanswered(scope)


def _switches(row: dict[str, Any]) -> int:
    """Context switches of either kind of record."""
    return int(row["switches"] + row["repaired_switches"] + row["edge_repaired_switches"])


def _inner_ns(row: dict[str, Any]) -> int | None:
    """Unknown CPU time in the window without that of streams that end before the recording."""
    unknown = row["unknown_cpu_ns"]
    if unknown is None:
        return None
    if not row["switches"]:
        # Without the scheduler's own event CPUs are unknown although no record was lost.
        return int(min(unknown, row["gap_ns"] or 0))
    return int(max(0, unknown - row["edge_ns"]))


def _inner_pct(row: dict[str, Any]) -> float:
    inner = _inner_ns(row)
    if not inner or row["unknown_cpu_pct"] is None:
        return 0.0
    return float(row["unknown_cpu_pct"] * inner / row["unknown_cpu_ns"])


def _is_lossy(row: dict[str, Any]) -> bool:
    lost = row["gaps"] or row["events_lost"] or row["buffers_lost"]
    return bool(lost) or _inner_pct(row) >= TOLD_PCT


def _blind(row: dict[str, Any], others: int) -> Finding:
    how = {
        "perf": "collect -- CMD, or perf record -a -e sched:sched_switch,sched:sched_waking",
        "etw": "collect on Windows, or xperf -on PROC_THREAD+LOADER+CSWITCH+DISPATCHER",
    }.get(row["source"], "with the events of the scheduler")
    return Finding(
        analyzer="trace_quality",
        # A step that was measured on purpose without a recorder is no damaged recording.
        severity="info" if row["source"] == "none" else "critical",
        title=f"{row['label']} contains no context switches{elsewhere(others)}",
        trace_id=row["trace_id"],
        advice=f"Who ran where is unknown. Record context switches and wakeups: {how}.",
        evidence_sql=(
            f"SELECT record, count FROM record_count WHERE trace_id = {row['trace_id']} "
            "ORDER BY count DESC, record"
        ),
    )


def _switch_records_only(row: dict[str, Any], others: int) -> Finding:
    return Finding(
        analyzer="trace_quality",
        severity="info",
        title=(
            f"{row['label']} contains switch records without wakeups or priorities"
            f"{elsewhere(others)}"
        ),
        trace_id=row["trace_id"],
        advice=(
            "Running times are exact; ready time is known only after a preemption. To record "
            "wakeups, priorities and all programs: sudo sysctl kernel.perf_event_paranoid=-1, "
            "make /sys/kernel/tracing readable, and run `collect` again."
        ),
        evidence_sql=(
            "SELECT trace_id, source, prev_preempted, count(*) AS records FROM context_switch "
            f"WHERE trace_id = {row['trace_id']} GROUP BY ALL ORDER BY ALL"
        ),
    )


def _whole(rows: list[dict[str, Any]]) -> Finding:
    # Switches outside the window do not count.
    switches = sum(row["switches"] + row["repaired_switches"] for row in rows)
    edges = sum(row["edge_gaps"] for row in rows)
    beside = f"; {count(edges, 'gap')} at the edges, outside the window" if edges else ""
    if any(row["edge_ns"] for row in rows):
        beside = f"; {count(edges, 'gap')} at the edges"
    return Finding(
        analyzer="trace_quality",
        severity="checked",
        title=(
            "No record is known to be missing in the window: "
            f"{count(switches, 'switch', 'switches')} in {count(len(rows), 'recording')}{beside}"
        ),
        evidence_sql="FROM trace_quality",
    )


def _loss(scope: Scope, row: dict[str, Any], others: int) -> Finding:
    share = _inner_pct(row)
    inner = _inner_ns(row)
    parts = []
    if row["gaps"]:
        breaks = count(row["chain_breaks"], "break")
        parts.append(
            f"{count(row['gaps'], 'gap')} in the window, {breaks} in the chain of switches"
        )
    if row["events_lost"]:
        parts.append(f"{count(row['events_lost'], 'record')} lost")
    if row["buffers_lost"]:
        parts.append(f"{count(row['buffers_lost'], 'buffer')} lost")
    if inner is not None:
        parts.append(f"{duration(inner)} of CPU time unknown ({percent(share)})")
    trace_id = row["trace_id"]
    # A recording of one program does not follow a CPU while others run there: what a new thread
    # did before its first record is not covered, and nothing was lost.
    uncovered = row["chain_breaks"] == row["gaps"] and scope.lacks(trace_id, ["all_threads"])
    return Finding(
        analyzer="trace_quality",
        severity="info" if uncovered else _severity(share),
        title=f"{row['label']}: {', '.join(parts)}{elsewhere(others)}",
        trace_id=trace_id,
        cost_ns=inner,
        cost_pct=share if inner is not None else None,
        bound="range",
        advice=_advice(scope, row),
        evidence_sql=(
            "SELECT cpu, start_ns, end_ns, end_ns - start_ns AS ns, events, signalled_by FROM loss "
            f"WHERE trace_id = {trace_id} ORDER BY ns DESC, cpu, start_ns"
        ),
        counter_evidence_sql=(
            f"SELECT cpu, unknown_ns, busy_pct FROM cpu_time(p_trace_id := {trace_id})"
        ),
    )


# Gaps that no record of the recorder explains, and those of the file: buffers do not help there.
_NOT_THE_RECORDER = ("chain_break", "stream_end", "damaged", "truncated")
# How to give each recorder more memory, for recordings of `collect` and of others.
_LARGER_BUFFERS = {
    "perf": ("collect -m 32M, or --light", "perf record -m 32M"),
    "etw": (
        "collect --buffer-size 1Mx2048",
        "BufferSize and Buffers in the WPR profile, or xperf -BufferSize 1024 -MinBuffers 1024 "
        "-MaxBuffers 2048",
    ),
    "perfetto": ("buffers.size_kb of the trace config",) * 2,
}


def _advice(scope: Scope, row: dict[str, Any]) -> str:
    """What to do about the loss, by the recorder that made the recording."""
    trace_id = row["trace_id"]
    kinds = {
        found["signalled_by"]
        for found in scope.rows(f"SELECT signalled_by FROM loss WHERE trace_id = {trace_id}")
    }
    if row["events_lost"] or row["buffers_lost"] or kinds - set(_NOT_THE_RECORDER):
        collected = scope.rows(f"SELECT 1 AS one FROM run WHERE trace_id = {trace_id}")
        options = _LARGER_BUFFERS.get(row["source"])
        larger = f" ({options[0 if collected else 1]})" if options else ""
        return (
            "Read numbers of this recording as ranges. Record again with larger buffers"
            f"{larger} or to a faster disk."
        )
    if kinds & {"damaged", "truncated"}:
        return (
            "Read numbers of this recording as ranges. Copy the file again from where it was "
            "recorded, or record again: a part of it cannot be read."
        )
    if row["source"] == "perf" and row["has_switch_records"] is False:
        return (
            "Record again with --switch-events, as `collect` does: the kernel writes no scheduler "
            "event for some switches, and the second kind of record tells most of them."
        )
    return (
        "Read numbers of this recording as ranges, or record again. The recorder reported no loss "
        "there, so larger buffers are unlikely to help."
    )


def _severity(unknown_pct: float) -> Severity:
    if unknown_pct >= CRITICAL_PCT:
        return "critical"
    return "warning" if unknown_pct >= WARNING_PCT else "info"


def _edges(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    """Streams that end early, where the window reaches to the end of the recording."""

    def share(row: dict[str, Any]) -> float:
        return float((row["unknown_cpu_pct"] or 0) - _inner_pct(row))

    early = sorted((row for row in rows if share(row) >= TOLD_PCT), key=share, reverse=True)
    if early:
        row = early[0]
        yield Finding(
            analyzer="trace_quality",
            severity="info",
            title=(
                f"{row['label']}: the CPUs were switched off one after another: "
                f"{duration(row['edge_ns'])} of CPU time at the end is unknown "
                f"({percent(share(row))}){elsewhere(len(early) - 1)}"
            ),
            trace_id=row["trace_id"],
            cost_ns=row["edge_ns"],
            cost_pct=share(row),
            advice="Leave the end out with --to; nothing between is touched.",
            evidence_sql=(
                "SELECT cpu, start_ns, end_ns FROM loss "
                f"WHERE trace_id = {row['trace_id']} AND signalled_by = 'stream_end' ORDER BY cpu"
            ),
        )


def _mended(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    mended = sum(row["repaired_switches"] for row in rows)
    if mended:
        all_switches = sum(row["switches"] for row in rows) + mended
        yield Finding(
            analyzer="trace_quality",
            severity="info",
            title=(
                f"{mended:,} of {all_switches:,} switches were taken from the second kind of "
                "record, since the scheduler's own event lacks them: nothing is unknown"
            ),
            advice=(
                "Nothing here. Tools that read the scheduler's event alone give wrong run times "
                "for these files."
            ),
            evidence_sql=(
                "SELECT trace_id, label, switches, repaired_switches, edge_repaired_switches "
                "FROM trace_quality WHERE repaired_switches > 0"
            ),
            counter_evidence_sql=(
                "SELECT trace_id, cpu, count(*) AS repaired FROM context_switch "
                "WHERE source = 'switch_event' GROUP BY ALL ORDER BY ALL"
            ),
        )


def _unexplained(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    inner = sum(row["unexplained_entries"] for row in rows)
    edge = sum(row["edge_unexplained_entries"] for row in rows)
    stays = sum(row["switches"] + row["repaired_switches"] for row in rows)
    if inner >= UNEXPLAINED_SHARE * stays and inner:
        yield Finding(
            analyzer="trace_quality",
            severity="info",
            title=(
                f"Of {count(inner, 'stay')} in the window it is unknown since when the thread was "
                f"ready: no waking was recorded (at the edges, by switch records alone: {edge})"
            ),
            advice="Their ready and wait times are left out, never taken as 0.",
            evidence_sql=(
                "SELECT trace_id, label, unexplained_entries, edge_unexplained_entries "
                "FROM trace_quality ORDER BY unexplained_entries DESC, trace_id"
            ),
        )


def _clock(scope: Scope) -> Iterable[Finding]:
    """Threads whose own CPU clock shows another running time than the trace."""
    rows = scope.rows(
        "SELECT c.*, t.thread, t.tid, t.run_ns, t.clock_ns, t.slices, trace.label "
        "FROM clock_gap AS c JOIN thread_clock_check AS t ON t.utid = c.worst_utid "
        "JOIN trace ON trace.trace_id = c.trace_id "
        f"WHERE c.clock_gap_pct >= {CLOCK_GAP_PCT} ORDER BY c.clock_gap_pct DESC, c.trace_id"
    )
    if not rows:
        return
    row = rows[0]
    more = "more" if row["worst_gap_pct"] > 0 else "less"
    yield Finding(
        analyzer="trace_quality",
        severity="info",
        title=(
            f"Run times can be off by {percent(row['clock_gap_pct'])}: the CPU clock of "
            f"{thread_name(row['thread'], row['tid'])} shows {duration(row['clock_ns'])}, "
            f"{percent(abs(row['worst_gap_pct']))} {more} than the trace with "
            f"{duration(row['run_ns'])} in {count(row['slices'], 'slice')}; median of "
            f"{count(row['threads'], 'thread')}: {percent(row['median_gap_pct'])} "
            f"({row['label']}){elsewhere(len(rows) - 1)}"
        ),
        trace_id=row["trace_id"],
        utid=row["worst_utid"],
        advice=(
            "Read run times of threads with short slices as at least that long: the kernel charges "
            "a part of each switch to the thread, and the trace does not."
            if row["worst_gap_pct"] > 0
            else "Look at steal and at lost records: the thread ran less than the trace shows."
        ),
        evidence_sql=f"FROM thread_clock_check(p_trace_id := {row['trace_id']})",
    )


def _problems(scope: Scope) -> Iterable[Finding]:
    others = " AND ".join(f"what NOT LIKE '{kind}'" for kind in _PLACED)
    rows = scope.rows(
        "SELECT what, sum(count)::BIGINT AS count, count(DISTINCT trace_id) AS recordings "
        f"FROM problem WHERE {others} GROUP BY what ORDER BY count DESC, what"
    )
    if rows:
        more = f", and {count(len(rows) - 1, 'other kind')}" if len(rows) > 1 else ""
        yield Finding(
            analyzer="trace_quality",
            severity="info",
            title=(
                f"Read with reservations: {rows[0]['what']} ({count(rows[0]['count'], 'time')} in "
                f"{count(rows[0]['recordings'], 'recording')}){more}"
            ),
            advice="See the evidence for what each concerns.",
            evidence_sql=(
                "SELECT trace_id, place, what, count FROM problem ORDER BY trace_id, count DESC"
            ),
        )


def _unanswered(scope: Scope) -> Iterable[Finding]:
    rows = scope.rows(
        "SELECT a.question, any_value(a.why) AS why, any_value(a.record_with) AS record_with, "
        "count(*) AS recordings, bool_and(run.trace_id IS NOT NULL) AS collected "
        "FROM answerable AS a LEFT JOIN run USING (trace_id) "
        "WHERE answer = 'no' AND record_with IS NOT NULL GROUP BY a.question "
        "HAVING count(*) = (SELECT count(*) FROM trace) ORDER BY a.question"
    )
    if not rows:
        return
    names = ", ".join(row["question"] for row in rows)
    yield Finding(
        analyzer="trace_quality",
        severity="info",
        title=f"Not analyzed, the recording lacks their events: {names}",
        advice="\n".join(f"{row['question']}: {_means(row)}" for row in rows),
        evidence_sql=(
            "SELECT trace_id, question, answer, why, record_with FROM answerable "
            "WHERE answer <> 'yes'"
        ),
    )


def _means(row: dict[str, Any]) -> str:
    """What to type for one question."""
    if row["collected"] and row["question"] in ("frequency", "idle_state", "interrupt_time"):
        return (
            "`collect` asks for it unless --light is given, and this machine told nothing: usual "
            "in a virtual machine"
        )
    if row["collected"] and row["record_with"] == "collect":
        return f"{row['why']}: this machine does not tell"
    return f"{row['why']}; type: {row['record_with']}"
