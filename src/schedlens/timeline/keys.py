"""The numbers that stand for states in the lanes, with their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlens.load.schema import value

# On the lanes of CPUs, instead of a thread.
CPU_UNKNOWN, INTERRUPT, OFFLINE, NO_NAME = -1, -2, -3, -4

# On the lanes of threads. A running thread with a busy sibling has SHARED more.
CORE_TYPES = {"P": 1, "E": 2, "U": 3, "LP-E": 4}
OTHER_CORE = 5
SHARED = 10
READY = 20
OBSTACLES = {
    "throttled": 21,
    "idle_exit": 22,
    "idle_available": 23,
    "parked_available": 24,
    "unknown": 25,
    "all_busy": 26,
}
NEW, UNKNOWN = 30, 31
# One key for each wait reason of a recording, from here on.
FIRST_WAITING = 100

_READY_NAMES = {
    "throttled": "ready: throttled",
    "idle_exit": "ready: its CPU leaves idle",
    "idle_available": "ready: an allowed CPU is idle",
    "parked_available": "ready: an allowed CPU is parked",
    "unknown": "ready: reason unknown",
    "all_busy": "ready: all allowed CPUs are busy",
}


def ready_name(key: int) -> str:
    """What a key of ready time is called on the lanes."""
    return next((_READY_NAMES[name] for name, one in OBSTACLES.items() if one == key), "ready")


def running_sql(column: str) -> str:
    """The key of a thread that runs alone on a core of the type in `column`."""
    cases = " ".join(f"WHEN '{name}' THEN {key}" for name, key in CORE_TYPES.items())
    return f"CASE {column} {cases} ELSE {OTHER_CORE} END"


def obstacle_sql(column: str) -> str:
    """The key of a ready thread by the obstacle in `column`."""
    # DuckDB computes a function of one column, unlike CASE, once for each text of its dictionary.
    of = f"MAP({list(OBSTACLES)}, {list(OBSTACLES.values())})"
    return f"coalesce({of}[{column}], {READY})"


def waiting_sql(column: str, reasons: Sequence[str | None]) -> str:
    """The key of a waiting thread by the reason in `column`; `reasons` are in order of keys."""
    texts = ", ".join(map(value, reasons))
    return f"{FIRST_WAITING - 1} + list_position([{texts}]::VARCHAR[], {column})"


def states(waiting: list[tuple[int, str | None]]) -> list[dict[str, Any]]:
    """All states of thread lanes; `waiting` are the keys and reasons of a recording."""
    kinds: list[tuple[str | None, int]] = [*CORE_TYPES.items(), (None, OTHER_CORE)]
    found = []
    for shared in (False, True):
        for core_type, key in kinds:
            names = {"P": "running on a P core", "U": "running", None: "running, core type unknown"}
            name = names.get(core_type, f"running on an {core_type} core")
            found.append(
                {
                    "key": key + (SHARED if shared else 0),
                    "name": name + (", sibling busy" if shared else ""),
                    "group": "running",
                    "hatch": shared,
                    "core_type": core_type,
                }
            )
    rest = [
        (READY, "ready", "ready", False),
        *((key, _READY_NAMES[name], "ready", True) for name, key in OBSTACLES.items()),
        (NEW, "new: not yet runnable", "waiting", False),
        (UNKNOWN, "unknown", "unknown", True),
        *(
            (key, f"waiting: {reason}" if reason else "waiting", "waiting", False)
            for key, reason in waiting
        ),
    ]
    found += [
        {"key": key, "name": name, "group": group, "hatch": hatch, "core_type": None}
        for key, name, group, hatch in rest
    ]
    return found
