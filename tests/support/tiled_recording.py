"""A recording repeated end to end: a long one of the same density, quickly made."""

from __future__ import annotations

import duckdb

# Columns that contain a time; every other column is copied.
_TIMES = {"ts", "start_ns", "end_ns", "valid_from_ns", "ready_ts"}
# Rows that apply from before the recording appear once.
_ONCE = {
    "trace", "cpu", "process", "thread", "thread_name", "affinity", "machine_setting", "run",
    "run_worker", "analysis_window", "finding", "energy", "snapshot_cpu", "snapshot_thread",
    "snapshot_cgroup", "problem", "record_count", "cpu_parking", "cpu_frequency",
}  # fmt: skip


def tile(con: duckdb.DuckDBPyConnection, source: str, times: int, *, trace_id: int = 1) -> None:
    """Fills a database that has the schema with `times` copies of one recording, one after another.

    `source` is the name of the attached database. The recording gets changes of parking every
    10 ms and of frequency every 5 ms on one CPU in turn, where the simulation has fewer.
    """
    length = con.execute(
        f"SELECT duration_ns FROM {source}.trace WHERE trace_id = {trace_id}"
    ).fetchall()[0][0]
    tables = con.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        f"WHERE database_name = '{source}' AND schema_name = 'main' AND NOT internal "
        "AND table_name IN (SELECT table_name FROM duckdb_tables() "
        f"WHERE database_name = '{source}' AND schema_name = 'main') GROUP BY table_name"
    ).fetchall()
    for table, columns in tables:
        if "trace_id" not in columns:
            continue
        copies = 1 if table in _ONCE else times
        cells = ", ".join(_cell(table, name, length) for name in columns)
        ordered = "ORDER BY n, " + ("ts" if "ts" in columns else "1")
        con.execute(
            f"INSERT INTO {table} SELECT {cells} FROM {source}.{table}, range({copies}) AS c(n) "
            f"WHERE trace_id = {trace_id} {ordered}"
        )
    con.execute(f"UPDATE trace SET duration_ns = {length * times}")
    con.execute(f"UPDATE analysis_window SET end_ns = {length * times}")
    cpus = con.execute("SELECT count(DISTINCT cpu) FROM cpu").fetchall()[0][0]
    con.execute(
        "INSERT INTO cpu_parking (trace_id, ts, cpu, parked, soft_parked) "
        f"SELECT {trace_id}, n * 10_000_000, n % {cpus}, n // {cpus} % 2 = 0, false "
        f"FROM range(1, {length * times} // 10_000_000) AS c(n)"
    )
    con.execute(
        "INSERT INTO cpu_frequency (trace_id, ts, cpu, khz) "
        f"SELECT {trace_id}, n * 5_000_000, n % {cpus}, 3_000_000 + 100_000 * (n * 7 % 19) "
        f"FROM range(1, {length * times} // 5_000_000) AS c(n)"
    )


def _cell(table: str, name: str, length: int) -> str:
    if name in _TIMES:
        return f"{name} + n * {length}"
    if name == "frame" and table in ("frame", "frame_path"):
        return "frame + n * 1_000_000"
    if name in ("chain", "seq"):
        return f"{name} + n * 1_000_000"
    return name
