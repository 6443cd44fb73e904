"""A recording whose gaps cut more periods than DuckDB keeps in a row group.

DuckDB 2.0.0 hid the rows of such an insert behind one of no rows in the same transaction, until the
file was opened again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from schedlens.ask import blank_database
from schedlens.load import gaps

# More than a row group, which DuckDB's threads then write at the same time.
ROWS = 200_000


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    path = tmp_path / "large.duckdb"
    blank_database.place(path)
    with duckdb.connect(str(path), config={"threads": 2}) as con:
        yield con


def test_periods_that_a_gap_cuts_are_visible_to_the_analysis(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute(
        "INSERT INTO trace BY NAME SELECT 1 AS trace_id, 'x' AS label, 'perf' AS source, "
        "0 AS first_ns, 1000 AS duration_ns, 1 AS schema_version, '' AS tool_version"
    )
    con.execute(
        "INSERT INTO loss BY NAME SELECT 1 AS trace_id, 0 AS cpu, 100 AS start_ns, 200 AS end_ns, "
        "'x' AS signalled_by"
    )
    con.execute(
        "INSERT INTO thread_state_other BY NAME SELECT 1 AS trace_id, i AS utid, 0 AS ts, "
        "1000 AS dur, 'waiting' AS state, false AS left_censored, false AS right_censored "
        f"FROM range({ROWS}) AS t(i)"
    )
    con.begin()
    gaps.apply(con, 1)
    con.commit()
    assert con.execute(
        "SELECT state, ts, dur, count(*) FROM thread_state GROUP BY ALL ORDER BY ts"
    ).fetchall() == [("waiting", 0, 100, ROWS), ("unknown", 100, 900, ROWS)]
