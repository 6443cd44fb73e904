"""A recording whose header names another architecture gives the same tables.

Made of a recording of x86-64: the tracepoints of arm64 have the same formats and byte order, and
nothing else of the file depends on the machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from decoded import decoded
from fixture_files import fixture

from schedlens import _decoders


def test_tables_do_not_depend_on_the_architecture(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    content = trace.read_bytes()
    assert content.count(b"x86_64\0\0") == 1
    other = tmp_path / "arm64.perf.data"
    other.write_bytes(content.replace(b"x86_64\0\0", b"aarch64\0"))
    assert json.loads(_decoders.inspect(str(other)))["header"]["arch"] == "aarch64"
    wanted, found = decoded(trace), decoded(other)
    assert set(found) == set(wanted)
    for table in set(wanted) - {"trace"}:
        assert found[table] == wanted[table], table
