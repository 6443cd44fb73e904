"""These slices with these stacks: which code waited, was ready, ran, and woke whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.ask import judging
from schedlens.ask.findings import Scope
from schedlens.export import stack_profiles

MS = 1_000_000

# cpu 0  A A . . . . A A . A   A waits in take (2 ms), is ready (2 ms), then waits without a stack
# cpu 1  . . . B B B . . . .   B wakes A in release, at 4 ms
SLICES = [
    Slice("game/A", 0, 0, 2 * MS),
    Slice("game/A", 0, 6 * MS, 2 * MS, ready=2 * MS, wait=2 * MS, waker="game/B"),
    Slice("game/A", 0, 9 * MS, MS, wait=MS),
    Slice("game/B", 1, 3 * MS, 3 * MS),
]
# node: caller, function, module, inlined
FUNCTIONS = {
    1: (None, "main", "/bin/game", False),
    2: (1, "Queue::take", "/bin/game", True),
    3: (2, "pthread_mutex_lock", "/lib/libc.so.6", False),
    4: (1, "Queue::release", "/bin/game", False),
    5: (3, "schedule", "[kernel]", False),
    6: (4, None, "/lib/libfoo.so", False),
}


def node(number: int) -> int:
    return 1 << 32 | number


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0), Cpu(1, 0, 1, "E")], 10 * MS)
        depths: dict[int | None, int] = {None: -1}
        for number, (caller, symbol, module, inlined) in FUNCTIONS.items():
            depths[number] = depths[caller] + 1
            drawn.add(
                "stack", stack_id=node(number), parent_id=caller and node(caller),
                depth=depths[number], frame_id=node(number),
            )  # fmt: skip
            drawn.add(
                "frame_symbol", frame_id=node(number), module=module, address=number,
                symbol=symbol, is_inlined=inlined, is_kernel=module == "[kernel]",
                unknown_reason=None if symbol else "stripped",
            )  # fmt: skip
        a, b = drawn.utid("game/A"), drawn.utid("game/B")
        database.execute(
            "UPDATE context_switch SET stack_id = ? WHERE prev_utid = ? AND ts = ?",
            [node(5), a, 2 * MS],
        )
        database.execute(
            "UPDATE wakeup SET stack_id = ?, in_interrupt = FALSE, waker_utid = ? "
            "WHERE utid = ? AND ts = ?",
            [node(6), b, a, 4 * MS],
        )
        for place, (ts, stack) in enumerate(((MS, 4), (4 * MS, 4), (5 * MS, None))):
            drawn.add(
                "sample", ts=ts, cpu=int(ts > MS), seq=100 + place,
                utid=a if ts == MS else b, event="cpu-clock", stack_id=stack and node(stack),
            )  # fmt: skip
        yield database


def test_a_stack_is_text_from_the_outermost_function(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT stack_id & 255, frames, folded, own_frame, user_frame, frame FROM stack_text"
    ).fetchall()
    assert rows == [
        (4, 2, "main;Queue::release", "Queue::release", "Queue::release", "Queue::release"),
        (5, 4, "main;Queue::take;pthread_mutex_lock;schedule", "Queue::take",
         "pthread_mutex_lock", "schedule"),
        (6, 3, "main;Queue::release;[libfoo.so]", "Queue::release", "[libfoo.so]", "[libfoo.so]"),
    ]  # fmt: skip


def test_waiting_and_ready_time_belong_to_the_stack_of_the_switch(
    con: duckdb.DuckDBPyConnection,
) -> None:
    rows = con.execute(
        "SELECT thread, frame, own_frame, waits, wait_ns, ready_ns FROM off_cpu_stack "
        "WHERE thread = 'A'"
    ).fetchall()
    assert rows == [
        ("A", "pthread_mutex_lock", "Queue::take", 1, 2 * MS, 2 * MS),
        # The wait whose switch has no stack is not dropped.
        ("A", "[no stack]", None, 1, MS, 0),
    ]


def test_the_waker_of_a_wait_is_named_with_its_code(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, frame, waker_thread, waker_frame, waker_own_frame, waits, wait_ns, "
        "ready_ns FROM blocked_by WHERE waker_thread = 'B'"
    ).fetchall()
    assert rows == [
        ("A", "pthread_mutex_lock", "B", "[libfoo.so]", "Queue::release", 1, 2 * MS, 2 * MS)
    ]
    rows = con.execute(
        "SELECT thread, frame, woken_thread, wakings FROM waker_stack WHERE thread = 'B'"
    ).fetchall()
    assert rows == [("B", "[libfoo.so]", "A", 1)]


def test_samples_know_the_core_type_and_the_sibling(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, frame, samples, e_core_samples, sibling_busy_samples, "
        "sibling_known_samples FROM sample_stack ORDER BY ALL"
    ).fetchall()
    assert rows == [
        ("A", "Queue::release", 1, 0, 0, 1),
        ("B", "Queue::release", 1, 1, 0, 1),
        ("B", "[no stack]", 1, 1, 0, 1),
    ]


def test_unnamed_functions_are_counted_with_the_remedy(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT module, frames, round(frames_pct, 1), reason FROM unnamed_code"
    ).fetchall()
    # One of 4 + 3 + 2 * 2 functions.
    assert rows == [("/lib/libfoo.so", 1, 9.1, "stripped")]
    rows = con.execute(
        "SELECT kind, with_stack, frames, named_frames FROM stack_coverage"
    ).fetchall()
    assert ("wakeup", 1, 3, 2) in rows
    assert ("sample", 2, 4, 4) in rows


def test_a_lock_is_a_finding_that_names_both_sides(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = judging.judge_all(Scope(con), only=["blocked_by"]).findings
    assert (found.kind, found.severity, found.cost_ns) == ("lock_wait", "warning", 2 * MS)
    assert "`pthread_mutex_lock` from `Queue::take`, woken by B" in found.detail
    assert "in `[libfoo.so]` from `Queue::release`" in found.detail
    assert con.execute(found.evidence_sql).fetchall()


def test_a_file_without_symbols_is_reported(con: duckdb.DuckDBPyConnection) -> None:
    found = judging.judge_all(Scope(con), only=["unnamed_code"]).findings
    (unnamed,) = (one for one in found if one.kind == "unnamed_functions")
    assert "of the functions in stacks have no name" in unnamed.title
    assert "libfoo.so has no debug info" in unnamed.detail


def test_stacks_are_written_for_flame_graph_viewers(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    expected = con.execute(
        "SELECT count(*), sum(wait_ns)::BIGINT FROM off_cpu_stack(p_trace_id := 1) "
        "WHERE wait_ns > 0"
    ).fetchone()
    assert expected is not None
    stack_profiles.save(con, tmp_path / "f", "folded", "waiting", trace_id=1)
    lines = (tmp_path / "f").read_text(encoding="utf-8").splitlines()
    assert (len(lines), sum(int(line.rpartition(" ")[2]) for line in lines)) == expected
    assert all(line.startswith("game;") for line in lines)
    stack_profiles.save(con, tmp_path / "s", "speedscope", "waiting", trace_id=1)
    scope = json.loads((tmp_path / "s").read_text(encoding="utf-8"))
    assert sum(sum(profile["weights"]) for profile in scope["profiles"]) == expected[1]
    assert "Queue::take" in {frame["name"] for frame in scope["shared"]["frames"]}
    stack_profiles.save(con, tmp_path / "x", "firefox", "waiting", trace_id=1)
    threads = json.loads((tmp_path / "x").read_text(encoding="utf-8"))["threads"]
    assert sum(sum(thread["samples"]["weight"]) for thread in threads) * 1e6 == expected[1]
