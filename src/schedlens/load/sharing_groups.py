"""The groups within which the threads of a recording share the CPUs, as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb


@dataclass(frozen=True)
class SharingGroup:
    """A cgroup or an autogroup; the first one of a recording is the root."""

    name: str
    parent: int | None
    weight: float


@dataclass
class SharingGroups:
    """The groups of one recording, each after the one that contains it."""

    groups: list[SharingGroup] = field(default_factory=lambda: [SharingGroup("/", None, 1024.0)])
    of_thread: dict[int, int] = field(default_factory=dict)
    """Index of the group, by thread; the root for others."""


def read(con: duckdb.DuckDBPyConnection, trace_id: int) -> SharingGroups:
    """The answer of `sharing_group`. The views of all queries must exist."""
    found = SharingGroups()
    places: dict[tuple[str, ...], int] = {}
    for utid, path, weights in con.execute(
        "SELECT utid, path, weights FROM sharing_group(p_trace_id := $trace_id)",
        {"trace_id": trace_id},
    ).fetchall():
        place = 0
        for depth, weight in enumerate(weights, start=1):
            key = tuple(path[:depth])
            if key not in places:
                places[key] = len(found.groups)
                found.groups.append(SharingGroup(key[-1], place, weight))
            place = places[key]
        found.of_thread[utid] = place
    return found
