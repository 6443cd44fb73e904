"""How far the recordings can be trusted.

A recording without context switches of either kind answers nothing about who ran: critical. A
recording of PERF_RECORD_SWITCH alone has exact running times and is info. Otherwise only the window
is judged: recorders start and stop their CPUs one after another, so every recording has edges,
which are reported as edges, and so is what a scrubbed recording leaves out. Unknown CPU time in the
window is info from 0.1 % (from there bounds are shown), a warning from 1 % (the accuracy the other
numbers claim), critical from 10 %. Switches that only PERF_RECORD_SWITCH shows cost nothing and are
info, since tools that read only sched_switch read such a file wrong; slices whose ready time is
unknown are info from 1 % of the switches. A CPU clock that differs from the running time in the
trace by 1 % or more, beyond the error of its reading, is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask import loss, record_again
from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean
from schedlens.output.wording import count, duration, number, percent, recordings, thread_name

NEEDS: tuple[str, ...] = ()
METRIC: Metric = "measured"
KINDS = (
    "no_switches",
    "switch_records_only",
    "filtered_switches",
    "loss",
    "early_end",
    "recovered_switches",
    "unknown_ready_time",
    "clock_gap",
    "reader_problem",
    "left_out",
)

INFO_PCT = 0.1
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0
UNEXPLAINED_SHARE = 0.01
# A gap between a thread's CPU clock and its running time in the trace, beyond the reading error.
CLOCK_GAP_PCT = 1.0

# Kinds of problem that trace_quality counts by their place.
_PLACED = ("switch-in without a waking%", "the thread that leaves%", "the records of a CPU end%")


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """Loss, recovered switches, gaps of clocks, and problems of the reader."""
    rows = scope.rows(
        "SELECT q.*, is_windows_source(trace.source) AS is_windows, edge.from_ns, edge.to_ns "
        f"FROM ({scope.call('trace_quality')}) AS q JOIN trace USING (trace_id) LEFT JOIN ("
        "SELECT trace_id, max(end_ns) FILTER (WHERE signalled_by = 'stream_start') AS from_ns, "
        "min(start_ns) FILTER (WHERE signalled_by = 'stream_end') AS to_ns "
        "FROM loss GROUP BY trace_id) AS edge USING (trace_id)"
    )
    blind = [row for row in rows if not _switches(row)]
    if blind:
        yield _blind(scope, blind[0], len(blind) - 1)
    own = [row for row in rows if _switches(row) and not row["switches"]]
    if own:
        yield _switch_records_only(scope, own[0], len(own) - 1)
    lost = sorted(
        (row for row in rows if _is_lossy(row)),
        key=lambda row: (-loss.unknown_pct(row), row["trace_id"]),
    )
    if lost:
        yield _loss(scope, lost[0], len(lost) - 1)
    elif len(blind) < len(rows):
        yield _whole([row for row in rows if _switches(row)])
    rows = [row for row in rows if row["switches"]]
    yield from _edges(rows)
    yield from _left_out(rows)
    yield from _recovered(rows)
    yield from _unexplained(scope, rows)
    yield from _clock(scope)
    yield from _problems(scope)


def _switches(row: dict[str, Any]) -> int:
    """Context switches of either kind of record."""
    return int(row["switches"] + row["repaired_switches"] + row["edge_repaired_switches"])


def _is_lossy(row: dict[str, Any]) -> bool:
    lost = row["gaps"] or row["events_lost"] or row["buffers_lost"]
    return bool(lost) or loss.unknown_pct(row) >= INFO_PCT


def _blind(scope: Scope, row: dict[str, Any], others: int) -> Finding:
    how = {
        "perf": "collect -- CMD, or perf record -a -e sched:sched_switch,sched:sched_waking",
        "trace_cmd": "trace-cmd record -e sched",
        "etw": "collect on Windows, or xperf -on PROC_THREAD+LOADER+CSWITCH+DISPATCHER",
    }.get(row["source"], "with the events of the scheduler")
    return Finding(
        kind="no_switches",
        severity="info" if row["source"] == "none" else "critical",
        title="Recording contains no context switches",
        detail=(
            f"{recordings(row['label'], others)}no context switches are recorded, so that which "
            "thread ran on which CPU is unknown."
        ),
        advice=(
            f"{record_again.WITHOUT_FREQUENCY}."
            if record_again.is_sampled(scope, row["trace_id"])
            else f"Record context switches and wakeups: {how}."
        ),
        trace_id=row["trace_id"],
        evidence_sql=(
            f"SELECT record, count FROM record_count WHERE trace_id = {row['trace_id']} "
            "ORDER BY count DESC, record"
        ),
    )


def _switch_records_only(scope: Scope, row: dict[str, Any], others: int) -> Finding:
    return Finding(
        kind="switch_records_only",
        severity="info",
        title="Recording lacks wakeups and priorities",
        detail=(
            f"{recordings(row['label'], others)}only PERF_RECORD_SWITCH is recorded: running times "
            "are exact, ready time is known only after a preemption."
        ),
        advice=(
            f"{record_again.WITHOUT_FREQUENCY} --switch-events."
            if record_again.is_sampled(scope, row["trace_id"])
            else "To record wakeups, priorities and all programs, run "
            "`sudo sysctl kernel.perf_event_paranoid=-1`, make /sys/kernel/tracing readable, and "
            "run `collect` again."
        ),
        trace_id=row["trace_id"],
        evidence_sql=(
            "SELECT trace_id, source, prev_preempted, count(*) AS records FROM context_switch "
            f"WHERE trace_id = {row['trace_id']} GROUP BY ALL ORDER BY ALL"
        ),
    )


_FILTER = "recorded with a filter: "


def _filtered(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    """Recordings that left out switches by a condition; `rows`: of `problem`, by kind."""
    if rows:
        trace_id = rows[0]["trace_id"]
        condition = rows[0]["what"].removeprefix(_FILTER)
        others = sum(row["recordings"] for row in rows) - 1
        yield Finding(
            kind="filtered_switches",
            severity="warning",
            title="Some context switches were filtered out",
            detail=(
                f"{recordings(rows[0]['label'], others)}sched_switch was recorded with the "
                f"filter `{condition}`. What is missing shows only where the chain of switches "
                "breaks: other threads may have run within a slice."
            ),
            advice=(
                "Record without --filter, and choose the threads afterwards: analyze --process "
                "NAME. To record fewer events, leave out others than sched_switch and sched_waking."
            ),
            trace_id=trace_id,
            evidence_sql=(
                "SELECT trace_id, place, what FROM problem "
                f"WHERE place = 'sched:sched_switch' AND trace_id = {trace_id}"
            ),
        )


def _whole(rows: list[dict[str, Any]]) -> Outcome:
    # Switches outside the window do not count.
    switches = sum(row["switches"] + row["repaired_switches"] for row in rows)
    edges = sum(row["edge_gaps"] for row in rows)
    at_edges = f"; {count(edges, 'gap')} at the edges, outside the window" if edges else ""
    if any(row["edge_ns"] for row in rows):
        at_edges = f"; {count(edges, 'gap')} at the edges"
    return clean(
        f"No record is known to be missing in the window: {number(switches)} switches "
        f"in {count(len(rows), 'recording')}{at_edges}."
    )


def _loss(scope: Scope, row: dict[str, Any], others: int) -> Finding:
    share = loss.unknown_pct(row)
    inner = loss.unknown_ns(row)
    parts = []
    if row["gaps"]:
        in_window = f"{count(row['gaps'], 'gap')} in the window"
        breaks = count(row["chain_breaks"], "break")
        parts.append(
            f"{in_window}, {breaks} in the chain of switches" if _switches(row) else in_window
        )
    if row["events_lost"]:
        parts.append(f"{count(row['events_lost'], 'record')} lost")
    if row["buffers_lost"]:
        parts.append(f"{count(row['buffers_lost'], 'buffer')} lost")
    title = f"{count(row['gaps'], 'gap')} in the recording"
    if inner is not None:
        # Without switches, all CPU time is unknown.
        unknown = "of CPU time unknown" if _switches(row) else "of CPU time without records"
        parts.append(f"{duration(inner)} {unknown} ({percent(share)})")
    if inner and not _switches(row):
        title = f"{duration(inner)} of CPU time without records ({percent(share)})"
    elif inner:
        title = f"{duration(inner)} of CPU time unknown ({percent(share)})"
    elif row["events_lost"]:
        title = f"{count(row['events_lost'], 'record')} lost"
    elif row["buffers_lost"]:
        title = f"{count(row['buffers_lost'], 'buffer')} lost"
    trace_id = row["trace_id"]
    # A recording of one program does not follow a CPU while others run there: what a new thread
    # did before its first record is not covered, and nothing was lost.
    uncovered = row["chain_breaks"] == row["gaps"] and scope.lacks(trace_id, ["all_threads"])
    return Finding(
        kind="loss",
        severity="info" if uncovered else _severity(share),
        title=title,
        detail=f"{recordings(row['label'], others)}{', '.join(parts)}.",
        advice=record_again.after_loss(scope, row),
        trace_id=trace_id,
        cost_ns=inner,
        cost_pct=share if inner is not None else None,
        bound="range" if not row["left_out_ns"] else None,
        evidence_sql=(
            "SELECT cpu, start_ns, end_ns, end_ns - start_ns AS ns, events, signalled_by FROM loss "
            f"WHERE trace_id = {trace_id} ORDER BY ns DESC, cpu, start_ns"
        ),
        counter_evidence_sql=(
            f"SELECT cpu, unknown_ns, busy_pct FROM cpu_time(p_trace_id := {trace_id})"
        ),
    )


def _severity(unknown_pct: float) -> Severity:
    if unknown_pct >= CRITICAL_PCT:
        return "critical"
    return "warning" if unknown_pct >= WARNING_PCT else "info"


def _edges(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    """CPUs whose records start late or end early, where the window reaches to that edge."""

    def share(row: dict[str, Any]) -> float:
        unknown = row["unknown_cpu_ns"]
        if not unknown or not row["edge_ns"]:
            return 0.0
        return float(row["unknown_cpu_pct"] * min(row["edge_ns"], unknown) / unknown)

    partial = sorted((row for row in rows if share(row) >= INFO_PCT), key=share, reverse=True)
    if partial:
        row = partial[0]
        options = []
        # Rounded to the inside, in ms.
        if row["from_ns"] is not None:
            options.append(f"--from {-(-row['from_ns'] // 1_000_000) / 1e3:.3f}")
        if row["to_ns"] is not None:
            options.append(f"--to {row['to_ns'] // 1_000_000 / 1e3:.3f}")
        how = f" with `{' '.join(options)}`" if options else ""
        yield Finding(
            kind="early_end",
            severity="info",
            title=f"{duration(row['edge_ns'])} of CPU time unknown at the edges of the recording",
            detail=(
                f"{recordings(row['label'], len(partial) - 1)}the scheduler was not recorded on "
                f"every CPU up to the first and last record: {duration(row['edge_ns'])} of CPU "
                f"time is unknown ({percent(share(row))})."
            ),
            advice=f"Leave the edges out{how}; the time between them is not affected.",
            trace_id=row["trace_id"],
            cost_ns=row["edge_ns"],
            cost_pct=share(row),
            bound="exact" if not row["left_out_ns"] else "at_least",
            evidence_sql=(
                f"SELECT cpu, start_ns, end_ns FROM loss WHERE trace_id = {row['trace_id']} "
                "AND signalled_by IN ('stream_start', 'stream_end', 'overwritten') ORDER BY ALL"
            ),
        )


def _left_out(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    """What a scrubbed recording does not contain of the window."""
    partial = sorted((row for row in rows if row["left_out_ns"]), key=lambda r: -r["left_out_ns"])
    if partial:
        row = partial[0]
        yield Finding(
            kind="left_out",
            severity="info",
            title=f"Scrubbed recording leaves out {duration(row['left_out_ns'])} of CPU time",
            detail=(
                f"{recordings(row['label'], len(partial) - 1)}only a part of the window was "
                f"exported; {duration(row['left_out_ns'])} of CPU time in the rest is unknown, so "
                "that costs are those of the part, or more."
            ),
            advice="Set the window to the part with `--from` and `--to`, or export a larger part.",
            trace_id=row["trace_id"],
            cost_ns=row["left_out_ns"],
            evidence_sql=(
                "SELECT cpu, start_ns, end_ns FROM loss "
                f"WHERE trace_id = {row['trace_id']} AND signalled_by = 'left_out' ORDER BY ALL"
            ),
        )


def _recovered(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    recovered = sum(row["repaired_switches"] for row in rows)
    if recovered:
        all_switches = sum(row["switches"] for row in rows) + recovered
        outside = sum(row["edge_repaired_switches"] for row in rows)
        # Exact in both: rounded in one of them, they would contradict each other.
        part = f"{recovered:,} of {all_switches:,} context switches"
        yield Finding(
            kind="recovered_switches",
            severity="info",
            title=f"{part} were recovered",
            detail=(
                f"{part} came from PERF_RECORD_SWITCH because sched_switch missed them; "
                "no data was lost." + (f" Outside the window: {outside:,} more." if outside else "")
            ),
            advice=(
                "Do not use tools that read only sched_switch for these files: their run times are "
                "wrong."
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


def _unexplained(scope: Scope, rows: list[dict[str, Any]]) -> Iterable[Finding]:
    inner = sum(row["unexplained_entries"] for row in rows)
    edge = sum(row["edge_unexplained_entries"] for row in rows)
    slices = sum(row["switches"] + row["repaired_switches"] for row in rows)
    if inner >= UNEXPLAINED_SHARE * slices and inner:
        worst = max(rows, key=lambda row: row["unexplained_entries"])
        trace_id = worst["trace_id"]
        threads = (
            "SELECT utid, thread, tid, count(*) AS slices FROM sched_slice AS s "
            "JOIN analysis_span AS w USING (trace_id) JOIN thread_with_process AS t "
            "USING (trace_id, utid) WHERE NOT s.is_idle AND NOT left_censored "
            "AND prev_cpu IS NOT NULL AND ready_ns IS NULL AND wait_ns IS NULL "
            f"AND s.ts BETWEEN w.start_ns AND w.end_ns AND trace_id = {trace_id} "
            "GROUP BY ALL ORDER BY slices DESC, utid"
        )
        (most,) = scope.rows(f"{threads} LIMIT 1")
        yield Finding(
            kind="unknown_ready_time",
            severity="info",
            title=f"Ready time of {count(inner, 'slice')} is unknown",
            detail=(
                f"No wakeup was recorded before {count(inner, 'slice')} in the window (at its "
                f"edges: {edge}), so how long their threads were ready is unknown: NULL, never 0. "
                f"{number(most['slices'])} of them are of "
                f"{thread_name(most['thread'], most['tid'])}."
            ),
            advice=record_again.for_wakeups(scope, worst),
            evidence_sql=threads,
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
        kind="clock_gap",
        severity="info",
        title=f"Run times can be off by {percent(row['clock_gap_pct'])}",
        detail=(
            f"{recordings(row['label'], len(rows) - 1)}the CPU clock of "
            f"{thread_name(row['thread'], row['tid'])} shows {duration(row['clock_ns'])}, "
            f"{percent(abs(row['worst_gap_pct']))} {more} than the trace with "
            f"{duration(row['run_ns'])} in {count(row['slices'], 'slice')}; the median of "
            f"{count(row['threads'], 'thread')} is {percent(row['median_gap_pct'])}."
        ),
        advice=(
            "Read run times of threads with short slices as lower bounds: the kernel charges a "
            "part of each switch to the thread, and the trace does not."
            if row["worst_gap_pct"] > 0
            else "Check steal and lost records (`FROM steal`, `FROM trace_quality`): the thread "
            "ran less than the trace shows."
        ),
        trace_id=row["trace_id"],
        utid=row["worst_utid"],
        evidence_sql=f"FROM thread_clock_check(p_trace_id := {row['trace_id']})",
    )


def _problems(scope: Scope) -> Iterable[Finding]:
    others = " AND ".join(f"what NOT LIKE '{kind}'" for kind in _PLACED)
    rows = scope.rows(
        "SELECT what, sum(count)::BIGINT AS count, count(DISTINCT trace_id) AS recordings, "
        "min(trace_id) AS trace_id, arg_min(label, trace_id) AS label "
        f"FROM problem JOIN trace USING (trace_id) WHERE {others} GROUP BY what "
        "ORDER BY count DESC, what"
    )
    yield from _filtered([row for row in rows if row["what"].startswith(_FILTER)])
    rows = [row for row in rows if not row["what"].startswith(_FILTER)]
    if rows:
        more = f", and {count(len(rows) - 1, 'other kind')}" if len(rows) > 1 else ""
        yield Finding(
            kind="reader_problem",
            severity="info",
            title=f"Reader reported {count(len(rows), 'kind')} of problem",
            detail=(
                f"Most often: {rows[0]['what']} ({count(rows[0]['count'], 'time')} in "
                f"{count(rows[0]['recordings'], 'recording')}){more}."
            ),
            advice="See `FROM problem` for the place and number of each.",
            evidence_sql=(
                "SELECT trace_id, place, what, count FROM problem ORDER BY trace_id, count DESC"
            ),
        )
