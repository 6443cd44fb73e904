"""Groups of threads that can be named instead of a process: cgroups, containers, pods, services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlens.errors import UnknownNameError

if TYPE_CHECKING:
    import duckdb

# As `group_thread` takes them.
KINDS = ("cgroup", "container", "pod", "service")


def is_one(name: str) -> bool:
    """Whether a name means a group, such as service:nginx."""
    kind, colon, text = name.partition(":")
    return kind in KINDS and bool(colon and text)


def check(con: duckdb.DuckDBPyConnection, name: str, what: str = "group") -> None:
    """Raises `UnknownNameError`, which lists groups of this kind, if no thread was in the group."""
    if con.execute("FROM group_thread(p_group := ?) LIMIT 1", [name]).fetchall():
        return
    kind = name.partition(":")[0]
    known = con.execute(
        f"SELECT DISTINCT {kind} FROM thread_group WHERE {kind} IS NOT NULL ORDER BY 1"
    ).fetchall()
    raise UnknownNameError(
        what, name, [f"{kind}:{row[0]}" for row in known],
        '`schedlens sql SESSION "FROM thread_group"` after analyze',
    )  # fmt: skip
