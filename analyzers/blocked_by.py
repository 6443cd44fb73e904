"""Which threads wait for locks, in which code, and who held them.

Requires a recording with stacks. A wait is for a lock if its stack contains a function that takes
one: of the C library, of C++, or of Rust. Whoever ends such a wait held the lock. Waits that an
interrupt ended are left out: they are timeouts. A thread that waits for locks during at least 1 %
of the window is info, from 10 % a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Rank, Scope, clean
from schedlens.output.wording import code_name, count, duration, percent, thread_name

NEEDS = ("switches", "wakeups", "stacks")
METRIC: Metric = "ready"
KINDS = ("lock_wait",)

INFO_PCT = 1.0
WARNING_PCT = 10.0

# Functions that take a lock, by the names that each library gives them.
_LOCKS = (
    "lll_lock_wait|pthread_mutex_(timed)?lock|pthread_rwlock_(rd|wr)lock|pthread_spin_lock|"
    "[Mm]utex(::|.*::)(lock|lock_contended|lock_slow)|RawMutex|RwLock.*(read|write)|lock_contended|"
    "lock_slow|std::mutex::lock|__gthread_mutex_lock|mutex_lock|rwsem_down|down_(read|write)|"
    "EnterCriticalSection|AcquireSRWLock"
)


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The thread of each recording that waits longest for locks."""
    found = scope.rows(f"""
        SELECT *
        FROM (
          SELECT
            b.*,
            sum(b.wait_ns) OVER (PARTITION BY b.utid)::BIGINT AS thread_ns,
            sum(b.waits) OVER (PARTITION BY b.utid)::BIGINT AS thread_waits,
            w.start_ns,
            w.end_ns,
            w.dur_ns
          {scope.call("blocked_by")} AS b
          JOIN analysis_span AS w USING (trace_id)
          WHERE regexp_matches(b.folded, '{_LOCKS}') AND b.waker_utid IS NOT NULL
            AND NOT coalesce(b.from_interrupt, FALSE)
        )
        QUALIFY row_number() OVER (
          PARTITION BY trace_id ORDER BY thread_ns DESC, wait_ns DESC, utid, stack_id
        ) = 1
        ORDER BY trace_id
    """)
    reported = [row for row in found if _share(row) >= INFO_PCT]
    for row in reported:
        yield _finding(row)
    if not reported:
        yield clean("no thread waited for locks during 1 % of the window")


def _share(row: dict[str, Any]) -> float:
    return 100.0 * float(row["thread_ns"]) / float(row["dur_ns"] or 1)


def _finding(row: dict[str, Any]) -> Finding:
    where = code_name(row["frame"], row["own_frame"])
    # A thread's own idle CPU has no name.
    by = thread_name(row["waker_thread"], row["waker_tid"]) if row["waker_thread"] else "another"
    held = code_name(row["waker_frame"], row["waker_own_frame"])
    return Finding(
        kind="lock_wait",
        severity="warning" if _share(row) >= WARNING_PCT else "info",
        rank=Rank.CAUSE,
        title=f"A thread waited {duration(row['thread_ns'])} for locks",
        detail=(
            f"{thread_name(row['thread'], row['tid'], row['process'])} waited "
            f"{count(row['thread_waits'], 'time')} for locks, "
            f"{percent(_share(row))} of the window; longest in {where}, woken by {by} in {held}."
        ),
        advice=(
            f"Hold the lock for less time in {row['waker_own_frame'] or row['waker_frame']}, or "
            "split it, so that both threads seldom need it at once."
        ),
        cost_ns=row["thread_ns"],
        cost_pct=_share(row),
        bound="at_least",
        evidence_sql=(
            f"FROM blocked_by(p_trace_id := {row['trace_id']}) WHERE utid = {row['utid']} LIMIT 20"
        ),
        trace_id=row["trace_id"],
        utid=row["utid"],
        about=(row["utid"],),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
    )
