"""Counters of hybrid parts: perf writes those of each core type to a separate file.

The files are next to perf.data as `counters-PMU.data`; each contains the switches on the CPUs of
one core type with its counters. Their rows of `counter_sample` and `counter_delta` are joined to
the recording by thread id and time.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from schedlens import _decoders

_TABLES = ("trace", "thread", "counter_sample", "counter_delta")


def load(con: duckdb.DuckDBPyConnection, folder: Path, trace_id: int) -> None:
    """Adds the counters of the step in `folder`; `thread` and `trace` must be filled already.

    Raises the decoder's errors for a file that cannot be read.
    """
    for path in sorted(folder.glob("counters-*.data")):
        _load_file(con, path, trace_id)


def _load_file(con: duckdb.DuckDBPyConnection, path: Path, trace_id: int) -> None:
    batches: dict[str, list[pa.RecordBatch]] = {table: [] for table in _TABLES}
    with _decoders.load(str(path), trace_id, None, None, path.name) as loader:
        for table, batch in loader:
            if table in batches:
                batches[table].append(batch)
    if not batches["counter_sample"]:
        con.execute(
            "INSERT INTO problem VALUES (?, ?, 'no counter was read at any switch', 1)",
            [trace_id, path.name],
        )
        return
    for table, found in batches.items():
        schema = _decoders.schemas()[table]
        con.register(f"own_{table}", pa.Table.from_batches(found, schema=found[0].schema)
                     if found else schema.empty_table())  # fmt: skip
    try:
        # Both files use the same clock, but each numbers threads in its own way.
        con.execute(
            """
            CREATE OR REPLACE TEMP TABLE same_thread AS
            SELECT own.utid AS own_utid, thread.utid, shift
            FROM own_thread AS own
            CROSS JOIN (
              SELECT own_trace.start_clock - trace.start_clock AS shift
              FROM own_trace JOIN trace USING (trace_id)
            )
            JOIN thread ON thread.trace_id = own.trace_id AND thread.tid = own.tid
              AND thread.is_idle = own.is_idle
              AND (NOT own.is_idle OR thread.name = own.name)
            QUALIFY row_number() OVER (
              PARTITION BY own.utid
              ORDER BY abs(coalesce(thread.start_ns, 0) - coalesce(own.start_ns + shift, 0))
            ) = 1
            """
        )
        con.execute(
            """
            INSERT INTO counter_sample BY NAME
            SELECT own.* REPLACE (ts + shift AS ts, same.utid AS utid)
            FROM own_counter_sample AS own JOIN same_thread AS same ON same.own_utid = own.utid
            """
        )
        con.execute(
            """
            INSERT INTO counter_delta BY NAME
            SELECT own.* REPLACE (ts + shift AS ts, same.utid AS utid)
            FROM own_counter_delta AS own JOIN same_thread AS same ON same.own_utid = own.utid
            """
        )
        # Only the main file has the topology.
        for table in ("counter_sample", "counter_delta"):
            con.execute(
                f"UPDATE {table} SET core_type = cpu.core_type FROM cpu "
                f"WHERE {table}.trace_id = ? AND {table}.core_type IS NULL "
                f"AND cpu.trace_id = {table}.trace_id AND cpu.cpu = {table}.cpu",
                [trace_id],
            )
    finally:
        for table in _TABLES:
            con.unregister(f"own_{table}")
