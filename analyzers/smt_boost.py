"""What SMT and boost are worth for requests: each alone, both together, as measured and normalised.

A warning where the cells of one load ran at busy shares more than 5 points apart, since plain gains
then mislead, and where SMT or boost makes throughput fall by more than 3 % with the whole interval
below that of the cell it is compared with. The gains are info.
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
    not_applicable,
)
from schedlens.output.wording import between, interval, number, percent

NEEDS = ("smt-boost",)
METRIC: Metric = "measured"
KINDS = ("only_state", "uneven_load", "state_costs", "gain", "no_rate")

Row = dict[str, Any]

_FALLS_PCT = -3.0
_EVIDENCE = "FROM smt_boost"
# The percentile of the latency that the finding compares.
_TAIL = 99


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """What the states show, or that none were measured."""
    every = scope.rows("SELECT * FROM smt_boost")
    if not every:
        yield not_applicable("The experiment smt-boost was not run.")
        return
    rows = [row for row in every if row["per_s"] is not None]
    if not rows:
        yield _no_rate(every)
        return
    slower = {
        row["cell"]: row
        for row in scope.rows(f"SELECT * FROM smt_boost_latency WHERE percentile = {_TAIL}")
    }
    for load in dict.fromkeys(row["load"] for row in rows):
        yield from _load(load, [row for row in rows if row["load"] == load], slower)


def _load(load: str, rows: list[Row], slower: dict[str, Row]) -> Iterable[Finding]:
    base, others = rows[0], rows[1:]
    if not others:
        yield _found(
            "only_state",
            "info",
            f"Nothing to compare: {number(base['per_s'])} requests a second",
            f"Load {load}: {_rate(base)} requests a second with {_state(base)}; neither SMT nor "
            "boost can be switched on this machine.",
            "Run `collect --experiment smt-boost` on a machine where SMT or boost can be switched.",
        )
        return
    if base["is_uneven"]:
        # What normalised_gain_pct divides by.
        shares = [row["busy_pct"] if row["work_pct"] is None else row["work_pct"] for row in rows]
        load_pct = between(percent(min(shares)), percent(max(shares)))
        yield _found(
            "uneven_load",
            "warning",
            f"States ran at {load_pct} load",
            f"Load {load}: the cells were busy for {load_pct} of the time, so plain gains mislead.",
            "Compare normalised_gain_pct, or repeat with the closed loop for equal loads.",
        )
    parts = []
    for row in others:
        part = f"{_state(row)} {row['gain_pct']:+.0f} %{_ends(row, 'gain')}"
        if row["is_uneven"] and row["normalised_gain_pct"] is not None:
            part += f" (normalised {row['normalised_gain_pct']:+.0f} %"
            part += f"{_ends(row, 'normalised_gain')})"
        if row["watts_gain_pct"] is not None:
            part += f" at {row['watts_gain_pct']:+.0f} % power{_ends(row, 'watts_gain')}"
        part += _tail(slower.get(row["cell"]))
        parts.append(part)
        if row["gain_pct"] < _FALLS_PCT and row["per_s_high"] < base["per_s_low"]:
            yield _found(
                "state_costs",
                "warning",
                f"{_state(row)}: {percent(-row['gain_pct'])} less throughput",
                f"Load {load}: {_state(row)} serves {percent(-row['gain_pct'])} fewer requests a "
                f"second than {_state(base)}.",
                f"Do not use {_state(row)} for this work.",
            )
    best = max(others, key=lambda row: row["gain_pct"])
    yield _found(
        "gain",
        "info",
        f"{_state(best)}: {best['gain_pct']:+.0f} % throughput against {_state(base)}",
        f"Load {load}: {_rate(base)} requests a second with {_state(base)}; relative to that "
        f"{', '.join(parts)}{_thrifty(rows)}.",
        "Choose the state by throughput, latency and power (`FROM smt_boost`, "
        "`FROM smt_boost_latency`).",
    )


def _no_rate(rows: list[Row]) -> Finding:
    """What is known of a program or service that nobody counted the requests of."""
    known = []
    for row in rows:
        part = _state(row)
        if row["service_cpus"] is not None:
            part += f" {number(row['service_cpus'])} CPUs"
        if row["service_shared_pct"] is not None:
            part += f", {percent(row['service_shared_pct'])} of that with a busy sibling"
        if row["watts"] is not None:
            part += f", {number(row['watts'])} W"
        known.append(part)
    reasons = dict.fromkeys(row["rate_unknown"] for row in rows if row["rate_unknown"])
    return _found(
        "no_rate",
        "info",
        "Throughput in these states is unknown",
        f"{'; '.join(reasons) or 'no repeat finished'}. Used: {'; '.join(known)}.",
        "Name a command that prints the requests served: `collect --experiment smt-boost "
        "--load-report CMD`.",
    )


def _tail(row: Row | None) -> str:
    """How the state changes the p99, if it was measured."""
    if row is None:
        return ""
    return f" and {row['latency_gain_pct']:+.0f} % p99{_ends(row, 'latency_gain')}"


def _thrifty(rows: list[Row]) -> str:
    known = [row for row in rows if row["requests_per_joule"] is not None]
    if not known:
        return ""
    best = max(known, key=lambda row: row["requests_per_joule"])
    low, high = best["requests_per_joule_low"], best["requests_per_joule_high"]
    return (
        f"; most requests per joule with {_state(best)} ({number(best['requests_per_joule'])}"
        f"{interval(low, high)})"
    )


def _rate(row: Row) -> str:
    low, high = row["per_s_low"], row["per_s_high"]
    ends = "" if low is None or low == high else f" ({number(low)} to {number(high)})"
    return f"{number(row['per_s'])}{ends}"


def _ends(row: Row, name: str) -> str:
    """The interval of a gain, in whole percent."""
    low, high = row[f"{name}_low_pct"], row[f"{name}_high_pct"]
    if low is None or f"{low:+.0f}" == f"{high:+.0f}":
        return ""
    return f" ({low:+.0f} to {high:+.0f})"


def _state(row: Row) -> str:
    known = [f"{name} {row[key]}" for name, key in (("SMT", "smt"), ("boost", "boost")) if row[key]]
    return " and ".join(known) or "the machine as found"


def _found(kind: str, severity: Severity, title: str, detail: str, advice: str) -> Finding:
    return Finding(kind, severity, title, detail, advice, _EVIDENCE, rank=Rank.ANSWER)
