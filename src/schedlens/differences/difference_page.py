"""The report of a comparison: both sides on one time axis, and every difference with its SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens.differences import curves, listed, numbers, resampling
from schedlens.differences.quantities import BLOCKS, BY_NAME
from schedlens.output.terminal import visible
from schedlens.output.wording import count
from schedlens.report import page
from schedlens.report.figures import COLOURS, DASHES, SYMBOLS, Plot, axis, row_height, short, unique
from schedlens.report.sections import Answer, Figure, Section
from schedlens.report.table import table

if TYPE_CHECKING:
    from schedlens.differences.contrast import Comparison, Difference

_MOST_BARS = 30
_ROW_PX = 130
# Larger changes are in the table only: they would flatten all others.
_MOST_PCT = 200
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_FEW = "No difference is shown. That is not the same as no change."


def write(found: Comparison, path: Path) -> None:
    """Writes the report, an HTML file. Raises `SessionError` or `NoSpaceError`."""
    title = f"{short(_side(found.labels_a), 40)} compared with {short(_side(found.labels_b), 40)}"
    with page.saved(path) as save:
        save(page.page(payload(found), title))


def payload(found: Comparison) -> dict[str, Any]:
    """All that the page shows, as JSON values."""
    sections: list[dict[str, Any]] = []
    absent: list[list[str]] = []
    for name, heading, made in (
        ("gate", "Gate", listed.gate(found, _window(found))),
        ("differences", "Differences", _forest(found)),
        ("over_time", "Both sides over time", _over_time(found)),
        ("quantiles", "Distributions", _quantiles(found)),
        ("mechanisms", "What moved with it", _mechanisms(found)),
        ("matched_findings", "Findings of both sides", listed.findings(found)),
        ("machine", "What is different about the machine", listed.machine(found)),
        ("not_compared", "Not compared", listed.not_compared(found, _window(found))),
    ):
        if isinstance(made, str):
            absent.append([heading, made])
            continue
        sections.append(
            {
                "name": name,
                "heading": heading,
                "lead": visible(made.lead),
                "window": visible(made.window),
                "figures": [
                    {
                        "kind": one.kind,
                        "caption": visible(one.caption),
                        "height": one.height,
                        "plot": one.plot,
                    }
                    for one in made.figures
                ],
                "answers": [table(answer) for answer in made.answers],
            }
        )
    return {
        "facts": _facts(found),
        "findings": _findings(found),
        "sections": sections,
        "absent": absent,
    }


def _side(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


def _named(one: Difference) -> str:
    return f"{one.text}{f' ({short(one.subject)})' if one.subject else ''}"


def _shown(found: Comparison) -> list[Difference]:
    return [one for one in found.differences if one.verdict != "cannot tell"]


def _window(found: Comparison) -> str:
    return "The window of each recording, in blocks of equal length (`FROM time_block`)."


def _facts(found: Comparison) -> list[list[str]]:
    facts = [
        ["A (baseline)", f"{count(len(found.labels_a), 'recording')}: {_side(found.labels_a)}"],
        ["B", f"{count(len(found.labels_b), 'recording')}: {_side(found.labels_b)}"],
        ["quantities compared", f"{len(found.differences)}"],
        ["shown to differ", f"{len(_shown(found))}"],
        ["gate", found.gate.state if found.gate else ""],
    ]
    return [[name, visible(text)[:200]] for name, text in facts if text]


def _findings(found: Comparison) -> dict[str, Any]:
    shown = [one for one in _shown(found) if one.is_symptom or one.is_worse is not None]
    symptoms = [one for one in shown if one.is_symptom] or shown
    cards = [_card(found, one) for one in symptoms[:12]]
    tally = [
        [severity, number]
        for severity in ("warning", "info")
        if (number := sum(card["severity"] == severity for card in cards))
    ]
    return {
        "headline": _headline(found),
        "tally": tally,
        "top": list(range(min(3, len(cards)))),
        "cards": cards,
        "clean": [],
        "not_applicable": [],
        "not_recorded": [],
        "left_out": [],
        "sql": "FROM time_block",
    }


def _headline(found: Comparison) -> str:
    shown = _shown(found)
    if not shown:
        return _FEW
    worse = sum(one.is_worse is True for one in shown)
    better = sum(one.is_worse is False for one in shown)
    return (
        f"{len(shown)} of {count(len(found.differences), 'quantity', 'quantities')} differ: "
        f"{worse} worse, {better} better in B. At most 5 % of them are expected to be chance."
    )


def _card(found: Comparison, one: Difference) -> dict[str, Any]:
    with_it = [
        moved
        for moved in found.mechanisms
        if (moved.symptom, moved.symptom_subject, moved.step)
        == (one.quantity, one.subject, one.step)
    ]
    moved = "; ".join(
        f"{item.text}{f' ({short(item.subject)})' if item.subject else ''}, "
        f"rank correlation {item.correlation:+.2f}"
        for item in with_it[:3]
    )
    word = {True: "worse", False: "better", None: one.verdict}[one.is_worse]
    return {
        "severity": "warning" if one.is_worse else "info",
        "kind": one.quantity,
        "title": visible(f"{_named(one)}: {numbers.difference(one)}, {word}"),
        "detail": visible(
            f"A {numbers.value(one.a, one.unit)}, B {numbers.value(one.b, one.unit)}; "
            f"{_units(one)}; p = {one.p_adjusted:.2g} after adjustment."
            + (f" Moved with it: {moved}." if moved else "")
        ),
        "per_frame": None,
        "share_of": "",
        "cost_ns": None,
        "cost_pct": None,
        "bound": None,
        "cost_low_ns": None,
        "cost_high_ns": None,
        "where": visible(one.step),
        "advice": (
            f"Read the findings of {', '.join(dict.fromkeys(m.analyzer for m in with_it))}: "
            "`schedlens analyze` on either side."
            if with_it
            else ""
        ),
        "section": "differences",
        "evidence": table(_answer([one])),
        "counter": None,
        "others": None,
    }


def _units(one: Difference) -> str:
    if one.units == "recordings":
        return f"over {one.number_a} and {one.number_b} recordings"
    return (
        f"over {one.number_a} and {one.number_b} blocks of {one.block_length} consecutive values, "
        "with two runs taken to differ as much as two such blocks"
    )


def _answer(rows: Sequence[Difference]) -> Answer:
    listed = [
        {
            "quantity": one.quantity,
            "of": one.subject,
            "step": one.step,
            "A": numbers.value(one.a, one.unit),
            "B": numbers.value(one.b, one.unit),
            "difference": numbers.difference(one),
            "verdict": one.verdict,
            "p": one.p,
            "p_adjusted": one.p_adjusted,
            "statistic": one.statistic,
            "units": f"{one.number_a} and {one.number_b} {one.units}" if one.a is not None else "",
            "explained_by": one.analyzer,
        }
        for one in rows
    ]
    # Of several quantities, each has its own SQL.
    sql = "\n;\n".join(dict.fromkeys(one.sql for one in rows))
    return Answer(sql, "difference", tuple(listed[0]) if listed else (), listed)


def _forest(found: Comparison) -> Section | str:
    rows = [one for one in found.differences if one.p is not None]
    if not rows:
        return "no quantity has enough data on both sides"
    drawn = [
        one
        for one in rows
        if one.change_pct is not None and abs(one.change_pct) < _MOST_PCT
        and (one.percent(one.low) or 0) > -_MOST_PCT and (one.percent(one.high) or 0) < _MOST_PCT
    ][:_MOST_BARS]  # fmt: skip
    figures = []
    if drawn:
        traces = [
            _points(drawn, [one for one in drawn if _group(one) == name], name, index, colour)
            for index, (name, colour) in enumerate(_GROUPS.items())
        ]
        plot: Plot = {
            "data": [trace for trace in traces if trace["x"]],
            "layout": {
                "xaxis": axis("B - A, % of A", zeroline=True),
                "yaxis": {
                    "type": "category", "automargin": True, "autorange": "reversed",
                    "categoryorder": "array", "categoryarray": _labels(drawn),
                },
            },
        }  # fmt: skip
        caption = (
            f"The first {len(drawn)} differences in percent of A with their 95 % intervals. "
            f"{len(_shown(found))} of {len(rows)} are shown to differ."
        )
        figures.append(Figure("differences", caption, plot, height=row_height(len(drawn))))
    lead = (
        "An interval that does not contain 0 may still be chance if many quantities are compared: "
        "the colors follow the adjusted p-values."
    )
    return Section(lead, _window(found), tuple(figures), (_answer(rows),))


def _group(one: Difference) -> str:
    if one.verdict == "cannot tell":
        return "cannot tell"
    return {True: "worse", False: "better", None: "differs"}[one.is_worse]


_GROUPS = {"worse": "@red", "better": "@green", "differs": "@blue", "cannot tell": "@mid"}


def _labels(rows: Sequence[Difference]) -> list[str]:
    several = len({one.step for one in rows}) > 1
    return unique(
        f"{one.quantity}{f' {short(one.subject)}' if one.subject else ''}"
        f"{f', {short(one.step, 48)}' if several else ''}"
        for one in rows
    )


def _points(
    every: Sequence[Difference], rows: Sequence[Difference], name: str, index: int, colour: str
) -> Plot:
    labels = dict(zip(map(id, every), _labels(every), strict=True))
    middle = [one.change_pct or 0.0 for one in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": middle,
        "y": [labels[id(one)] for one in rows],
        "marker": {"color": colour, "symbol": SYMBOLS[index], "size": 8},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [(one.percent(one.high) or 0.0) - (one.change_pct or 0.0) for one in rows],
            "arrayminus": [(one.change_pct or 0.0) - (one.percent(one.low) or 0.0) for one in rows],
            "color": colour,
            "thickness": 1.5,
            "width": 3,
        },
        "customdata": [
            [numbers.value(one.a, one.unit), numbers.value(one.b, one.unit)] for one in rows
        ],
        "hovertemplate": "%{y}<br>%{x:+.3~g} % (A %{customdata[0]}, B %{customdata[1]})"
        "<extra></extra>",
    }


def _over_time(found: Comparison) -> Section | str:
    chosen = curves.chosen(found)
    if not chosen:
        return "no quantity has values over time on both sides"
    data: list[Plot] = []
    gap = 0.06 if len(chosen) > 1 else 0.0
    height = (1 - gap * (len(chosen) - 1)) / len(chosen)
    longest = max(one.recorded.window[1] * BLOCKS for row in chosen for one in (*row.a, *row.b))
    layout: dict[str, Any] = {
        "xaxis": {
            **axis("s from the start of the window"),
            "range": [0, longest / 1e9],
            "anchor": f"y{len(chosen)}" if len(chosen) > 1 else "y",
        },
        "margin": {"l": 70, "r": 20, "t": 40, "b": 70},
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        "annotations": [],
    }
    for place, row in enumerate(chosen):
        name = "y" if place == 0 else f"y{place + 1}"
        top = 1 - place * (height + gap)
        size, unit = (1e6, "ms") if row.difference.unit == "ns" else (1.0, row.difference.unit)
        text = _named(row.difference)
        if row.a[0].quantity.kind == "items":
            text = f"{text.partition(',')[0]}, mean of each block"
        layout[f"yaxis{'' if place == 0 else place + 1}"] = {
            **axis(unit),
            "domain": [max(0.0, top - height), top],
            "rangemode": "tozero",
            "tickformat": "~s" if unit == "per s" else "",
            "anchor": "x",
        }
        layout["annotations"].append(
            {
                "text": short(text, 90), "xref": "paper", "yref": "paper",
                "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom", "showarrow": False,
            }
        )  # fmt: skip
        for index, (side, every) in enumerate((("A", row.a), ("B", row.b))):
            x, y = curves.mean_line(every)
            data.append(
                {
                    "type": "scatter", "mode": "lines", "name": side, "x": x,
                    "y": [None if v is None else v / size for v in y],
                    "yaxis": name, "legendgroup": side, "showlegend": place == 0,
                    "line": {"color": COLOURS[index], "dash": DASHES[index], "width": 1.5},
                    "hovertemplate": f"{side} at %{{x:.3~f}} s: %{{y:,.4~g}} {unit}"
                    "<extra></extra>",
                }
            )  # fmt: skip
    caption = (
        f"A (solid) and B (dashed): {count(len(chosen), 'quantity', 'quantities')} over "
        "the same time, those that differ first. Of several recordings, the mean."
    )
    plot = {"data": data, "layout": layout}
    figure = Figure("over_time", caption, plot, height=80 + _ROW_PX * len(chosen))
    lead = "Look for what changes at the same moments as the first row."
    return Section(lead, _window(found), (figure,))


def _quantiles(found: Comparison) -> Section | str:
    numpy, _ = resampling.libraries()
    rows = [
        one for one in found.compared
        if one.difference.quantity in ("frame_p50_ns", "mark_p50_ns") and one.a and one.b
    ][:6]  # fmt: skip
    if not rows:
        return "neither frames nor marks are recorded on both sides"
    figures = []
    for row in rows:
        data = []
        for index, (side, every) in enumerate((("A", row.a), ("B", row.b))):
            values = numpy.concatenate([one.num for one in every])
            data.append(
                {
                    "type": "scatter", "mode": "lines+markers", "name": side,
                    "x": [f"p{p}" for p in _PERCENTILES],
                    "y": [float(v) / 1e6 for v in numpy.percentile(values, _PERCENTILES)],
                    "line": {"color": COLOURS[index], "dash": DASHES[index]},
                    "marker": {"symbol": SYMBOLS[index], "size": 8},
                    "hovertemplate": f"{side} %{{x}}: %{{y:,.4~g}} ms<extra></extra>",
                }
            )  # fmt: skip
        layout = {
            "xaxis": {"type": "category", "title": {"text": "percentile"}},
            "yaxis": axis("ms", rangemode="tozero"),
        }
        figures.append(
            Figure("percentiles", f"{_named(row.difference)}: percentiles of A and B.",
                   {"data": data, "layout": layout}, height=300)
        )  # fmt: skip
    lead = "A constant distance is a change of every frame; a growing one is a change of the tail."
    return Section(lead, "All frames or marks of each side.", tuple(figures))


def _mechanisms(found: Comparison) -> Section | str:
    if not found.mechanisms:
        return "no quantity moved with a difference that a user notices"
    rows = [
        {
            "difference": one.symptom,
            "moved_with": one.quantity,
            "of": one.subject,
            "analyzer": one.analyzer,
            "change": numbers.value(one.change_pct, "%", signed=True),
            "correlation": round(one.correlation, 3),
            "step": one.step,
        }
        for one in found.mechanisms
    ]
    lead = (
        "Quantities that differ between the sides and move with the difference, block by block. "
        "Moving together does not show which one is the cause."
    )
    sql = "\n;\n".join(dict.fromkeys(BY_NAME[one.quantity].sql for one in found.mechanisms))
    return Section(lead, _window(found), (), (Answer(sql, "mechanism", tuple(rows[0]), rows),))
