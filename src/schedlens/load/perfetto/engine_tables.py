"""What is read from trace_processor, as Arrow tables with the names `e_...`.

Only base tables, whose columns are the same in all versions since v46.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from schedlens.load.perfetto.processor import Processor

_WAKINGS = "'sched_waking', 'sched_wakeup', 'sched_wakeup_new', 'sched_migrate_task'"

_LONG, _TEXT, _FLOAT = pa.int64(), pa.string(), pa.float64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_QUERIES: dict[str, tuple[str, pa.Schema]] = {
    "e_sched": (
        "SELECT id, ts, dur, cpu, utid, end_state, priority FROM sched ORDER BY ts",
        _schema(id=_LONG, ts=_LONG, dur=_LONG, cpu=_LONG, utid=_LONG, end_state=_TEXT,
                priority=_LONG),
    ),
    "e_switch": (
        "SELECT id, ts, cpu, utid FROM ftrace_event WHERE name = 'sched_switch'",
        _schema(id=_LONG, ts=_LONG, cpu=_LONG, utid=_LONG),
    ),
    # State and priority of the thread that ran before the first switch of each CPU.
    "e_first": (
        "SELECT id, extract_arg(arg_set_id, 'prev_state') AS prev_state, "
        "extract_arg(arg_set_id, 'prev_prio') AS prev_prio FROM ftrace_event WHERE id IN "
        "(SELECT min(id) FROM ftrace_event WHERE name = 'sched_switch' GROUP BY cpu)",
        _schema(id=_LONG, prev_state=_LONG, prev_prio=_LONG),
    ),
    "e_waking": (
        "SELECT id, ts, cpu, utid, name, common_flags, extract_arg(arg_set_id, 'pid') AS tid, "
        "extract_arg(arg_set_id, 'target_cpu') AS target_cpu, "
        "extract_arg(arg_set_id, 'orig_cpu') AS orig_cpu, "
        "extract_arg(arg_set_id, 'dest_cpu') AS dest_cpu "
        f"FROM ftrace_event WHERE name IN ({_WAKINGS})",
        _schema(id=_LONG, ts=_LONG, cpu=_LONG, utid=_LONG, name=_TEXT, common_flags=_LONG,
                tid=_LONG, target_cpu=_LONG, orig_cpu=_LONG, dest_cpu=_LONG),
    ),
    "e_cgroup": (
        "SELECT id, ts, extract_arg(arg_set_id, 'pid') AS tid, "
        "extract_arg(arg_set_id, 'dst_root') AS hierarchy, "
        "extract_arg(arg_set_id, 'dst_path') AS path "
        "FROM ftrace_event WHERE name = 'cgroup_attach_task'",
        _schema(id=_LONG, ts=_LONG, tid=_LONG, hierarchy=_LONG, path=_TEXT),
    ),
    "e_ready": (
        "SELECT s.id, s.ts, s.utid, s.waker_utid, s.irq_context, w.cpu AS waker_cpu "
        "FROM thread_state AS s LEFT JOIN thread_state AS w ON w.id = s.waker_id "
        "WHERE s.waker_utid IS NOT NULL",
        _schema(id=_LONG, ts=_LONG, utid=_LONG, waker_utid=_LONG, irq_context=_LONG,
                waker_cpu=_LONG),
    ),
    "e_thread": (
        "SELECT utid, tid, upid, name, start_ts, end_ts FROM thread",
        _schema(utid=_LONG, tid=_LONG, upid=_LONG, name=_TEXT, start_ts=_LONG, end_ts=_LONG),
    ),
    "e_process": (
        "SELECT upid, pid, name, start_ts, end_ts FROM process",
        _schema(upid=_LONG, pid=_LONG, name=_TEXT, start_ts=_LONG, end_ts=_LONG),
    ),
    "e_cpu": (
        "SELECT cpu, cluster_id, processor, capacity FROM cpu WHERE cpu IS NOT NULL",
        _schema(cpu=_LONG, cluster_id=_LONG, processor=_TEXT, capacity=_LONG),
    ),
    "e_counter": (
        "SELECT c.id, c.ts, c.value, t.cpu, t.name FROM counter AS c JOIN cpu_counter_track AS t "
        "ON c.track_id = t.id WHERE t.name IN ('cpuidle', 'cpufreq')",
        _schema(id=_LONG, ts=_LONG, value=_FLOAT, cpu=_LONG, name=_TEXT),
    ),
    "e_value": (
        "SELECT c.id, c.ts, c.value, t.name, t.unit, k.cpu, p.upid, h.utid "
        "FROM counter AS c JOIN counter_track AS t ON t.id = c.track_id "
        "LEFT JOIN cpu_counter_track AS k ON k.id = t.id "
        "LEFT JOIN process_counter_track AS p ON p.id = t.id "
        "LEFT JOIN thread_counter_track AS h ON h.id = t.id "
        "WHERE t.name IS NOT NULL AND t.name NOT IN ('cpuidle', 'cpufreq')",
        _schema(id=_LONG, ts=_LONG, value=_FLOAT, name=_TEXT, unit=_TEXT, cpu=_LONG, upid=_LONG,
                utid=_LONG),
    ),
    "e_irq": (
        "SELECT s.id, s.ts, s.dur, t.cpu, t.type, s.name FROM slice AS s JOIN cpu_track AS t "
        "ON s.track_id = t.id WHERE t.type IN ('cpu_irq', 'cpu_softirq')",
        _schema(id=_LONG, ts=_LONG, dur=_LONG, cpu=_LONG, type=_TEXT, name=_TEXT),
    ),
    "e_slice": (
        "SELECT s.ts, s.dur, s.name FROM slice AS s WHERE s.name IS NOT NULL "
        "AND s.track_id NOT IN (SELECT id FROM cpu_track)",
        _schema(ts=_LONG, dur=_LONG, name=_TEXT),
    ),
    "e_frame": (
        "SELECT ts, dur, upid, present_type FROM actual_frame_timeline_slice",
        _schema(ts=_LONG, dur=_LONG, upid=_LONG, present_type=_TEXT),
    ),
    "e_stat": (
        "SELECT name, idx, severity, value, description FROM stats WHERE value > 0",
        _schema(name=_TEXT, idx=_LONG, severity=_TEXT, value=_LONG, description=_TEXT),
    ),
    "e_fact": (
        "SELECT name, str_value, int_value FROM metadata",
        _schema(name=_TEXT, str_value=_TEXT, int_value=_LONG),
    ),
    "e_clock": (
        "SELECT ts, clock_value FROM clock_snapshot WHERE clock_name = 'REALTIME' "
        "ORDER BY ts LIMIT 1",
        _schema(ts=_LONG, clock_value=_LONG),
    ),
}  # fmt: skip
# Tables that a version may lack.
_OPTIONAL = {"e_frame": "actual_frame_timeline_slice", "e_clock": "clock_snapshot"}


def read(processor: Processor, progress: Callable[[float], None]) -> dict[str, pa.Table]:
    """All tables by name; those that this version lacks are empty."""
    found = {}
    for number, (name, (sql, schema)) in enumerate(_QUERIES.items()):
        progress(number / len(_QUERIES))
        if name in _OPTIONAL and not processor.has(_OPTIONAL[name]):
            found[name] = schema.empty_table()
        else:
            found[name] = processor.table(sql, schema)
    return found
