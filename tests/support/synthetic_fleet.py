"""A lake whose recordings have known distributions, written without recordings."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

from schedlens import __version__, _decoders
from schedlens.lake import manifest, written
from schedlens.lake.file_access import LakeFiles
from schedlens.lake.manifest import Entry, Part
from schedlens.lake.sketches import K


def values(
    machine: int, build: int, number: int, *, slow_from: int, slow_machine: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """500 ready times in ns: 1.5 times as long from one build on, 3 times on one machine."""
    factor = (1.5 if build >= slow_from else 1.0) * (3.0 if machine == slow_machine else 1.0)
    noise = np.random.default_rng([machine, build, number])
    drawn = np.round(noise.lognormal(np.log(100_000), 0.3, 500) * factor)
    return np.asarray(drawn, dtype=np.float64)


def write(
    place: Path, *, machines: int, builds: int, per_build: int,
    slow_from: int = 1 << 30, slow_machine: int = -1,
) -> None:  # fmt: skip
    """Each machine records each build `per_build` times, one build a day."""
    import datasketches

    files = LakeFiles(place)
    trace_id = 0
    with duckdb.connect() as con, files.staging() as staging:
        for build in range(builds):
            for machine in range(machines):
                for number in range(per_build):
                    trace_id += 1
                    drawn = values(
                        machine, build, number, slow_from=slow_from, slow_machine=slow_machine
                    )
                    sketch = datasketches.kll_doubles_sketch(K)
                    sketch.update(drawn)
                    day = f"2026-01-{build + 1:02}"
                    entry = Entry(
                        trace_id=trace_id, revision=f"{trace_id:016}", sha256=f"{trace_id:064}",
                        label=f"{trace_id}.data", machine=f"m{machine:03}", build=f"1.{build}",
                        date=day, session=trace_id, tool_version=__version__,
                        schema_version=_decoders.SCHEMA_VERSION, written_utc=f"{day} 00:00:00",
                        sources=[[f"/{trace_id}.data", 1, 1]], source_bytes=1, tables={},
                        facts={"host": f"m{machine}", "cpu_model": "CPU", "os": "Linux", "cpus": 4,
                               "cores": "4 P", "duration_ns": 10**9,
                               "start_time_utc": f"{day} 00:{machine // 60:02}:{machine % 60:02}"},
                    )  # fmt: skip
                    exact = [len(drawn), int(drawn.sum()), int(drawn.min()), int(drawn.max())]
                    rows = {
                        "sketch": (_SKETCH, [trace_id, *exact, sketch.serialize()]),
                        "finding": (_FINDING, [trace_id, trace_id * 1000]),
                        "trace": (_TRACE, [trace_id, f"{trace_id}.data"]),
                    }
                    for table, (sql, arguments) in rows.items():
                        file = staging / f"{table}.parquet"
                        con.execute(f"COPY ({sql}) TO '{file}' (FORMAT parquet)", arguments)
                        name = f"{written.hash_of(file)}.parquet"
                        entry.tables[table] = Part(name, 1, file.stat().st_size)
                        files.put(file, entry.key(table))
                    manifest.write(files, entry)


_SKETCH = (
    "SELECT ?::BIGINT AS trace_id, 'ready_ns' AS metric, ?::BIGINT AS count, ?::BIGINT AS sum_ns, "
    "?::BIGINT AS min_ns, ?::BIGINT AS max_ns, ?::BLOB AS sketch"
)
_FINDING = (
    "SELECT 1::INTEGER AS finding_id, ?::BIGINT AS trace_id, 'ready_obstacle' AS analyzer, "
    "'ready_while_idle' AS kind, 'warning' AS severity, 2::INTEGER AS rank, 'A title' AS title, "
    "'A detail' AS detail, 'Advice' AS advice, ?::BIGINT AS cost_ns, 1.0::DOUBLE AS cost_pct, "
    "'of the window' AS cost_of, NULL::BIGINT AS utid, NULL::INTEGER AS cpu, "
    "NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, 'exact' AS bound, "
    "'SELECT 1' AS evidence_sql, NULL::VARCHAR AS counter_evidence_sql, "
    "NULL::BIGINT AS cost_low_ns, NULL::BIGINT AS cost_high_ns, NULL::VARCHAR AS fix, "
    "NULL::BIGINT AS frame_ns, NULL::BIGINT AS fixed_frame_ns, NULL::BIGINT AS fixed_low_ns, "
    "NULL::BIGINT AS fixed_high_ns, NULL::VARCHAR AS no_gain_reason, "
    "NULL::VARCHAR AS gain_of, NULL::DOUBLE AS gain_pct, NULL::DOUBLE AS gain_low_pct, "
    "NULL::DOUBLE AS gain_high_pct"
)
_TRACE = (
    "SELECT ?::BIGINT AS trace_id, ?::VARCHAR AS label, 'perf' AS source, NULL::VARCHAR AS path, "
    "NULL::VARCHAR AS host, NULL::VARCHAR AS os, NULL::VARCHAR AS cpu_model, "
    "NULL::VARCHAR AS clock_name, NULL::BIGINT AS start_clock, NULL::BIGINT AS clock_hz, "
    "NULL::TIMESTAMP_NS AS start_time_utc, 0::BIGINT AS first_ns, "
    "1000000000::BIGINT AS duration_ns, "
    "NULL::BIGINT AS events_lost, NULL::BIGINT AS buffers_lost, 1::INTEGER AS schema_version, "
    "'0' AS tool_version"
)
