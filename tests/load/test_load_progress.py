"""The progress of loading only grows, and leaves time for what follows the last record."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from fixture_files import fixture

from schedlens.ask import analysis
from schedlens.load import recording, store


def test_progress_grows_and_leaves_time_for_interval_tables_and_summaries(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    traces = [fixture(name, tmp_path_factory) for name in ("plain", "pipe")]
    seen: list[tuple[str, float]] = []
    with store.create(tmp_path / "analysis.duckdb") as con:
        analysis.load(
            con,
            [each for trace in traces for each in recording.gather([trace])],
            (None, None),
            lambda label, share: seen.append((label, share)),
        )
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] < 1.0
    first, second = (trace.name for trace in traces)
    labels = [label for label, _ in seen]
    # Each is read, and then each gets its interval tables.
    order = [label for label, _ in itertools.groupby(labels)]
    assert order == [first, second, first, second]
