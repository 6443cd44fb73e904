"""`collect --stacks dwarf` of a Rust program with known stacks: demangled, with inlined code."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import rust_stack_program
import script_stacks
from conftest import command, needs_tracing

pytestmark = [pytest.mark.records, pytest.mark.slow]

# In which function each thread waits, and which thread ends that in which function.
WAITS = {
    "pusher": ("jobs::pause", None, None),
    "popper": ("jobs::pop", "pusher", "jobs::JobQueue<T>::push"),
    "taker": ("jobs::JobQueue<T>::take", "holder", "jobs::JobQueue<T>::hold"),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tracing()
    folder = tmp_path_factory.mktemp("rust")
    program = rust_stack_program.built(folder)
    made = folder / "session"
    command("collect", "--stacks", "dwarf", "-o", str(made), "--", str(program))
    done = command("analyze", str(made), check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def con(session: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as opened:
        yield opened


@pytest.mark.parametrize("thread", WAITS)
def test_waits_name_their_function_and_that_of_the_waker(
    con: duckdb.DuckDBPyConnection, thread: str
) -> None:
    function, waker, waking = WAITS[thread]
    rows = con.execute(
        "SELECT s.folded, sum(b.wait_ns), any_value(b.waker_thread), any_value(w.folded) "
        "FROM blocked_by AS b JOIN stack_text AS s ON s.stack_id = b.stack_id "
        "LEFT JOIN stack_text AS w ON w.stack_id = b.waker_stack_id "
        "WHERE b.process = 'jobs' AND b.thread = ? AND contains(s.folded, ?) "
        "GROUP BY ALL ORDER BY 2 DESC LIMIT 1",
        [thread, f";{function};"],
    ).fetchall()
    assert rows, con.execute("SELECT DISTINCT folded FROM stack_text").fetchall()[:20]
    ((_, _, woken_by, woken_in),) = rows
    if waker is not None:
        assert woken_by == waker
        assert f";{waking};" in woken_in


@pytest.mark.parametrize("table", ["context_switch", "wakeup"])
def test_stacks_are_those_of_perf_script(
    con: duckdb.DuckDBPyConnection, session: Path, table: str
) -> None:
    """For events of the program, function by function, where perf knows a name."""
    (trace,) = session.glob("*/perf.data")
    text = subprocess.run(
        ["perf", "script", "-i", str(trace), "--ns", "--no-inline", "--comm",
         "pusher,popper,holder,taker", "-F", "tid,pid,cpu,time,event,ip,sym,dso"],
        capture_output=True, text=True, check=True, timeout=300,
    ).stdout  # fmt: skip
    stacks, functions, different = script_stacks.differences(con, text, table)
    # Each hand-off has two; how many fit into the program's time depends on the machine.
    assert stacks > 100
    assert different.total() <= 0.02 * functions, different.most_common(10)
