"""Figures over the time of one recording; the page gives them one time axis and one zoom."""

from __future__ import annotations

from typing import Any

from schedlens.output.wording import count
from schedlens.report.figures import ms
from schedlens.report.sections import Answer, Figure, View

Span = dict[str, Any]

# Changes carried as they are; of more only the means in columns.
MOST_CHANGES = 40_000
COLUMNS = 4_000
# Most frames drawn, beyond that every n-th; the same number of the longest stutters is marked.
MOST_FRAMES = 8_000

_LAYERS = (
    ("p", "P or uniform cores", "@blue", ""),
    ("e", "E cores", "@green", "."),
    ("other", "cores of another or unknown type", "@mid", "x"),
    ("smt", "busy siblings beyond the first", "@orange", "/"),
    ("unknown", "state unknown", "@line", "-"),
)


# Columns of frame_time that are lines of their own where recorded.
_ALSO_DRAWN = (
    ("gpu_busy_ns", "GPU busy", "@green", "dot"),
    ("until_displayed_ns", "until displayed, from Present", "@orange", "dashdot"),
    ("latency_ns", "until displayed, from its start", "@brown", "longdash"),
)


def frames(rows: list[dict[str, Any]], span: Span, *, height: int) -> Figure | None:
    """Length of each frame as a step at its time, stutters marked; rows of `frame_time`."""
    timed = [row for row in rows if row["dur_ns"] is not None]
    if not timed:
        return None
    every = max(1, len(timed) // MOST_FRAMES)
    drawn = [row for number, row in enumerate(timed) if number % every == 0]
    slow = [row for row in timed if row["stutter"]]
    worst = sorted(slow, key=lambda row: -row["dur_ns"])[:MOST_FRAMES]
    marked = sorted(worst, key=lambda row: row["start_ns"])
    starts = [row["start_ns"] / 1e6 for row in drawn]
    traces: list[dict[str, Any]] = []
    names = sorted({row["process"] or "" for row in drawn})
    for index, name in enumerate(names[:4]):
        own = [row for row in drawn if (row["process"] or "") == name]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "frame" if len(names) == 1 else f"frame of {name}",
                "x": [row["start_ns"] / 1e6 for row in own],
                "y": [ms(row["dur_ns"]) for row in own],
                "line": {
                    "shape": "hv",
                    "width": 1.5,
                    "color": ("@blue", "@purple", "@teal", "@brown")[index],
                    "dash": ("solid", "dash", "dot", "dashdot")[index],
                },
                "customdata": [row["frame"] for row in own],
                "hovertemplate": "frame %{customdata}<br>begins at %{x:,.3f} ms<br>"
                "lasts %{y:,.2f} ms<extra></extra>",
            }
        )
    for column, name, color, dash in _ALSO_DRAWN:
        if any(row[column] is not None for row in drawn):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": starts,
                    "y": [ms(row[column]) for row in drawn],
                    "line": {"shape": "hv", "width": 1, "color": color, "dash": dash},
                    "hovertemplate": f"{name} %{{y:,.2f}} ms<extra></extra>",
                }
            )
    if slow:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "stutter",
                "x": [(row["start_ns"] + row["dur_ns"] / 2) / 1e6 for row in marked],
                "y": [ms(row["dur_ns"]) for row in marked],
                "marker": {"symbol": "triangle-down", "size": 9, "color": "@red"},
                "customdata": [
                    [row["frame"], ms(row["dur_ns"]), ms(row["over_ns"])] for row in marked
                ],
                "hovertemplate": "stutter: frame %{customdata[0]}<br>%{customdata[1]:,.2f} ms, "
                "%{customdata[2]:,.2f} ms more than usual<extra></extra>",
            }
        )
    usual = sorted(row["dur_ns"] for row in timed)[len(timed) // 2]
    stutters = "1 of them a stutter" if len(slow) == 1 else f"{len(slow):,} of them stutters"
    caption = (
        f"{count(len(timed), 'frame')}, {stutters} (triangles; shaded in the figures of the same "
        f"time). Half of the frames last {usual / 1e6:,.1f} ms or less, the longest "
        f"{max(row['dur_ns'] for row in timed) / 1e6:,.1f} ms."
    )
    plot = {
        "from_ns": span["start_ns"],
        "to_ns": span["end_ns"],
        "marks": [[row["start_ns"], row["start_ns"] + row["dur_ns"]] for row in marked],
        "data": traces,
        "title": "frame (ms)",
    }
    return Figure("frames", caption, plot, kind="frames", height=height)


def parking(view: View, span: Span) -> list[dict[str, Any]]:
    """Spells in which a CPU was parked or soft-parked, inside the span: cpu, ts, end_ns, soft."""
    return view.rows(
        f"""
WITH spell AS (
  SELECT cpu, parked, soft_parked, coalesce(ts, {span["start_ns"]}) AS ts,
    coalesce(lead(ts) OVER (PARTITION BY cpu ORDER BY ts NULLS FIRST), {span["end_ns"]}) AS end_ns
  FROM cpu_parking
  WHERE trace_id = {view.trace_id}
)
SELECT cpu, greatest(ts, {span["start_ns"]}) AS ts, least(end_ns, {span["end_ns"]}) AS end_ns,
  NOT coalesce(parked, false) AS soft
FROM spell
WHERE (parked OR soft_parked) AND ts < {span["end_ns"]} AND end_ns > {span["start_ns"]}
  AND end_ns > ts
ORDER BY cpu, ts
"""
    )


def parked_count(spells: list[dict[str, Any]], cpus: int, span: Span) -> Figure | None:
    """How many CPUs were parked at each moment; None where none was."""
    if not spells:
        return None
    steps: dict[int, int] = {span["start_ns"]: 0}
    for spell in spells:
        steps[spell["ts"]] = steps.get(spell["ts"], 0) + 1
        if spell["end_ns"] < span["end_ns"]:
            steps[spell["end_ns"]] = steps.get(spell["end_ns"], 0) - 1
    starts = sorted(steps)
    counts, now = [], 0
    for start in starts:
        now += steps[start]
        counts.append(now)
    total = sum(spell["end_ns"] - spell["ts"] for spell in spells)
    caption = (
        f"Parked CPUs: {total / span['dur_ns']:.1f} on average, {max(counts)} at most, of {cpus}. "
        "The scheduler leaves a parked CPU alone unless a thread is bound to it."
    )
    means, starts = _means(starts, counts, span)
    band = layer(starts, span, [("parked CPUs", means, "@purple", "x", "area")])
    return Figure(
        "parked", caption, steps_plot(span, [band], [], "parked"), kind="steps", height=120
    )


def concurrency(view: View, span: Span) -> tuple[Answer, Figure] | None:
    """How many CPUs were busy at each moment and what they were, against what the machine has."""
    if view.lacks(view.trace_id, ("switches", "all_threads")):
        return None
    changes = view.rows(
        "SELECT count(*) AS n, coalesce(sum(unknown), 0) AS unknown FROM concurrency_slice "
        f"WHERE trace_id = {view.trace_id} AND ts < {span['end_ns']} "
        f"AND ts + dur > {span['start_ns']}"
    )[0]
    if not changes["n"]:
        return None
    columns = None if changes["n"] <= MOST_CHANGES else COLUMNS
    call = view.call("concurrency_timeline", trace_id=view.trace_id, columns=columns)
    rows = view.rows(call)
    names = [entry for entry in _LAYERS if any(row[entry[0]] for row in rows)]
    alone = not {"p", "e"} & {column for column, *_ in names}
    steps = [
        (
            "cores" if column == "other" and alone else name,
            [brief(row[column]) for row in rows],
            colour,
            pattern,
            "area",
        )
        for column, name, colour, pattern in names
    ]
    starts = [row["start_ns"] for row in rows]
    wanted = [brief(row["busy"] + row["ready"]) for row in rows]
    steps.append(("running or ready threads", wanted, "@ink", "", "line"))
    limits = capacity(view)
    mean = sum(row["busy"] * row["dur_ns"] for row in rows) / span["dur_ns"]
    over = [limits[-1][0]] if limits and columns is None else []
    crowded = sum(
        row["dur_ns"] for row, want in zip(rows, wanted, strict=True) if over and want > over[0]
    )
    least = "at least " if changes["unknown"] else ""
    caption = f"Busy CPUs: {least}{mean:.1f} on average. "
    if crowded:
        caption += (
            "More threads wanted to run than there are CPUs for "
            f"{100 * crowded / span['dur_ns']:.1f} % of the time: there the line is above the "
            "highest capacity line."
        )
    elif over and not changes["unknown"]:
        caption += "At no time did more threads want to run than there are CPUs."
    plot = steps_plot(span, [layer(starts, span, steps)], limits, "CPUs")
    answer = Answer(call, "concurrency_timeline", (), [])
    return answer, Figure("busy", caption.strip(), plot, kind="steps", height=280)


def capacity(view: View) -> list[tuple[int, str]]:
    """What the machine can run at once: P cores, with E cores, with siblings; those that differ."""
    kinds = view.rows(
        "SELECT count(DISTINCT cpu) AS cpus, count(DISTINCT core) AS cores, "
        "count(DISTINCT core) FILTER (WHERE core_type IN ('P', 'U')) AS fast, "
        "count(DISTINCT core) FILTER (WHERE core_type IN ('E', 'LP-E')) AS slow "
        f"FROM topology(p_trace_id := {view.trace_id}) WHERE online"
    )[0]
    if not kinds["cpus"]:
        return []
    if not kinds["cores"] or (not kinds["slow"] and kinds["cores"] == kinds["cpus"]):
        return [(kinds["cpus"], "all CPUs")]
    hybrid = kinds["fast"] and kinds["slow"] and kinds["fast"] + kinds["slow"] == kinds["cores"]
    found = [(kinds["fast"], "P"), (kinds["cores"], "P + E")] if hybrid else []
    found = found or [(kinds["cores"], "all cores")]
    if kinds["cpus"] > kinds["cores"]:
        found.append((kinds["cpus"], "P + E + SMT" if hybrid else "all cores + SMT"))
    return found


def _means(starts: list[int], values: list[int], span: Span) -> tuple[list[float | int], list[int]]:
    """Steps as they are, or of too many the means in columns; the values and their begins."""
    if len(starts) <= MOST_CHANGES:
        return list(values), starts
    width = -(-span["dur_ns"] // COLUMNS)
    sums = [0] * COLUMNS
    ends = [*starts[1:], span["end_ns"]]
    for start, end, value in zip(starts, ends, values, strict=True):
        at = start - span["start_ns"]
        last = end - span["start_ns"]
        while at < last:
            column = at // width
            until = min(last, (column + 1) * width)
            sums[column] += value * (until - at)
            at = until
    begins = list(range(0, span["dur_ns"], width))
    lengths = [min(width, span["dur_ns"] - begin) for begin in begins]
    means = [brief(total / length) for total, length in zip(sums, lengths, strict=False)]
    return means, [span["start_ns"] + begin for begin in begins]


def brief(value: float) -> float | int:
    """The number as it is written into the page: whole, or with three decimals."""
    return int(value) if value == int(value) else round(value, 3)


def layer(
    starts: list[int], span: Span, series: list[tuple[str, Any, str, str, str]]
) -> dict[str, Any]:
    """Series with the same begins: name, values, colour, pattern or dash, and area or line."""
    return {
        "start": [start - span["start_ns"] for start in starts],
        "series": [
            {"name": name, "values": values, "color": colour, "pattern": pattern, "form": form}
            for name, values, colour, pattern, form in series
        ],
    }


def steps_plot(
    span: Span, layers: list[dict[str, Any]], limits: list[tuple[int, str]], title: str
) -> dict[str, Any]:
    """What a figure of the kind `steps` draws; `limits` are lines across it."""
    return {
        "from_ns": span["start_ns"],
        "to_ns": span["end_ns"],
        "layers": layers,
        "limits": [{"at": at, "name": name} for at, name in limits],
        "title": title,
    }
