"""A recording appears in a lake once and as a whole, whatever happens while it is written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import fixture_files
import lakes
import pytest

from schedlens.errors import LakeError, NothingToReadError
from schedlens.lake import checkpoint, identity, manifest, reading, written
from schedlens.lake.file_access import LakeFiles
from schedlens.load import recording


@pytest.fixture
def perf(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of its own for each test."""
    path = tmp_path / "plain.perf.data"
    shutil.copyfile(fixture_files.fixture("plain", tmp_path_factory), path)
    return path


def listed(lake: Path) -> dict[str, int]:
    """All files of a lake with the times of their last change."""
    return {
        str(path.relative_to(lake)): path.stat().st_mtime_ns
        for path in lake.rglob("*")
        if path.is_file()
    }


def test_files_are_partitioned_compressed_and_sorted(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ((entry,), _) = lakes.add(lake, [perf], tmp_path / "a.duckdb", machine="m 1", build="1.0")
    key = entry.key("context_switch")
    folder = f"machine=m%201/build=1.0/date=2026-11-21/trace_id={entry.trace_id}"
    assert key.startswith(f"tables/context_switch/{folder}/")
    file = str(lake / key)
    codecs = f"SELECT DISTINCT compression FROM parquet_metadata('{file}')"
    assert duckdb.execute(codecs).fetchall() == [("ZSTD",)]
    times = [row[0] for row in duckdb.execute(f"SELECT ts FROM '{file}'").fetchall()]
    assert len(times) == 345
    assert times == sorted(times)
    with reading.connect(lake) as con:
        assert con.execute("SELECT machine, build, date::VARCHAR FROM manifest").fetchall() == [
            ("m 1", "1.0", "2026-11-21")
        ]


def test_the_same_recording_elsewhere_changes_nothing(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.add(lake, [perf], tmp_path / "a.duckdb")
    before = listed(lake)
    copy = tmp_path / "copy.perf.data"
    shutil.copyfile(perf, copy)
    assert lakes.add(lake, [copy], tmp_path / "b.duckdb")[0] == []
    assert lakes.add(lake, [perf, copy], tmp_path / "c.duckdb")[0] == []
    assert listed(lake) == before


def test_a_new_label_replaces_the_rows(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ((old,), _) = lakes.add(lake, [perf], tmp_path / "a.duckdb", build="1")
    ((new,), _) = lakes.add(lake, [perf], tmp_path / "b.duckdb", build="2")
    assert new.trace_id == old.trace_id
    assert not list(lake.glob("tables/*/*/build=1"))
    with reading.connect(lake) as con:
        assert con.execute("SELECT build FROM manifest").fetchall() == [("2",)]
        assert con.execute("SELECT count(*) FROM context_switch").fetchall() == [(345,)]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {paths!r}
import lakes
from schedlens.lake import file_access

put, left = file_access.LakeFiles.{method}, {after}

def killing(self, *arguments):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    put(self, *arguments)

file_access.LakeFiles.{method} = killing
lakes.add({lake!r}, [Path({perf!r})], Path({database!r}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "after"), [("put", 7), ("_into_place", 24)])
def test_a_killed_writer_leaves_nothing_visible(
    perf: Path, tmp_path: Path, method: str, after: int
) -> None:
    lake = tmp_path / "lake"
    text = KILLED.format(
        paths=[path for path in sys.path if path.endswith(("tests", "support"))],
        method=method, after=after, lake=str(lake), perf=str(perf), database=str(tmp_path / "k.db"),
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", text], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(NothingToReadError):
        reading.connect(lake)
    ((entry,), _) = lakes.add(lake, [perf], tmp_path / "again.duckdb")
    with reading.connect(lake) as con:
        counted = con.execute("SELECT trace_id, count(*) FROM context_switch GROUP BY 1")
        assert counted.fetchall() == [(entry.trace_id, 345)]


def test_two_recordings_with_the_same_first_number_get_two(
    perf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    ((first,), _) = lakes.add(lake, [perf], tmp_path / "a.duckdb")
    numbers = [first.trace_id, first.trace_id + 1]
    monkeypatch.setattr(identity, "trace_ids", lambda sha256: iter(numbers))
    other = perf.with_name("other.perf.data")
    other.write_bytes(perf.read_bytes() + b"\0")
    (planned,) = written.planned(LakeFiles(lake), recording.gather([other]))
    assert (planned.trace_id, planned.is_present) == (first.trace_id + 1, False)


def test_a_number_that_was_taken_meanwhile_is_an_error(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = LakeFiles(lake)
    ((entry,), _) = lakes.add(lake, [perf], tmp_path / "a.duckdb")
    text = entry.text().replace(entry.sha256, "0" * 64).replace(entry.revision, "0" * 16)
    with duckdb.connect(str(tmp_path / "a.duckdb"), read_only=False) as con:
        (planned,) = written.planned(files, recording.gather([perf]), build="2")
        files.write(manifest.key(entry.trace_id), text.encode())
        with pytest.raises(LakeError, match="another recording took its number"):
            written.write(con, files, [planned])


def test_a_checkpoint_follows_later_changes(perf: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = LakeFiles(lake)
    lakes.add(lake, [perf], tmp_path / "a.duckdb", build="1")
    checkpoint.write(files)
    assert len(checkpoint.known(files).copied) == 1
    lakes.add(lake, [perf], tmp_path / "b.duckdb", build="2")
    known = checkpoint.known(files)
    assert (len(known.copied), [entry.build for entry in known.entries.values()]) == (0, ["2"])


def test_errors_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="contains no recordings"):
        reading.connect(tmp_path)
    with pytest.raises(LakeError, match="cannot use nowhere://x as a lake"):
        LakeFiles("nowhere://x")
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeError, match="cannot write a/b in the lake"):
        LakeFiles(tmp_path / "file").write("a/b", b"")
    (tmp_path / "lake/manifest").mkdir(parents=True)
    (tmp_path / "lake/manifest/1.json").write_text("{}")
    with pytest.raises(LakeError, match=r"manifest/1\.json is no entry of a manifest"):
        reading.connect(tmp_path / "lake")


def test_a_missing_package_is_one_line(tmp_path: Path, perf: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "datasketches.py").write_text("raise ImportError('hidden')")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "analyze"), str(perf), "--lake", str(tmp_path / "lake"),
         "-o", str(tmp_path / "out")],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(hidden)},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "analyze: this needs the package datasketches: "
        "install it with `pip install schedlens[lake]`\n"
    )
    assert not (tmp_path / "out" / "analysis.duckdb").exists()
