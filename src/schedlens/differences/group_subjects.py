"""Groups of threads, such as service:nginx, as subjects of a comparison, like processes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schedlens.ask import thread_groups
from schedlens.differences import sides
from schedlens.differences.quantities import Quantity
from schedlens.load.schema import literal

# Answers in which a group counts as one process; frames are those of its processes.
_ANSWERS = ("block_process", "block_wakeup_latency", "block_obstacle", "block_counter")
_FRAMES = "frame_time"
_READ = re.compile(rf"\bFROM ({'|'.join((*_ANSWERS, _FRAMES))})\b|\bJOIN (block_obstacle)\b")


def add(side: sides.Side, groups: Sequence[str]) -> None:
    """The answers about these groups, as further rows of the tables that the quantities read.

    Raises `UnknownNameError` if no thread of the side was in one of them.
    """
    if not groups:
        return
    for _, con in side.databases:
        con.execute("CREATE OR REPLACE TEMP TABLE frame_time AS FROM frame_time()")
    for group in dict.fromkeys(groups):
        found = False
        for _, con in side.databases:
            if not con.execute("FROM group_thread(p_group := ?) LIMIT 1", [group]).fetchall():
                continue
            found = True
            for table in (*_ANSWERS, _FRAMES):
                con.execute(f"INSERT INTO temp.{table} {_rows(table, group)}")
        if not found:
            thread_groups.check(side.databases[0][1], group, f"group of side {side.name}")


def owner(quantity: Quantity, subject: str | None) -> str | None:
    """The process or group that a subject is, or that owns a counter; None for other subjects."""
    if subject is None or quantity.of not in ("process", "counter"):
        return None
    return subject.rpartition(": ")[0] if quantity.of == "counter" else subject


def sql(quantity: Quantity, subject: str | None) -> str:
    """The SQL of a quantity that returns the rows of this subject on an analyzed session."""
    group = owner(quantity, subject)
    if group is None or not thread_groups.is_one(group):
        return quantity.sql

    def asked(match: re.Match[str]) -> str:
        word = "FROM" if match[1] else "JOIN"
        return f"{word} ({_rows(match[1] or match[2], group)})"

    return _READ.sub(asked, quantity.sql)


def _rows(table: str, group: str) -> str:
    name = literal(group)
    asked = f"FROM {table}(p_process := {name})"
    return f"SELECT * REPLACE ({name} AS process) {asked}" if table == _FRAMES else asked
