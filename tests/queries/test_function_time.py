"""These stacks: what each function takes by itself, and with what it calls."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_stacks import MS, database_with_stacks

from schedlens.report import page, sections
from schedlens.report.sections import Section


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with database_with_stacks() as database:
        yield database


def test_functions_have_their_own_time_and_that_with_what_they_call(
    con: duckdb.DuckDBPyConnection,
) -> None:
    (chapter,) = (one for one in sections.chapters() if one.name == "function_time")
    section = sections.made(page.chosen_view(con, None, None), chapter)
    assert isinstance(section, Section)
    (answer,) = section.answers
    found = {one["frame"]: tuple(one[name] for name in answer.names[2:]) for one in answer.rows}
    # Samples, waiting time, ready time, and wakeups: of each, self and total.
    assert found == {
        "main": (0, 2, 0, 2 * MS, 0, 2 * MS, 0, 1),
        "Queue::take": (0, 0, 0, 2 * MS, 0, 2 * MS, 0, 0),
        "pthread_mutex_lock": (0, 0, 0, 2 * MS, 0, 2 * MS, 0, 0),
        "schedule": (0, 0, 2 * MS, 2 * MS, 2 * MS, 2 * MS, 0, 0),
        "Queue::release": (2, 2, 0, 0, 0, 0, 0, 1),
        "[libfoo.so]": (0, 0, 0, 0, 0, 0, 1, 1),
        # A waits from 8 to 9 ms, B to 3 ms and from 6 to 10 ms; one sample has no stack.
        "[no stack]": (1, 1, 8 * MS, 8 * MS, 0, 0, 0, 0),
    }
    # Whole columns: nothing is lost, and nothing counts twice.
    totals = con.execute(
        "SELECT sum(wait_ns), sum(ready_ns), (SELECT sum(wakings) FROM waker_stack), "
        "(SELECT sum(samples) FROM sample_stack) FROM off_cpu_stack"
    ).fetchall()
    sums = con.execute(
        "SELECT sum(self_wait_ns), sum(self_ready_ns), sum(self_wakings), sum(self_samples) "
        "FROM function_time"
    ).fetchall()
    assert sums == totals


def test_a_function_that_calls_itself_counts_once(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE frame_symbol SET symbol = 'main' WHERE symbol = 'Queue::take'")
    try:
        ((total,),) = con.execute(
            "SELECT total_wait_ns FROM function_time WHERE frame = 'main'"
        ).fetchall()
    finally:
        con.execute(
            "UPDATE frame_symbol SET symbol = 'Queue::take' WHERE symbol = 'main' AND address = 2"
        )
    assert total == 2 * MS


def test_a_recording_without_samples_has_none_known() -> None:
    with database_with_stacks() as database:
        database.execute("DELETE FROM sample")
        rows = database.execute(
            "SELECT self_samples, total_samples, total_wait_ns FROM function_time "
            "WHERE frame = 'schedule'"
        ).fetchall()
    assert rows == [(None, None, 2 * MS)]
