"""What each logical CPU ran over time, reduced to what a screen can show."""

from __future__ import annotations

from typing import Any

from schedlens.report import timeline
from schedlens.report.figures import short
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Timeline"
ORDER = 40
FIGURES = {
    "frames": "length of each frame",
    "parked": "parked CPUs at each moment",
    "timeline": "what each logical CPU ran",
    "busy": "busy CPUs at each moment by kind of core",
}

# Rows in the page: up to this many, every slice; beyond, reduced to time bins.
MOST_RUNS = 60_000
COLUMNS = 2000
# Threads that can be searched for; always shown are the first few and those with this share.
THREADS = 256
FIRST = 8
LEAST_PCT = 1

_CODES = (
    "CASE t.state WHEN 'idle' THEN 0 WHEN 'unknown' THEN 1 WHEN 'offline' THEN 2 "
    "WHEN 'interrupt' THEN 3 ELSE coalesce(5 + r.rank, 4) END"
)


def section(view: View) -> Section | Nothing:
    """The timeline of the step in view."""
    spans = view.spans()
    if not spans or spans[0]["dur_ns"] <= 0:
        return Nothing("the window is empty; choose another with --from and --to")
    span = spans[0]
    states, cpus = _size(view, span)
    if not states:
        return Nothing("no CPU has a state in this window; record scheduler events with `collect`")
    caption = (
        "Every lane shows exact time: below one pixel, colors are stacked by share. The wheel "
        "zooms, dragging moves, a click selects; `?` lists the keys."
    )
    height = 90 + cpus * (22 if cpus <= 40 else 7)
    sql = view.call("cpu_timeline", trace_id=view.trace_id, columns=_columns(span, states, cpus))
    spells = timeline.parking(view, span)
    # The page draws its lanes from slices of all recordings; notebooks get these.
    lanes = Figure("timeline", caption, {}, kind="timeline", height=max(200, height),
                   made=lambda: _plot(view, span, sql, spells))  # fmt: skip
    figures = [lanes]
    answers = [Answer(sql, "cpu_timeline", (), [])]
    parked = timeline.parked_count(spells, cpus, span)
    if parked is not None:
        figures.append(parked)
    frame_sql = view.call("frame_time", trace_id=view.trace_id, process=view.process)
    frames = timeline.frames(view.rows(frame_sql), span, height=150)
    if frames is not None:
        figures.insert(1, frames)
        answers.append(Answer(frame_sql, "frame_time", (), []))
    busy = timeline.concurrency(view, span)
    if busy is not None:
        answers.append(busy[0])
        figures.append(busy[1])
    return Section(
        "Read across to see what one CPU or thread did, and down to see what happened at the same "
        "moment. The lanes show one recording at a time; the figures below them show the step "
        "named here and follow the lanes.",
        view.step_window(),
        tuple(figures),
        (*answers, view.ask_step("thread_cpu", process=view.process).fold()),
    )


def _size(view: View, span: dict[str, Any]) -> tuple[int, int]:
    """The number of states in the window, and of CPUs."""
    counted = view.rows(
        f"SELECT count(*) AS n, count(DISTINCT cpu) AS cpus FROM cpu_state "
        f"WHERE trace_id = {view.trace_id} AND ts < {span['end_ns']} "
        f"AND ts + dur > {span['start_ns']}"
    )[0]
    return int(counted["n"]), int(counted["cpus"])


def _columns(span: dict[str, Any], states: int, cpus: int) -> int:
    """Time bins per CPU; as many as nanoseconds for every slice."""
    if states <= MOST_RUNS:
        return int(span["dur_ns"])
    return max(500, min(COLUMNS, 4 * MOST_RUNS // max(1, cpus)))


def _plot(
    view: View, span: dict[str, Any], sql: str, spells: list[dict[str, Any]]
) -> dict[str, Any]:
    view.execute(f"CREATE OR REPLACE TEMP TABLE report_timeline AS {sql}")
    try:
        plot = _runs(view, span)
    finally:
        view.execute("DROP TABLE report_timeline")
    return {**plot, "parked": _parked(plot, spells, span)}


def _runs(view: View, span: dict[str, Any]) -> dict[str, Any]:
    cpus = view.rows(
        f"SELECT DISTINCT ON (c.cpu) c.cpu, t.core, t.core_type, t.package, t.llc, t.smt_index "
        f"FROM report_timeline AS c LEFT JOIN topology(p_trace_id := {view.trace_id}) AS t "
        "ON t.cpu = c.cpu ORDER BY c.cpu"
    )
    order = sorted(
        cpus,
        key=lambda row: [_rank(row[key]) for key in ("package", "llc", "core", "smt_index", "cpu")],
    )
    threads = view.rows(
        "SELECT utid, any_value(thread) AS thread, any_value(tid) AS tid, "
        "any_value(process) AS process, sum(dur_ns)::BIGINT AS run_ns FROM report_timeline "
        f"WHERE state = 'thread' GROUP BY utid ORDER BY run_ns DESC, utid LIMIT {THREADS}"
    )
    least = span["dur_ns"] * LEAST_PCT / 100
    ranks = ", ".join(f"({int(row['utid'])}, {i})" for i, row in enumerate(threads))
    places = ", ".join(f"({row['cpu']}, {i})" for i, row in enumerate(order))
    runs = view.table(
        f"SELECT p.place AS row, t.start_ns - {span['start_ns']} AS start, t.dur_ns AS dur, "
        f"{_CODES} AS code FROM report_timeline AS t "
        f"JOIN (VALUES {places or '(NULL, NULL)'}) AS p(cpu, place) ON p.cpu = t.cpu "
        f"LEFT JOIN (VALUES {ranks or '(NULL, NULL)'}) AS r(utid, rank) ON r.utid = t.utid "
        "ORDER BY p.place, t.start_ns"
    )
    return {
        "cpus": [_label(row) for row in order],
        "numbers": [row["cpu"] for row in order],
        "threads": [
            {
                "name": f"{short(row['thread'], 40)} ({row['tid']})",
                "process": short(row["process"], 40) if row["process"] else "",
                "run_ns": row["run_ns"],
                "shown": i < FIRST or row["run_ns"] >= least,
            }
            for i, row in enumerate(threads)
        ],
        "runs": {name: runs.column(name).to_pylist() for name in ("row", "start", "dur", "code")},
        "from_ns": span["start_ns"],
        "to_ns": span["end_ns"],
    }


def _parked(
    plot: dict[str, Any], spells: list[dict[str, Any]], span: dict[str, Any]
) -> dict[str, list[int]]:
    """The parking intervals as columns: row of the figure, start relative to the window, length."""
    places = {cpu: place for place, cpu in enumerate(plot["numbers"])}
    drawn = [spell for spell in spells if spell["cpu"] in places]
    if len(drawn) > MOST_RUNS:
        # Keep the longest: the screen cannot show more.
        drawn = sorted(drawn, key=lambda spell: spell["ts"] - spell["end_ns"])[:MOST_RUNS]
    return {
        "row": [places[spell["cpu"]] for spell in drawn],
        "start": [spell["ts"] - span["start_ns"] for spell in drawn],
        "dur": [spell["end_ns"] - spell["ts"] for spell in drawn],
    }


def _rank(value: int | None) -> int:
    return -1 if value is None else value


def _label(row: dict[str, Any]) -> str:
    kind = row["core_type"]
    return f"CPU {row['cpu']}" + (f" {kind}" if kind not in (None, "U") else "")
