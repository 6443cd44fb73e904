"""`collect --stacks` of a program with known stacks: waits, wakeups and samples name their code."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
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
HEAD = re.compile(r"^\s*(\d+)/(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\S+):")
FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((\S.*)\)$")


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
    first, *_ = con.execute("SELECT start_clock FROM trace").fetchall()[0]
    expected = dict(script_stacks(text, first))
    assert len(expected) > 200
    found = recorded_stacks(con)
    different: Counter[tuple[str, str]] = Counter()
    functions = 0
    for key, names in expected.items():
        ours = [bare(name) for name in found.get(key, [])]
        functions += len(names)
        for name, own in zip(names, ours, strict=False):
            if "[unknown]" not in name and name != own:
                different[name, own] += 1
        # Ours may go on where perf ends.
        assert len(ours) >= len(names) - 1, (names, ours)
    assert different.total() <= 0.02 * functions, different.most_common(10)


def recorded_stacks(con: duckdb.DuckDBPyConnection) -> dict[tuple[int, int], list[str]]:
    """Functions by (CPU, time) of the switch, innermost first, without inlined ones."""
    nodes = {
        stack: (parent, frame, inlined)
        for stack, parent, frame, inlined in con.execute(
            "SELECT stack_id, parent_id, frame, is_inlined FROM stack_frame"
        ).fetchall()
    }
    found = {}
    for cpu, ts, stack in con.execute(
        "SELECT cpu, ts, stack_id FROM context_switch WHERE stack_id IS NOT NULL"
    ).fetchall():
        names = []
        node = stack
        while node is not None:
            node, frame, inlined = nodes[node]
            if not inlined:
                names.append(frame)
        found[cpu, ts] = names
    return found


def script_stacks(text: str, first: int) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """(CPU, time) of each switch with its functions, innermost first."""
    key: tuple[int, int] | None = None
    names: list[str] = []
    for line in [*text.splitlines(), ""]:
        head = HEAD.match(line)
        if head:
            is_switch = head[6] == "sched:sched_switch"
            at = int(head[4]) * 1_000_000_000 + int(head[5]) - first
            key, names = ((int(head[3]), at) if is_switch else None), []
        elif not line.strip():
            if key and names:
                yield key, names
            key = None
        else:
            frame = FRAME.match(line)
            if frame:
                names.append(bare(frame[2]))


def bare(name: str) -> str:
    """A function without its version and offset, and without what distinguishes its aliases.

    The C library has `read` as `__libc_read` and `__GI___libc_read`, too, all at one address.
    """
    plain = name.partition("@")[0].removesuffix("(inlined)").strip()
    return plain.removeprefix("__GI_").lstrip("_").removeprefix("libc_")
