"""Clipping an interval to a window is written once: as macros that every database contains."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import duckdb
import pytest
from drawn_trace import drawn_database

from schedlens.load import schema

ROOT = Path(__file__).resolve().parents[2]
MACROS = ROOT / "queries" / "schema" / "macros.sql"

# Intervals around the window 10..20, and the length of the part inside it.
CASES = {
    "inside": ("12, 3", 3),
    "across the start": ("5, 8", 3),
    "across the end": ("18, 9", 2),
    "the whole window": ("0, 50", 10),
    "before it": ("1, 4", -5),
    "without an end": ("12, NULL", 8),
    "without a start or an end": ("NULL, 5", 10),
}


def least_minus_greatest(text: str) -> list[int]:
    """Lines with a difference of `least(...)` and `greatest(...)`, whatever their arguments."""
    found = []
    for call in re.finditer(r"\b(?:least|greatest)\(", text, re.IGNORECASE):
        depth, end = 1, call.end()
        while depth and end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        if re.match(r"\s*-\s*(?:least|greatest)\(", text[end:], re.IGNORECASE):
            found.append(text.count("\n", 0, call.start()) + 1)
    return found


def test_clipping_is_written_only_in_the_macros() -> None:
    places = [
        f"{path.relative_to(ROOT).as_posix()}:{line}"
        for folder in ("queries", "analyzers", "reports", "src")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".sql", ".py", ".rs") and path != MACROS
        for line in least_minus_greatest(path.read_text(encoding="utf-8"))
    ]
    assert places == [], "use clipped_ns() or overlap_ns() of queries/schema/macros.sql"
    assert len(least_minus_greatest(MACROS.read_text(encoding="utf-8"))) == 1


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("least(ts + dur, end_ns) - greatest(ts, start_ns)", [1]),
        ("sum(\n  least(s.ts + s.dur, coalesce(a, b))\n  - GREATEST(s.ts, w.start_ns))", [2]),
        ("greatest(a, b) - least(c, d)", [1]),
        ("greatest(0, clipped_ns(ts, dur, start_ns, end_ns))", []),
        ("least(end_ns, 5) - begin_ns", []),
    ],
)
def test_pattern_is_found_across_lines_and_brackets(text: str, lines: list[int]) -> None:
    assert least_minus_greatest(text) == lines


@pytest.mark.parametrize("case", CASES)
def test_part_inside_the_window_has_its_length(case: str) -> None:
    interval, length = CASES[case]
    with duckdb.connect() as con:
        schema.create(con)
        ts, dur = interval.split(", ")
        clipped, overlap, written_out = con.execute(
            f"SELECT clipped_ns({ts}, {dur}, 10, 20), overlap_ns({ts}, {ts} + {dur}, 10, 20), "
            f"least({ts} + {dur}, 20) - greatest({ts}, 10)"
        ).fetchall()[0]
    assert clipped == overlap == written_out == length


def test_macros_are_in_the_file_for_any_shell(tmp_path: Path) -> None:
    file = tmp_path / "analysis.duckdb"
    with drawn_database(file):
        pass
    shell = shutil.which("duckdb", path=sysconfig.get_path("scripts")) or shutil.which("duckdb")
    if shell is None:
        pytest.skip("no duckdb shell is installed: `pip install duckdb-cli`")
    # The columns have the names of the macros' parameters, in another order.
    question = (
        "SELECT clipped_ns(ts, dur, end_ns, to_ns), comment <> '' FROM "
        "(SELECT 12 AS ts, 3 AS dur, 10 AS end_ns, 20 AS to_ns, 0 AS from_ns, 1 AS begin_ns), "
        "duckdb_functions() WHERE function_name = 'clipped_ns';"
    )
    done = subprocess.run(
        [shell, "-readonly", "-csv", "-noheader", str(file)],
        input=question, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stderr, done.stdout.strip()) == ("", "3,true")
