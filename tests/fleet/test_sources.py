"""Which recordings and sessions a fleet run finds below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlens.errors import NothingToReadError
from schedlens.fleet import sources
from schedlens.lake import identity


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_recordings_and_sessions_are_found_at_any_depth(tmp_path: Path) -> None:
    touch(tmp_path / "b/deep/perf.data")
    touch(tmp_path / "a.etl")
    touch(tmp_path / "session/session.json")
    touch(tmp_path / "session/01/perf.data")
    touch(tmp_path / "threads/data")
    touch(tmp_path / "notes.txt")
    touch(tmp_path / ".hidden/perf.data")
    found = sources.find([tmp_path, tmp_path / "a.etl"])
    assert [[str(path.relative_to(tmp_path)) for path in unit.paths] for unit in found] == [
        ["a.etl"],
        ["b/deep/perf.data"],
        ["session"],
        ["threads"],
    ]


def test_a_folder_without_recordings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="contains no session folder"):
        sources.find([tmp_path])
    with pytest.raises(NothingToReadError, match="does not exist"):
        sources.find([tmp_path / "missing"])


def test_labels_come_from_the_path_unless_given() -> None:
    path = Path("/data/machine=m1/build=1.4/run/perf.data")
    assert identity.labels([path], None, None) == identity.Labels("m1", "1.4")
    assert identity.labels([path], "m2", None) == identity.Labels("m2", "1.4")
    assert identity.labels([Path("/x/perf.data")], None, None) == identity.Labels(None, None)
