"""Distributions of a recording as sketches that can be merged over a fleet.

A KLL sketch with k = 400 returns the quantile of a rank that is off by at most 0.68 percentage
points, at 99 % confidence, for any number of values and after any number of merges. Counts, sums,
minima and maxima are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from schedlens.lake.extras import needed

K = 400

# What a distribution is over, with the SQL of its values (`value`, ns) within the window.
_IN_WINDOW = "JOIN analysis_window AS w USING (trace_id) WHERE trace_id = $trace_id"
METRICS = {
    "ready_ns": f"SELECT ready_ns AS value FROM sched_slice {_IN_WINDOW} AND NOT is_idle "
    "AND ready_ns IS NOT NULL AND ts >= w.start_ns AND ts < w.end_ns",
    "slice_ns": f"SELECT dur AS value FROM sched_slice {_IN_WINDOW} AND NOT is_idle "
    "AND NOT left_censored AND NOT right_censored AND ts >= w.start_ns AND ts < w.end_ns",
    "frame_ns": f"SELECT dur_ns AS value FROM frame {_IN_WINDOW} AND dur_ns IS NOT NULL "
    "AND frame.start_ns >= w.start_ns AND frame.start_ns < w.end_ns",
}

Row = tuple[int, str, int, int, int, int, bytes]


def rows(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[Row]:
    """Of each metric with values: recording, metric, count, sum, min, max, sketch."""
    datasketches = needed("datasketches", "lake")
    found: list[Row] = []
    for metric, sql in METRICS.items():
        values = con.execute(
            f"SELECT value::DOUBLE AS value FROM ({sql}) ORDER BY value", {"trace_id": trace_id}
        ).fetchnumpy()["value"]
        if not len(values):
            continue
        exact = con.execute(
            f"SELECT count(*), sum(value)::BIGINT, min(value), max(value) FROM ({sql})",
            {"trace_id": trace_id},
        ).fetchall()[0]
        sketch = datasketches.kll_doubles_sketch(K)
        # In order, a sketch would keep more of the values that come last in each compaction.
        sketch.update(_shuffled(values))
        found.append((trace_id, metric, *exact, sketch.serialize()))
    return found


def _shuffled(values: Any) -> Any:
    numpy = needed("numpy", "lake")
    return numpy.random.default_rng(len(values)).permutation(values)


def rank_error() -> float:
    """The error of a rank, as a share of all values, at 99 % confidence."""
    return float(needed("datasketches", "lake").kll_doubles_sketch(K).normalized_rank_error(False))


def quantiles(serialized: Sequence[bytes], ranks: Sequence[float]) -> list[float]:
    """The quantiles of the union of sketches, in the unit of their values."""
    sketch_type = needed("datasketches", "lake").kll_doubles_sketch
    merged = sketch_type(K)
    for data in serialized:
        merged.merge(sketch_type.deserialize(data))
    return [] if merged.is_empty() else [float(q) for q in merged.get_quantiles(list(ranks))]


def install(con: duckdb.DuckDBPyConnection) -> None:
    """The functions `sketch_quantiles(list(sketch), [0.5, 0.99])` and `sketch_rank_error()`."""
    needed("datasketches", "lake")
    con.create_function("sketch_quantiles", quantiles, ["BLOB[]", "DOUBLE[]"], "DOUBLE[]")
    con.create_function("sketch_rank_error", rank_error, [], "DOUBLE")
