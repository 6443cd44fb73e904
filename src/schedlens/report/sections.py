"""What a section of the report asks with, and what it hands over to be shown."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from schedlens.ask.findings import Scope
from schedlens.ask.judging import analyzers
from schedlens.load.schema import literal
from schedlens.report.figures import short

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """A query and its rows; `columns` are those to show, empty for all.

    A `folded` answer shows its table only when opened: a figure above shows the same.
    """

    sql: str
    query: str
    names: tuple[str, ...]
    rows: Rows
    columns: tuple[str, ...] = ()
    folded: bool = False

    def showing(self, *columns: str) -> Answer:
        """The same answer with only these columns in its table; the SQL still returns all."""
        return replace(self, columns=tuple(name for name in columns if name in self.names))

    def without(self, *columns: str) -> Answer:
        """The same answer with all columns but these in its table."""
        return replace(self, columns=tuple(name for name in self.names if name not in columns))

    def fold(self) -> Answer:
        """The same answer, folded."""
        return replace(self, folded=True)


@dataclass(frozen=True)
class Figure:
    """A figure: `plot` (plain Plotly data and layout), or the words of one of the page's own.

    `timeline`, `frames`, `steps`, and `threads` share the page's time axis.

    `name` is a key of FIGURES in the section's file. A section that draws a figure more than once,
    such as for each kernel, distinguishes them by `item`.

    Colours are tokens (`@blue`, see page/page.css) that the page resolves for light and dark.
    `caption` says the same in words. `height` is in CSS pixels; None where the kind decides.

    `made` makes the plot of a figure that the page draws from other data.
    """

    name: str
    caption: str
    plot: dict[str, Any]
    kind: Literal["plot", "topology", "timeline", "frames", "steps", "threads"] = "plot"
    height: int | None = 360
    item: str = ""
    made: Callable[[], dict[str, Any]] | None = None

    def drawn(self) -> dict[str, Any]:
        """The plot, made now if the page does not need it."""
        return self.plot if self.made is None else self.made()


@dataclass(frozen=True)
class Section:
    """What a section shows: a sentence on what it means, the window, figures, then answers."""

    lead: str
    window: str
    figures: tuple[Figure, ...] = ()
    answers: tuple[Answer, ...] = field(default=())


@dataclass(frozen=True)
class Nothing:
    """There is nothing to show, and why; listed on the page."""

    reason: str


@dataclass(frozen=True)
class View(Scope):
    """A scope that also knows the step which the sections on single threads are about."""

    trace_id: int = 1
    label: str = ""

    def ask(self, query: str, **arguments: object) -> Answer:
        """Runs a query with arguments (None is omitted) and keeps its SQL with the rows."""
        return self._answer(query, self.call(query, **arguments))

    def ask_each(self, query: str, order: str = "trace_id", **arguments: object) -> Answer:
        """The same about all recordings, the name of each before its rows, in the order given."""
        call = self.call(query, **arguments).removeprefix("FROM ")
        sql = (
            f"SELECT t.label AS recording, a.*\nFROM {call} AS a JOIN trace AS t USING (trace_id)\n"
            f"ORDER BY {order}"
        )
        columns = self.answers.without_rows(f"FROM {call}")
        if columns is not None:
            return Answer(sql, query, ("recording", *columns), []).without("trace_id", "utid")
        return self._answer(query, sql).without("trace_id", "utid")

    def _answer(self, query: str, sql: str) -> Answer:
        names, rows = self.named_rows(sql)
        return Answer(sql, query, names, rows)

    def ask_step(self, query: str, **arguments: object) -> Answer:
        """The same about the step in view only; its table leaves out what then says nothing."""
        return self.ask(query, trace_id=self.trace_id, **arguments).without("trace_id", "utid")

    def details(self, analyzer: str, most: int = 3) -> str:
        """What the first findings of an analyzer say in detail, as one text."""
        rows = self.rows(
            f"SELECT detail FROM finding WHERE analyzer = {literal(analyzer)} "
            f"ORDER BY finding_id LIMIT {most}"
        )
        return " ".join(row["detail"] for row in rows)

    def labels(self) -> dict[int, str]:
        """Name of each recording, by its number."""
        return {row["trace_id"]: row["label"] for row in self._traces()}

    @property
    def recordings(self) -> int:
        """How many recordings the database holds."""
        return len(self._traces())

    def _traces(self) -> Rows:
        return self.kept("FROM trace ORDER BY trace_id")

    def spans(self) -> Rows:
        """The row of `analysis_span` about the step in view; none if it has no window."""
        return self.kept(f"FROM analysis_span(p_trace_id := {self.trace_id})")

    def step_window(self) -> str:
        """The window of the step in view, in words."""
        spans = self.spans()
        where = f"Step {short(self.label, 80)}" if self.recordings > 1 else "This recording"
        if not spans:
            return f"{where}, from its first record to its last."
        span = spans[0]
        what = {
            "workers": "the common measured interval of the workers",
            "step": "between the two snapshots of the step",
            "trace": "the whole recording",
            "asked": "the requested window",
        }.get(span["kind"], span["kind"])
        return f"{where}: {what}, {span['dur_ns'] / 1e6:,.1f} ms."

    def all_windows(self) -> str:
        """The window of an answer about all recordings, in words."""
        if self.recordings == 1:
            return self.step_window()
        return f"All {self.recordings} recordings, each over its own window (`FROM analysis_span`)."


Make = Callable[[View], Section | Nothing]


@dataclass(frozen=True)
class Chapter:
    """A file of reports/: its name, its heading, its place on the page, and what makes it.

    `figures` says what each figure of the section shows, by name.
    """

    name: str
    heading: str
    order: int
    section: Make
    figures: Mapping[str, str] = field(default_factory=dict)
    # The kind of session whose question it answers, if any.
    kind: str | None = None

    def full_name(self, figure: Figure) -> str:
        """`sibling_overlap.cores`, or `scaling_curve.throughput:sha256` for one of several."""
        return f"{self.name}.{figure.name}" + (f":{figure.item}" if figure.item else "")


def chapters() -> list[Chapter]:
    """The sections in the order of the page: files with HEADING, ORDER and `section(view)`.

    FIGURES describes its figures by name; ANSWERS is the kind of session whose question it answers.
    The one list of them: the page and `schedlens.Analysis` read it.
    """
    package = importlib.import_module("schedlens.reports")
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            continue
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        heading, order = cast(str, loaded.HEADING), cast(int, loaded.ORDER)
        figures = cast(dict[str, str], getattr(loaded, "FIGURES", {}))
        kind = cast(str | None, getattr(loaded, "ANSWERS", None))
        found.append(Chapter(module.name, heading, order, loaded.section, figures, kind))
    return sorted(found, key=lambda chapter: (chapter.order, chapter.name))


def made(view: View, chapter: Chapter) -> Section | Nothing:
    """The section of a chapter, or the events that the recording in view lacks for it.

    Raises `LookupError` for a figure that FIGURES of the chapter does not name, or for two of one
    name.
    """
    analyzer = analyzers().get(chapter.name)
    if analyzer is not None and analyzer.metric != "measured":
        lacking = view.lacks(view.trace_id, analyzer.needs)
        if lacking:
            return Nothing(f"not recorded: {', '.join(lacking)}")
    section = chapter.section(view)
    if isinstance(section, Section):
        names = [chapter.full_name(figure) for figure in section.figures]
        unnamed = {figure.name for figure in section.figures} - set(chapter.figures)
        if unnamed or len(set(names)) < len(names):
            raise LookupError(f"reports/{chapter.name}.py: {sorted(unnamed) or names}")
    return section
