"""Whether threads pinned to SMT siblings of one core ran together while another core was idle.

The cost is the time in which two threads, each allowed only on the same core, ran at the same time
while another whole core was idle for at least 100 us. It is a warning from 1 % of the window,
critical from 10 %. The three costliest pairs are named; pairs that a workload of `collect` pinned
this way are info.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean
from schedlens.ask.virtual_machine import claim
from schedlens.output.wording import and_more, duration, recordings, thread_name

NEEDS = ("switches", "affinities", "cores")
METRIC: Metric = "running"
KINDS = ("pinned_to_one_core",)

WARNING_PCT = 1.0
CRITICAL_PCT = 10.0
NAMED = 3


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The costliest pairs, or a conclusion."""
    asked = scope.call("pinned_sibling", process=scope.process)
    rows = scope.rows(
        f"SELECT p.*, trace.label, w.start_ns, w.end_ns, w.dur_ns, "
        "p.utid IN (SELECT utid FROM workload_thread) "
        "AND p.other_utid IN (SELECT utid FROM workload_thread) AS is_planned "
        f"FROM ({asked}) AS p "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "ORDER BY is_planned, p.idle_ns DESC, p.trace_id, p.utid, p.other_utid"
    )
    costly = [row for row in rows if 100 * row["idle_ns"] >= WARNING_PCT * row["dur_ns"]]
    for place, row in enumerate(costly[:NAMED]):
        yield _finding(scope, row, len(costly) - NAMED if place == NAMED - 1 else 0)
    if not costly:
        yield clean(
            "Threads pinned to one core ran together only while no other core was idle."
            if rows
            else "No two threads pinned to the SMT siblings of one core ran at the same time."
        )


def _finding(scope: Scope, row: dict[str, Any], more: int) -> Finding:
    share = 100 * row["idle_ns"] / row["dur_ns"]
    severity: Severity = "critical" if share >= CRITICAL_PCT else "warning"
    one = thread_name(row["thread"], row["tid"], row["process"])
    other = thread_name(row["other_thread"], row["other_tid"], row["other_process"])
    return Finding(
        kind="pinned_to_one_core",
        severity="info" if row["is_planned"] else severity,
        title=f"Pinned SMT siblings ran {duration(row['idle_ns'])} while another core was idle",
        detail=(
            f"{recordings(row['label'])}{one} and {other} are pinned to core {row['core']} and ran "
            f"there together for {duration(row['together_ns'])}, {duration(row['idle_ns'])} of it "
            f"while another whole core was idle.{and_more(more)}"
        ),
        advice=claim(
            scope,
            row["trace_id"],
            "Expected: the workload was pinned this way. Compare with `--placement physical`."
            if row["is_planned"]
            else "Pin by topology, not by CPU number: use one logical CPU of each core "
            "(thread_siblings_list) before any SMT sibling.",
        ),
        trace_id=row["trace_id"],
        cost_ns=row["idle_ns"],
        cost_pct=share,
        utid=row["utid"],
        cpu=row["cpus"][0],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        evidence_sql=(
            "SELECT ts, dur, cpu, utid, other_cpu, other_utid FROM sibling_slice "
            f"WHERE trace_id = {row['trace_id']} AND core = {row['core']} "
            f"AND utid IN ({row['utid']}, {row['other_utid']}) "
            f"AND other_utid IN ({row['utid']}, {row['other_utid']}) ORDER BY ts"
        ),
        counter_evidence_sql=(
            "SELECT utid, source, valid_from_ns, cpus FROM affinity "
            f"WHERE utid IN ({row['utid']}, {row['other_utid']}) ORDER BY utid, valid_from_ns"
        ),
    )
