"""`schedlens sql` prints every type of value, in each of its forms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command
from fixture_files import fixture

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
