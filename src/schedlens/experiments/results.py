"""The results of the experiments as a JSON object for `analyze SESSION --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlens.load.session_file import SessionFile

if TYPE_CHECKING:
    import duckdb

Json = dict[str, Any]

# The queries that answer each experiment, and their keys in the object.
_ANSWERS = {
    "pairs": {
        "cells": "FROM pair_interference",
        "advice": "FROM pair_advice",
        "knee": "FROM multiplier_slots",
        "command": "FROM command_beside",
    },
    "scaling": {
        "curve": "FROM scaling_curve",
        "clock": "FROM scaling_clock",
        "sustained": "FROM turbo_sustained",
        "over_time": "FROM turbo_over_time",
        "yield": "FROM core_yield",
        "table": "FROM use_of_cores",
    },
    "smt-boost": {
        "cells": "FROM smt_boost",
        "latency": "FROM cell_latency",
        "latency_gain": "FROM smt_boost_latency",
    },
    "handoff": {"cells": "FROM handoff_time"},
    "shards": {"shards": "FROM shard_latency", "latency": "FROM cell_latency"},
}


def read(con: duckdb.DuckDBPyConnection, session: SessionFile | None) -> Json | None:
    """The results of the experiments in a database; None if it has none."""
    names = [
        row[0]
        for row in con.execute(
            "SELECT DISTINCT experiment FROM experiment_cell ORDER BY 1"
        ).fetchall()
    ]
    if not names:
        return None
    known = session.experiment if session is not None else None
    found: Json = {"missing": list(known.missing) if known is not None else []}
    for name in names:
        answers = _ANSWERS.get(name, {})
        found[name] = {key: _rows(con, query) for key, query in answers.items()}
        found[name]["cell_clock"] = _rows(con, f"FROM cell_clock WHERE experiment = '{name}'")
    if "pairs" in names:
        found["pairs"]["pointer_chase"] = _chase(con)
    return found


def _chase(con: duckdb.DuckDBPyConnection) -> Json:
    """The JSON of the chapter's pointer chase, for each of its two forms."""
    siblings = con.execute(
        "SELECT list(DISTINCT cpu ORDER BY cpu) FROM topology() WHERE core IS NOT NULL "
        "GROUP BY trace_id, core HAVING count(DISTINCT cpu) > 1 ORDER BY trace_id, core LIMIT 1"
    ).fetchone()
    detected = siblings[0] if siblings else []
    return {
        row["label"].partition(":")[2] or row["label"]: {
            "cross_core_ns_per_hop": row["cross_core_ns_per_hop"],
            "smt_sibling_ns_per_hop": row["smt_sibling_ns_per_hop"],
            "smt_overhead_pct": row["smt_overhead_pct"],
            "siblings_detected": detected,
        }
        for row in _rows(con, "FROM pair_chase")
    }


def _rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    cursor = con.execute(sql)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
