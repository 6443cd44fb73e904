"""What `--retain` keeps of a recording, and what it removes."""

from __future__ import annotations

import datetime
import os
import shutil
from pathlib import Path

import fixture_files
import lakes
import pytest

from schedlens.errors import NothingToReadError
from schedlens.fleet import fleet_page
from schedlens.lake import checkpoint, reading, retention, written
from schedlens.lake.file_access import LakeFiles

# The day of the recording, and 30 days later.
DAY = datetime.date(2026, 11, 21)
LATER = DAY + datetime.timedelta(days=30)


@pytest.fixture
def perf(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path / "plain.perf.data"
    shutil.copyfile(fixture_files.fixture("plain", tmp_path_factory), path)
    return path


def test_old_records_go_and_findings_remain(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = LakeFiles(lake)
    ((entry,), _) = lakes.add(lake, [perf], tmp_path / "a.duckdb")
    checkpoint.write(files)
    page = tmp_path / "one.html"
    fleet_page.write_recording(str(lake), str(entry.trace_id), page)
    assert page.stat().st_size > 100_000
    with reading.connect(lake) as con:
        before = {name: lakes.rows(con, name) for name in ("finding", "sketch", "extract", "trace")}
    assert retention.apply(files, 30, LATER).recordings == 0
    removed = retention.apply(files, 29, LATER)
    assert (removed.recordings, removed.leftovers) == (1, 0)
    kept = {path.name for path in (lake / "tables").iterdir()}
    assert kept == set(written.KEPT)
    with reading.connect(lake) as con:
        assert {name: lakes.rows(con, name) for name in before} == before
        assert con.execute("SELECT count(*) FROM context_switch").fetchall() == [(0,)]
        assert con.execute("SELECT is_raw FROM fleet_recording").fetchall() == [(False,)]
    with pytest.raises(NothingToReadError, match="only findings, sketches and extracts"):
        fleet_page.write_recording(str(lake), str(entry.trace_id), tmp_path / "two.html")
    assert retention.apply(files, 29, LATER) == retention.Removed(0, 0, 0)
    assert lakes.add(lake, [perf], tmp_path / "b.duckdb")[0] == []


def test_extracts_contain_no_names(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.add(lake, [perf], tmp_path / "a.duckdb")
    with reading.connect(lake) as con:
        (names, keys, run_ns), = con.execute(
            "SELECT (SELECT list(DISTINCT name) FROM thread), list(thread_key), sum(run_ns) "
            "FROM extract"
        ).fetchall()  # fmt: skip
        (total,) = con.execute("SELECT sum(run_ns) FROM thread_summary").fetchall()
    assert "sched-pipe" in names
    assert not set(names) & set(keys)
    assert all(len(key) == 16 for key in keys)
    assert run_ns == total[0]


def test_leftovers_of_killed_writers_go_after_a_day(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = LakeFiles(lake)
    ((entry,), _) = lakes.add(lake, [perf], tmp_path / "a.duckdb")
    file = lake / entry.key("context_switch")
    young, old = (file.with_name(f"{name}.parquet") for name in ("young", "old"))
    for copy in (young, old):
        shutil.copyfile(file, copy)
    day_ago = old.stat().st_mtime - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    assert retention.apply(files, 10_000).leftovers == 1
    assert (young.exists(), old.exists(), file.exists()) == (True, False, True)
