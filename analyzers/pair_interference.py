"""What two kernels cost each other, and whether CPUs that look like two cores are one.

A warning where both siblings of a core together do less than one alone (the upper end of the
interval below -3 %), and where two CPUs that the system calls different cores slow the loop of ten
multiplications: two such loops fill any core, so together they do less than 1.5 times one alone.
It is info where a slowdown is more than 15 % away from what ports and latencies predict.
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
from schedlens.output.wording import count, interval, place

NEEDS = ("pairs",)
METRIC: Metric = "measured"
KINDS = (
    "command_slowdown",
    "siblings_do_less",
    "second_thread_gain",
    "slowdown_without_siblings",
    "hidden_siblings",
    "mispredicted",
)

Row = dict[str, Any]

_COSTS_PCT = -3.0
_PROBE = "imul10"
_SHARED_BELOW = 1.5
_OFF = 0.15
_EVIDENCE = "FROM pair_interference"


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """What the pairs show, or that there are none."""
    rows = scope.rows("SELECT * FROM pair_interference WHERE combined IS NOT NULL")
    commands = scope.rows("SELECT * FROM command_beside WHERE slowdown IS NOT NULL")
    if commands:
        yield _slowed(commands)
        return
    if not rows:
        yield not_applicable("The experiment pairs was not run.")
        return
    yield from _hidden(rows)
    advice = scope.rows("FROM pair_advice")
    costs = [row for row in advice if row["high_pct"] < _COSTS_PCT]
    for row in costs:
        yield _found(
            "siblings_do_less",
            "warning",
            f"Two SMT siblings do {-row['added_pct']:.0f} % less than one",
            f"With {row['work']}, both SMT siblings of a core together do "
            f"{-row['added_pct']:.0f} % less than one thread alone"
            f"{interval(row['low_pct'], row['high_pct'])}.",
            "Leave one sibling of each core idle for this work, or switch SMT off "
            "(/sys/devices/system/cpu/smt/control).",
        )
    if advice:
        yield _summary(advice)
    else:
        yield _without_siblings(rows)
    yield from _mispredicted(rows)


def _slowed(rows: list[Row]) -> Finding:
    """How much the kernels slow the user's program."""
    ranked = sorted(rows, key=lambda row: -row["slowdown"])
    parts = [
        f"{100 * (row['slowdown'] - 1):+.0f} %{_ends(row)} alongside {row['kernel']} "
        f"({place(row['place'])})"
        for row in ranked
    ]
    return Finding(
        "command_slowdown",
        "info",
        f"Program takes {100 * (ranked[0]['slowdown'] - 1):+.0f} % time alongside "
        f"{ranked[0]['kernel']}",
        f"The program's time compared with running alone: {', '.join(parts)}.",
        "Keep work like the kernels that slow it most off the SMT siblings of its CPUs (taskset, "
        "cpuset.cpus).",
        "FROM command_beside",
        rank=Rank.ANSWER,
    )


def _ends(row: Row) -> str:
    """The interval of a slowdown, in whole percent."""
    ends = [row["slowdown_low"], row["slowdown_high"]]
    if None in ends or ends[0] == ends[1]:
        return ""
    return f" ({100 * (ends[0] - 1):+.0f} to {100 * (ends[1] - 1):+.0f})"


def _found(kind: str, severity: Severity, title: str, detail: str, advice: str) -> Finding:
    return Finding(kind, severity, title, detail, advice, _EVIDENCE, rank=Rank.ANSWER)


def _summary(advice: list[Row]) -> Finding:
    """The gain of each class, and for which work siblings are better left idle."""
    clear = [row for row in advice if row["effect"] != "unclear"] or advice
    parts = [
        f"{row['added_pct']:+.0f} % for {row['kernel']}{interval(row['low_pct'], row['high_pct'])}"
        for row in clear
    ]
    idle = [row["kernel"] for row in clear if row["effect"] in ("costs", "little")]
    low, high = (end(row["added_pct"] for row in clear) for end in (min, max))
    size = f"{low:+.0f} %" if len(clear) == 1 else f"{low:+.0f} % to {high:+.0f} %"
    return _found(
        "second_thread_gain",
        "info",
        f"A second thread on a core changes throughput by {size}",
        f"A second thread on a core changes throughput by {', '.join(parts)}.",
        (f"Leave SMT siblings idle for {', '.join(idle)}; the " if idle else "The ")
        + "effect of each class of work: `FROM pair_advice`.",
    )


def _without_siblings(rows: list[Row]) -> Finding:
    worst = max(rows, key=lambda row: max(row["first_slowdown"], row["second_slowdown"]))
    slower = max(worst["first_slowdown"], worst["second_slowdown"])
    return _found(
        "slowdown_without_siblings",
        "info",
        f"Kernels on different cores slow each other by {100 * (slower - 1):.0f} % at most",
        f"{count(len(rows), 'pair')} ran on CPUs that are not SMT siblings; the largest slowdown "
        f"is {100 * (slower - 1):.0f} % ({worst['first']} alongside {worst['second']}, "
        f"{place(worst['place'])}).",
        "Run `collect --experiment pairs` on a machine with SMT to measure siblings.",
    )


def _hidden(rows: list[Row]) -> Iterable[Finding | Outcome]:
    """CPUs that the system calls different cores, though they share execution units."""
    for row in rows:
        apart = row["place"] != "siblings"
        if row["first"] == row["second"] == _PROBE and apart and not row["is_disturbed"]:
            first, second = row["cpus"]
            if row["combined_high"] < _SHARED_BELOW:
                yield _found(
                    "hidden_siblings",
                    "warning",
                    f"CPU {first} and CPU {second} share a core that is reported as two",
                    f"CPU {first} and CPU {second} share a core, although the system reports two: "
                    "two loops of ten multiplications together do only "
                    f"{row['combined']:.3g} times the work of one"
                    f"{interval(row['combined_low'], row['combined_high'])}.",
                    "Count each such pair of CPUs as one core when you plan capacity: the host of "
                    "this virtual machine hides its topology.",
                )
            elif row["combined_low"] >= _SHARED_BELOW:
                yield clean(
                    f"CPU {first} and CPU {second} are two cores, as the system reports: two loops "
                    f"of ten multiplications together do {row['combined']:.3g} times the work of "
                    "one."
                )


def _mispredicted(rows: list[Row]) -> Iterable[Finding]:
    off = []
    for row in rows:
        for who in ("first", "second"):
            # The prediction counts cycles, so the clock must not count.
            kind = "slowdown" if row[f"{who}_slowdown_cycles"] is None else "slowdown_cycles"
            expected, found = row[f"{who}_predicted"], row[f"{who}_{kind}"]
            if expected is None or row["is_disturbed"]:
                continue
            low, high = row[f"{who}_{kind}_low"], row[f"{who}_{kind}_high"]
            if low > expected * (1 + _OFF) or high < expected * (1 - _OFF):
                off.append((abs(found / expected - 1), row, who))
    if off:
        _, row, who = max(off, key=lambda item: item[0])
        yield _found(
            "mispredicted",
            "info",
            f"{row[who]} is {row[f'{who}_slowdown']:.3g} times slower, predicted "
            f"{row[f'{who}_predicted']:.3g}",
            f"{row['first']} alongside {row['second']} ({place(row['place'])}): {row[who]} takes "
            f"{row[f'{who}_slowdown']:.3g} times as long as alone, the port model predicts "
            f"{row[f'{who}_predicted']:.3g} ({row['predicted_basis']}); "
            f"{count(len(off), 'prediction')} of this kind "
            f"{'is' if len(off) == 1 else 'are'} off.",
            "Look for another shared resource (caches, memory), or for a core that differs from "
            "the model (`FROM pair_interference`).",
        )
