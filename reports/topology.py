"""The machine: packages, caches, cores, siblings and core types, drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Machine"
ORDER = 10
FIGURES = {
    "map": "packages, caches, cores and logical CPUs, with their busy share",
}


def section(view: View) -> Section | Nothing:
    """The map of logical CPUs of the step in view, each with its busy share."""
    answer = view.ask_step("topology")
    if not answer.rows:
        return Nothing(
            "the recording does not describe its CPUs; record with `collect`, or with "
            "`perf record` run as root, which stores the topology in the file"
        )
    # The topology may change during a recording: the map shows the machine at its end.
    last = {row["cpu"]: row for row in answer.rows}
    time = view.ask_step("cpu_time")
    busy = {row["cpu"]: row["busy_pct"] for row in time.rows}
    cpus = [
        {
            "cpu": row["cpu"],
            "core": row["core"],
            "core_type": row["core_type"],
            "llc": row["llc"],
            "package": row["package"],
            "online": row["online"],
            "busy_pct": busy.get(row["cpu"]),
            "detail": _detail(row),
        }
        for row in _placed(last.values())
    ]
    caption = (
        f"{_summary(list(last.values()))} Each box is a core with its logical CPUs; the "
        "filled part and the number show the share of the window in which that CPU was busy."
    )
    lead = (
        "Logical CPUs in one box share a core: two busy siblings share its execution units. "
        "Every section below counts cores by this map, not by CPU numbers."
    )
    figure = Figure("map", caption, {"cpus": cpus}, kind="topology", height=None)
    shown = answer.showing(
        "cpu", "core", "smt_index", "core_type", "efficiency_class", "llc", "package",
        "numa_node", "online",
    )  # fmt: skip
    return Section(lead, view.step_window(), (figure,), (shown.fold(), time.fold()))


def _placed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Packages, caches and cores in the order of their numbers, siblings next to each other."""
    keys = ("package", "llc", "core", "smt_index", "cpu")
    return sorted(rows, key=lambda row: [-1 if row[key] is None else row[key] for key in keys])


def _detail(row: dict[str, Any]) -> str:
    parts = [f"core {row['core']}", f"type {row['core_type'] or 'unknown'}"]
    if row["efficiency_class"] is not None:
        parts.append(f"class {row['efficiency_class']}")
    if row["numa_node"] is not None:
        parts.append(f"NUMA node {row['numa_node']}")
    return ", ".join(parts)


def _summary(rows: list[dict[str, Any]]) -> str:
    online = [row for row in rows if row["online"] is not False]
    cores = {row["core"] for row in online}
    text = f"{len(online)} logical CPUs online"
    if None in cores:
        return f"{text}; which of them share a core is unknown."
    by_type: dict[str, set[int]] = {}
    for row in online:
        by_type.setdefault(row["core_type"] or "of unknown type", set()).add(row["core"])
    if len(by_type) > 1:
        kinds = ", ".join(f"{len(found)} {name}" for name, found in sorted(by_type.items()))
        text += f" on {len(cores)} cores ({kinds})"
    else:
        text += f" on {len(cores)} cores"
    if len(cores) == len(online):
        text += ", no siblings"
    return f"{text}."
