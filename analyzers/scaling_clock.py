"""How the clock falls with the cores in use, and what the second thread of a core yields.

The clock is told where it falls by 3 % or more from one core in use to all of them; a warning where
cores were slowed for their heat while it was measured. Y is told for each kernel; a warning where
the interval of the measurement of Y is wider than 10 % of it, since work % rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, interval, percent

NEEDS = ("scaling",)
METRIC: Metric = "measured"

Row = dict[str, Any]

_FALLS_PCT = 3.0
_WIDE = 0.10


def judge(scope: Scope) -> Iterable[Finding]:
    """What the experiment `scaling` shows beside its curves, or that it was not done."""
    turbo = scope.rows("FROM scaling_clock")
    yields = scope.rows("FROM core_yield")
    if not turbo and not yields:
        yield _found("checked", "No cells of the experiment scaling: nothing to judge")
        return
    clocked = [row for row in turbo if row["ghz"] is not None]
    if clocked:
        yield _clock(clocked)
    elif turbo:
        yield _found("checked", "The clock of the cores is not known: nothing to judge")
    hot = sum(row["throttles"] or 0 for row in turbo)
    if hot:
        yield _found(
            "warning",
            f"Cores were slowed for their heat {count(hot, 'time')} while the curves were measured",
            "Cool the machine, or take the curves for what it does when it is hot.",
        )
    known = [row for row in yields if row["yield"] is not None]
    if known:
        parts = [
            f"{row['workload']} {row['yield']:.2f}{interval(row['yield_low'], row['yield_high'])}"
            + (f" on {row['core_type']} cores" if row["core_type"] not in (None, "U") else "")
            for row in known
        ]
        yield _found(
            "info",
            f"Both siblings of a core against one alone (Y): {', '.join(parts)}",
            "Kept as this machine's calibration: later analyses reckon work % with it.",
            "FROM core_yield",
        )
    wide = [row for row in known if row["yield_high"] - row["yield_low"] > _WIDE * row["yield"]]
    if wide:
        names = ", ".join(row["workload"] for row in wide)
        yield _found(
            "warning",
            f"Y is uncertain by more than {percent(100 * _WIDE)} for {names}",
            "Measure again on a quiet machine, or with more repeats.",
            "FROM core_yield",
        )


def _clock(turbo: list[Row]) -> Finding:
    first, last = turbo[0], max(turbo, key=lambda row: (row["cores"], -row["threads"]))
    fall = 100 * (1 - last["ghz"] / first["ghz"])
    if fall >= _FALLS_PCT:
        title = (
            f"The clock falls with the cores in use: {first['ghz']:.2f} GHz"
            f"{interval(first['ghz_low'], first['ghz_high'])} with {count(first['cores'], 'core')},"
            f" {last['ghz']:.2f} GHz{interval(last['ghz_low'], last['ghz_high'])} with "
            f"{last['cores']}"
        )
        return _found("info", title)
    return _found(
        "checked",
        f"The clock does not fall by {percent(_FALLS_PCT)} or more from "
        f"{count(first['cores'], 'core')} in use to {last['cores']}: {first['ghz']:.2f} GHz, "
        f"{last['ghz']:.2f} GHz",
    )


def _found(
    severity: Any, title: str, advice: str = "", evidence: str = "FROM scaling_clock"
) -> Finding:
    return Finding("scaling_clock", severity, title, evidence, advice)
