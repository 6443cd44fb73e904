"""What each logical CPU ran over time, reduced to what a screen can show."""

from __future__ import annotations

from typing import Any

from schedlens.figures import short
from schedlens.sections import Answer, Figure, Nothing, Section, View

HEADING = "Timeline"
ORDER = 40

# Rows carried to the page: below this, every stay as it is; above, reduced to columns.
MOST_RUNS = 60_000
COLUMNS = 2000
# Threads with a letter of their own: the first few, and those with this share of the window.
THREADS = 256
FIRST = 8
LEAST_PCT = 1

_CODES = (
    "CASE t.state WHEN 'idle' THEN 0 WHEN 'unknown' THEN 1 WHEN 'offline' THEN 2 "
    "WHEN 'interrupt' THEN 3 ELSE 4 + coalesce(r.rank, 0) END"
)


def section(view: View) -> Section | Nothing:
    """The timeline of the step in view."""
    spans = view.rows(f"FROM analysis_span(p_trace_id := {view.trace_id})")
    if not spans or spans[0]["dur_ns"] <= 0:
        return Nothing("the window holds no time; choose another with --from and --to")
    span = spans[0]
    columns, exact = _columns(view, span)
    sql = view.call("cpu_timeline", trace_id=view.trace_id, columns=columns)
    view.con.execute(f"CREATE OR REPLACE TEMP TABLE report_timeline AS {sql}")
    try:
        plot = _plot(view, span)
    finally:
        view.con.execute("DROP TABLE report_timeline")
    if not plot["runs"]["row"]:
        return Nothing("no CPU has a state in this window; record scheduler events with `collect`")
    how = (
        "In each column of the screen the longest wins; zoom in and every stay appears"
        if exact
        else f"The window is reduced to {columns:,} columns a CPU; in each the longest wins; a "
        "shorter window (`--from`, `--to`) shows more"
    )
    caption = (
        f"One row per logical CPU, siblings next to each other. {how}. Drag to zoom, double-click "
        "for the whole window, press a name below to single it out. The letters in the figure are "
        "those of the key."
    )
    height = 90 + len(plot["cpus"]) * (22 if len(plot["cpus"]) <= 40 else 7)
    return Section(
        "Read across for what one CPU did, and down for what ran at the same moment. Other steps: "
        "`analyze --step NAME`.",
        view.step_window(),
        (Figure(caption, plot, kind="timeline", height=max(200, height)),),
        (
            Answer(sql, "cpu_timeline", (), []),
            view.ask_step("thread_cpu", process=view.process).fold(),
        ),
    )


def _columns(view: View, span: dict[str, Any]) -> tuple[int, bool]:
    """Columns a CPU, and whether that is every stay as it is."""
    counted = view.rows(
        f"SELECT count(*) AS n, count(DISTINCT cpu) AS cpus FROM cpu_state "
        f"WHERE trace_id = {view.trace_id} AND ts < {span['end_ns']} "
        f"AND ts + dur > {span['start_ns']}"
    )[0]
    if counted["n"] <= MOST_RUNS:
        return int(span["dur_ns"]), True
    return max(500, min(COLUMNS, 4 * MOST_RUNS // max(1, counted["cpus"]))), False


def _plot(view: View, span: dict[str, Any]) -> dict[str, Any]:
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
    threads = [row for i, row in enumerate(threads) if i < FIRST or row["run_ns"] >= least]
    ranks = ", ".join(f"({int(row['utid'])}, {i})" for i, row in enumerate(threads, 1))
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
        "threads": [
            {"name": f"{short(row['thread'], 40)} ({row['tid']})", "run_ns": row["run_ns"]}
            for row in threads
        ],
        "runs": {name: runs.column(name).to_pylist() for name in ("row", "start", "dur", "code")},
        "from_ns": span["start_ns"],
        "to_ns": span["end_ns"],
    }


def _rank(value: int | None) -> int:
    return -1 if value is None else value


def _label(row: dict[str, Any]) -> str:
    kind = row["core_type"]
    return f"CPU {row['cpu']}" + (f" {kind}" if kind not in (None, "U") else "")
