"""Invariants of every recording; each query returns the rows that violate it."""

from __future__ import annotations

import duckdb

LAWS = {
    "thread states have no gap and no overlap": """
        SELECT trace_id, utid, ts, dur, following
        FROM (
          SELECT *, lead(ts) OVER (PARTITION BY utid ORDER BY ts, dur) AS following
          FROM thread_state
        )
        WHERE following IS NOT NULL AND ts + dur <> following
    """,
    "a thread's states begin with its start": """
        SELECT thread.trace_id, utid, start_ns, first_ns, min(ts) AS begins
        FROM thread JOIN thread_state USING (utid) JOIN trace ON trace.trace_id = thread.trace_id
        GROUP BY ALL
        HAVING begins <> coalesce(start_ns, first_ns)
    """,
    "no thread state is outside the recording": """
        SELECT * FROM thread_state JOIN trace USING (trace_id)
        WHERE ts < first_ns OR ts + dur > duration_ns OR dur < 0
    """,
    "idle threads have no states": """
        SELECT * FROM thread_state JOIN thread USING (utid) WHERE is_idle
    """,
    "cpu states tile each CPU from the first record to the last": """
        SELECT trace_id, cpu, begins, ends, covered, first_ns, duration_ns, breaks
        FROM (
          SELECT trace_id, cpu, min(ts) AS begins, max(ts + dur) AS ends, sum(dur) AS covered,
                 count(*) FILTER (WHERE following <> ts + dur) AS breaks
          FROM (
            SELECT *, lead(ts) OVER (PARTITION BY trace_id, cpu ORDER BY ts, dur) AS following
            FROM cpu_state
          )
          GROUP BY trace_id, cpu
        )
        JOIN trace USING (trace_id)
        WHERE begins <> first_ns OR ends <> duration_ns OR covered <> duration_ns - first_ns
           OR breaks > 0
    """,
    "thread time by CPU equals running time by thread": """
        SELECT trace_id, utid, by_cpu, by_thread
        FROM (SELECT trace_id, utid, sum(dur) AS by_cpu FROM cpu_state
              WHERE state = 'thread' GROUP BY ALL)
        FULL JOIN (SELECT trace_id, utid, sum(dur) AS by_thread FROM thread_state
                   WHERE state = 'running' GROUP BY ALL) USING (trace_id, utid)
        WHERE coalesce(by_cpu, 0) <> coalesce(by_thread, 0)
    """,
    "slices are the running states": """
        SELECT trace_id, utid, in_slices, running
        FROM (SELECT trace_id, utid, sum(dur) AS in_slices FROM sched_slice
              WHERE NOT is_idle GROUP BY ALL)
        FULL JOIN (SELECT trace_id, utid, sum(dur) AS running FROM thread_state
                   WHERE state = 'running' GROUP BY ALL) USING (trace_id, utid)
        WHERE coalesce(in_slices, 0) <> coalesce(running, 0)
    """,
    "no CPU runs two threads at a time": """
        SELECT * FROM (
          SELECT *, lead(ts) OVER (PARTITION BY trace_id, cpu ORDER BY ts, ts + dur) AS following
          FROM sched_slice
        )
        WHERE following < ts + dur
    """,
    "the parts of ready time sum to ready time": """
        SELECT trace_id, utid, ready, parts
        FROM (SELECT trace_id, utid, sum(dur) AS ready FROM thread_state
              WHERE state = 'ready' GROUP BY ALL)
        FULL JOIN (SELECT trace_id, utid, sum(dur) AS parts FROM ready_slice GROUP BY ALL)
          USING (trace_id, utid)
        WHERE coalesce(ready, 0) <> coalesce(parts, 0)
    """,
    "each ready period has at most one effective wakeup": """
        SELECT trace_id, wakings, periods
        FROM (SELECT trace_id, count(*) AS wakings FROM wakeup WHERE effective GROUP BY ALL)
        FULL JOIN (
          SELECT trace_id, count(*) AS periods FROM thread_state
          WHERE state = 'ready' AND waker_utid IS NOT NULL GROUP BY ALL
        ) USING (trace_id)
        WHERE coalesce(wakings, 0) < coalesce(periods, 0)
    """,
    "core states tile each core": """
        SELECT trace_id, core, covered, first_ns, duration_ns
        FROM (SELECT trace_id, core, sum(dur) AS covered FROM core_state GROUP BY ALL)
        JOIN trace USING (trace_id)
        WHERE covered <> duration_ns - first_ns
    """,
    "concurrency tiles the recording and counts the busy CPUs": """
        SELECT trace_id, covered, busy_ns, cpu_busy_ns, first_ns, duration_ns
        FROM (SELECT trace_id, sum(dur) AS covered, sum(dur * busy) AS busy_ns
              FROM concurrency_slice GROUP BY ALL)
        JOIN trace USING (trace_id)
        LEFT JOIN (SELECT trace_id, sum(dur) AS cpu_busy_ns FROM cpu_state
                   WHERE state IN ('thread', 'interrupt') GROUP BY ALL) USING (trace_id)
        WHERE covered <> duration_ns - first_ns OR busy_ns <> coalesce(cpu_busy_ns, 0)
    """,
    "shared sibling time equals the time with more than one busy CPU in the core": """
        SELECT trace_id, core, shared, paired
        FROM (SELECT trace_id, core, sum(dur * busy * (busy - 1) // 2) AS shared FROM core_state
              WHERE busy > 1 GROUP BY ALL)
        FULL JOIN (SELECT trace_id, core, sum(dur) AS paired FROM sibling_slice GROUP BY ALL)
          USING (trace_id, core)
        WHERE coalesce(shared, 0) <> coalesce(paired, 0)
    """,
    "every utid belongs to its trace": """
        SELECT trace_id, utid FROM thread WHERE utid >> 32 <> trace_id
        UNION ALL
        SELECT trace_id, utid FROM sched_slice WHERE utid >> 32 <> trace_id
    """,
    "base tables are in time order": """
        SELECT * FROM (
          SELECT trace_id, ts, cpu, seq,
                 lag((ts, cpu, seq)) OVER (PARTITION BY trace_id ORDER BY rowid) AS former
          FROM context_switch
        )
        WHERE former > (ts, cpu, seq)
    """,
}


def broken(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    """The invariants that this database violates, each with up to five rows."""
    found = {law: con.execute(sql).fetchmany(5) for law, sql in LAWS.items()}
    return {law: rows for law, rows in found.items() if rows}
