"""How many threads of DuckDB answer queries about recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlens.load.recording import Recording

# Below this many bytes, threads that wait for work cost more than they do.
_FEW_BYTES = 16 << 20


def count(recordings: Sequence[Recording]) -> int | None:
    """One if the recordings are small, else None: DuckDB's default, one for each CPU.

    Of a folder, the files in it count.
    """
    few = _FEW_BYTES
    for path in (Path(path) for each in recordings for path in each.files):
        for file in path.rglob("*") if path.is_dir() else (path,):
            few -= file.stat().st_size
            if few <= 0:
                return None
    return 1
