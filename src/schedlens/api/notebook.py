"""An opened analysis, as a notebook uses it: tables, findings, and the report's figures."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from schedlens.ask import catalog, stored_findings
from schedlens.ask.analysis import Database
from schedlens.ask.findings import Scope
from schedlens.ask.stored_findings import StoredFinding
from schedlens.errors import NothingToReadError, UnknownNameError
from schedlens.lake import extras
from schedlens.load import store
from schedlens.report import page, sections
from schedlens.report.sections import Nothing

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import polars as pl


class Analysis(Database):
    """An analyzed session, trace or lake, read only; also a context manager.

    `con` is the DuckDB connection. Times are in ns from ns 0 of each recording.
    """

    def polars(self, query: str, **arguments: object) -> pl.DataFrame:
        """The rows of a query as a Polars frame; takes the arguments of `sql`.

        Raises `MissingExtraError` if Polars is not installed, and what `sql` raises.
        """
        polars = extras.needed("polars", "polars")
        frame: pl.DataFrame = polars.from_arrow(self.sql(query, **arguments))
        return frame

    def pandas(self, query: str, **arguments: object) -> pd.DataFrame:
        """The rows of a query as a pandas frame; takes the arguments of `sql`.

        Raises `MissingExtraError` if pandas is not installed, and what `sql` raises.
        """
        extras.needed("pandas", "pandas")
        frame: pd.DataFrame = self.sql(query, **arguments).to_pandas()
        return frame

    def findings(self) -> list[StoredFinding]:
        """All findings, in the order of the report."""
        return stored_findings.read(self)

    def recordings(self) -> list[str]:
        """The labels of the recordings."""
        return [
            str(label) for label in self.sql("FROM trace ORDER BY trace_id")["label"].to_pylist()
        ]

    def figures(self) -> dict[str, str]:
        """The figures of the report: name, and what it shows. Some need events or experiments."""
        return {
            f"{chapter.name}.{name}": text
            for chapter in sections.chapters()
            for name, text in chapter.figures.items()
        }

    def figure(
        self, name: str, *, recording: str | None = None, process: str | None = None
    ) -> go.Figure:
        """A figure of the report, by its name in `figures()`.

        `recording` is the label of the recording to show, by default the one of the report;
        `process` narrows figures of threads to processes of that name. A name such as
        `scaling_curve.throughput` stands for the only figure of that name; of several, each has
        its own, such as `scaling_curve.throughput:sha256`. `layout.meta` of the answer has the name
        and the caption. Raises `UnknownNameError`, or `NothingToReadError` with the reason if the
        recording lacks what the figure shows.
        """
        from schedlens.api import drawing

        known = self.figures()
        plain = name.partition(":")[0]
        if plain not in known:
            raise UnknownNameError("figure", name, sorted(known), "`figures()`")
        (chapter,) = (one for one in sections.chapters() if one.name == plain.partition(".")[0])
        with contextlib.closing(self.con.cursor()) as con:
            # The answers that a section stores are temporary tables of its connection.
            store.set_for_answers(con)
            view = page.chosen_view(con, process, recording, Scope(con, process))
            made = sections.made(view, chapter)
            if isinstance(made, Nothing):
                raise NothingToReadError(f"no figure {name}: {made.reason}")
            found = {chapter.full_name(figure): figure for figure in made.figures}
            named = [full for full in found if name in (full, full.partition(":")[0])]
            if len(named) > 1:
                raise UnknownNameError("figure", name, named)
            if not named:
                raise NothingToReadError(
                    f"no figure {name}: this recording has only {', '.join(found) or 'tables'} here"
                )
            return drawing.drawn(found[named[0]], named[0], _title(known[plain]))

    def parameters(self, name: str) -> dict[str, str]:
        """The parameters of a question: name, and what it means. Raises `UnknownQueryError`."""
        return {one.name.removeprefix("p_"): one.text for one in catalog.find(name).parameters}


def _title(text: str) -> str:
    return text[0].upper() + text[1:]
