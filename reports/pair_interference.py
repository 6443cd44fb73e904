"""Pairs of kernels running together: conclusions, heat maps, the advice table, all numbers."""

from __future__ import annotations

from typing import Any

from schedlens.output.wording import interval
from schedlens.report.figures import Plot, axis, short
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "Pairs"
ORDER = 12
FIGURES = {
    "throughput": "combined throughput of each pair of kernels, one figure for each place",
}

_MEANING = {
    "siblings": "the siblings of one core",
    "same_l2": "two cores that share an L2",
    "same_llc": "two cores that share a last-level cache",
    "across_llc": "two cores with different last-level caches",
    "across_package": "two packages",
    "p_beside_e": "a P core and an E core",
    "two_cpus": "two CPUs; what they share is not reported",
}
# From a loss to twice the work; white is the work of one thread.
_SCALE = [[0.0, "#b2182b"], [0.333, "#f7f7f7"], [1.0, "#2166ac"]]


def section(view: View) -> Section | Nothing:
    """The cells of the experiment `pairs`."""
    answer = view.ask("pair_interference")
    rows = [row for row in answer.rows if row["combined"] is not None]
    commands = view.ask("command_beside")
    if commands.rows:
        return Section(_lead(view, []), view.all_windows(), (), (commands,))
    if not rows:
        return Nothing("no pairs of kernels were measured; run `collect --experiment pairs`")
    advice, chase = view.ask("pair_advice"), view.ask("pair_chase")
    knee = view.ask("multiplier_slots")
    places = list(dict.fromkeys(row["place"] for row in rows))
    figures = [_map(place, [row for row in rows if row["place"] == place]) for place in places]
    # Without SMT siblings there is no advice to show.
    first = tuple(found for found in (advice, chase) if found.rows)
    answers = (*first, knee, answer)
    return Section(_lead(view, advice.rows), view.all_windows(), tuple(figures), answers)


def _lead(view: View, advice: Rows) -> str:
    words = view.details("pair_interference", 4)
    meaning = (
        "Combined throughput counts each thread relative to running alone: 2 means no cost, 1 "
        "means no gain."
    )
    if advice:
        meaning += " The advice table gives the effect of the second sibling by class of work."
    return f"{words} {meaning}".strip()


def _map(place: str, rows: Rows) -> Figure:
    names = sorted({name for row in rows for name in (row["first"], row["second"])})
    found = {}
    for row in rows:
        found[row["first"], row["second"]] = row
        found.setdefault((row["second"], row["first"]), row)
    grid = [[found.get((first, second)) for second in names] for first in names]
    plot: Plot = {
        "data": [
            {
                "type": "heatmap",
                "x": [short(name) for name in names],
                "y": [short(name) for name in names],
                "z": [[row["combined"] if row else None for row in line] for line in grid],
                "text": [
                    [f"{row['combined']:.2f}" if row else "" for row in line] for line in grid
                ],
                "texttemplate": "%{text}",
                "customdata": [
                    [
                        interval(row["combined_low"], row["combined_high"]) if row else ""
                        for row in line
                    ]
                    for line in grid
                ],
                "hovertemplate": "%{y} with %{x}: %{z:.3f} of one alone%{customdata}"
                "<extra></extra>",
                "zmin": 0.5,
                "zmax": 2.0,
                "colorscale": _SCALE,
                "colorbar": {"title": {"text": "combined"}},
                "xgap": 1,
                "ygap": 1,
            }
        ],
        "layout": {
            "xaxis": axis("", type="category", automargin=True),
            "yaxis": axis("", type="category", automargin=True, autorange="reversed"),
        },
    }
    worst = min(rows, key=lambda row: row["combined"])
    best = max(rows, key=lambda row: row["combined"])
    caption = (
        f"Combined throughput on {_MEANING.get(place, place)}. Lowest: {_named(worst)}; "
        f"highest: {_named(best)}."
    )
    return Figure("throughput", caption, plot, height=min(640, 160 + 34 * len(names)), item=place)


def _named(row: dict[str, Any]) -> str:
    ends = interval(row["combined_low"], row["combined_high"])
    return f"{row['first']} with {row['second']} {row['combined']:.2f}{ends}"
