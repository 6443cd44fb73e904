"""The report of a fleet: findings by cost, distributions, regressions, outliers, recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from schedlens.ask import catalog
from schedlens.errors import NothingToReadError
from schedlens.lake import reading
from schedlens.load.schema import literal
from schedlens.output.terminal import visible
from schedlens.output.wording import count, duration
from schedlens.report import page
from schedlens.report.figures import bar, line, row_height, rows_across, short, unique
from schedlens.report.sections import Answer, Figure, Section, View
from schedlens.report.table import table

_CARDS = 12
_MOST_BARS = 30
_MOST_SERIES = 3
_METRICS = {
    "ready_ns": "Ready time before each slice",
    "slice_ns": "Length of each slice",
    "frame_ns": "Length of each frame",
}
_LEAD = {
    "machine": "A machine whose quantiles are far from the others of its class has a cause of its "
    "own: settings, other programs, heat.",
    "build": "Compare builds over the same machines: one that only ran on slow ones looks slow.",
}


def write(place: str, path: Path) -> None:
    """Writes the report of all recordings of a lake. Raises what `reading.connect` raises."""
    with reading.connect(place, is_fleet_only=True) as con, page.saved(path) as save:
        save(page.page(payload(con), f"Fleet of {count(_number(con), 'recording')}"))


def write_recording(place: str, chosen: str, path: Path) -> None:
    """Writes the report of one recording, named by number or label, and of its session.

    Raises `NothingToReadError` if it is not in the lake, or if retention has removed its tables.
    """
    with reading.connect(place, is_fleet_only=True) as con:
        number = int(chosen) if chosen.isdigit() else -1
        rows = con.execute(
            "SELECT trace_id, session, label, is_raw FROM manifest "
            f"WHERE trace_id = {number} OR label = {literal(chosen)} "
            f"ORDER BY trace_id = {number} DESC"
        ).fetchall()
        if not rows:
            raise NothingToReadError(
                f"{place} has no recording {chosen}: "
                f"`schedlens sql {place} fleet_recording` lists all"
            )
        trace_id, session, label, is_raw = rows[0]
        if not is_raw:
            raise NothingToReadError(
                f"only findings, sketches and extracts of {label} ({trace_id}) are kept: analyze "
                "its source again for the report"
            )
        together = [
            row[0]
            for row in con.execute(
                f"SELECT trace_id FROM manifest WHERE session = {session} AND is_raw"
            ).fetchall()
        ]
    with reading.connect(place, together) as con:
        page.write(con, path, step=label)


def payload(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """All that the page shows, as JSON values."""
    view = View(con)
    queries = {query.full_name: query for query in catalog.load_fleet()}
    sections: list[dict[str, Any]] = []
    absent: list[list[str]] = []
    for name, heading, made in (
        ("fleet_regression", "Regressions by build", _regressions(view)),
        ("fleet_outlier", "Outlier machines", _outliers(view)),
        ("fleet_build", "Distributions by build", _distributions(view, "build")),
        ("fleet_machine", "Distributions by machine", _distributions(view, "machine")),
        ("fleet_cpu_model", "Distributions by CPU model", _distributions(view, "cpu_model")),
        ("fleet_machine_class", "Machine classes", _plain(view, "fleet_machine_class", _CLASS)),
        ("fleet_recording", "Recordings", _plain(view, "fleet_recording", _RECORDING)),
        ("set_aside", "Recordings that were set aside", _set_aside(view)),
    ):
        if isinstance(made, str):
            absent.append([heading, made])
            continue
        sections.append(
            {
                "name": name,
                "heading": heading,
                "lead": made.lead,
                "window": made.window,
                "figures": [
                    {
                        "kind": f.kind,
                        "caption": visible(f.caption),
                        "height": f.height,
                        "plot": f.plot,
                    }
                    for f in made.figures
                ],
                "answers": [table(answer, queries.get(answer.query)) for answer in made.answers],
            }
        )
    return {
        "facts": _facts(view),
        "findings": _findings(view),
        "sections": sections,
        "absent": absent,
    }


_CLASS = "Machines with the same CPU model, cores and system can be compared with each other."
_RECORDING = (
    "`schedlens fleet-report LAKE --recording NUMBER` writes the report of one of them, by its "
    "trace id."
)
_ALL = "All recordings of the lake, each over its own window."


def _number(con: duckdb.DuckDBPyConnection) -> int:
    return int(con.execute("SELECT count(*) FROM manifest").fetchall()[0][0])


def _facts(view: View) -> list[list[str]]:
    row = view.rows(
        "SELECT count(*) AS recordings, count(DISTINCT machine) AS machines, "
        "count(DISTINCT cpu_model) AS models, count(DISTINCT build) AS builds, "
        "min(date) AS first, max(date) AS last, sum(duration_ns)::BIGINT AS ns, "
        "(SELECT count(*) FROM set_aside) AS aside FROM manifest"
    )[0]
    facts = [
        ["recordings", f"{row['recordings']:,}"],
        ["machines", f"{row['machines']:,}"],
        ["CPU models", f"{row['models']:,}"],
        ["builds", f"{row['builds']:,}"],
        ["recorded", f"{row['first']} to {row['last']}"],
        ["length of all", duration(row["ns"] or 0)],
        ["set aside", f"{row['aside']:,}" if row["aside"] else ""],
    ]
    return [fact for fact in facts if fact[1]]


def _findings(view: View) -> dict[str, Any]:
    """The kinds of findings by cost, in the form of the findings of one recording."""
    answer = view.ask("fleet_finding")
    cards = [_card(view, row) for row in answer.rows[:_CARDS]]
    kinds = count(len(answer.rows), "kind")
    tally = [
        [severity, number]
        for severity in ("critical", "warning", "info")
        if (number := sum(row["severity"] == severity for row in answer.rows))
    ]
    return {
        "headline": f"{kinds} of findings, by their cost over all recordings.",
        "tally": tally,
        "top": list(range(min(3, len(cards)))),
        "cards": cards,
        "clean": [],
        "not_applicable": [],
        "not_recorded": [],
        "left_out": [],
        "sql": answer.sql,
    }


def _card(view: View, row: dict[str, Any]) -> dict[str, Any]:
    sql = (
        "SELECT owner AS trace_id, machine, build, severity, title, cost_ns\n"
        "FROM lake_finding JOIN manifest ON manifest.trace_id = owner\n"
        f"WHERE analyzer = {literal(row['analyzer'])} AND kind = {literal(row['kind'])}\n"
        "ORDER BY cost_ns DESC NULLS LAST, owner LIMIT 50"
    )
    names, rows = view.named_rows(sql)
    where = f"on {count(row['machines'], 'machine')}, in {count(row['builds'], 'build')}"
    return {
        "severity": row["severity"],
        "kind": row["kind"],
        "title": f"{row['analyzer']} in {row['recordings_pct']:.3g} % of the recordings",
        "detail": f"{count(row['findings'], 'finding')} in "
        f"{count(row['recordings'], 'recording')}, {where}. Worst: {visible(row['worst_title'])}",
        "per_frame": None,
        "share_of": "",
        "cost_ns": row["cost_ns"],
        "cost_pct": None,
        "bound": None,
        "cost_low_ns": None,
        "cost_high_ns": None,
        "where": f"worst in recording {row['worst_trace_id']}",
        "advice": f"Open the worst one: `schedlens fleet-report LAKE --recording "
        f"{row['worst_trace_id']}`.",
        "section": None,
        "evidence": table(Answer(sql, "lake_finding", names, rows)),
        "counter": None,
        "others": None,
    }


def _plain(view: View, query: str, lead: str) -> Section:
    return Section(lead, _ALL, (), (view.ask(query),))


def _distributions(view: View, by: str) -> Section | str:
    answer = view.ask("fleet_distribution", by=by)
    if not answer.rows:
        return "no recording has values"
    figures = []
    for metric, text in _METRICS.items():
        rows = [row for row in answer.rows if row["metric"] == metric][:_MOST_BARS]
        if not rows:
            continue
        labels = unique(short(row["name"], 40) for row in rows)
        plot = rows_across(
            [
                bar(name, labels, [row[f"{name}_ns"] / 1e6 for row in rows], index, unit="ms")
                for index, name in enumerate(("p50", "p90", "p99"))
            ],
            "ms",
            stacked=False,
        )
        caption = (
            f"{text}: quantiles from merged sketches. Their ranks are off by at most "
            f"{rows[0]['rank_error_pct']:.2g} percentage points."
        )
        figures.append(
            Figure(
                "distribution",
                caption,
                plot,
                height=row_height(3 * len(rows), each=14),
                item=metric,
            )
        )
    lead = _LEAD.get(by, "Counts, sums, minima and maxima are exact.")
    return Section(lead, _ALL, tuple(figures), (answer,))


def _regressions(view: View) -> Section | str:
    answer = view.ask("fleet_regression")
    if not answer.rows:
        return "no change of at least 10 % between levels of at least 3 recordings"
    series = view.rows("FROM fleet_series")
    figures = []
    for row in answer.rows[:_MOST_SERIES]:
        chosen = [s for s in series if (s["class"], s["metric"]) == (row["class"], row["metric"])]
        plot = {
            "data": [
                line(
                    "p99",
                    [s["place"] for s in chosen],
                    [s["quantile_ns"] / 1e6 for s in chosen],
                    0,
                    unit="ms",
                    detail=[f"{short(s['build'])}, {short(s['machine'])}" for s in chosen],
                )
            ],
            "layout": {
                "xaxis": {"title": {"text": "recordings in the order of builds"}},
                "yaxis": {"title": {"text": "ms"}, "rangemode": "tozero"},
            },
        }
        caption = (
            f"{_METRICS.get(row['metric'], row['metric'])} on {row['class']}: the p99 changed by "
            f"{row['change_pct']:+.3g} % from build {row['before_build']} to {row['build']}."
        )
        figures.append(Figure("series", caption, plot, item=f"{row['class']} {row['metric']}"))
    return Section(
        "Where the level of a series changes (PELT). A change within one build is not due to it.",
        _ALL,
        tuple(figures),
        (answer,),
    )


def _outliers(view: View) -> Section | str:
    answer = view.ask("fleet_outlier")
    if not answer.rows:
        return "no machine differs from at least 4 others of its class"
    rows = answer.rows[:_MOST_BARS]
    labels = unique(f"{short(row['machine'])}, {row['metric']}" for row in rows)
    plot = rows_across([bar("score", labels, [row["score"] for row in rows], 4, unit="")], "score")
    caption = (
        f"The most unusual machine is {short(rows[0]['machine'])}: its p99 of "
        f"{rows[0]['metric']} is {duration(rows[0]['quantile_ns'])}, that of its class "
        f"{duration(rows[0]['median_ns'])}."
    )
    figure = Figure("machines", caption, plot, height=row_height(len(rows)))
    return Section(
        "Robust z-scores within each machine class; above 0 is slower.", _ALL, (figure,), (answer,)
    )


def _set_aside(view: View) -> Section | str:
    sql = "FROM set_aside ORDER BY set_aside_utc DESC, source"
    names, rows = view.named_rows(sql)
    if not rows:
        return "all recordings were read"
    answer = Answer(sql, "set_aside", names, rows)
    lead = "`schedlens fleet --retry-failed` tries them again."
    return Section(lead, "All runs.", (), (answer,))
