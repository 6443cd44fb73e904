"""`collect --stacks` of a program that writes machine code: a perf map or a dump names it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import duckdb
import jit_program
import pytest
from conftest import command, needs_tracing

pytestmark = [pytest.mark.records, pytest.mark.slow]

# Innermost functions by their callers.
PAIR = re.compile(r"call_(first|second|later);(first|second|later)$")
HEAD = re.compile(r"^\s*(\d+)\.(\d{9}):")
FRAME = re.compile(r"^\s+[0-9a-f]+ (\S+)")


@pytest.fixture(scope="module", params=["map", "dump"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tracing()
    how = str(request.param)
    folder = tmp_path_factory.mktemp(how)
    program = jit_program.built(folder)
    made = folder / "session"
    before = Path.cwd()
    os.chdir(folder)
    try:
        arguments = ("--stacks", "fp", "--samples", "499", "-o", str(made))
        command("collect", *arguments, "--", str(program), how)
    finally:
        os.chdir(before)
    done = command("analyze", str(made), check=False)
    assert done.returncode == 0, done.stderr
    return made


def test_samples_in_written_code_have_its_name(session: Path) -> None:
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
        rows = con.execute(
            "SELECT folded, samples FROM sample_stack "
            "WHERE process = 'jit' AND contains(folded, 'call_')"
        ).fetchall()
    found: Counter[tuple[str, str]] = Counter()
    for folded, samples in rows:
        if pair := PAIR.search(folded):
            found[pair[1], pair[2]] += samples
    # A map has no times, and the second function is not in it.
    second = "first" if session.parent.name.startswith("map") else "second"
    expected = {("first", "first"), ("second", second), ("later", "later")}
    assert set(found) == expected
    assert all(samples > 20 for samples in found.values()), found


@pytest.mark.parametrize("session", ["dump"], indirect=True)
def test_lines_of_a_dump_are_those_of_its_functions(session: Path) -> None:
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
        rows = con.execute(
            "SELECT DISTINCT symbol, module, file, line FROM frame_symbol "
            "WHERE symbol IN ('first', 'second', 'later') ORDER BY line"
        ).fetchall()
    assert rows == [
        (name, "[anonymous]", "made.js", line)
        for name, line in (("first", 10), ("second", 20), ("later", 30))
    ]


def test_a_session_that_was_moved_has_the_same_names_without_the_original(
    session: Path, tmp_path: Path
) -> None:
    """Without its copy in the session, the code has no names."""
    asked = (
        "SELECT symbol, module, file, line, count(*) FROM frame_symbol "
        "WHERE symbol IN ('first', 'second', 'later') GROUP BY ALL ORDER BY ALL"
    )
    (step,) = (path.parent for path in session.glob("*/perf.data"))
    copies = [*step.glob("perf-maps/*")]
    own = [path for path in copies if path.name.startswith("jit-")]
    if session.parent.name.startswith("map"):
        with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
            (process,) = con.execute("SELECT pid FROM process WHERE name = 'jit'").fetchall()
        own = [path for path in copies if path.name == f"perf-{process[0]}.map"]
    (copy,) = own
    places = (session.parent / copy.name, Path("/tmp") / copy.name)
    (original,) = (path for path in places if path.exists())
    aside = tmp_path / "aside"
    shutil.move(original, aside)
    try:
        found = []
        for place in ("whole", "without"):
            moved = tmp_path / place
            shutil.copytree(session, moved, ignore=shutil.ignore_patterns("analysis.*", "*.html"))
            if place == "without":
                next(moved.glob(f"*/perf-maps/{copy.name}")).unlink()
            command("analyze", str(moved))
            with duckdb.connect(str(moved / "analysis.duckdb"), read_only=True) as con:
                found.append(con.execute(asked).fetchall())
    finally:
        shutil.move(aside, original)
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
        expected = con.execute(asked).fetchall()
    assert len(expected) >= 2
    assert found == [expected, []]


@pytest.mark.parametrize("session", ["dump"], indirect=True)
def test_names_of_a_dump_are_those_of_perf_inject(session: Path, tmp_path: Path) -> None:
    (trace,) = session.glob("*/perf.data")
    injected = tmp_path / "injected.data"
    subprocess.run(
        ["perf", "inject", "--jit", "-i", str(trace), "-o", str(injected)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    text = subprocess.run(
        ["perf", "script", "-i", str(injected), "--ns", "--comm", "jit", "-F", "time,ip,sym"],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
        ((first,),) = con.execute("SELECT start_clock FROM trace").fetchall()
        ours = dict(
            con.execute(
                "SELECT ts, frame FROM sample JOIN stack_frame USING (stack_id) "
                "WHERE frame IN ('first', 'second', 'later')"
            ).fetchall()
        )
    theirs: dict[int, str] = {}
    ts = None
    for line in text.splitlines():
        if head := HEAD.match(line):
            ts = int(head[1]) * 1_000_000_000 + int(head[2]) - first
        elif (frame := FRAME.match(line)) and ts is not None:
            if frame[1] in ("first", "second", "later"):
                theirs[ts] = frame[1]
            ts = None
    assert len(theirs) > 100
    assert {ts: ours.get(ts) for ts in theirs} == theirs
