"""The comparison of two files of table hashes."""

from __future__ import annotations

from pathlib import Path

import pytest
import table_hashes

pytestmark = pytest.mark.slow


def test_changed_table_is_named() -> None:
    old = {"a.etl": {"main.x": ["c BIGINT", 3, "17"], "main.y": ["c BIGINT", 0, "0"]}}
    assert list(table_hashes.differences(old, old)) == []
    new = {"a.etl": {"main.x": ["c BIGINT", 3, "18"], "main.y": ["c BIGINT", 0, "0"]}}
    assert list(table_hashes.differences(old, new)) == ["a.etl: main.x differs"]
    assert list(table_hashes.differences(old, {})) == ["a.etl: only in the old file"]


def test_hashes_depend_on_rows(tmp_path: Path) -> None:
    recordings = dict(table_hashes.recordings(tmp_path, None, ("switch_only.perf.data.xz",)))
    (path,) = recordings.values()
    found = table_hashes.hashes(path, tmp_path / "out")
    assert found == table_hashes.hashes(path, tmp_path / "out")
    _, rows, total = found["main.context_switch"]
    assert rows > 0
    assert total != "0"
    assert found["main.finding"]
