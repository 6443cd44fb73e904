"""A report that contains the timeline and no other section."""

from __future__ import annotations

import duckdb

from schedlens.report import embedded, page, summary


def html(con: duckdb.DuckDBPyConnection, title: str) -> str:
    """The page of recording 1 of a database."""
    section = {
        "name": "cpu_timeline", "heading": "Timeline", "lead": "", "window": "", "answers": [],
        "figures": [
            {"name": "cpu_timeline", "kind": "timeline", "caption": "", "height": 400, "plot": {}}
        ],
    }  # fmt: skip
    found = summary.payload(page.chosen_view(con, None, None), {"cpu_timeline"})
    shown = {
        "facts": [], "findings": found, "sections": [section], "absent": [],
        "timeline": embedded.payload(con, 1),
    }  # fmt: skip
    return page.page(shown, title)
