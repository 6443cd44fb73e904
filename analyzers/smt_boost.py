"""What SMT and boost are worth for requests: each alone, both together, as measured and normalised.

A warning where the cells of one load ran at busy shares more than 5 points apart, since plain gains
then mislead, and where SMT or boost makes throughput fall by more than 3 % with the whole interval
below that of the cell it is compared with. The gains are told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import interval, percent

NEEDS = ("smt-boost",)
METRIC: Metric = "measured"

Row = dict[str, Any]

_FALLS_PCT = -3.0
_EVIDENCE = "FROM smt_boost"


def judge(scope: Scope) -> Iterable[Finding]:
    """What the states show, or that none were measured."""
    rows = scope.rows("SELECT * FROM smt_boost WHERE per_s IS NOT NULL")
    if not rows:
        yield _found("checked", "No cells of the experiment smt-boost: nothing to judge")
        return
    for load in dict.fromkeys(row["load"] for row in rows):
        yield from _load(load, [row for row in rows if row["load"] == load])


def _load(load: str, rows: list[Row]) -> Iterable[Finding]:
    base, others = rows[0], rows[1:]
    if not others:
        yield _found(
            "info",
            f"{load}: {_rate(base)} a second, {_state(base)}: nothing to compare with, "
            "since neither SMT nor boost can be switched here",
        )
        return
    if base["is_uneven"]:
        low = min(row["busy_pct"] for row in rows)
        high = max(row["busy_pct"] for row in rows)
        yield _found(
            "warning",
            f"{load}: the cells ran at busy shares from {percent(low)} to {percent(high)}: compare "
            "requests a second divided by the busy share (normalised_gain_pct), not as they are",
            "For equal shares use the closed loop, or offer each state a load of its own.",
        )
    parts = []
    for row in others:
        part = f"{_state(row)} {row['gain_pct']:+.0f} %{_ends(row, 'gain')}"
        if row["is_uneven"] and row["normalised_gain_pct"] is not None:
            part += f" (normalised {row['normalised_gain_pct']:+.0f} %"
            part += f"{_ends(row, 'normalised_gain')})"
        if row["watts_gain_pct"] is not None:
            part += f" at {row['watts_gain_pct']:+.0f} % power{_ends(row, 'watts_gain')}"
        parts.append(part)
        if row["gain_pct"] < _FALLS_PCT and row["per_s_high"] < base["per_s_low"]:
            yield _found(
                "warning",
                f"{load}: {_state(row)} does {percent(-row['gain_pct'])} less than {_state(base)}",
                "Leave it off for this work.",
            )
    yield _found(
        "info",
        f"{load}: {_rate(base)} a second with {_state(base)}; against that "
        f"{', '.join(parts)}{_thrifty(rows)}",
    )


def _thrifty(rows: list[Row]) -> str:
    known = [row for row in rows if row["requests_per_joule"] is not None]
    if not known:
        return ""
    best = max(known, key=lambda row: row["requests_per_joule"])
    low, high = best["requests_per_joule_low"], best["requests_per_joule_high"]
    return (
        f"; most requests per joule with {_state(best)} ({best['requests_per_joule']:.3g}"
        f"{interval(low, high)})"
    )


def _rate(row: Row) -> str:
    low, high = row["per_s_low"], row["per_s_high"]
    ends = "" if low is None or low == high else f" ({low:,.0f} to {high:,.0f})"
    return f"{row['per_s']:,.0f}{ends}"


def _ends(row: Row, name: str) -> str:
    """The interval of a gain, in whole percent."""
    low, high = row[f"{name}_low_pct"], row[f"{name}_high_pct"]
    if low is None or f"{low:+.0f}" == f"{high:+.0f}":
        return ""
    return f" ({low:+.0f} to {high:+.0f})"


def _state(row: Row) -> str:
    known = [f"{name} {row[key]}" for name, key in (("SMT", "smt"), ("boost", "boost")) if row[key]]
    return " and ".join(known) or "the machine as found"


def _found(severity: Any, title: str, advice: str = "") -> Finding:
    return Finding("smt_boost", severity, title, _EVIDENCE, advice)
