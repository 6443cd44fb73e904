"""Frames over time with stutters marked, and where the time of slow frames went."""

from __future__ import annotations

from typing import Any

from schedlens.report import timeline
from schedlens.report.figures import bar, ms, row_height, rows_across, short
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Frames"
ORDER = 15
# Of sessions of this kind it answers the question.
ANSWERS = "frames"
FIGURES = {
    "frames": "length of each frame",
    "critical_path": "where the longest frames spent their time, along the critical path",
    "presenting_thread": "the same for the presenting thread",
}

_MOST_BARS = 12
PARTS = (
    ("run_p_alone", "runs alone on its core", "@blue", 0),
    ("run_p_shared", "runs, SMT sibling busy", "@teal", 1),
    ("run_p_unknown", "runs, sibling unknown", "@mid", 2),
    ("run_e", "runs on an E core", "@green", 2),
    ("run_other", "runs, core type unknown", "@mid", 5),
    ("interrupt", "interrupts", "@pink", 7),
    ("ready_all_busy", "ready, all busy", "@orange", 3),
    ("ready_idle_available", "ready, a CPU idle", "@red", 4),
    ("ready_parked_available", "ready, only parked CPUs idle", "@purple", 6),
    ("ready_idle_exit", "ready, CPU waking", "@brown", 2),
    ("ready_throttled", "throttled", "@brown", 4),
    ("ready_unknown", "ready, cause unknown", "@mid", 1),
    ("wait", "waits", "@line", 0),
    ("new", "new", "@mid", 3),
    ("unknown", "unknown", "@mid", 4),
)
# On a machine with slow cores, the label names the fast ones.
_HYBRID = (("run_p_alone", "runs alone on a P core", "@blue", 0), *PARTS[1:])
_SLOW_CORE = "SELECT 1 FROM cpu WHERE core_type IN ('E', 'LP-E')"


def section(view: View) -> Section | Nothing:
    """Frame times of the step in view and the ledgers of its slowest frames."""
    frames = view.ask_step("frame_time", process=view.process)
    timed = [row for row in frames.rows if row["dur_ns"] is not None]
    if not timed:
        return Nothing(
            "no frames were recorded; record DXGI presents, or add a PresentMon file or a "
            "program's own frame stamps"
        )
    slow = [row for row in timed if row["stutter"]]
    span = view.spans()[0]
    over_time = timeline.frames(timed, span, height=220)
    figures = [over_time] if over_time is not None else []
    hybrid = bool(view.rows(f"{_SLOW_CORE} AND trace_id = {view.trace_id} LIMIT 1"))
    answers = [view.ask_each("frame_summary"), frames.fold()]
    for path, name, words in (
        (True, "critical_path", "the critical path"),
        (False, "presenting_thread", "the presenting thread"),
    ):
        ledger = view.ask_step("frame_ledger", process=view.process, path=path)
        drawn = _ledger(ledger.rows, bool(slow), hybrid)
        if drawn is not None:
            plot, count = drawn
            kind = "stutters" if slow else "frames"
            figures.append(
                Figure(
                    name,
                    f"Where the time of the {count} longest {kind} went along {words}. The parts "
                    "of each bar add up to the frame.",
                    plot,
                    height=row_height(count),
                )
            )
            answers.append(
                view.ask_step("frame_ledger_total", process=view.process, path=path).fold()
            )
    return Section(
        "A stutter is a frame at least 1.5× and 4 ms longer than the median of its 31 neighbors "
        "(or than the median of all frames, if that is shorter). The critical path assigns each "
        "moment of a frame to the thread that the frame waited for.",
        view.step_window(),
        tuple(figures),
        tuple(answers),
    )


def _ledger(
    rows: list[dict[str, Any]], stutters: bool, hybrid: bool
) -> tuple[dict[str, Any], int] | None:
    frames: dict[tuple[Any, Any], dict[str, int]] = {}
    length: dict[tuple[Any, Any], int] = {}
    label: dict[tuple[Any, Any], str] = {}
    for row in rows:
        if stutters and not row["stutter"]:
            continue
        key = (row["upid"], row["frame"])
        parts = frames.setdefault(key, {})
        parts[row["part"]] = parts.get(row["part"], 0) + row["dur"]
        length[key] = row["frame_ns"]
        label[key] = f"{short(row['process'], 16)} {row['frame']}"
    if not frames:
        return None
    chosen = sorted(frames, key=lambda key: -length[key])[:_MOST_BARS]
    labels = [label[key] for key in chosen]
    traces = [
        bar(name, labels, [ms(frames[key].get(part)) for key in chosen], index,
            unit="ms", colour=colour)
        for part, name, colour, index in (_HYBRID if hybrid else PARTS)
        if any(frames[key].get(part) for key in chosen)
    ]  # fmt: skip
    return rows_across(traces, "ms"), len(chosen)
