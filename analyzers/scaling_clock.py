"""How the clock falls with the cores in use, and what the second thread of a core yields.

It is info where the clock falls by 3 % or more from one core in use to all of them; a warning where
cores were throttled for heat during the measurement. Y is info for each kernel; a warning where the
interval of the measurement of Y is wider than 10 % of it, since work % is computed from it. With
`--sustain`, it is info where the clock falls by 2 % or more under long load, with the whole
interval above 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import (
    Finding,
    Metric,
    Outcome,
    Rank,
    Scope,
    Severity,
    clean,
    not_applicable,
)
from schedlens.output.wording import between, count, duration, interval, percent

NEEDS = ("scaling",)
METRIC: Metric = "measured"
KINDS = (
    "clock_falls",
    "throttled_by_heat",
    "sibling_yield",
    "uncertain_yield",
    "turbo_not_sustained",
)

Row = dict[str, Any]

_FALLS_PCT = 3.0
_WIDE = 0.10
_TURBO_FALLS_PCT = 2.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """What the experiment `scaling` shows in addition to its curves, or that it was not run."""
    turbo = scope.rows("FROM scaling_clock")
    yields = scope.rows("FROM core_yield")
    if not turbo and not yields and not scope.rows("FROM turbo_sustained"):
        yield not_applicable("The experiment scaling was not run.")
        return
    clocked = [row for row in turbo if row["ghz"] is not None]
    if clocked:
        yield _clock(clocked)
    elif turbo:
        yield not_applicable("The clock of the cores is not known.")
    yield from _sustained(scope.rows("FROM turbo_sustained"))
    hot = sum(row["throttles"] or 0 for row in turbo)
    if hot:
        yield _found(
            "throttled_by_heat",
            "warning",
            f"Cores were throttled for heat {count(hot, 'time')}",
            f"Cores were throttled for heat {count(hot, 'time')} while the curves were measured.",
            "Improve the cooling and measure again: these curves show the machine when it is hot.",
        )
    known = [row for row in yields if row["yield"] is not None]
    if known:
        parts = [
            f"{row['workload']} {row['yield']:.3g}{interval(row['yield_low'], row['yield_high'])}"
            + (f" on {row['core_type']} cores" if row["core_type"] not in (None, "U") else "")
            for row in known
        ]
        low, high = (end(row["yield"] for row in known) for end in (min, max))
        size = between(f"{low:.3g}", f"{high:.3g}")
        yield _found(
            "sibling_yield",
            "info",
            f"Two SMT siblings do {size} times the work of one",
            f"Work of both SMT siblings of a core relative to one alone (Y): {', '.join(parts)}.",
            "Plan capacity with Y: it is kept as this machine's calibration, and later analyses "
            "compute work % from it.",
            "FROM core_yield",
        )
    wide = [row for row in known if row["yield_high"] - row["yield_low"] > _WIDE * row["yield"]]
    if wide:
        names = ", ".join(row["workload"] for row in wide)
        yield _found(
            "uncertain_yield",
            "warning",
            f"Sibling yield is uncertain by more than {percent(100 * _WIDE)}",
            f"The interval of Y is wider than {percent(100 * _WIDE)} of it for {names}.",
            "Measure again on a quiet machine, or with more `--repeats`.",
            "FROM core_yield",
        )


def _clock(turbo: list[Row]) -> Finding | Outcome:
    first, last = turbo[0], max(turbo, key=lambda row: (row["cores"], -row["threads"]))
    fall = 100 * (1 - last["ghz"] / first["ghz"])
    if fall >= _FALLS_PCT:
        return _found(
            "clock_falls",
            "info",
            f"Clock falls by {percent(fall)} with {last['cores']} cores in use",
            f"The clock is {first['ghz']:.3g} GHz{interval(first['ghz_low'], first['ghz_high'])} "
            f"with {count(first['cores'], 'core')} in use and {last['ghz']:.3g} GHz"
            f"{interval(last['ghz_low'], last['ghz_high'])} with {last['cores']}.",
            "Plan capacity with the clock at full load (`FROM scaling_clock`), not at one core.",
        )
    return clean(
        f"The clock does not fall by {percent(_FALLS_PCT)} or more from "
        f"{count(first['cores'], 'core')} in use to {last['cores']}: {first['ghz']:.3g} GHz, "
        f"{last['ghz']:.3g} GHz."
    )


def _sustained(rows: list[Row]) -> Iterable[Finding]:
    """The number of active cores at which the clock falls most under long load."""
    falls = [row for row in rows if row["fall_pct"] >= _TURBO_FALLS_PCT and row["fall_low_pct"] > 0]
    if not falls:
        return
    worst = max(falls, key=lambda row: row["fall_pct"])
    ends = interval(worst["sustained_low_ghz"], worst["sustained_high_ghz"])
    watts = "" if worst["watts"] is None else f", at {worst['watts']:.3g} W"
    yield _found(
        "turbo_not_sustained",
        "info",
        f"Clock falls by {percent(worst['fall_pct'])} under sustained load",
        f"With {count(worst['cores'], 'core')} active the clock falls from "
        f"{worst['first_ghz']:.3g} GHz to {worst['sustained_ghz']:.3g} GHz{ends}, within "
        f"{duration(worst['falling_s'] * 1e9)}{watts}.",
        "Plan capacity with the sustained clock (`FROM turbo_sustained`); short benchmarks show "
        "the first one.",
        "FROM turbo_sustained",
    )


def _found(
    kind: str,
    severity: Severity,
    title: str,
    detail: str,
    advice: str,
    evidence: str = "FROM scaling_clock",
) -> Finding:
    return Finding(kind, severity, title, detail, advice, evidence, rank=Rank.ANSWER)
