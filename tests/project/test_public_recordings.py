"""The manifest of public recordings, the script that checks copies, and the line about skips."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import shared_files

ROOT = shared_files.ROOT
TOOL = ROOT / "tools" / "public_recordings.py"


def entry(path: str, source: str, data: bytes) -> dict[str, Any]:
    """One entry of a manifest."""
    return {
        "path": path, "repository": "https://example.org/r", "commit": "c" * 40, "source": source,
        "license": "MIT", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip


def checked(tmp_path: Path, recordings: list[dict[str, Any]], *words: str) -> tuple[int, list[str]]:
    """Exit status and lines of the script in a tree with that manifest."""
    (tmp_path / "tree" / "tools").mkdir(parents=True, exist_ok=True)
    (tmp_path / "tree" / "fixtures").mkdir(exist_ok=True)
    script = tmp_path / "tree" / "tools" / TOOL.name
    script.write_bytes(TOOL.read_bytes())
    manifest = tmp_path / "tree" / "fixtures" / shared_files.MANIFEST.name
    manifest.write_text(json.dumps({"recordings": recordings}))
    done = subprocess.run(
        [sys.executable, str(script), *words],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_each_entry_names_an_exact_origin() -> None:
    recordings = shared_files.public()
    assert len({recording["path"] for recording in recordings}) == len(recordings) > 20
    for recording in recordings:
        assert set(recording) == set(entry("", "", b"")), recording["path"]
        assert len(recording["commit"]) == 40
        assert len(recording["sha256"]) == 64
        assert recording["repository"].startswith("https://")
        assert not Path(recording["source"]).is_absolute()


def test_local_copies_match_the_manifest() -> None:
    wrong = []
    for recording in shared_files.public():
        place = shared_files.need(recording["path"])
        data = (place / recording["path"]).read_bytes()
        data = lzma.decompress(data) if recording["path"].endswith(".xz") else data
        if (len(data), hashlib.sha256(data).hexdigest()) != (
            recording["bytes"], recording["sha256"],
        ):  # fmt: skip
            wrong.append(recording["path"])
    assert wrong == []


def test_plain_compressed_and_archived_copies_are_found_by_content(tmp_path: Path) -> None:
    recordings = [
        entry("etw/corpus/a.etl.xz", "in/a.etl", b"first"),
        entry("etw/corpus/b.etl.xz", "in/b.zip!/b.1.etl", b"second"),
        entry("traces/c.csv", "in/c.csv", b"third"),
    ]
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "any name").write_bytes(lzma.compress(b"first"))
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as inner:
        inner.writestr("folder/b.1.etl", b"second")
    with zipfile.ZipFile(folder / "outer.diagsession", "w") as outer:
        outer.write(tmp_path / "inner.zip", "inner.zip")
    (folder / "c.csv").write_bytes(b"third")
    target = tmp_path / "to"
    code, lines = checked(tmp_path, recordings, str(folder), "--write", str(target))
    assert (code, lines[:4]) == (
        0,
        [
            "ok       etw/corpus/a.etl.xz", "ok       etw/corpus/b.etl.xz",
            "ok       traces/c.csv", "3 of 3 public recordings found",
        ],
    )  # fmt: skip
    assert lzma.decompress((target / "etw/corpus/a.etl.xz").read_bytes()) == b"first"
    assert lzma.decompress((target / "etw/corpus/b.etl.xz").read_bytes()) == b"second"
    assert (target / "traces/c.csv").read_bytes() == b"third"
    assert checked(tmp_path, recordings, str(target))[0] == 0


def test_missing_and_changed_copies_are_named_with_origin(tmp_path: Path) -> None:
    recordings = [
        entry("etw/corpus/a.etl.xz", "in/a.etl", b"first"),
        entry("traces/c.csv", "in/c.csv", b"third"),
    ]
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "c.csv").write_bytes(b"another version")
    (folder / "broken.zip").write_bytes(b"PK\3\4 and no more")
    (folder / "broken.xz").write_bytes(b"\xfd7zXZ\0 and no more")
    origin = f"of https://example.org/r at {'c' * 40}"
    assert checked(tmp_path, recordings, str(folder)) == (
        1,
        [
            f"missing  etw/corpus/a.etl.xz: in/a.etl {origin}",
            f"differs  traces/c.csv: {folder / 'c.csv'} has another sha256; "
            f"expected in/c.csv {origin}",
            "0 of 2 public recordings found",
        ],
    )


def test_missing_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert checked(tmp_path, [], str(absent)) == (2, [f"{absent} is not a folder"])


@pytest.mark.slow
def test_skips_for_missing_recordings_print_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "tests/decoders/test_etl_payloads.py", "tests/decoders/test_etl_lives.py",
        ],
        cwd=ROOT, env=os.environ | {"SCHEDLENS_SHARED": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    (line,) = (line for line in done.stdout.splitlines() if line.endswith('others").'))
    count = line.split()[0]
    assert line.startswith(
        f"{count} tests skipped: recordings that the repository does not contain"
    )
    assert "python tools/public_recordings.py FOLDER" in line
    assert f"{count} skipped" in done.stdout.splitlines()[-1]
    heading = '"Recordings of others"'
    assert heading in line
    assert "## Recordings of others\n" in (ROOT / "fixtures" / "README.md").read_text()


def test_other_skips_are_not_counted() -> None:
    reasons = ["perf is not installed", shared_files.reason("etw/corpus/a.etl.xz")]
    line = shared_files.summary(reasons)
    assert line is not None
    assert line.startswith("1 test skipped: ")
    assert shared_files.summary(reasons[:1]) is None
