"""The groups within which the threads of a recording share the CPUs, as a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
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
    """The answer of `sharing_group` for a recording. The views of all queries must exist."""
    sql = "SELECT trace_id, utid, path, weights FROM sharing_group(p_trace_id := $trace_id)"
    return _grouped(con.execute(sql, {"trace_id": trace_id}).fetchall())[trace_id]


def read_all(con: duckdb.DuckDBPyConnection) -> Mapping[int, SharingGroups]:
    """The same for all recordings, by `trace_id`; one that has no groups has the root alone."""
    return _grouped(
        con.execute("SELECT trace_id, utid, path, weights FROM sharing_group").fetchall()
    )


def _grouped(
    rows: Iterable[tuple[int, int, list[str], list[float]]],
) -> defaultdict[int, SharingGroups]:
    made: defaultdict[int, SharingGroups] = defaultdict(SharingGroups)
    places: dict[tuple[int | str, ...], int] = {}
    for trace_id, utid, path, weights in rows:
        found = made[trace_id]
        place = 0
        for depth, weight in enumerate(weights, start=1):
            key: tuple[int | str, ...] = (trace_id, *path[:depth])
            if key not in places:
                places[key] = len(found.groups)
                found.groups.append(SharingGroup(path[depth - 1], place, weight))
            place = places[key]
        found.of_thread[utid] = place
    return made
