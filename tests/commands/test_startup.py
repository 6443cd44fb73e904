"""What a command loads and asks before it has anything to do.

Counts do not depend on the machine. `benches/startup.py` measures the times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fixture_files import fixture

from schedlens.commands.cli import COMMANDS

BENCH = Path(__file__).resolve().parents[2] / "benches" / "startup.py"
# No command needs these for its help; importing them takes longer than printing it.
HEAVY = {"duckdb", "numpy", "pyarrow", "rich", "plotly", "dask", "scipy"}
# An analysis of one file needs neither a cluster nor Plotly's Python, nor Arrow's functions.
NOT_FOR_A_FILE = {"plotly", "dask", "distributed", "scipy", "pandas", "pyarrow.compute"}
# Statements on a recording of one second without a session, findings and report included. A query
# of a view takes 10 ms to plan. 220 when this was written: those that store an answer which others
# contain are among them, and plan it once.
MOST_STATEMENTS = 225
# Statements of all kinds for each further recording of a session: 191 when this was written, and
# 232 when threads were asked for by recording, and lanes even where it has none.
MOST_STATEMENTS_FURTHER = 200
# Processor time of an analysis in units of that of importing DuckDB and pyarrow: 7 when this was
# written, 19 without the kept files. `--help` takes 0.23.
MOST_IMPORTS, MOST_IMPORTS_FIRST, MOST_IMPORTS_HELP = 11, 24, 0.6


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_no_heavy_package(command: str) -> None:
    code = (
        "import sys; from schedlens.commands import cli; "
        f"cli.run(cli.group, [{command!r}, '--help'], 'schedlens'); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("Usage: ")
    assert set(done.stderr.split()) & HEAVY == set()


def test_plan_of_a_recording_loads_no_heavy_package() -> None:
    code = (
        "import sys; from schedlens.commands import cli, collect; "
        "cli.run(collect.collect, ['--dry-run', '--os', 'linux', '--seconds', '1'], 'collect'); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "perf record" in done.stdout
    # rich draws the progress.
    assert set(done.stderr.split()) & HEAVY <= {"rich"}


def test_small_recording_asks_few_questions(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code = (
        "import sys; from schedlens.commands import analyze, cli; "
        "from schedlens.ask import timings; made = []; start = timings.Timings.__init__; "
        "timings.Timings.__init__ = lambda self: (start(self), made.append(self))[0]; "
        "cli.run(analyze.analyze, sys.argv[1:], 'analyze'); "
        "print(len(made[0].queries), *sorted(sys.modules), file=sys.stderr)"
    )
    trace = fixture("plain", tmp_path_factory)
    done = subprocess.run(
        [sys.executable, "-c", code, str(trace), "-o", str(tmp_path)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    asked, *loaded = done.stderr.splitlines()[-1].split()
    assert set(loaded) & NOT_FOR_A_FILE == set()
    assert int(asked) <= MOST_STATEMENTS


def test_further_recordings_need_few_statements(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code = (
        "import contextlib, sys; from schedlens.commands import analyze, cli; "
        "from schedlens.load import store; create = store.create\n"
        "@contextlib.contextmanager\n"
        "def counted(*given, **named):\n"
        "    with create(*given, **named) as con:\n"
        "        con.execute(\"CALL enable_logging('QueryLog')\")\n"
        "        yield con\n"
        "        sql = \"SELECT count(*) FROM duckdb_logs WHERE type = 'QueryLog'\"\n"
        "        print(con.execute(sql).fetchall()[0][0], file=sys.stderr)\n"
        "store.create = counted\n"
        "cli.run(analyze.analyze, sys.argv[1:], 'analyze')"
    )
    trace = fixture("plain", tmp_path_factory)
    counts = []
    for number in (1, 4):
        copies = [tmp_path / f"{number}-{place}.data" for place in range(number)]
        for copy in copies:
            copy.write_bytes(trace.read_bytes())
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, copies), "-o", str(tmp_path)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        counts.append(int(done.stderr.splitlines()[-1]))
    assert counts[0] > MOST_STATEMENTS
    assert (counts[1] - counts[0]) / 3 <= MOST_STATEMENTS_FURTHER


@pytest.mark.alone
def test_time_is_a_small_multiple_of_the_imports() -> None:
    most = (MOST_IMPORTS, MOST_IMPORTS_FIRST, MOST_IMPORTS_HELP)
    # A quiet moment of the machine may shorten the imports alone.
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, str(BENCH), "--rounds", "2"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        times = {name: found["times_imports"] for name, found in json.loads(done.stdout).items()}
        helps = max(times[name] for name in times if name.endswith("--help"))
        found = (times["analyze"], times["analyze, first time"], helps)
        if all(one <= limit for one, limit in zip(found, most, strict=True)):
            return
    pytest.fail(f"{found} times as long as the imports; at most {most}")
