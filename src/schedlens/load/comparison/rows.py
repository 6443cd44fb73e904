"""Compares two readings of one recording row by row.

Threads and processes are compared by system ids, and times by the raw clock, because each reader
numbers lives and counts ns in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import duckdb

from schedlens.load.comparison.known import Known

# Columns that match rows of the two readings that are not equal.
KEYS: dict[str, tuple[str, ...]] = {
    "trace": (),
    "cpu": ("cpu", "valid_from_ns"),
    "machine_setting": ("key",),
    "process": ("pid",),
    "thread": ("tid",),
    "thread_name": ("tid", "ts"),
    "affinity": ("tid", "valid_from_ns"),
    "context_switch": ("ts", "cpu"),
    "wakeup": ("ts", "cpu", "tid"),
    "migration": ("ts", "cpu", "tid"),
    "priority_change": ("ts", "cpu", "tid"),
    "affinity_change": ("ts", "cpu", "tid"),
    "ideal_cpu_change": ("ts", "cpu", "tid"),
    "qos_change": ("ts", "cpu", "tid"),
    "sched_yield": ("ts", "cpu"),
    "wait_event": ("ts", "cpu", "kind"),
    "interrupt_slice": ("ts", "cpu", "kind"),
    "cpu_idle": ("ts", "cpu"),
    "cpu_frequency": ("ts", "cpu"),
    "cpu_parking": ("ts", "cpu"),
    "counter_sample": ("ts", "cpu", "counter"),
    "track_counter": ("ts", "name", "cpu", "pid", "tid"),
    "frame": ("pid", "start_ns"),
    "mark": ("ts", "name"),
    "loss": ("cpu", "start_ns"),
}

TIMES = ("ts", "start_ns", "end_ns", "valid_from_ns", "displayed_ns", "first_ns", "duration_ns")

# Columns that each reader fills in its own way: file names, versions, state machine results.
_OWN = {
    "trace": ("label", "path", "tool_version", "schema_version", "start_clock", "start_time_utc"),
    "wakeup": ("effective",),
}
_EXAMPLES = 3
FOLDER, TRACE = 1, 2


@dataclass
class Column:
    """Rows that differ in a column; expected differences are counted separately."""

    differing: int
    known: int
    example: dict[str, Any]


@dataclass
class Table:
    """How the rows of a table compare; `*_known` counts the expected ones among them."""

    table: str
    rows_folder: int
    rows_trace: int
    equal: int
    only_folder: int = 0
    only_trace: int = 0
    differing: int = 0
    only_folder_known: int = 0
    only_trace_known: int = 0
    differing_known: int = 0
    columns: dict[str, Column] = field(default_factory=dict)
    examples_folder: list[dict[str, Any]] = field(default_factory=list)
    examples_trace: list[dict[str, Any]] = field(default_factory=list)

    @property
    def unexplained(self) -> int:
        """Rows that differ for no known reason."""
        found = self.only_folder + self.only_trace + self.differing
        return found - self.only_folder_known - self.only_trace_known - self.differing_known

    def as_json(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        return {**asdict(self), "unexplained": self.unexplained}


def shift_ns(con: duckdb.DuckDBPyConnection) -> int | None:
    """What to add to the folder's times so that both readings count from the same clock tick.

    None if the two have different clocks or a clock is unknown.
    """
    clocks = "SELECT clock_name, clock_hz, start_clock FROM trace WHERE trace_id = ?"
    here, there = (con.execute(clocks, [number]).fetchone() for number in (FOLDER, TRACE))
    if here is None or there is None or None in (*here, *there) or here[:2] != there[:2]:
        return None
    ticks, hertz = int(here[2]) - int(there[2]), int(here[1])
    return ticks * 1_000_000_000 // hertz if hertz > 0 else None


def compare(con: duckdb.DuckDBPyConnection, known: Sequence[Known], shift: int) -> list[Table]:
    """Compares all tables of recording 1, the folder, with those of recording 2."""
    return [_compare(con, table, [k for k in known if k.table == table], shift) for table in KEYS]


def _compare(
    con: duckdb.DuckDBPyConnection, table: str, known: Sequence[Known], shift: int
) -> Table:
    for name, number, add in (("folder_rows", FOLDER, shift), ("trace_rows", TRACE, 0)):
        rows = _comparable(con, table, number, add)
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {rows}")
    for name, a, b in (
        ("folder_rest", "folder_rows", "trace_rows"),
        ("trace_rest", "trace_rows", "folder_rows"),
    ):
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM {a} EXCEPT ALL FROM {b}")
    rows_folder, rows_trace, rest = (
        _number(con, f"SELECT count(*) FROM {name}")
        for name in ("folder_rows", "trace_rows", "folder_rest")
    )
    found = Table(table, rows_folder, rows_trace, rows_folder - rest)
    if rest or rows_trace > found.equal:
        _explain(con, found, known)
    return found


def _comparable(con: duckdb.DuckDBPyConnection, table: str, number: int, add: int) -> str:
    """A table of one recording with system ids instead of lives, and shifted times."""
    names = [name for (name,) in con.execute(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = ? AND NOT internal "
        "ORDER BY column_index", [table],
    ).fetchall()]  # fmt: skip
    columns, joins = [], []
    for name in names:
        if name in ("trace_id", "seq", *_OWN.get(table, ())):
            continue
        if name in ("utid", "upid") and table == {"utid": "thread", "upid": "process"}[name]:
            continue
        if name.endswith(("utid", "upid")):
            of, id_name = ("thread", "tid") if name.endswith("utid") else ("process", "pid")
            joins.append(f"LEFT JOIN {of} AS of_{name} ON of_{name}.{name[-4:]} = own.{name}")
            columns.append(f"of_{name}.{id_name} AS {name[:-4]}{id_name}")
        elif name in TIMES:
            columns.append(f"own.{name} + ({add}) AS {name}")
        elif (table, name) == ("counter_sample", "value"):
            # Running sums may start anywhere, so readers can agree only on their increase.
            columns.append(
                "own.value - lag(own.value) OVER (PARTITION BY own.cpu, own.counter "
                "ORDER BY own.ts, own.rowid) AS growth"
            )
        else:
            columns.append(f"own.{name}")
    return (
        f"SELECT {', '.join(columns)} FROM {table} AS own {' '.join(joins)} "
        f"WHERE own.trace_id = {number}"
    )


def _explain(con: duckdb.DuckDBPyConnection, found: Table, known: Sequence[Known]) -> None:
    """Matches rows that are not equal and counts the differences."""
    names = [row[0] for row in con.execute("DESCRIBE folder_rest").fetchall()]
    keys = [name for name in KEYS[found.table] if name in names]
    others = [name for name in names if name not in keys]
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    for side in ("folder", "trace"):
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE {side}_left AS SELECT *, "
            f"row_number() OVER ({partition}ORDER BY {', '.join(others)}) AS place "
            f"FROM {side}_rest"
        )
    same_row = " AND ".join(f"f.{name} IS NOT DISTINCT FROM t.{name}" for name in (*keys, "place"))
    sides = [f"{side}.{name} AS {side}_{name}" for side in "ft" for name in names]
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE pair AS SELECT {', '.join(sides)} "
        f"FROM folder_left AS f JOIN trace_left AS t ON {same_row}"
    )
    alone = {}
    for side, other, letters in (("folder", "trace", "ft"), ("trace", "folder", "tf")):
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE {side}_only AS SELECT {letters[0]}.* EXCLUDE (place) "
            f"FROM {side}_left AS {letters[0]} ANTI JOIN {other}_left AS {letters[1]} ON {same_row}"
        )
        kind = "extra" if side == "folder" else "missing"
        wheres = [f"({k.where})" for k in known if k.column is None and k.kind == kind]
        expected = f"coalesce({' OR '.join(wheres) or 'false'}, false)"
        alone[side] = (
            _number(con, f"SELECT count(*) FROM {side}_only"),
            _number(con, f"SELECT count(*) FROM {side}_only WHERE {expected}"),
            _rows(
                con,
                f"FROM {side}_only ORDER BY {', '.join([expected, *names])} LIMIT {_EXAMPLES}",
            ),
        )
    found.only_folder, found.only_folder_known, found.examples_folder = alone["folder"]
    found.only_trace, found.only_trace_known, found.examples_trace = alone["trace"]
    _explain_columns(con, found, known, keys, others)


def _explain_columns(
    con: duckdb.DuckDBPyConnection,
    found: Table,
    known: Sequence[Known],
    keys: Sequence[str],
    others: Sequence[str],
) -> None:
    differs = {name: f"f_{name} IS DISTINCT FROM t_{name}" for name in others}
    expected = {}
    for name in others:
        kinds = {k.kind for k in known if k.column == name}
        by_null = f"f_{name} IS NULL" if "null" in kinds else "false"
        # coalesce: ORDER BY does not accept a bare literal.
        expected[name] = f"coalesce({'true' if 'any' in kinds else by_null}, false)"
    surprises = " OR ".join(f"({differs[n]} AND NOT {expected[n]})" for n in others) or "false"
    found.differing = _number(con, "SELECT count(*) FROM pair")
    found.differing_known = _number(con, f"SELECT count(*) FROM pair WHERE NOT ({surprises})")
    for name in others:
        count = _number(con, f"SELECT count(*) FROM pair WHERE {differs[name]}")
        if not count:
            continue
        wanted = f"{differs[name]} AND {expected[name]}"
        shown = [f"f_{key} AS {key}" for key in keys]
        sides = [f"f_{key}" for key in (*keys, name)] + [f"t_{name}"]
        [example] = _rows(
            con,
            f"SELECT {', '.join([*shown, f'f_{name} AS folder', f't_{name} AS trace'])} FROM pair "
            f"WHERE {differs[name]} ORDER BY {', '.join([expected[name], *sides])} LIMIT 1",
        )
        found.columns[name] = Column(
            count, _number(con, f"SELECT count(*) FROM pair WHERE {wanted}"), example
        )


def _number(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    [(number,)] = con.execute(sql).fetchall()
    return int(number)


def _rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    cursor = con.execute(sql)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
