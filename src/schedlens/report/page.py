"""Writes the report: one HTML file that needs no network and holds all of its data."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import html
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from schedlens.ask import bounds, catalog
from schedlens.ask.findings import Rank, Scope
from schedlens.ask.judging import LEFT_OUT
from schedlens.errors import UnknownNameError
from schedlens.output import kept, leftover
from schedlens.output.terminal import visible
from schedlens.output.whole_file import cannot_write
from schedlens.output.wording import count
from schedlens.report import embedded, folding, summary
from schedlens.report.figures import short
from schedlens.report.sections import Chapter, Figure, Section, View, chapters, made
from schedlens.report.table import table
from schedlens.timeline.prepared import Timelines

if TYPE_CHECKING:
    from schedlens.report.sections import Rows

# Levels of gzip. Most of a page's data is packed already: 0.5 % more bytes take 0.7 times as long.
_DATA_LEVEL = 4
# Packed once and kept.
_LIBRARY_LEVEL = 9
# The page's script is these files, one after the other.
SCRIPTS = (
    "unpack", "number", "search", "table", "figure", "bars", "flame", "topology", "time",
    "steps", "columns", "timeline/arrow", "timeline/shares", "timeline/pixels", "timeline/palette",
    "timeline/source", "timeline/embedded", "timeline/rows", "timeline/drawing",
    "timeline/fragment", "timeline/view", "timeline/pointer", "timeline/selection",
    "timeline/details", "timeline/flames", "timeline/legend", "timeline/labels", "timeline/keys",
    "timeline/lookup", "timeline/component", "threads", "first", "findings", "page",
)  # fmt: skip
_MARK = re.compile(r"\{\{(\w+)\}\}")


def write(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    *,
    process: str | None = None,
    step: str | None = None,
    title: str | None = None,
) -> None:
    """Writes the report of a database whose tables of findings are filled, aside and renamed.

    Takes the arguments of `text`. Raises `NoSpaceError` or `SessionError` where the file cannot be
    written.
    """
    with saved(path) as save:
        save(text(con, process=process, step=step, title=title))


@contextmanager
def saved(path: Path) -> Iterator[Callable[[str], None]]:
    """A function that writes the text of a report; it gets its name only when the block succeeds.

    Raises `NoSpaceError` or `SessionError`.
    """
    aside = leftover.unfinished(path)
    leftover.remove_unfinished(path)
    written = False

    def save(content: str) -> None:
        nonlocal written
        try:
            aside.write_text(content, encoding="utf-8", newline="\n")
        except OSError as error:
            raise cannot_write(path, error) from None
        written = True

    try:
        yield save
        if written:
            _replace(aside, path)
    finally:
        # On a read-only disk this fails as well, and must not hide why the file was not written.
        with contextlib.suppress(OSError):
            aside.unlink()


def _replace(aside: Path, path: Path) -> None:
    try:
        aside.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None


def text(
    con: duckdb.DuckDBPyConnection,
    *,
    process: str | None = None,
    step: str | None = None,
    title: str | None = None,
    scope: Scope | None = None,
    progress: Callable[[str, float], None] = lambda name, share: None,
    budget: int = embedded.DEFAULT_BYTES,
    timelines: Timelines | None = None,
) -> str:
    """The report of a database whose tables of findings are filled.

    `process` is the process the questions are about, `step` the label of the recording whose
    threads and timeline are shown; without it the one with the costliest finding, else the one
    with the most threads. `scope` is that of the analyzers, whose answers and timings the report
    shares; `timelines` is where the timeline of its recordings is prepared, else in memory. Raises
    `UnknownNameError` for a step that is not there.
    """
    view = chosen_view(con, process, step, scope)
    return page(payload(view, progress, budget, timelines), title or _title(view))


# Behind the window of a section whose numbers rest on lost events.
_LOST = " Events were lost: text and figures show the time that is known, the tables its bounds."


def payload(
    view: View,
    progress: Callable[[str, float], None] = lambda name, share: None,
    budget: int = embedded.DEFAULT_BYTES,
    timelines: Timelines | None = None,
) -> dict[str, Any]:
    """All that the page shows, as JSON values; `budget` is of its timeline, in bytes."""
    listed = chapters()
    with (
        view.timings.of("slices of the timeline"),
        embedded.meanwhile(view, view.trace_id, budget, timelines) as slices,
    ):
        sections, absent, of_step = _sections(view, listed, progress)
        findings = _findings(view, {section["name"] for section in sections}, of_step)
        recorded = slices()
    return {
        "facts": _facts(view),
        "findings": findings,
        "sections": folding.arranged(
            sections, findings, {chapter.kind: chapter.name for chapter in listed}
        ),
        "absent": absent,
        "timeline": recorded,
    }


def _sections(
    view: View, listed: Sequence[Chapter], progress: Callable[[str, float], None]
) -> tuple[list[dict[str, Any]], list[list[str]], frozenset[str]]:
    """The sections, those that are absent with the reason, and which are about the step in view."""
    lossy = bounds.lossy_traces(view.con)
    sections: list[dict[str, Any]] = []
    absent: list[list[str]] = []
    of_step: set[str] = set()
    for number, chapter in enumerate(listed):
        progress(chapter.heading, number / len(listed))
        try:
            with view.timings.of(chapter.heading):
                shown = made(view, chapter)
        except duckdb.OutOfMemoryException:
            absent.append([chapter.heading, f"left out: {LEFT_OUT}"])
            continue
        except duckdb.Error as error:
            absent.append([chapter.heading, f"its query failed: {str(error).splitlines()[0]}"])
            continue
        if not isinstance(shown, Section):
            absent.append([chapter.heading, visible(shown.reason)])
            continue
        if shown.window == view.step_window():
            of_step.add(chapter.name)
        answers = [
            table(answer, catalog.described(answer.query), lossy=lossy) for answer in shown.answers
        ]
        lost = _LOST if any(answer["limits"] for answer in answers) else ""
        sections.append(
            {
                "name": chapter.name,
                "heading": chapter.heading,
                "lead": visible(shown.lead),
                "window": visible(shown.window) + lost,
                "figures": [_figure(chapter, figure) for figure in shown.figures],
                "answers": answers,
            }
        )
    return sections, absent, frozenset(of_step)


def _findings(view: View, names: set[str], of_step: frozenset[str]) -> dict[str, Any]:
    with view.timings.of("evidence of the findings"):
        return summary.payload(view, names, of_step)


def script() -> str:
    """The script of the page: all files in one scope of their own."""
    joined = "".join(_file(f"{name}.js") for name in SCRIPTS)
    return f"'use strict';\n(() => {{\n{joined}\n}})();\n"


def page(shown: dict[str, Any], title: str) -> str:
    """The HTML file: skeleton, style and script with the packed data and library inside."""
    code = script()
    digest, library = _library()
    policy = (
        "default-src 'none'; "
        f"script-src '{_digest(code.encode())}' '{digest}'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(visible(title)[:200]),
        "style": f"{_file('page.css')}\n{_file('timeline.css')}",
        "script": code,
        "data": _packed(data.encode("utf-8", "replace"), _DATA_LEVEL),
        "library": library,
        "made": html.escape(f"Made by schedlens {_version()}; figures by plotly.js (MIT)."),
    }
    return _MARK.sub(lambda mark: parts[mark[1]], _file("page.html"))


def chosen_view(
    con: duckdb.DuckDBPyConnection,
    process: str | None,
    step: str | None,
    scope: Scope | None = None,
) -> View:
    """The view of a report: see `text` for the arguments and for the step that is chosen."""
    scope = scope or Scope(con, process)
    plain = View(
        con, process, timings=scope.timings, shared=scope.answers, kept_rows=scope.kept_rows
    )
    labels = {row["label"]: row["trace_id"] for row in plain.kept("FROM trace ORDER BY trace_id")}
    if step is not None:
        if step not in labels:
            raise UnknownNameError(
                "step", step, sorted(labels), '`schedlens sql SESSION "SELECT label FROM trace"`'
            )
        return replace(plain, trace_id=labels[step], label=step)
    chosen = plain.rows(
        "SELECT t.trace_id, t.label FROM trace AS t LEFT JOIN run AS r USING (trace_id) "
        "LEFT JOIN (SELECT trace_id, max(cost_ns) AS cost, "
        # What a user notices comes before any cost.
        f"bool_or(rank = {int(Rank.SYMPTOM)} AND severity = 'critical') AS noticed "
        "FROM finding GROUP BY trace_id) AS f "
        "USING (trace_id) "
        "ORDER BY f.noticed DESC NULLS LAST, f.cost DESC NULLS LAST, r.threads DESC NULLS LAST, "
        "t.trace_id LIMIT 1"
    )
    if not chosen:
        return replace(plain, trace_id=0)
    return replace(plain, trace_id=chosen[0]["trace_id"], label=chosen[0]["label"])


def _title(view: View) -> str:
    runs = view.rows("SELECT DISTINCT workload FROM run WHERE workload IS NOT NULL ORDER BY 1")
    tried = view.rows("SELECT DISTINCT experiment FROM experiment_cell ORDER BY 1")
    hosts = view.rows("SELECT DISTINCT host FROM trace WHERE host IS NOT NULL ORDER BY 1")
    what = ", ".join(short(row["workload"]) for row in runs) or short(view.label, 60) or "recording"
    others = view.rows("SELECT count(*) - 1 AS n FROM trace")[0]["n"]
    if tried:
        what = f"Experiment {', '.join(short(row['experiment']) for row in tried)}"
    elif not runs and others > 0:
        what += f" and {count(others, 'other recording')}"
    where = f" on {', '.join(short(row['host'], 40) for row in hosts)}" if hosts else ""
    return f"{what}{where}"


def _facts(view: View) -> list[list[str]]:
    """What was recorded: pairs of name and value."""
    traces = view.kept("FROM trace ORDER BY trace_id")

    def distinct(column: str) -> str:
        found = sorted({str(row[column]) for row in traces if row[column] is not None})
        return ", ".join(short(text, 80) for text in found[:3])

    times = sorted(row["start_time_utc"] for row in traces if row["start_time_utc"] is not None)
    facts = [
        ["recordings", f"{len(traces)}"],
        ["step shown in detail", short(view.label, 80) if len(traces) > 1 else ""],
        ["host", distinct("host")],
        ["CPU", distinct("cpu_model")],
        ["system", distinct("os")],
        ["recorded", f"{str(times[0])[:19]} UTC" if times else ""],
        ["process", short(view.process, 60) if view.process else ""],
        ["lost records", _lost(traces)],
    ]
    return [fact for fact in facts if fact[1]]


def _lost(traces: Rows) -> str:
    counts = [row["events_lost"] for row in traces if row["events_lost"] is not None]
    return f"{sum(counts):,}" if counts else "not known"


def _figure(chapter: Chapter, figure: Figure) -> dict[str, Any]:
    return {
        "name": chapter.full_name(figure),
        "title": chapter.figures[figure.name]
        + (f" ({visible(figure.item)})" if figure.item else ""),
        "kind": figure.kind,
        "caption": visible(figure.caption),
        "height": figure.height,
        "plot": figure.plot,
    }


def _file(name: str) -> str:
    source = resources.files("schedlens.reports").joinpath("page", name)
    return source.read_text(encoding="utf-8").strip()


def _library() -> tuple[str, str]:
    """The digest of Plotly's script, and the script packed; packing takes 0.2 s and is kept."""
    # The package itself is not imported: the page needs only one of its files.
    package = importlib.util.find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "package_data" / "plotly.min.js"
    found = path.stat()

    def made() -> bytes:
        # HTML parsing is not involved: the page unpacks these very bytes, so that their digest
        # holds.
        library = path.read_bytes()
        return f"{_digest(library)} {_packed(library, _LIBRARY_LEVEL)}".encode()

    key = f"{found.st_size:x}_{found.st_mtime_ns:x}"
    digest, _, packed = kept.content("library", key, made).decode().partition(" ")
    return digest, packed


def _digest(text: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}"


def _packed(data: bytes, level: int) -> str:
    return base64.b64encode(gzip.compress(data, level, mtime=0)).decode()


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("schedlens")
    except PackageNotFoundError:
        return "from a source tree"
