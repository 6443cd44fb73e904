"""Bytes that are made once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlens.output import kept


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the kept files, which does not exist yet."""
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Counts how often the bytes are made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> bytes:
        self.times += 1
        return b"made %d" % self.times


def test_second_call_reads_the_kept_file(cache: Path) -> None:
    make = Maker()
    assert [kept.content("thing", "a", make) for _ in range(2)] == [b"made 1"] * 2
    assert len(list(cache.iterdir())) == 1


def test_another_key_replaces_the_file_and_another_kind_does_not(cache: Path) -> None:
    make = Maker()
    for kind, key in (("thing", "a"), ("other", "a"), ("thing", "b")):
        kept.content(kind, key, make)
    assert sorted(path.name.rpartition("-")[0] for path in cache.iterdir()) == [
        "other-a",
        "thing-b",
    ]


@pytest.mark.parametrize("damage", [b"", b"made 2"])
def test_changed_file_is_made_again(cache: Path, damage: bytes) -> None:
    make = Maker()
    kept.content("thing", "a", make)
    (path,) = cache.iterdir()
    path.write_bytes(damage)
    assert [kept.content("thing", "a", make) for _ in range(2)] == [b"made 2"] * 2


def test_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "file"))
    make = Maker()
    assert [kept.content("thing", "a", make) for _ in range(2)] == [b"made 1", b"made 2"]
