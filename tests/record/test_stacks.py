"""`collect --stacks` of a program with known stacks: waits, wakeups and samples name their code."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import script_stacks
import stack_program
from conftest import command, needs_tracing

pytestmark = [pytest.mark.alone, pytest.mark.slow]

# What each thread does while it is off its CPU, and who ends that; functions from outer to inner.
WAITS = {
    "sleeper": ("sleep", None, None),
    "taker": ("take", "holder", "hold"),
    "reader": ("read", "writer", "write"),
    "waiter": ("wait", "caller", "signal"),
}


@pytest.fixture(scope="module", params=["fp", "dwarf"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of the program: with frame pointers, or without them and with copied stacks."""
    needs_tracing()
    how = str(request.param)
    folder = tmp_path_factory.mktemp(how)
    flags = {
        "fp": stack_program.WITH_FRAME_POINTERS,
        "dwarf": stack_program.WITHOUT_FRAME_POINTERS,
    }[how]
    program = stack_program.built(folder, flags)
    made = folder / "session"
    command("collect", "--stacks", how, "--samples", "499", "-o", str(made), "--", str(program))
    done = command("analyze", str(made), check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def con(session: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as opened:
        yield opened


def test_waits_name_their_code_and_that_of_the_waker(
    con: duckdb.DuckDBPyConnection, session: Path
) -> None:
    by_pointers = "fp" in session.parent.name
    for thread, (function, waker, waking) in WAITS.items():
        # pthread_cond_wait uses the frame pointer for something else, so nobody finds its callers.
        if by_pointers and thread == "waiter":
            continue
        rows = con.execute(
            "SELECT folded, sum(wait_ns) FROM off_cpu_stack "
            "WHERE thread = ? AND process = 'stacks' GROUP BY folded",
            [thread],
        ).fetchall()
        total = sum(ns for _, ns in rows)
        # Code of the C library has no frame pointers: the kernel misses the function that calls it.
        wanted = f"{function}_outer" if by_pointers else f"{function}_inner"
        asleep = f"sleep_{wanted.rpartition('_')[2]}"
        named = sum(ns for text, ns in rows if text and (wanted in text or asleep in text))
        assert named >= 0.95 * total, (thread, rows)
        assert any(text and wanted in text.split(";") for text, _ in rows), (thread, rows)
        if waker is None:
            continue
        best = con.execute(
            "SELECT b.waker_thread, s.folded FROM blocked_by AS b "
            "JOIN stack_text AS s ON s.stack_id = b.waker_stack_id "
            "JOIN stack_text AS own ON own.stack_id = b.stack_id "
            "WHERE b.thread = ? AND b.process = 'stacks' AND contains(own.folded, ?) "
            "ORDER BY b.waits DESC LIMIT 1",
            [thread, wanted],
        ).fetchone()
        assert best is not None, thread
        assert best[0] == waker
        assert f"{waking}_{wanted.rpartition('_')[2]}" in best[1]


def test_samples_are_where_the_program_spins(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT folded, samples FROM sample_stack WHERE thread = 'spinner' AND process = 'stacks'"
    ).fetchall()
    total = sum(samples for _, samples in rows)
    spinning = sum(samples for text, samples in rows if text and "spin_outer" in text)
    assert total >= 20
    assert spinning >= 0.9 * total, rows


def test_nearly_every_record_has_a_stack_with_names(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT kind, with_stack_pct FROM stack_coverage").fetchall()
    assert {kind for kind, _ in rows} == {"switch", "wakeup", "sample"}
    for kind, with_stack in rows:
        assert with_stack >= 95, kind
    # Other programs may be stripped; the kernel is not, and neither is this program.
    named = con.execute(
        "SELECT is_kernel, avg((symbol IS NOT NULL)::INTEGER) FROM frame_symbol "
        "WHERE is_kernel OR module LIKE '%/stacks' GROUP BY is_kernel ORDER BY is_kernel"
    ).fetchall()
    assert [flag for flag, _ in named] == [False, True]
    assert all(share >= 0.95 for _, share in named), named


def test_names_are_those_of_perf_script(con: duckdb.DuckDBPyConnection, session: Path) -> None:
    """For switches of the program, function by function, where perf knows a name."""
    (trace,) = session.glob("*/perf.data")
    text = subprocess.run(
        ["perf", "script", "-i", str(trace), "--ns", "--no-inline", "--comm",
         "sleeper,taker,reader,waiter", "-F", "tid,pid,cpu,time,event,ip,sym,dso"],
        capture_output=True, text=True, check=True, timeout=300,
    ).stdout  # fmt: skip
    stacks, functions, different = script_stacks.differences(con, text)
    assert stacks > 200
    assert different.total() <= 0.02 * functions, different.most_common(10)
