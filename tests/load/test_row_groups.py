"""Batches of any length become whole row groups with their rows in order."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlens.load.row_groups import ROWS, RowGroups


def batch(first: int, rows: int, word: str) -> pa.RecordBatch:
    """Numbers from `first` on, and a word column with a dictionary per batch."""
    words = pa.array([word] * rows, pa.string()).dictionary_encode()
    return pa.record_batch({"n": pa.array(range(first, first + rows), pa.int64()), "word": words})


@settings(deadline=None)
@given(st.lists(st.integers(0, 17), max_size=6))
def test_rows_keep_order_and_only_the_last_group_is_short(lengths: list[int]) -> None:
    groups, first = RowGroups(rows=5), 0
    taken: list[pa.RecordBatch] = []
    for length in lengths:
        groups.add(batch(first, length, str(length)))
        first += length
        assert groups.are_due == (first // 5 > len(taken))
        taken += groups.take_full()
    taken += groups.take_all()
    assert [len(one) for one in taken] == [5] * (first // 5) + [first % 5] * (first % 5 > 0)
    rows = [number for one in taken for number in one.column("n").to_pylist()]
    words = [word for one in taken for word in one.column("word").to_pylist()]
    assert rows == list(range(first))
    assert words == [str(length) for length in lengths for _ in range(length)]


def test_the_first_groups_are_taken_before_there_are_many() -> None:
    groups, sizes = RowGroups(at_once=4, rows=5), []
    for first in range(0, 100, 5):
        groups.add(batch(first, 5, "ready"))
        if groups.are_due:
            sizes.append(len(groups.take_full()))
    assert sizes == [1, 2, 4, 4, 4, 4]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([None, 1, 2]), max_size=7), max_size=6))
def test_columns_without_values_have_none(parts: list[list[int | None]]) -> None:
    groups = RowGroups(rows=5)
    for part in parts:
        numbers = pa.array(part, pa.int64())
        words = pa.array([None if n is None else str(n) for n in part]).cast(pa.string())
        groups.add(pa.record_batch({"n": numbers, "word": words.dictionary_encode()}))
    taken = groups.take_all()
    for one in taken:
        one.validate(full=True)
    found = [(row["n"], row["word"]) for one in taken for row in one.to_pylist()]
    assert found == [(n, None if n is None else str(n)) for part in parts for n in part]


def test_row_group_size_matches_duckdb(tmp_path: Path) -> None:
    groups = RowGroups()
    for first in range(0, 300_000, 100_000):
        groups.add(batch(first, 100_000, "ready"))
    incoming = pa.Table.from_batches(groups.take_all())
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as con:
        con.execute("CREATE TABLE rows AS FROM incoming")
        stored = con.execute(
            "SELECT sum(count) FROM pragma_storage_info('rows') "
            "WHERE column_name = 'n' AND segment_type = 'BIGINT' "
            "GROUP BY row_group_id ORDER BY row_group_id"
        ).fetchall()
    assert stored == [(ROWS,), (ROWS,), (300_000 - 2 * ROWS,)]
    assert incoming.num_rows == 300_000
