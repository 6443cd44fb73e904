"""These slices with these stacks: which code waited, was ready, ran, and woke whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from drawn_stacks import MS, database_with_stacks
from stored_states import store

from schedlens.ask import judging, waiting_code
from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.errors import NothingToReadError
from schedlens.export import stack_profiles

ALL = stack_profiles.Selection(1)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with database_with_stacks() as database:
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
    stack_profiles.save(con, tmp_path / "f", "folded", "waiting", ALL)
    lines = (tmp_path / "f").read_text(encoding="utf-8").splitlines()
    assert (len(lines), sum(int(line.rpartition(" ")[2]) for line in lines)) == expected
    assert all(line.startswith("game;") for line in lines)
    stack_profiles.save(con, tmp_path / "s", "speedscope", "waiting", ALL)
    scope = json.loads((tmp_path / "s").read_text(encoding="utf-8"))
    assert sum(sum(profile["weights"]) for profile in scope["profiles"]) == expected[1]
    assert "Queue::take" in {frame["name"] for frame in scope["shared"]["frames"]}
    stack_profiles.save(con, tmp_path / "x", "firefox", "waiting", ALL)
    threads = json.loads((tmp_path / "x").read_text(encoding="utf-8"))["threads"]
    assert sum(sum(thread["samples"]["weight"]) for thread in threads) * 1e6 == expected[1]


def folded(con: duckdb.DuckDBPyConnection, file: Path, chosen: stack_profiles.Selection) -> int:
    """The waiting time in a file of the chosen stacks."""
    stack_profiles.save(con, file, "folded", "waiting", chosen)
    return sum(int(line.rpartition(" ")[2]) for line in file.read_text().splitlines())


def test_stacks_of_a_thread_a_window_and_a_finding(tmp_path: Path) -> None:
    with database_with_stacks() as con:
        ((tid, utid),) = con.execute("SELECT tid, utid FROM thread WHERE name = 'A'").fetchall()
        only_a = replace(ALL, tid=tid)
        assert folded(con, tmp_path / "f", only_a) == 3 * MS
        # A waits from 2 to 4 ms: the window contains half of it.
        assert folded(con, tmp_path / "f", replace(only_a, from_ns=3 * MS, to_ns=5 * MS)) == MS
        con.execute(
            "INSERT INTO finding BY NAME SELECT 7 AS finding_id, 'a' AS analyzer, 'k' AS kind, "
            "'info' AS severity, 2 AS rank, 't' AS title, 'd' AS detail, 'a' AS advice, "
            "'of' AS cost_of, '' AS evidence_sql, 1 AS trace_id, ? AS utid, "
            "3000000 AS start_ns, 5000000 AS end_ns",
            [utid],
        )
        chosen = stack_profiles.of_finding(con, 7)
        assert folded(con, tmp_path / "f", chosen) == MS
        with pytest.raises(NothingToReadError, match="no finding 8"):
            stack_profiles.of_finding(con, 8)
        with pytest.raises(NothingToReadError, match="in what was chosen"):
            folded(con, tmp_path / "f", replace(ALL, tid=999_999))


def test_stutters_differ_from_other_frames_by_code() -> None:
    """Frames of game every 1 ms; the second one lasts from 1 to 6 ms and contains A's wait."""
    edges = [0, 1, 6, 7, 8, 9, 10]
    with database_with_stacks() as con:
        con.execute(
            "INSERT INTO frame BY NAME SELECT 1 AS trace_id, number AS frame, upid, utid, "
            "begin_ms * 1000000 AS start_ns, (end_ms - begin_ms) * 1000000 AS dur_ns, "
            "'mark' AS dialect FROM (SELECT unnest(range(6)) AS number, unnest(?) AS begin_ms, "
            "unnest(?) AS end_ms) CROSS JOIN (SELECT upid, utid FROM thread WHERE name = 'A')",
            [edges[:-1], edges[1:]],
        )
        rows = con.execute(
            "SELECT own_frame, stutters, others, stutter_wait_ns, other_wait_ns, more_wait_ns, "
            "stutter_ready_ns, other_ready_ns, more_ready_ns FROM stutter_stack WHERE thread = 'A'"
        ).fetchall()
    assert rows == [
        ("Queue::take", 1, 5, 2 * MS, 0, 2 * MS, 2 * MS, 0, 2 * MS),
        # A waits 1 ms without a stack in one of the five other frames.
        (None, 1, 5, 0, MS // 5, -MS // 5, 0, 0, 0),
    ]


def about_a(con: duckdb.DuckDBPyConnection, analyzer: str) -> Finding:
    """A finding of an analyzer about thread A."""
    ((utid,),) = con.execute("SELECT utid FROM thread WHERE name = 'A'").fetchall()
    return Finding(
        kind="any", severity="info", title="A title", detail="What was found.", advice="Do it.",
        evidence_sql="SELECT 1", analyzer=analyzer, trace_id=1, utid=utid,
    )  # fmt: skip


def test_findings_name_the_code_of_the_wait_and_of_the_waker(
    con: duckdb.DuckDBPyConnection,
) -> None:
    metrics: dict[str, Metric] = {"r": "ready", "f": "frames", "m": "measured"}
    findings = [about_a(con, name) for name in metrics]
    findings.append(replace(findings[0], detail="It waits in `Queue::take`."))
    assert waiting_code.named(Scope(con), findings, metrics, {2}) == findings
    found = waiting_code.named(Scope(con), findings, metrics, {1})
    tid, waker = (
        con.execute("SELECT tid FROM thread WHERE name = ?", [name]).fetchall()[0][0]
        for name in "AB"
    )
    where = (
        f"in `pthread_mutex_lock` from `Queue::take`, woken by B ({waker}) in `[libfoo.so]` from "
        "`Queue::release`"
    )
    said = [finding.detail.replace("\u00a0", " ") for finding in found]
    assert said == [
        f"What was found. A ({tid}) waits {where}, and is then ready, 2 ms in all.",
        f"What was found. A ({tid}) waits 2 ms {where}.",
        # Neither about ready time nor about frames; and one that names code itself.
        "What was found.",
        "It waits in `Queue::take`.",
    ]


def test_a_small_part_of_the_time_is_not_named(con: duckdb.DuckDBPyConnection) -> None:
    """The last wait, 1 ms long, has no stack."""
    late = replace(about_a(con, "f"), start_ns=8 * MS, end_ns=9 * MS)
    (found,) = waiting_code.named(Scope(con), [late], {"f": "frames"}, {1})
    assert found.detail == "What was found."


def test_code_in_which_a_thread_lost_its_cpu_is_named() -> None:
    """A is ready without a wakeup from 2 to 6 ms: it was preempted."""
    with database_with_stacks() as con:
        store(con)
        con.execute(
            "UPDATE thread_state SET state = 'ready', waker_utid = NULL "
            "WHERE state IN ('waiting', 'ready') AND ts >= 2000000 AND ts < 6000000"
        )
        (found,) = waiting_code.named(Scope(con), [about_a(con, "r")], {"r": "ready"}, {1})
    assert found.detail.replace("\u00a0", " ") == (
        "What was found. It lost its CPU in `pthread_mutex_lock` from `Queue::take`, and was then "
        "ready for 4 ms."
    )
