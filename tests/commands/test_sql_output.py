"""`schedlens sql` prints every type of value, in each of its forms."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import duckdb
import pytest
from conftest import BIN, command
from fixture_files import fixture

pytestmark = pytest.mark.slow

# `import pandas` fails in it: pyarrow uses pandas for times in ns if it is there.
_WITHOUT_PANDAS = (
    "import sys; sys.modules['pandas'] = None; from schedlens.commands.cli import main; main()"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("printed")
    trace = fixture("own_tree", tmp_path_factory)
    command("analyze", str(trace), "-o", str(folder), "--no-report", check=False)
    return folder


@pytest.mark.parametrize("name", ["context_switch", "thread_state"])
def test_a_table_is_named_as_a_query_is(session: Path, name: str) -> None:
    rows = command("schedlens", "sql", str(session), name, "--json").stdout
    assert rows == command("schedlens", "sql", str(session), f"FROM {name}", "--json").stdout
    assert len(rows.splitlines()) > 10
    refused = command("schedlens", "sql", str(session), name[:-1], check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert name in refused.stderr.partition("did you mean")[2]
    refused = command("schedlens", "sql", str(session), name, "cpu=1", check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f'"FROM {name} WHERE' in refused.stderr


@pytest.mark.parametrize("option", ["--json", "--csv", "--rows=5"])
def test_times_in_ns_keep_their_digits(session: Path, option: str) -> None:
    query = "SELECT make_timestamp_ns(1700000000123456789) AS t, NULL::TIMESTAMP_NS AS none"
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PANDAS, "sql", str(session), query, option],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2023-11-14 22:13:20.123456789" in done.stdout
    if option == "--json":
        assert json.loads(done.stdout)["none"] is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[1, 2]", "[1, 2]"),
        ("[{'x': 1}, NULL]", '[{"x": 1}, null]'),
        ("map {'k': [2]}", '[["k", [2]]]'),
        ("[TIMESTAMP '2026-01-01']", '["2026-01-01 00:00:00"]'),
        ("NULL::INTEGER[]", ""),
        ("'a'::ENUM ('a')", "a"),
    ],
)
def test_csv_has_json_for_nested_values(session: Path, value: str, expected: str) -> None:
    done = command("schedlens", "sql", "--csv", str(session), f"SELECT {value} AS one, 7 AS two")
    assert list(csv.reader(io.StringIO(done.stdout))) == [["one", "two"], [expected, "7"]]


def test_values_that_csv_cannot_have_are_one_line(session: Path) -> None:
    words = ("sql", "--csv", str(session), "SELECT '101'::BIT AS one")
    done = command("schedlens", *words, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("schedlens: --csv cannot print this result (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_intervals_are_printed_as_a_shell_prints_them(session: Path, option: str) -> None:
    values = [
        "INTERVAL 3 DAY", "INTERVAL 14 MONTHS - INTERVAL 1 HOUR", "INTERVAL 0 DAY",
        "-INTERVAL 13 MONTHS", "INTERVAL 90061500 MILLISECONDS",
    ]  # fmt: skip
    rows = " UNION ALL ".join(f"SELECT {value} AS one" for value in values)
    printed = command("schedlens", "sql", option, str(session), rows).stdout.splitlines()
    found = printed[1:] if option == "--csv" else [json.loads(line)["one"] for line in printed]
    with duckdb.connect() as con:
        expected = con.execute(f"SELECT one::VARCHAR FROM ({rows})").fetchall()
    assert [(text.strip('"'),) for text in found] == expected


def in_terminal(columns: int, *words: str) -> list[str]:
    """The lines that a command prints in a terminal of this width."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # The variable would override the size of the terminal.
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        [BIN / words[0], *words[1:]], stdin=other, stdout=other, stderr=other,
        env={**inherited, "TERM": "xterm", "PAGER": "cat", "NO_COLOR": "1"},
    ) as process:  # fmt: skip
        os.close(other)
        printed = b""
        # Reading fails once the program has closed its end.
        try:
            while piece := os.read(main, 1 << 16):
                printed += piece
        except OSError:
            pass
    os.close(main)
    assert process.returncode in (0, 1), printed
    plain = re.sub("\x1b\\[[0-9;]*[a-zA-Z]", "", printed.decode())
    return plain.replace("\r", "").splitlines()


@pytest.mark.parametrize("width", [60, 100, 160])
def test_table_of_36_columns_fits_the_terminal(session: Path, width: int) -> None:
    lines = in_terminal(width, "schedlens", "sql", str(session), "thread_summary", "--rows=5")
    assert max(len(line) for line in lines) <= width
    names = re.split(r"\W+", lines[0])
    assert {"process", "thread", "tid"} <= set(names)
    assert len(lines[2:]) >= 5
    assert any("columns do not fit: --wide, --csv and --json show all" in line for line in lines)


def test_wide_shows_all_columns_in_a_terminal(session: Path) -> None:
    lines = in_terminal(80, "schedlens", "sql", str(session), "thread_summary", "--rows=2",
                        "--wide")  # fmt: skip
    assert len(re.findall(r"\w+", lines[0])) > 36
    assert not any("do not fit" in line for line in lines)


def test_findings_have_a_hanging_indent_in_a_narrow_terminal(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = str(fixture("own_tree", tmp_path_factory))
    lines = in_terminal(60, "analyze", trace, "-o", str(tmp_path / "out"), "--no-report")
    signs = ("critical ", "warning  ", "info     ", "clean    ", "missing  ")
    start = next(i for i, line in enumerate(lines) if line.startswith(signs))
    end = next(i for i, line in enumerate(lines) if line.startswith("database"))
    found = [line for line in lines[start:end] if line.strip()]
    assert len(found) > 3
    assert max(map(len, found)) <= 60
    assert [line for line in found if not line.startswith((" " * 9, *signs))] == []
