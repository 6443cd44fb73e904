"""A recording gives the same tables in the layout of each version of perf, and of arm64.

Made of recordings of perf 6.1 on x86-64, written again: attributes of another size, records and
features that are new or missing, pages of other sizes. The records of the scheduler have the same
layout and byte order everywhere.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import perf_versions
import pyarrow as pa
import pytest
from decoded import decoded
from fixture_files import fixture
from perf_versions import VERSIONS, Version

from schedlens import _decoders

RECORDINGS = ("plain", "counters", "zstd", "pipe", "switch_only")
# perf 6.1 refuses attributes that are longer than its own.
UP_TO_6_2 = [
    version for version in VERSIONS if version.attr_size <= 128 and version.e_machine is None
]
# What may differ: the description of the recording, and the number of records by kind.
DESCRIBED = {"trace", "record_count"}


def tables_of(trace: Path) -> dict[str, pa.Table]:
    """The other tables, without the place of a record among those of its CPU."""
    return {
        name: table.drop_columns([column for column in table.column_names if column == "seq"])
        for name, table in decoded(trace).items()
        if name not in DESCRIBED
    }


@pytest.mark.parametrize("version", VERSIONS, ids=[version.name for version in VERSIONS])
@pytest.mark.parametrize("name", RECORDINGS)
def test_tables_do_not_depend_on_the_version_of_perf(
    name: str, version: Version, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture(name, tmp_path_factory)
    other = tmp_path / trace.name
    other.write_bytes(perf_versions.rewritten(trace.read_bytes(), version))
    wanted, found = tables_of(trace), tables_of(other)
    assert set(found) == set(wanted)
    for table in wanted:
        assert found[table] == wanted[table], table
    header = json.loads(_decoders.inspect(str(other)))["header"]
    if name != "pipe":
        assert header["arch"] == version.arch
        assert header["perf_version"] == version.name.split()[0]


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is the oracle of what is written")
@pytest.mark.parametrize("version", UP_TO_6_2, ids=[version.name for version in UP_TO_6_2])
def test_perf_prints_the_same_switches_of_what_is_written(
    version: Version, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    other = tmp_path / "other.perf.data"
    other.write_bytes(perf_versions.rewritten(trace.read_bytes(), version))
    printed = []
    for path in (trace, other):
        done = subprocess.run(
            ["perf", "script", "--ns", "-i", str(path), "-F", "tid,cpu,time,event,trace"],
            capture_output=True, check=True, text=True, errors="replace",
        )  # fmt: skip
        printed.append(re.findall(r"^.*sched_switch.*$", done.stdout, re.MULTILINE))
    assert len(printed[0]) > 100
    assert printed[1] == printed[0]
