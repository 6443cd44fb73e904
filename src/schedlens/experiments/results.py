"""The results of an experiment as one JSON object: what `analyze SESSION --json` prints of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlens.load.recording import Json

if TYPE_CHECKING:
    import duckdb

# The analyzer that judges each experiment: its findings are what was asked for.
JUDGES = {
    "pairs": "pair_interference",
    "scaling": "scaling_clock",
    "smt-boost": "smt_boost",
    "handoff": "handoff_time",
    "shards": "shard_latency",
}
# The questions that answer each experiment, and the key of each in the object.
_ANSWERS = {
    "pairs": {
        "cells": "pair_interference",
        "advice": "pair_advice",
        "knee": "multiplier_slots",
        "command": "command_beside",
    },
    "scaling": {
        "curve": "scaling_curve",
        "clock": "scaling_clock",
        "yield": "core_yield",
        "table": "use_of_cores",
    },
    "smt-boost": {"cells": "smt_boost", "latency": "cell_latency"},
    "handoff": {"cells": "handoff_time"},
    "shards": {"shards": "shard_latency", "latency": "cell_latency"},
}


def read(con: duckdb.DuckDBPyConnection, session: Json) -> Json | None:
    """The results of the experiments in a database; None if it holds none."""
    names = [
        row[0]
        for row in con.execute(
            "SELECT DISTINCT experiment FROM experiment_cell ORDER BY 1"
        ).fetchall()
    ]
    if not names:
        return None
    found: Json = {"missing": (session.get("experiment") or {}).get("missing", [])}
    for name in names:
        answers = _ANSWERS.get(name, {})
        found[name] = {key: _rows(con, f"FROM {query}") for key, query in answers.items()}
    if "pairs" in names:
        found["pairs"]["pointer_chase"] = _chase(con)
    return found


def _chase(con: duckdb.DuckDBPyConnection) -> Json:
    """The chapter's JSON, for each of its two forms."""
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
