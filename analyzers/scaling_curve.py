"""How throughput follows the number of threads: the knee, the second thread of a core, too many.

The knee is the first point, with no more threads than CPUs, from which an added thread brings less
than half of what one thread alone does; it is a warning where cores without any worker were left,
else info. The second thread of a core costs where Y is below 0.97 (closer to 1 two runs cannot show
a difference): a warning where Y is below 1 at each of two or more numbers of cores in use, else
info; Y above 2 is a disturbed measurement. More threads than CPUs is a warning where throughput
falls 5 % below the best. A placement is a warning where it does 10 % less than the best one at the
same number of threads. Points from disturbed steps, from a single repeat, or with repeats that
overlap are info and say so; where CPUs were stopped for a fifth of the work without steal they are
not judged. What disturbed the steps is info from 2 % of their workers' CPUs, a warning from 10 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean, not_applicable
from schedlens.output.wording import count, duration, percent, recordings, thread_name

NEEDS = ("workers",)
METRIC: Metric = "measured"
KINDS = (
    "stalled_steps",
    "disturbed_step",
    "knee",
    "too_many_threads",
    "worse_placement",
    "implausible_yield",
    "sibling_costs",
    "sibling_gains",
)

Row = dict[str, Any]

HALF_PCT = 50.0
COSTS_BELOW = 0.97
FALL_PCT = 5.0
WORSE_PCT = 10.0
# From here on step_disturbance takes a step for one whose CPUs were stopped.
STALLED_PCT = 20.0
MOST_YIELD = 2.0
SHOWS = "shows whether it is more than chance"
SHARE_INFO_PCT = 2.0
STEAL_INFO_PCT = 1.0
DISTURBED_PCT = 10.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """What the curves show, or that there are none."""
    points = scope.rows("FROM scaling_curve")
    disturbed = scope.rows("FROM step_disturbance WHERE is_disturbed ORDER BY trace_id")
    # The cells of an experiment are judged by its own analyzer; other programs that disturbed them
    # are reported here.
    if not points and not (disturbed and scope.rows("FROM experiment_cell LIMIT 1")):
        yield not_applicable("The session contains no steps of a workload.")
        return
    stalled = [row for row in disturbed if (row["stalled_pct"] or 0) >= STALLED_PCT]
    found: list[Finding] = []
    if stalled and points:
        found.append(_stalled(stalled, len(points)))
    elif points:
        found += _curves(points, _cores(scope))
        found += _placements(points)
    foreign = [
        row
        for row in disturbed
        if (row["other_pct"] or 0) >= SHARE_INFO_PCT or (row["steal_pct"] or 0) >= STEAL_INFO_PCT
    ]
    if foreign:
        found.append(_disturbed(foreign))
    found += _yields(scope)
    yield from found
    if not found:
        yield (
            clean(
                f"{count(len(points), 'point')}, none disturbed: no knee, no placement "
                f"{percent(WORSE_PCT)} worse than another, no loss by too many threads."
            )
            if points
            else not_applicable("The session contains no sweep of a workload.")
        )


def _stalled(rows: list[Row], points: int) -> Finding:
    worst = max(rows, key=lambda row: (row["stalled_pct"], -row["trace_id"]))
    return Finding(
        kind="stalled_steps",
        severity="info",
        title=f"{percent(worst['stalled_pct'])} of the work is missing; curves are not judged",
        detail=(
            f"In {count(len(rows), 'step')} the workers had their CPUs, yet up to "
            f"{percent(worst['stalled_pct'])} of the work is missing ({worst['step']}): the CPUs "
            "were stopped without reporting steal, so none of the "
            f"{count(points, 'point')} is judged."
        ),
        advice=(
            "Measure throughput on real CPUs, or with no more virtual CPUs than real ones: virtual "
            "CPUs that take turns often report no steal."
        ),
        trace_id=worst["trace_id"],
        cost_pct=worst["stalled_pct"],
        cost_of="of the work",
        evidence_sql="SELECT trace_id, step, steal_pct, stalled_pct FROM step_disturbance",
        counter_evidence_sql=(
            "SELECT trace_id, step, per_s, batch_per_s, cpu_pct FROM run_throughput"
        ),
    )


def _disturbed(rows: list[Row]) -> Finding:
    """The step in which others had most of the workers' CPUs."""
    worst = max(rows, key=lambda row: (row["other_pct"] or 0, row["steal_pct"] or 0))
    taken = (worst["steal_pct"] or 0) > (worst["other_pct"] or 0)
    who = (
        f"the hypervisor took {percent(worst['steal_pct'])} of a CPU"
        if taken
        else f"other programs ran for {duration(worst['other_ns'])} "
        f"({percent(worst['other_pct'])}) on the workers' CPUs; "
        f"{thread_name(worst['other_thread'], worst['other_tid'], worst['other_process'])} ran "
        f"longest, {duration(worst['longest_ns'])}"
    )
    return Finding(
        kind="disturbed_step",
        severity=(
            "warning"
            if max(worst["other_pct"] or 0, worst["steal_pct"] or 0) >= DISTURBED_PCT
            else "info"
        ),
        title=(
            f"Hypervisor took {percent(worst['steal_pct'])} of a CPU from workers"
            if taken
            else f"Other programs ran {duration(worst['other_ns'])} on the workers' CPUs"
        ),
        detail=f"{recordings(worst['step'], len(rows) - 1)}{who}.",
        advice=(
            "Repeat these steps on a quiet machine: `collect --repeat N` leaves disturbed repeats "
            "out of the curve."
        ),
        trace_id=worst["trace_id"],
        cost_ns=None if taken else worst["other_ns"],
        cost_pct=worst["steal_pct"] if taken else worst["other_pct"],
        utid=None if taken else worst["other_utid"],
        cost_of="of the workers' CPU time",
        evidence_sql="FROM step_disturbance WHERE is_disturbed ORDER BY other_pct DESC NULLS LAST",
        counter_evidence_sql="SELECT * FROM step_disturbance WHERE NOT is_disturbed",
    )


def _cores(scope: Scope) -> int | None:
    """Cores of the machine; None if unknown."""
    row = scope.rows(
        "SELECT count(DISTINCT (trace_id, core)) AS cores, "
        "count(DISTINCT trace_id) AS recordings FROM topology WHERE online"
    )[0]
    return row["cores"] // row["recordings"] if row["recordings"] and row["cores"] else None


def _curves(points: list[Row], cores: int | None) -> Iterable[Finding]:
    """The knees, then too many threads; placements with the same steps are judged once."""
    curves: dict[tuple[object, ...], list[list[Row]]] = {}
    for _, group in groupby(points, key=lambda p: (p["workload"], p["variant"], p["placement"])):
        curve = list(group)
        same = (curve[0]["workload"], curve[0]["variant"])
        key = (*same, *((p["threads"], p["per_s"]) for p in curve))
        curves.setdefault(key, []).append(curve)
    named = [
        (alike[0], " and ".join(str(curve[0]["placement"]) for curve in alike))
        for alike in curves.values()
    ]
    for curve, placement in named:
        yield from _knee(curve, placement, cores)
    for curve, placement in named:
        yield from _too_many(curve, placement)


def _where(point: Row) -> str:
    variant = (
        "variant IS NULL" if point["variant"] is None
        else f"variant = '{point['variant'].replace(chr(39), chr(39) * 2)}'"
    )  # fmt: skip
    workload = str(point["workload"]).replace("'", "''")
    return f"workload = '{workload}' AND {variant} AND placement = '{point['placement']}'"


def _weighed(severity: Severity, *points: Row, overlap: bool) -> tuple[Severity, str]:
    """The severity of a judgement on these points, and what to add to its detail."""
    if any(point["is_disturbed"] for point in points):
        return "info", " (uncertain: measured in disturbed steps)"
    # How far two measurements of the same thing differ is unknown without a second one.
    if any(point["repeats"] < 2 for point in points):
        return "info", f" (uncertain: one repeat; `collect --repeat 3` {SHOWS})"
    if overlap:
        return "info", f" (uncertain: the repeats overlap; a larger `--repeat` {SHOWS})"
    return severity, ""


def _knee(curve: list[Row], placement: str, cores: int | None) -> Iterable[Finding]:
    for before, point in pairwise(curve):
        gained = point["added_thread_pct"]
        if gained is None or gained >= HALF_PCT or point["oversubscribed"]:
            continue
        free = cores - before["threads"] if cores is not None else 0
        early = free > 0 and point["placement"] in ("physical", "default")
        added = (point["high_per_s"] - before["low_per_s"]) / (point["threads"] - before["threads"])
        overlap = 100 * added / curve[0]["per_s"] >= HALF_PCT
        severity, unsure = _weighed(
            "warning" if early else "info", curve[0], before, point, overlap=overlap
        )
        verb = "add" if gained >= 0 else "cost"
        part = percent(abs(gained))
        yield Finding(
            kind="knee",
            severity=severity,
            title=f"Threads beyond {before['threads']} {verb} {part} of the first",
            detail=(
                f"{point['workload']}, {placement}: beyond {count(before['threads'], 'thread')} "
                f"each further thread {verb}s {part} of the throughput of the first"
                + (f", with {count(free, 'core')} still free" if early else "")
                + f"{unsure}."
            ),
            advice=(
                "Look for what the threads share: memory, the last-level cache, power, or other "
                "programs on those cores (`FROM step_disturbance`, `FROM steal`)."
                if early
                else "Start no more threads than this, or expect only the yield of an SMT sibling "
                "from each (`FROM smt_yield`)."
            ),
            cost_pct=100 - gained,
            cost_of="of a thread",
            evidence_sql=f"SELECT * FROM scaling_curve WHERE {_where(point)}",
            counter_evidence_sql="FROM step_disturbance",
        )
        return


def _too_many(curve: list[Row], placement: str) -> Iterable[Finding]:
    fitting = [p for p in curve if not p["oversubscribed"]]
    beyond = [p for p in curve if p["oversubscribed"]]
    if not fitting or not beyond:
        return
    best = max(fitting, key=lambda p: p["per_s"])
    worst = min(beyond, key=lambda p: p["per_s"])
    fall = 100 * (1 - worst["per_s"] / best["per_s"]) if best["per_s"] else 0.0
    if fall >= FALL_PCT:
        overlap = worst["high_per_s"] >= best["low_per_s"]
        severity, unsure = _weighed("warning", best, worst, overlap=overlap)
        yield Finding(
            kind="too_many_threads",
            severity=severity,
            title=f"{worst['threads']} threads do {percent(fall)} less than {best['threads']}",
            detail=(
                f"{worst['workload']}, {placement}: {worst['threads']} threads, more than CPUs, do "
                f"{percent(fall)} less than {best['threads']}{unsure}."
            ),
            advice="Start no more workers than there are CPUs for them (`nproc`).",
            cost_pct=fall,
            cost_of="of the throughput",
            evidence_sql=f"SELECT * FROM scaling_curve WHERE {_where(worst)}",
        )


def _placements(points: list[Row]) -> Iterable[Finding]:
    """The largest loss of each placement against the best at the same number of threads."""

    def plan(point: Row) -> tuple[str, str, int]:
        return (point["workload"], point["variant"] or "", point["threads"])

    worst: dict[tuple[str, str], tuple[float, Row, Row]] = {}
    for _, same in groupby(sorted(points, key=plan), key=plan):
        group = [p for p in same if p["placement"] != "pinned" and p["per_s"]]
        if len(group) < 2:
            continue
        best = max(group, key=lambda p: p["per_s"])
        for point in group:
            loss = 100 * (1 - point["per_s"] / best["per_s"])
            key = (point["workload"], point["placement"])
            if loss >= WORSE_PCT and loss > worst.get(key, (0.0,))[0]:
                worst[key] = (loss, point, best)
    for loss, point, best in worst.values():
        name = str(point["workload"]).replace("'", "''")
        overlap = point["high_per_s"] >= best["low_per_s"]
        severity, unsure = _weighed("warning", point, best, overlap=overlap)
        yield Finding(
            kind="worse_placement",
            severity=severity,
            title=(
                f"Placement {point['placement']} does {percent(loss)} less than {best['placement']}"
            ),
            detail=(
                f"{point['workload']}: with {count(point['threads'], 'thread')} the placement "
                f"{point['placement']} does {percent(loss)} less than {best['placement']}{unsure}."
            ),
            advice=f"Place this number of threads with `--placement {best['placement']}`.",
            cost_pct=loss,
            cost_of="of the throughput",
            evidence_sql=(
                "SELECT placement, threads, repeats, per_s, low_per_s, high_per_s, spread_pct "
                f"FROM scaling_curve WHERE workload = '{name}' AND threads = {point['threads']}"
            ),
        )


def _doubt(measured: Row) -> str:
    """Why a loss by the second thread of a core may be chance; empty if it is more than that."""
    if measured["pairs"] < 2:
        return " (uncertain: not compared at two numbers of cores in use)"
    if measured["yield_high"] >= 1:
        return f" (uncertain: from {measured['yield_low']:.3g} to {measured['yield_high']:.3g})"
    return ""


def _yields(scope: Scope) -> Iterable[Finding]:
    for row in scope.rows("SELECT * FROM smt_yield WHERE yield IS NOT NULL"):
        gain = 100 * (row["yield"] - 1)
        costs = row["yield"] < COSTS_BELOW
        unsure = _doubt(row) if costs else ""
        of_type = f" on {row['core_type']} cores" if row["core_type"] not in (None, "U") else ""
        if row["yield"] > MOST_YIELD:
            kind = "implausible_yield"
            title = f"SMT siblings seem to do {row['yield']:.3g} times one alone"
            detail = (
                f"{row['workload']}: both SMT siblings of a core together seem to do "
                f"{row['yield']:.3g} times one alone{of_type}, more than two cores could: the "
                "steps are not comparable."
            )
            advice = "Measure again on a machine whose host takes no CPU time (`FROM steal`)."
        elif costs:
            kind = "sibling_costs"
            title = f"Two SMT siblings do {percent(-gain)} less than one"
            detail = (
                f"{row['workload']}: both SMT siblings of a core together do {percent(-gain)} less "
                f"than one alone{of_type} (Y = {row['yield']:.3g}){unsure}."
            )
            advice = "Leave one sibling of each core idle for this work (`--placement physical`)."
        else:
            kind = "sibling_gains"
            title = f"Two SMT siblings do {percent(gain)} more than one"
            detail = (
                f"{row['workload']}: both SMT siblings of a core together do {percent(gain)} more "
                f"than one alone{of_type} (Y = {row['yield']:.3g})."
            )
            advice = "Plan second threads with this yield, not with twice the throughput."
        yield Finding(
            kind=kind,
            severity="warning" if costs and not unsure else "info",
            title=title,
            detail=detail,
            advice=advice,
            cost_pct=-gain if costs else None,
            bound="exact" if row["pairs"] else "range",
            cost_of="of the throughput",
            evidence_sql="FROM smt_yield",
        )
