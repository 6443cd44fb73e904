"""Where rows are NULL, files contain zeros and not what was in memory before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from schedlens.export import columnar_files
from schedlens.timeline import lanes

# Rows without a partner have NULLs; DuckDB does not write their memory.
ROWS = """
SELECT one.n, other.n AS long, other.n::DOUBLE AS real, other.n::INTEGER AS short
FROM one LEFT JOIN other USING (n) ORDER BY one.n
"""
COLUMNS = ("long", "real", "short")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2}) as con:
        con.execute(
            "CREATE TABLE name AS SELECT 'secret' || n % 977 AS name FROM range(200000) t(n)"
        )
        con.execute("CREATE TABLE one AS SELECT n FROM range(100000) t(n)")
        con.execute("CREATE TABLE other AS SELECT n * 4 AS n FROM range(25000) t(n)")
        yield con


def hidden(table: pa.Table) -> int:
    """How many NULLs have something else than zeros in memory."""
    count = 0
    for name in COLUMNS:
        for part in table[name].chunks:
            kind = part.type.to_pandas_dtype()
            values = np.frombuffer(part.buffers()[1], kind)[part.offset :][: len(part)]
            count += int(np.count_nonzero(values[np.array(part.is_null())]))
    return count


def answered(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows, asked when the memory of DuckDB has had names in it."""
    con.sql("SELECT name, max(name || 'x') FROM name GROUP BY name ORDER BY name DESC").fetchall()
    return con.sql(ROWS).to_arrow_table()


def test_duckdb_leaves_memory_where_rows_are_null(con: duckdb.DuckDBPyConnection) -> None:
    assert any(hidden(answered(con)) for _ in range(20))


def test_stream_of_a_timeline_has_zeros_and_the_same_bytes(con: duckdb.DuckDBPyConnection) -> None:
    asked = [answered(con) for _ in range(5)]
    streams = {lanes.as_bytes(table.combine_chunks()) for table in asked}
    assert len(streams) == 1
    found = pa.ipc.open_stream(streams.pop()).read_all()
    assert hidden(found) == 0
    assert found.equals(asked[0])
    assert found["long"].null_count == 75_000


def test_arrow_file_has_zeros_and_the_same_bytes(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    files = []
    for number in range(5):
        expected = answered(con)
        path = tmp_path / f"{number}.arrow"
        columnar_files.save(con, ROWS, path, "arrow")
        found = pa.ipc.open_file(path).read_all()
        assert hidden(found) == 0
        assert found.equals(expected)
        files.append(path.read_bytes())
    assert len(set(files)) == 1


def test_every_type_of_duckdb_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "types.arrow"
    with duckdb.connect() as con:
        columnar_files.save(con, "FROM test_all_types()", path, "arrow")
        tables = {
            "written": pa.ipc.open_file(path).read_all(),
            "asked": con.sql("FROM test_all_types()").to_arrow_table(),
        }
        assert tables["written"].schema.equals(tables["asked"].schema, check_metadata=True)
        for name, table in tables.items():
            con.register(name, table)
        # DuckDB compares, because nan is nan there.
        assert con.sql("SELECT count(*) FROM written").fetchall() == [(3,)]
        assert con.sql("FROM written EXCEPT FROM asked").fetchall() == []
        assert con.sql("FROM asked EXCEPT FROM written").fetchall() == []
