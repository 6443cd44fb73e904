"""Whether the threads that carry the load ran on the fast cores.

A thread counts as carrying if it ran for at least 25 % of the window: the shorter ones lose little
on an E core. It is a warning if such a thread spent at least 20 % of its running time on E or LP-E
cores, and critical from 50 %. Only machines with more than one core type can lose by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import duration, percent, recordings, thread_name

NEEDS = ("switches", "core_types")
METRIC: Metric = "running"
KINDS = ("on_e_cores",)

CARRYING_PCT = 25.0
WARNING_PCT = 20.0
CRITICAL_PCT = 50.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The carrying thread that was longest on slow cores, or a conclusion."""
    machine = scope.rows(
        "SELECT count(DISTINCT core_type) AS types, count(core_type) AS known, "
        "bool_or(core_type IN ('E', 'LP-E')) AS hybrid FROM topology"
    )[0]
    if not machine["hybrid"]:
        yield not_applicable(
            "All cores are of one type." if machine["known"] else "The core types are unknown."
        )
        return
    asked = scope.call("core_type_residency", process=scope.process)
    slow = (
        "SELECT trace_id, utid, any_value(thread) AS thread, any_value(tid) AS tid, "
        "any_value(process) AS process, sum(run_ns)::BIGINT AS run_ns, "
        # What it may have run while its state is unknown may have been on fast cores.
        "(sum(run_ns) + any_value(unknown_ns))::BIGINT AS run_high_ns, "
        "coalesce(sum(run_ns) FILTER (WHERE core_type IN ('E', 'LP-E')), 0)::BIGINT AS slow_ns "
        f"FROM ({asked}) GROUP BY trace_id, utid"
    )
    rows = scope.rows(
        f"SELECT slow.*, w.dur_ns, w.start_ns, w.end_ns, trace.label FROM ({slow}) AS slow "
        "JOIN analysis_span AS w USING (trace_id) JOIN trace USING (trace_id) "
        f"WHERE 100 * run_ns >= {CARRYING_PCT} * dur_ns "
        f"AND 100 * slow_ns >= {WARNING_PCT} * run_high_ns "
        "ORDER BY slow_ns DESC, trace_id, utid"
    )
    if not rows:
        yield clean(
            f"No thread that ran for {percent(CARRYING_PCT)} of the window spent "
            f"{percent(WARNING_PCT)} of its running time on E cores."
        )
        return
    row = rows[0]
    share = 100 * row["slow_ns"] / row["run_high_ns"]
    others = len({r["trace_id"] for r in rows} - {row["trace_id"]})
    yield Finding(
        kind="on_e_cores",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=f"Busy thread ran {duration(row['slow_ns'])} ({percent(share)}) on E cores",
        detail=(
            f"{recordings(row['label'], others)}"
            f"{thread_name(row['thread'], row['tid'], row['process'])} ran "
            f"{duration(row['slow_ns'])} ({percent(share)} of its running time) on E cores."
        ),
        advice=(
            "Raise this thread's priority, lower or defer what uses the P cores meanwhile (EcoQoS, "
            "nice), and start no more workers than P cores."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["slow_ns"],
        cost_pct=100 * row["slow_ns"] / row["dur_ns"],
        utid=row["utid"],
        about=(row["utid"],),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["run_high_ns"] == row["run_ns"] else "at_least",
        evidence_sql=(
            "SELECT core_type, efficiency_class, run_ns, of_thread_pct, switches_in "
            f"FROM core_type_residency WHERE utid = {row['utid']}"
        ),
        counter_evidence_sql=(
            "SELECT left_ns, away_ns, run_ns, ready_ns, censored FROM core_type_move "
            f"WHERE utid = {row['utid']} ORDER BY away_ns DESC"
        ),
    )
