"""Bounds in the report and in findings: shown under loss, absent without."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromium
import duckdb
import gap_by_hand
import pytest
from judged import plain
from rich.console import Console

from schedlens.ask import bounds, catalog, judging
from schedlens.ask.findings import Finding, Scope
from schedlens.ask.loss import bounded
from schedlens.output import wording
from schedlens.report import overview
from schedlens.report import page as report
from schedlens.report import table as page_table
from schedlens.report.sections import Answer, View

MS = 1_000_000


@pytest.fixture(scope="module")
def gappy() -> Iterator[duckdb.DuckDBPyConnection]:
    with gap_by_hand.build(gap=True) as con:
        yield con


@pytest.fixture(scope="module")
def whole() -> Iterator[duckdb.DuckDBPyConnection]:
    with gap_by_hand.build(gap=False) as con:
        yield con


def _shown(con: duckdb.DuckDBPyConnection, sql: str, query: str) -> dict[tuple[int, str], Any]:
    """Bounds of the cells that have some, by row and column."""
    cursor = con.execute(sql)
    names = tuple(column[0] for column in cursor.description or [])
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    table = page_table.table(
        Answer(sql, query, names, rows),
        catalog.find(query),
        lossy=bounds.lossy_traces(con),
    )
    return {
        (row, table["columns"][place]["name"]): (low, high)
        for row, cells in table["limits"].items()
        for place, low, high in cells
    }


def test_table_shows_ranges_and_lower_bounds_under_loss(
    gappy: duckdb.DuckDBPyConnection,
) -> None:
    sql = "SELECT * EXCLUDE (of_thread_pct) FROM thread_cpu ORDER BY tid"
    assert _shown(gappy, sql, "thread_cpu") == {
        (0, "run_ns"): (200_000, 300_000),
        (0, "longest_ns"): (150_000, None),
        (0, "switches_in"): (2, None),
        (1, "longest_ns"): (200_000, None),
        (1, "switches_in"): (1, None),
        (2, "longest_ns"): (200_000, None),
        (2, "switches_in"): (1, None),
    }


def test_table_marks_values_without_bounds(gappy: duckdb.DuckDBPyConnection) -> None:
    shown = _shown(gappy, "FROM runnable_count", "runnable_count")
    assert set(shown.values()) == {(None, None)}
    assert {name for _, name in shown} == {"ns", "pct", "above_ns"}


def test_table_without_loss_has_no_bounds(whole: duckdb.DuckDBPyConnection) -> None:
    assert bounds.lossy_traces(whole) == frozenset()
    for query in ("thread_cpu", "runnable_count", "thread_summary", "concurrency"):
        assert _shown(whole, f"FROM {query}", query) == {}


def test_events_lost_outside_the_window_leave_its_values_exact(
    gappy: duckdb.DuckDBPyConnection,
) -> None:
    assert bounds.lossy_traces(gappy) == {1}
    gappy.execute("UPDATE analysis_window SET start_ns = 250000")
    try:
        assert bounds.lossy_traces(gappy) == frozenset()
    finally:
        gappy.execute("UPDATE analysis_window SET start_ns = 0")


def test_ends_of_a_range_are_not_separate_columns(gappy: duckdb.DuckDBPyConnection) -> None:
    cursor = gappy.execute("FROM cpu_time")
    names = tuple(column[0] for column in cursor.description or [])
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    table = page_table.table(
        Answer("FROM cpu_time", "cpu_time", names, rows), catalog.find("cpu_time"), lossy={1}
    )
    columns = [column["name"] for column in table["columns"]]
    assert set(names) - set(columns) == {"busy_low_pct", "busy_high_pct", "trace_id"}
    assert [columns.index("busy_pct"), 40, 60] in table["limits"][0]


COSTLY = Finding(
    "ready_while_idle", "warning", "T (7) was ready for 3.2 ms", "Detail.", "Advice.",
    "FROM ready_obstacle", analyzer="ready_obstacle", trace_id=1, cost_ns=3_200_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "bound", "title"),
    [
        (COSTLY, "at_least", "T (7) was ready for at least 3.2 ms"),
        (replace(COSTLY, trace_id=2), "exact", "T (7) was ready for 3.2 ms"),
        (replace(COSTLY, bound="range"), "range", "T (7) was ready for 3.2 ms"),
        (
            replace(COSTLY, title="Ready for at least 3.2 ms", bound="at_least"),
            "at_least",
            "Ready for at least 3.2 ms",
        ),
        (replace(COSTLY, title="13.2 ms and 3.2 ms"), "at_least", "13.2 ms and at least 3.2 ms"),
        (
            replace(COSTLY, evidence_sql="SELECT * FROM frame_ledger(p_trace_id := 1)"),
            None,
            "T (7) was ready for about 3.2 ms",
        ),
    ],
)
def test_cost_has_a_bound_under_loss(
    gappy: duckdb.DuckDBPyConnection, found: Finding, bound: str | None, title: str
) -> None:
    judged = bounded(Scope(gappy), found, "ready")
    assert (judged.bound, judged.title) == (bound, title)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (replace(COSTLY, title="Ready", bound="at_least"), "warning  Ready (at least 3.2 ms)"),
        (replace(COSTLY, title="Ready", bound="exact"), "warning  Ready (3.2 ms)"),
        (replace(COSTLY, title="Ready", bound=None), "warning  Ready (about 3.2 ms)"),
        (replace(COSTLY, title="Ready", bound="range"), "warning  Ready (up to 3.2 ms)"),
        (
            replace(COSTLY, title="T", bound="range", cost_low_ns=MS, cost_high_ns=4 * MS),
            "warning  T (1 ms to 4 ms)",
        ),
    ],
)
def test_terminal_shows_the_bound_of_a_cost(found: Finding, line: str) -> None:
    console = Console(file=io.StringIO(), width=200)
    overview._show_finding(console, vars(found))
    written = console.file
    assert isinstance(written, io.StringIO)
    assert plain(written.getvalue().splitlines()[0].rstrip()) == line


def test_title_without_cost_is_unchanged() -> None:
    assert wording.with_bound("Ready in 3 of 4 frames", "3 ms", "at_least") == (
        "Ready in 3 of 4 frames"
    )


@pytest.mark.parametrize(("length_ns", "lossy"), [(500, set()), (501, {1})])
def test_stream_ending_a_thousandth_early_is_not_lossy(
    whole: duckdb.DuckDBPyConnection, length_ns: int, lossy: set[int]
) -> None:
    # The window has 500,000 ns.
    whole.execute(
        "INSERT INTO loss VALUES (1, 0, ?, 500000, NULL, 'stream_end')", [500_000 - length_ns]
    )
    try:
        assert bounds.lossy_traces(whole) == lossy
    finally:
        whole.execute("DELETE FROM loss")


@pytest.mark.skipif(
    chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
)
def test_page_shows_bounds_in_cells_and_findings(
    gappy: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    limited = replace(COSTLY, bound="range", cost_low_ns=MS, cost_high_ns=4 * MS)
    open_ended = replace(COSTLY, title="Other", severity="info", bound=None)
    stored = [bounded(Scope(gappy), COSTLY, "ready"), limited, open_ended]
    judging.store(gappy, judging.Judgement(stored, []))
    shown = report.payload(View(gappy, None, 1, "drawn"))
    (path, html) = (tmp_path / "report.html", report.page(shown, "bounds"))
    path.write_text(html, encoding="utf-8")
    with chromium.Browser(tmp_path / "profile") as browser:
        browser.open(path)
        text = browser.evaluate("document.body.textContent")
        cells = browser.evaluate(
            "[...document.querySelectorAll('#thread_summary tbody tr')].map((row) => "
            "[...row.querySelectorAll('td')].map((cell) => cell.textContent))"
        )
        assert browser.complaints == []
    by_tid = {row[1]: row for row in cells if row[0].startswith("t")}
    assert by_tid["1"][2] == "200.000–300.000"
    assert by_tid["2"][2] == "200.000–300.000"
    assert "at least 3.2 ms" in text
    assert "1 ms to 4 ms" in text
    assert "about 3.2 ms" in text
    assert "Events were lost. ≥: at least this." in text
    assert "Events were lost: text and figures show the time that is known" in text
