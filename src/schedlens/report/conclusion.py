"""The answer to the question of the session: experiment, sweep, frames, or where time went."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from schedlens.ask.findings import Rank
from schedlens.output.terminal import visible
from schedlens.output.wording import count, duration, percent, thread_name, unbroken
from schedlens.report.figures import short, units
from schedlens.report.rates import by_kernel, digits, unit_text
from schedlens.report.sections import Rows, View

# Findings that state a part of the verdict: they are listed after the others.
STATED = {
    "sweep": frozenset(
        {"knee", "too_many_threads", "worse_placement", "sibling_gains", "sibling_costs"}
    ),
}

# Two throughputs closer than this are the same.
SAME_PCT = 5.0
_ADD_NOTHING = "more add nothing"
_SAME_PLACES = "placement makes no difference"
_MOST_KERNELS = 3
_MOST_ANSWERS = 3
_MOST_FRAMES = 600
_MOST_SHARES = 6
_OBSTACLES = {
    "throttled_ns": "a quota or a limit of their scheduling class was used up",
    "idle_exit_ns": "an idle CPU was waking up",
    "idle_available_ns": "a CPU that they may use was idle",
    "parked_available_ns": "a CPU that they may use was parked",
    "all_busy_ns": "all CPUs that they may use were busy",
}


def verdict(view: View) -> dict[str, Any]:
    """Kind of the session, the sentences that answer its question, and the plot next to them."""
    for kind, answer in (
        ("experiment", _experiment),
        ("sweep", _sweep),
        ("frames", _frames),
        ("time", _time),
    ):
        found = answer(view)
        if found is not None:
            lines, plot = found
            return {
                "kind": kind,
                "lines": [units(visible(unbroken(line))) for line in lines],
                "plot": plot,
            }
    return {"kind": "none", "lines": [], "plot": None}


Answered = tuple[list[str], dict[str, Any] | None] | None


def _experiment(view: View) -> Answered:
    found = view.rows(
        f"SELECT title, detail FROM finding WHERE rank = {int(Rank.ANSWER)} "
        f"ORDER BY finding_id LIMIT {_MOST_ANSWERS}"
    )
    if not found:
        return None
    return [f"{found[0]['title']}.", *(row["detail"] for row in found)], None


def _sweep(view: View) -> Answered:
    points = [row for row in view.kept("FROM scaling_curve") if row["per_s"]]
    if len({row["threads"] for row in points}) < 2:
        return None
    cpus = view.rows(
        "SELECT max(cpus) AS cpus FROM (SELECT trace_id, count(DISTINCT cpu) AS cpus "
        "FROM topology WHERE online GROUP BY trace_id)"
    )[0]["cpus"]
    kernels = by_kernel(points, len(points))
    named = len(kernels) > 1
    lines = [
        (f"{name}, " if named else "") + _scaling(found, cpus)
        for name, found in kernels[:_MOST_KERNELS]
    ]
    lines = [f"{line[0].upper()}{line[1:]}" for line in lines]
    if len(kernels) > _MOST_KERNELS:
        lines[-1] += f" {count(len(kernels) - _MOST_KERNELS, 'more kernel')} below."
    return lines, _curve(*kernels[0])


def _best(points: Rows) -> dict[str, Any]:
    return max(points, key=lambda point: (point["per_s"], -point["threads"]))


def _scaling(points: Rows, cpus: int | None) -> str:
    """`2 CPUs: 2 threads do 1.98 times the work of one; more add nothing; ...`."""
    free = [row for row in points if row["placement"] != "pinned"] or points
    by_threads = {
        threads: _best(list(rows))
        for threads, rows in groupby(
            sorted(free, key=lambda row: row["threads"]), key=lambda row: row["threads"]
        )
    }
    least = 1 - SAME_PCT / 100
    top = max(row["per_s"] for row in by_threads.values())
    peak = next(row for _, row in sorted(by_threads.items()) if row["per_s"] >= least * top)
    # More threads than CPUs share them wherever they are placed.
    fitting = [row for row in free if not cpus or row["threads"] <= cpus]
    differences = [_beyond(peak, by_threads), _placements(fitting or free)]
    said = "; ".join(part for part in (_gain(peak, by_threads), *differences) if part)
    unsure = sum(bool(row["is_disturbed"]) for row in points)
    doubt = f" {unsure} of {count(len(points), 'point')} were disturbed." if unsure else ""
    differs = any(part not in ("", _ADD_NOTHING, _SAME_PLACES) for part in differences)
    if differs and all(row["repeats"] < 2 for row in points):
        doubt += " Each point was measured once, so a difference may be chance."
    doubt += _too_much(peak, by_threads.get(1), cpus)
    return (f"{count(cpus, 'CPU')}: " if cpus else "") + f"{said}.{doubt}"


def _gain(peak: dict[str, Any], by_threads: dict[int, dict[str, Any]]) -> str:
    threads = count(peak["threads"], "thread")
    one = by_threads.get(1)
    size, unit = unit_text(peak["unit"], peak["per_s"])
    rate = f"{digits(peak['per_s'] / size)} {unit}"
    if peak["threads"] == 1:
        return f"one thread reaches the highest throughput, {rate}"
    if one is None:
        return f"{threads} reach the highest throughput, {rate}"
    return f"{threads} are {peak['per_s'] / one['per_s']:.2f}× one ({rate})"


def _too_much(peak: dict[str, Any], one: dict[str, Any] | None, cpus: int | None) -> str:
    """That the threads do more than so many CPUs can; empty if they do not."""
    most = min(peak["threads"], cpus or peak["threads"])
    if one is None or peak["per_s"] / one["per_s"] <= most * (1 + SAME_PCT / 100):
        return ""
    return (
        f" More than {most}× is seldom real: something probably slowed down the step with one "
        "thread. Measure again (collect --repeat 3)."
    )


def _beyond(peak: dict[str, Any], by_threads: dict[int, dict[str, Any]]) -> str:
    """What threads beyond the highest throughput add."""
    more = [row for threads, row in by_threads.items() if threads > peak["threads"]]
    if not more:
        return ""
    last = max(more, key=lambda row: row["threads"])
    change = 100 * (last["per_s"] / peak["per_s"] - 1)
    if change > -SAME_PCT:
        return _ADD_NOTHING
    return f"{count(last['threads'], 'thread')} do {percent(-change)} less"


def _placements(points: Rows) -> str:
    """The largest difference between two placements of as many threads."""
    worst: tuple[float, Any, Any] | None = None
    compared = 0
    for _, rows in groupby(
        sorted(points, key=lambda row: (row["threads"], row["placement"])),
        key=lambda row: row["threads"],
    ):
        group = list(rows)
        if len(group) < 2:
            continue
        compared += 1
        best, least = _best(group), min(group, key=lambda row: row["per_s"])
        # Repeats that overlap show no difference.
        overlap = (
            best["repeats"] > 1
            and None not in (least["high_per_s"], best["low_per_s"])
            and least["high_per_s"] >= best["low_per_s"]
        )
        loss = 0.0 if overlap else 100 * (1 - least["per_s"] / best["per_s"])
        if worst is None or loss > worst[0]:
            worst = (loss, best, least)
    if worst is None or not compared:
        return ""
    loss, best, least = worst
    if loss < SAME_PCT:
        return _SAME_PLACES
    return (
        f"with {count(best['threads'], 'thread')}, {best['placement']} does "
        f"{percent(100 * (best['per_s'] / least['per_s'] - 1))} more than {least['placement']}"
    )


def _curve(name: str, rows: Rows) -> dict[str, Any]:
    size, unit = unit_text(rows[0]["unit"], max(row["per_s"] for row in rows))
    placements = list(dict.fromkeys(row["placement"] for row in rows))
    return {
        "kind": "curve",
        "title": f"{name}: {unit} by number of threads",
        "lines": [
            {
                "name": placement,
                "points": [
                    [row["threads"], row["per_s"] / size]
                    for row in sorted(rows, key=lambda row: row["threads"])
                    if row["placement"] == placement
                ],
            }
            for placement in placements
        ],
    }


def worst_frames(view: View) -> dict[str, Any] | None:
    """The frames of the process whose stutters cost most; None without frames."""
    rows = view.kept(view.call("frame_summary", process=view.process))
    return max(
        rows, key=lambda row: (row["stutter_ns"], row["frames"], -row["trace_id"]), default=None
    )


def _frames(view: View) -> Answered:
    worst = worst_frames(view)
    if worst is None:
        return None
    labels = view.labels()
    where = f" in {short(labels.get(worst['trace_id']), 60)}" if len(labels) > 1 else ""
    process = short(worst["process"], 40)
    if not worst["stutters"]:
        lengths = (
            f": half of them last {duration(worst['p50_ns'])} or less, 99 % "
            f"{duration(worst['p99_ns'])} or less"
            if worst["p50_ns"] and worst["p99_ns"]
            else ""
        )
        line = f"None of the {count(worst['frames'], 'frame')} of {process} stutters{lengths}."
        return [line], _frame_plot(view, worst)
    lines = [
        f"{worst['stutters']} of {count(worst['frames'], 'frame')} of {process} stutter{where}: "
        f"they last {duration(worst['stutter_ns'])} longer than usual in total."
    ]
    cause = view.rows(
        f"SELECT detail FROM finding WHERE kind = 'stutter' AND trace_id = {worst['trace_id']} "
        "ORDER BY finding_id LIMIT 1"
    )
    why = cause[0]["detail"].partition("; for ")[2] if cause else ""
    if why:
        lines.append(f"Why: for {why}")
    gained = duration(worst["stutter_ns"] / worst["stutters"])
    usual = f", to about the usual {duration(worst['p50_ns'])}" if worst["p50_ns"] else ""
    lines.append(f"A fix would shorten each of them by {gained} on average{usual}.")
    return lines, _frame_plot(view, worst)


def _frame_plot(view: View, worst: dict[str, Any]) -> dict[str, Any]:
    asked = view.call("frame_time", trace_id=worst["trace_id"], process=view.process)
    rows = [
        row
        for row in view.rows(f"SELECT * FROM ({asked}) ORDER BY start_ns, frame")
        if row["upid"] == worst["upid"] and row["dur_ns"] is not None
    ]
    # Of many frames, the longest of each group of neighbors: a stutter is never left out.
    each = -(-len(rows) // _MOST_FRAMES) if rows else 1
    groups = [rows[at : at + each] for at in range(0, len(rows), each)]
    shown = [max(group, key=lambda row: row["dur_ns"]) for group in groups]
    label = short(view.labels().get(worst["trace_id"]), 40)
    of_each = "" if each == 1 else f", the longest of every {each}"
    return {
        "kind": "frames",
        "title": f"Frames of {short(worst['process'], 40)} in {label}{of_each}, ms",
        "frames": [[row["start_ns"], row["dur_ns"], bool(row["stutter"])] for row in shown],
    }


def _time(view: View) -> Answered:
    if not view.trace_id:
        return None
    cpus = view.kept(view.call("cpu_time", trace_id=view.trace_id))
    names = ("thread_ns", "interrupt_ns", "idle_ns", "unknown_ns")
    spent = {name: sum(row[name] or 0 for row in cpus) for name in names}
    every = sum(spent.values())
    if not every:
        return None
    processes = view.kept(view.call("process_summary", trace_id=view.trace_id))
    busy = programs(processes)
    labels = view.labels()
    where = f"In {short(view.label, 60)}, {len(cpus)}" if len(labels) > 1 else f"{len(cpus)}"
    # In lost time, threads may have run and waited as well.
    least = "at least " if spent["unknown_ns"] else ""
    ran, unknown = (percent(100 * spent[name] / every) for name in ("thread_ns", "unknown_ns"))
    lines = [
        f"{where} CPUs ran threads for {least}{ran} of their time"
        + (f" ({unknown} is unknown)" if least else "")
        + _largest(busy, spent["thread_ns"])
        + "."
    ]
    lines += _waiting(view, least)
    shares = [[_program(row, 30), row["run_ns"]] for row in busy]
    rest = sum(ns for _, ns in shares[_MOST_SHARES:])
    shares = shares[:_MOST_SHARES] + ([["other programs", rest]] if rest else [])
    shares += [
        [word, spent[name]]
        for word, name in (("interrupts", "interrupt_ns"), ("unknown", "unknown_ns"))
        if spent[name]
    ]
    shares.append(["idle", spent["idle_ns"]])
    title = f"CPU time of {short(view.label, 40)}"
    return lines, {"kind": "shares", "title": title, "shares": shares}


def programs(processes: Rows) -> Rows:
    """Running time by the name of the program, the longest first, and how many processes it had."""
    found: dict[str, dict[str, Any]] = {}
    for row in processes:
        if row["run_ns"]:
            name = row["process"] or "unnamed"
            known = found.setdefault(name, {"process": name, "run_ns": 0, "processes": 0})
            known["run_ns"] += row["run_ns"]
            known["processes"] += 1
    return sorted(found.values(), key=lambda row: (-row["run_ns"], row["process"]))


def _program(row: dict[str, Any], length: int) -> str:
    several = f" ({row['processes']} processes)" if row["processes"] > 1 else ""
    return short(row["process"], length) + several


def _largest(busy: Rows, thread_ns: int) -> str:
    if not busy or not thread_ns:
        return ""
    named = [f"{percent(100 * row['run_ns'] / thread_ns)} {_program(row, 40)}" for row in busy[:3]]
    return f": {', '.join(named)}"


def _waiting(view: View, least: str) -> list[str]:
    """How long threads were ready, mostly why, and which one longest."""
    found = view.rows(view.call("ready_obstacle_total", trace_id=view.trace_id))
    if not found or not found[0]["ready_ns"]:
        return []
    total = found[0]
    name = max(_OBSTACLES, key=lambda each: total[each] or 0)
    reason = f", mostly because {_OBSTACLES[name]}" if total[name] else ""
    threads = view.kept(view.call("thread_summary", trace_id=view.trace_id))
    longest = max(threads, key=lambda row: (row["ready_ns"] or 0, row["utid"]), default=None)
    who = ""
    if longest and longest["ready_ns"]:
        background = view.kept("SELECT utid FROM scheduling_policy WHERE policy = 'idle'")
        is_background = {"utid": longest["utid"]} in background
        who = (
            f"; {thread_name(longest['thread'], longest['tid'], longest['process'])}"
            f"{' (SCHED_IDLE)' if is_background else ''} waited longest, "
            f"{least}{duration(longest['ready_ns'])}"
        )
    return [f"Threads were ready for {least}{duration(total['ready_ns'])} in total{reason}{who}."]
