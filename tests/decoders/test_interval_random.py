"""Random schedules: the interval tables against a moment-by-moment reading of the definitions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import duckdb
import pytest
from grid_ready import expect_ready_match, expect_ready_slice
from grid_schedule import (
    CELL,
    Cells,
    Schedule,
    by_cell,
    database,
    expect_avoidable_match,
    expect_concurrency,
    expect_core_state,
    expect_sharing_slice,
    expect_sibling_slice,
    fill,
)

from schedlens.load import intervals

pytestmark = pytest.mark.slow

LAYOUTS: list[tuple[dict[int, int | None], dict[int, str | None]]] = [
    ({0: 0, 1: 0, 2: 2, 3: 2, 4: 4, 5: 4}, {}),
    ({0: 0, 3: 0, 1: 1, 4: 1, 2: 2}, {0: "P", 3: "P", 1: "P", 4: "P", 2: "E"}),
    ({0: 0, 1: 0, 2: 0, 3: 3, 4: 3, 5: 3, 6: 6}, {6: "7", 0: None, 1: None, 2: None}),
    ({0: 0, 1: 0, 2: None, 3: None, 70000: 70000}, {2: "LP-E", 70000: "P"}),
    ({0: 0, 1: 1, 2: 0, 3: 1, 4: 4, 5: 4, 6: 6, 7: 6}, {4: "E", 5: "E"}),
]

TABLES: list[tuple[str, str, Callable[[Schedule], Cells]]] = [
    ("core_state", "core, online, unknown, busy, threads", expect_core_state),
    ("sibling_slice", "core, cpu, utid, other_cpu, other_utid", expect_sibling_slice),
    (
        "sharing_slice",
        "utid, cpu, same_type_idle_ns, any_type_idle_ns, soft_parked_idle_ns, affinity_known",
        expect_sharing_slice,
    ),
    ("avoidable_match", "min_idle_ns, same_type, any_type", expect_avoidable_match),
    (
        "ready_slice",
        "utid, ready_ts, entered_cpu, throttled, cgroup_throttled, idle_exit, idle_ns, parked_ns, "
        "unknown_available, affinity_known, outside_idle_ns",
        expect_ready_slice,
    ),
    ("ready_match", "min_idle_ns, threads", expect_ready_match),
    ("concurrency_slice", "busy, unknown, ready, p, e, other, smt, online", expect_concurrency),
]


def random_schedule(seed: int) -> Schedule:
    """Threads that run, wait, and are ready at random, on one of the layouts."""
    dice = random.Random(seed)
    cores, types = dice.choice(LAYOUTS)
    numbers = sorted(cores)
    cells = dice.choice([12, 30, 60])
    threads = range(1, 1 + dice.choice([2, 5, 9]))
    calm = dice.choice([0.5, 0.8, 0.95])
    cpus: dict[int, list[int | str]] = {cpu: [] for cpu in numbers}
    ready = {thread: [False] * cells for thread in threads}
    lost = {thread: [False] * cells for thread in threads}
    woken: set[tuple[int, int]] = set()
    state: dict[int, str] = dict.fromkeys(threads, "waiting")
    for cell in range(cells):
        now: dict[int, int | str] = {}
        for cpu in numbers:
            before = cpus[cpu][-1] if cell else "."
            if dice.random() < calm:
                now[cpu] = before
            elif state and dice.random() < 0.5:
                now[cpu] = dice.choice(list(threads))
            else:
                now[cpu] = dice.choices([".", "i", "?", "x"], [10, 2, 1, 2])[0]
        taken: set[int] = set()
        for cpu in dice.sample(numbers, len(numbers)):
            thread = now[cpu]
            if isinstance(thread, int):
                if thread in taken:
                    now[cpu] = "."
                taken.add(thread)
            cpus[cpu].append(now[cpu])
        for thread in threads:
            if thread in taken:
                state[thread] = "running"
            elif state[thread] == "running" or dice.random() < 0.2:
                was_running = state[thread] == "running"
                state[thread] = dice.choices(["ready", "waiting", "unknown"], [4, 4, 1])[0]
                if was_running and dice.random() < 0.3:
                    woken.add((thread, cell))
            ready[thread][cell] = state[thread] == "ready"
            lost[thread][cell] = state[thread] == "unknown"
    # Only threads that wait on both sides, so that no ready period starts or ends there.
    quiet = [
        (cell, thread)
        for cell in range(1, cells)
        for thread in threads
        for around in ({cell - 1, cell},)
        if not any(ready[thread][at] or lost[thread][at] for at in around)
        and not any(row[at] == thread for row in cpus.values() for at in around)
    ]
    flashes = tuple((dice.choice(numbers), *dice.choice(quiet)) for _ in range(4) if quiet)
    allowed = {}
    for thread in threads:
        if dice.random() < 0.7:
            begins = sorted({0 if dice.random() < 0.7 else 3, dice.randrange(1, cells)})
            allowed[thread] = [
                (begin, frozenset(dice.sample(numbers, dice.randint(1, len(numbers)))))
                for begin in begins
            ]
    parking: dict[int, list[tuple[bool | None, bool | None] | None]] = {}
    if dice.random() < 0.6:
        pairs: list[tuple[bool | None, bool | None] | None]
        pairs = [None, (False, None), (False, False), (True, None), (True, True), (None, True),
                 (False, True), (None, False)]  # fmt: skip
        for cpu in numbers:
            changes = [dice.choice(pairs)]
            for _ in range(1, cells):
                changes.append(dice.choice(pairs) if dice.random() < 0.1 else changes[-1])
            parking[cpu] = changes
    return Schedule(
        cpus=cpus,
        cores=cores,
        types=types,
        ready=ready,
        allowed=allowed,
        parking=parking,
        throttled=frozenset(thread for thread in threads if dice.random() < 0.2),
        lost=lost,
        woken=frozenset(woken),
        flashes=flashes,
        ties=dice.random() < 0.5,
        source=dice.choice(["perf", "etw"]),
    )


SEEDS = range(30)


@pytest.fixture(scope="module")
def laid() -> Iterator[list[duckdb.DuckDBPyConnection]]:
    """The databases of the seeds that the laws are checked against; nobody writes to them."""
    with ExitStack() as stack:
        yield [stack.enter_context(built(random_schedule(seed))) for seed in SEEDS]


def built(plan: Schedule) -> duckdb.DuckDBPyConnection:
    """A database with the schedule and its intervals."""
    con = database()
    fill(con, plan)
    intervals.build(con, [1])
    return con


@pytest.mark.parametrize("seed", range(120))
def test_every_table_matches_moment_by_moment_reading(seed: int) -> None:
    plan = random_schedule(seed)
    with built(plan) as con:
        for table, columns, expect in TABLES:
            assert by_cell(con, table, columns) == expect(plan), table


def test_random_schedules_reach_every_kind_of_row() -> None:
    reached: dict[str, int] = {}
    for seed in range(120):
        plan = random_schedule(seed)
        for table, _, expect in TABLES:
            for values in expect(plan):
                reached[table] = reached.get(table, 0) + 1
                for at, value in enumerate(values):
                    known = f"{table}.{at}:{value if isinstance(value, bool) else value is None}"
                    reached[known] = reached.get(known, 0) + 1
    # Each nullable or boolean column with both of its values.
    for column in ("sharing_slice.2", "sharing_slice.3", "sharing_slice.4", "ready_slice.2",
                   "ready_slice.6", "ready_slice.7"):  # fmt: skip
        assert {f"{column}:True", f"{column}:False"} <= set(reached), column
    for column in ("ready_slice.3", "ready_slice.4", "ready_slice.5", "ready_slice.8",
                   "ready_slice.9", "sharing_slice.5"):  # fmt: skip
        assert {f"{column}:True", f"{column}:False"} <= set(reached), column


@pytest.mark.parametrize("seed", SEEDS)
def test_core_and_machine_rows_tile_the_window(
    seed: int, laid: list[duckdb.DuckDBPyConnection]
) -> None:
    plan = random_schedule(seed)
    con = laid[seed]
    for table, key in (("core_state", "core"), ("concurrency_slice", "trace_id")):
        gaps = con.execute(
            f"SELECT count(*) FILTER (WHERE ts != before) FROM (SELECT ts, lag(ts + dur, 1, 0) "
            f"OVER (PARTITION BY {key} ORDER BY ts) AS before FROM {table})"
        ).fetchall()
        ends = con.execute(f"SELECT DISTINCT max(ts + dur) FROM {table} GROUP BY {key}")
        assert gaps == [(0,)]
        assert ends.fetchall() == [(plan.cells * CELL,)]


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_of_ready_time_sum_to_it(seed: int, laid: list[duckdb.DuckDBPyConnection]) -> None:
    plan = random_schedule(seed)
    con = laid[seed]
    parts = con.execute("SELECT utid, sum(dur) FROM ready_slice GROUP BY utid ORDER BY utid")
    whole = {t: sum(cells) * CELL for t, cells in plan.ready.items() if any(cells)}
    assert dict(parts.fetchall()) == whole


def test_stored_obstacles_are_those_of_the_query_for_any_shortest_idle_interval() -> None:
    reached: set[tuple[str, bool, bool]] = set()
    for seed in SEEDS:
        with database() as con:
            fill(con, random_schedule(seed))
            if seed % 3 == 0:
                con.execute("INSERT INTO loss (trace_id, cpu, signalled_by) VALUES (1, 0, 'lost')")
            if seed % 4 == 0:
                con.execute(
                    "INSERT INTO thread_cgroup SELECT trace_id, 0, utid, tid, '/ended', 'reading' "
                    "FROM snapshot_thread WHERE utid IS NOT NULL"
                )
            intervals.build(con, [1])
            # As tables: each time that a view is read, DuckDB plans it again.
            con.execute("CREATE TABLE stored AS FROM unordered.ready_obstacle_slice()")
            con.execute("CREATE TABLE judged AS FROM unordered.judged_ready_slice()")
            assert con.execute("FROM stored EXCEPT ALL FROM judged").fetchall() == []
            assert con.execute("FROM judged EXCEPT ALL FROM stored").fetchall() == []
            kinds = con.execute("SELECT DISTINCT obstacle, in_doubt, may_be_idle FROM stored")
            reached.update(kinds.fetchall())
    assert {obstacle for obstacle, _, _ in reached} == {
        "throttled", "idle_exit", "idle_available", "parked_available", "unknown", "all_busy",
    }  # fmt: skip
    assert {("unknown", True, False), ("parked_available", False, True)} <= reached


@pytest.mark.parametrize("seed", SEEDS)
def test_moved_threads_do_not_exceed_movable_threads(
    seed: int, laid: list[duckdb.DuckDBPyConnection]
) -> None:
    con = laid[seed]
    for least in (0, 100_000):
        [(machine, threads)] = con.execute(
            "SELECT (SELECT coalesce(sum(any_type * dur), 0) FROM avoidable_match "
            "WHERE min_idle_ns = $least), (SELECT coalesce(sum(dur), 0) FROM sharing_slice "
            "WHERE any_type_idle_ns >= $least)",
            {"least": least},
        ).fetchall()
        assert machine <= threads


@pytest.mark.parametrize("seed", SEEDS)
def test_cpu_numbering_does_not_change_answers(
    seed: int, laid: list[duckdb.DuckDBPyConnection]
) -> None:
    plan = random_schedule(seed)
    numbers = sorted(plan.cores)
    shuffled = random.Random(seed).sample(range(200), len(numbers))
    new = dict(zip(numbers, shuffled, strict=True))
    first = {core: min(new[cpu] for cpu in plan.members(core)) for core in plan.cores.values()
             if core is not None}  # fmt: skip
    other = Schedule(
        cpus={new[cpu]: row for cpu, row in plan.cpus.items()},
        cores={new[cpu]: None if core is None else first[core] for cpu, core in plan.cores.items()},
        types={new[cpu]: kind for cpu, kind in plan.types.items()},
        ready=plan.ready,
        allowed={
            thread: [(begin, frozenset(new[cpu] for cpu in cpus)) for begin, cpus in sets]
            for thread, sets in plan.allowed.items()
        },
        parking={new[cpu]: changes for cpu, changes in plan.parking.items()},
        throttled=plan.throttled,
        lost=plan.lost,
        woken=plan.woken,
        flashes=tuple((new[cpu], cell, thread) for cpu, cell, thread in plan.flashes),
        ties=plan.ties,
        source=plan.source,
    )
    unnumbered = {
        "avoidable_match": "min_idle_ns, same_type, any_type",
        "ready_match": "min_idle_ns, threads",
        "concurrency_slice": "busy, unknown, ready, p, e, other, smt, online",
        "sharing_slice": "utid, same_type_idle_ns, any_type_idle_ns, soft_parked_idle_ns",
        "ready_slice": "utid, throttled, idle_exit, idle_ns, parked_ns, unknown_available",
    }
    one = laid[seed]
    with built(other) as two:
        for table, columns in unnumbered.items():
            assert by_cell(one, table, columns) == by_cell(two, table, columns), table
