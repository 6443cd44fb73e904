"""The report's figures as Plotly figures, in the light colors of the page."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import plotly.graph_objects as go

from schedlens.report.figures import MOST_SOUGHT, Plot, axis, row_height
from schedlens.report.sections import Figure

# Plotly's markup is meant in these; every other text is shown as it is.
_MARKUP = {"hovertemplate", "texttemplate"}
# Bands and bars of one figure; beyond, the longest.
_MOST_BANDS = 200
_LIMIT_DASHES = ("dot", "dashdot", "dash")
_TIME = "time in the recording (ms)"
# What a CPU did, by code; threads follow.
_CPU_CODES = (
    ("idle", "@pale"),
    ("unknown", "@mid"),
    ("offline", "@card"),
    ("interrupt", "@dark"),
    ("other threads", "@mid"),
)
_OTHERS = 4
_HUES = ("@blue", "@orange", "@green", "@purple", "@red", "@teal", "@brown", "@pink")


def drawn(figure: Figure, name: str, title: str) -> go.Figure:
    """The figure for a notebook; `layout.meta` has its `name` and `caption`.

    A figure of many bars shows the rows that the report shows first.
    """
    makers = {
        "plot": _bars,
        "frames": _frames,
        "steps": _steps,
        "timeline": _timeline,
        "threads": _threads,
        "topology": _topology,
    }
    data, layout = makers[figure.kind](figure.drawn())
    style = {
        "title": {"text": title, "x": 0, "xanchor": "left"},
        "height": (figure.height or 480) + 40,
        "paper_bgcolor": "@card",
        "plot_bgcolor": "@card",
        "font": {"size": 12, "color": "@ink"},
        "legend": {"traceorder": "normal"},
        "margin": {"l": 60, "r": 20, "t": 76, "b": 44},
        "bargap": 0.28,
        "meta": {"name": name, "caption": figure.caption},
        **layout,
    }
    for key in {"xaxis", "yaxis", *style}:
        if re.fullmatch(r"[xy]axis\d*", key):
            style[key] = {
                "gridcolor": "@grid",
                "zerolinecolor": "@mid",
                "linecolor": "@mid",
                "automargin": True,
                **style.get(key, {}),
            }
    return go.Figure(data=_resolved(data), layout=_resolved(style))


@cache
def colours() -> dict[str, str]:
    """The page's colors in its light theme, by token."""
    page = resources.files("schedlens.reports").joinpath("page", "page.css")
    light = page.read_text(encoding="utf-8").partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))


def _resolved(value: Any, key: str = "") -> Any:
    """The figure with color tokens resolved and every other text escaped for Plotly's markup."""
    if isinstance(value, str):
        if key.lower().endswith(("color", "colors", "colorscale")) and value.startswith("@"):
            return colours()[value[1:]]
        return value if key in _MARKUP else html.escape(value, quote=False)
    if isinstance(value, (list, tuple)):
        return [_resolved(item, key) for item in value]
    if isinstance(value, dict):
        return {name: _resolved(item, name) for name, item in value.items()}
    return value


def _bars(plot: Plot) -> tuple[list[Plot], Plot]:
    sought = plot.get("sought")
    if not sought:
        return plot["data"], plot["layout"]
    first = min(plot["first"], len(sought), MOST_SOUGHT)
    cut = [
        {
            name: value[:first] if name in ("x", "y", "customdata") and value else value
            for name, value in trace.items()
        }
        for trace in plot["data"]
    ]
    return cut, plot["layout"]


def _over_time(plot: Plot, **more: Any) -> Plot:
    return {
        "xaxis": axis(_TIME, range=[plot["from_ns"] / 1e6, plot["to_ns"] / 1e6], showgrid=False),
        **more,
    }


def _frames(plot: Plot) -> tuple[list[Plot], Plot]:
    longest = sorted(plot["marks"], key=lambda mark: mark[0] - mark[1])[:_MOST_BANDS]
    bands = [
        {
            "type": "rect", "yref": "paper", "x0": start / 1e6, "x1": end / 1e6, "y0": 0, "y1": 1,
            "fillcolor": "@red", "opacity": 0.13, "line": {"width": 0},
        }
        for start, end in longest
    ]  # fmt: skip
    return plot["data"], _over_time(
        plot, yaxis=axis(plot["title"], rangemode="tozero"), shapes=bands
    )


def _steps(plot: Plot) -> tuple[list[Plot], Plot]:
    data = []
    for layer in plot["layers"]:
        at = [(start + plot["from_ns"]) / 1e6 for start in layer["start"]]
        for one in layer["series"]:
            area = one["form"] == "area"
            trace: Plot = {
                "type": "scatter",
                "mode": "lines",
                "name": one["name"],
                "x": [*at, plot["to_ns"] / 1e6],
                # The last step ends with the window.
                "y": [*one["values"], *one["values"][-1:]],
                "line": {
                    "shape": "hv",
                    "width": 0 if area else 1.6,
                    "color": one["color"],
                    "dash": "solid" if area else one["pattern"] or "solid",
                },
            }
            if area:
                trace |= {
                    "stackgroup": "one",
                    "fillcolor": one["color"],
                    "fillpattern": {"shape": one["pattern"], "fillmode": "overlay",
                                    "fgcolor": "@card", "size": 6, "solidity": 0.25},
                }  # fmt: skip
            data.append(trace)
    lines = [
        {
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit["at"], "y1": limit["at"],
            "line": {"color": "@dark", "width": 1.3, "dash": dash},
            "label": {"text": f"{limit['name']}: {limit['at']}", "textposition": "end"},
        }
        for limit, dash in zip(plot["limits"], _LIMIT_DASHES, strict=False)
    ]  # fmt: skip
    mode = "normal" if plot.get("from_zero") is False else "tozero"
    return data, _over_time(
        plot, yaxis=axis(plot["title"], rangemode=mode), shapes=lines, hovermode="x unified"
    )


def _timeline(plot: Plot) -> tuple[list[Plot], Plot]:
    threads = plot["threads"]
    codes = list(_CPU_CODES)
    for number, thread in enumerate(threads):
        whose = f" of {thread['process']}" if thread["process"] else ""
        codes.append((f"{thread['name']}{whose}", _HUES[number % len(_HUES)]))
    hidden = {
        len(_CPU_CODES) + number for number, thread in enumerate(threads) if not thread["shown"]
    }
    runs = dict(plot["runs"])
    runs["code"] = [_OTHERS if code in hidden else code for code in runs["code"]]
    data = _runs(plot["cpus"], runs, codes, plot["from_ns"])
    parked = plot["parked"]
    if parked["row"]:
        spells = {**parked, "code": [0] * len(parked["row"])}
        # Above idle, below the rest: a thread that is bound to a parked CPU runs there.
        below = [trace for trace in data if trace["name"] == _CPU_CODES[0][0]]
        above = [trace for trace in data if trace["name"] != _CPU_CODES[0][0]]
        drawn_parked = _runs(plot["cpus"], spells, [("parked", "@purple")], plot["from_ns"], 0.4)
        data = below + drawn_parked + above
    return data, _over_time(plot, yaxis=_rows(plot["cpus"]), barmode="overlay")


def _threads(plot: Plot) -> tuple[list[Plot], Plot]:
    names = [thread["name"] for thread in plot["threads"]]
    codes = [(code["name"], code["color"]) for code in plot["codes"]]
    data = _runs(names, plot["runs"], codes, plot["from_ns"])
    return data, _over_time(plot, yaxis=_rows(names), barmode="overlay")


def _rows(names: Sequence[str]) -> Plot:
    """An axis with a row for each name, the first on top."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
    }


def _runs(
    names: Sequence[str],
    runs: Plot,
    codes: Sequence[tuple[str, str]],
    from_ns: int,
    opacity: float = 1.0,
) -> list[Plot]:
    """Bars from start to end, one trace for each code that occurs."""
    traces: dict[int, Plot] = {}
    for row, start, dur, code in zip(
        runs["row"], runs["start"], runs["dur"], runs["code"], strict=True
    ):
        trace = traces.get(code)
        if trace is None:
            name, colour = codes[code]
            trace = traces[code] = {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "base": [],
                "x": [],
                "y": [],
                "text": [],
                "textposition": "none",
                "width": 0.86,
                "opacity": opacity,
                "marker": {"color": colour, "line": {"width": 0}},
                "hovertemplate": "%{text}<br>from %{base:.3f} ms, for %{x:.3f} ms",
            }
        trace["base"].append((start + from_ns) / 1e6)
        trace["x"].append(dur / 1e6)
        trace["y"].append(row)
        trace["text"].append(names[row])
    return [traces[code] for code in sorted(traces)]


def _topology(plot: Plot) -> tuple[list[Plot], Plot]:
    """Boxes in boxes: packages, last-level caches, cores, logical CPUs by busy share."""
    boxes: dict[str, tuple[str, str]] = {}
    share: dict[str, float | None] = {}
    for cpu in plot["cpus"]:
        above = ""
        for kind, word in (("package", "package"), ("llc", "last-level cache"), ("core", "core")):
            number = "unknown" if cpu[kind] is None else cpu[kind]
            box = f"{above}/{kind} {number}"
            core_type = cpu["core_type"] if kind == "core" and cpu["core_type"] != "U" else None
            boxes[box] = (above, f"{word} {number}" + (f" {core_type}" if core_type else ""))
            above = box
        busy, online = cpu["busy_pct"], cpu["online"] is not False
        state = "offline" if not online else "?" if busy is None else f"{busy:.0f} %"
        leaf = f"{above}/{cpu['cpu']}"
        boxes[leaf] = (above, f"CPU {cpu['cpu']}: {state}")
        share[leaf] = busy if online else None
    data: Plot = {
        "type": "treemap",
        "ids": list(boxes),
        "parents": [above for above, _ in boxes.values()],
        "labels": [label for _, label in boxes.values()],
        "tiling": {"packing": "squarify"},
        "sort": False,
        "marker": {
            "colors": [share.get(box) for box in boxes],
            "cmin": 0,
            "cmax": 100,
            "colorscale": [[0, colours()["pale"]], [1, colours()["blue"]]],
            "colorbar": {"title": {"text": "busy (%)"}},
            "showscale": True,
        },
    }
    return [data], {"height": row_height(len(plot["cpus"]), each=14)}
