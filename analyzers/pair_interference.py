"""What two kernels cost each other, and whether CPUs that look like two cores are one.

A warning where both siblings of a core together do less than one alone (the upper end of the
interval below -3 %), and where two CPUs that the system calls different cores slow the loop of ten
multiplications: two such loops fill any core, so together they do less than 1.5 times one alone.
A cell is told where its slowdown lies more than 15 % from what ports and latencies predict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, interval

NEEDS = ("pairs",)
METRIC: Metric = "measured"

Row = dict[str, Any]

_COSTS_PCT = -3.0
_PROBE = "imul10"
_SHARED_BELOW = 1.5
_OFF = 0.15
_EVIDENCE = "FROM pair_interference"


def judge(scope: Scope) -> Iterable[Finding]:
    """What the pairs show, or that there are none."""
    rows = scope.rows("SELECT * FROM pair_interference WHERE combined IS NOT NULL")
    commands = scope.rows("SELECT * FROM command_beside WHERE slowdown IS NOT NULL")
    if commands:
        yield _beside(commands)
        return
    if not rows:
        yield _found("checked", "No cells of the experiment pairs: nothing to judge")
        return
    yield from _hidden(rows)
    advice = scope.rows("FROM pair_advice")
    costs = [row for row in advice if row["high_pct"] < _COSTS_PCT]
    for row in costs:
        yield _found(
            "warning",
            f"{row['work']}: both siblings of a core together do {-row['added_pct']:.0f} % less "
            f"than one thread alone{interval(row['low_pct'], row['high_pct'])}",
            "Leave the second siblings idle for this work, or switch SMT off where nothing else "
            "runs.",
        )
    if advice:
        yield _found("info", _summary(advice), "See the advice table: `FROM pair_advice`.")
    else:
        yield _found("info", _without_siblings(rows))
    yield from _mispredicted(rows)


def _beside(rows: list[Row]) -> Finding:
    """How the user's program fares beside the kernels."""
    parts = [
        f"{100 * (row['slowdown'] - 1):+.0f} %{_ends(row)} beside {row['kernel']} ({row['place']})"
        for row in sorted(rows, key=lambda row: -row["slowdown"])
    ]
    return Finding(
        "pair_interference",
        "info",
        f"The program's time against alone: {', '.join(parts)}",
        "FROM command_beside",
        "Keep work of the classes that cost it most off the siblings of its CPUs.",
    )


def _ends(row: Row) -> str:
    """The interval of a slowdown, in whole percent."""
    ends = [row["slowdown_low"], row["slowdown_high"]]
    if None in ends or ends[0] == ends[1]:
        return ""
    return f" ({100 * (ends[0] - 1):+.0f} to {100 * (ends[1] - 1):+.0f})"


def _found(severity: Any, title: str, advice: str = "") -> Finding:
    return Finding("pair_interference", severity, title, _EVIDENCE, advice)


def _summary(advice: list[Row]) -> str:
    """The gain of each class, and for which work siblings are better left idle."""
    told = [row for row in advice if row["effect"] != "unclear"] or advice
    parts = [
        f"{row['added_pct']:+.0f} % for {row['kernel']}{interval(row['low_pct'], row['high_pct'])}"
        for row in told
    ]
    idle = [row["kernel"] for row in told if row["effect"] in ("costs", "little")]
    ending = f"; leave siblings idle for {', '.join(idle)}" if idle else ""
    return f"A second thread on a core changes throughput by {', '.join(parts)}{ending}"


def _without_siblings(rows: list[Row]) -> str:
    worst = max(rows, key=lambda row: max(row["first_slowdown"], row["second_slowdown"]))
    slower = max(worst["first_slowdown"], worst["second_slowdown"])
    return (
        f"{count(len(rows), 'pair')} beside each other on CPUs that are no siblings: the most that "
        f"one slowed the other is {100 * (slower - 1):.0f} % ({worst['first']} beside "
        f"{worst['second']}, {worst['place']})"
    )


def _hidden(rows: list[Row]) -> Iterable[Finding]:
    """CPUs that the system calls different cores, though they share execution units."""
    for row in rows:
        apart = row["place"] != "siblings"
        if row["first"] == row["second"] == _PROBE and apart and not row["is_disturbed"]:
            first, second = row["cpus"]
            if row["combined_high"] < _SHARED_BELOW:
                yield _found(
                    "warning",
                    f"CPU {first} and CPU {second} share a core, though the system says two: "
                    f"two loops of ten multiplications together do {row['combined']:.2f} times "
                    f"one alone{interval(row['combined_low'], row['combined_high'])}",
                    "A guest whose topology is hidden: take each two such CPUs for one core, and "
                    "plan capacity by cores.",
                )
            elif row["combined_low"] >= _SHARED_BELOW:
                yield _found(
                    "checked",
                    f"CPU {first} and CPU {second} are two cores, as the system says: two loops of "
                    f"ten multiplications together do {row['combined']:.2f} times one alone",
                )


def _mispredicted(rows: list[Row]) -> Iterable[Finding]:
    off = []
    for row in rows:
        for who in ("first", "second"):
            expected, found = row[f"{who}_predicted"], row[f"{who}_slowdown"]
            if expected is None or row["is_disturbed"]:
                continue
            low, high = row[f"{who}_slowdown_low"], row[f"{who}_slowdown_high"]
            if low > expected * (1 + _OFF) or high < expected * (1 - _OFF):
                off.append((abs(found / expected - 1), row, who))
    if off:
        _, row, who = max(off, key=lambda item: item[0])
        yield _found(
            "info",
            f"{row['first']} beside {row['second']} ({row['place']}): {row[who]} takes "
            f"{row[f'{who}_slowdown']:.2f} times as long as alone, expected were "
            f"{row[f'{who}_predicted']:.2f} ({row['predicted_basis']}); "
            f"{count(len(off), 'number')} of this kind",
            "Something else is shared, or this core is built otherwise than the model says.",
        )
