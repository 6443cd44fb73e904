"""Compares two sides of recordings: `compare(a, b)` and its typed result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from schedlens.ask import thread_groups
from schedlens.differences import (
    group_subjects,
    machine_facts,
    matched_findings,
    mechanisms,
    resampling,
    series,
    sides,
)
from schedlens.differences.machine_facts import Fact
from schedlens.differences.matched_findings import MatchedFinding
from schedlens.differences.mechanisms import Mechanism
from schedlens.differences.quantities import BY_NAME, QUANTITIES, Better, Quantity
from schedlens.differences.series import Series
from schedlens.errors import NothingToReadError, UnknownNameError
from schedlens.output import typed_json

if TYPE_CHECKING:
    from schedlens.differences.rules_file import Rules
    from schedlens.differences.verdicts import Gate

ALPHA = 0.05
# Processes compared without --process: those with the most running time on either side.
PROCESSES = 5
# Marks compared: those that both sides have most often.
MARKS = 20
ALL_STEPS = "all recordings"

Align = Literal["step", "all"]
Verdict = Literal["higher", "lower", "cannot tell"]


@dataclass(frozen=True)
class Difference:
    """How much a quantity of one subject differs between the sides, B minus A.

    `low` and `high` limit the difference with 95 % confidence; with lost events, for every value
    that the lost records may have had. `p` tests against no change, `p_adjusted` is its value after
    Benjamini and Hochberg over all differences of the comparison. `units` says what was resampled:
    recordings, or blocks of `block_length` consecutive values. Without an estimate, `reason` says
    why there is none. `sql` returns the rows that each side is computed from.
    """

    quantity: str
    text: str
    unit: str
    step: str
    subject: str | None
    analyzer: str
    better: Better | None
    is_symptom: bool
    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    statistic: str | None
    units: str
    number_a: int
    number_b: int
    block_length: int
    is_lossy: bool
    reason: str | None
    sql: str

    @property
    def verdict(self) -> Verdict:
        """Whether B is shown to be higher or lower; never that nothing changed."""
        if self.p_adjusted is None or self.p_adjusted > ALPHA or not self.difference:
            return "cannot tell"
        return "higher" if self.difference > 0 else "lower"

    @property
    def is_worse(self) -> bool | None:
        """Whether B is shown to be worse (True) or better (False); None: neither is shown."""
        if self.better is None or self.verdict == "cannot tell":
            return None
        return (self.verdict == "higher") == (self.better == "lower")

    @property
    def change_pct(self) -> float | None:
        """The difference in percent of A; None if A is 0."""
        return self.percent(self.difference)

    def percent(self, difference: float | None) -> float | None:
        """A difference in percent of A; None if A is 0."""
        return None if difference is None or not self.a else 100 * difference / abs(self.a)


@dataclass(frozen=True)
class Compared:
    """A difference with the series that it is computed from."""

    difference: Difference
    a: tuple[Series, ...]
    b: tuple[Series, ...]


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: differences, symptoms first, then the mechanisms behind them.

    `machine` lists what the recordings say differently about machine, software and background
    processes. `unmatched` names steps that only one side has. `failures` names recordings that
    could not be read, `facts` the machine facts that a side recorded. `findings` are those of both
    sides, matched; empty where only some quantities were compared. `gate` is the verdict on the
    rules, if there were any.
    """

    labels_a: tuple[str, ...]
    labels_b: tuple[str, ...]
    differences: tuple[Difference, ...]
    mechanisms: tuple[Mechanism, ...]
    machine: tuple[Fact, ...]
    unmatched: tuple[str, ...]
    failures: tuple[str, ...]
    facts: tuple[str, ...]
    findings: tuple[MatchedFinding, ...] = ()
    gate: Gate | None = None
    compared: tuple[Compared, ...] = field(default=(), repr=False)

    def of(self, quantity: str, subject: str | None = None) -> Difference:
        """The first difference of a quantity (of a subject). Raises `UnknownNameError`."""
        if quantity not in BY_NAME:
            raise UnknownNameError("quantity", quantity, sorted(BY_NAME))
        for one in self.differences:
            if one.quantity == quantity and (subject is None or one.subject == subject):
                return one
        raise UnknownNameError(
            "compared quantity", quantity, sorted({one.quantity for one in self.differences})
        )


def compare(
    a: str | Path | Sequence[str | Path],
    b: str | Path | Sequence[str | Path],
    *,
    processes: Iterable[str] = (),
    quantities: Iterable[str] = (),
    align: Align = "step",
    rules: Rules | None = None,
    keep: Path | None = None,
    progress: Callable[[str, float], None] = lambda label, share: None,
) -> Comparison:
    """Compares the recordings `b` with the baseline `a`.

    Each side is one or several of: an analyzed session (its folder or its analysis.duckdb), a
    session folder, a recording. Several recordings of one step are its repeats. `processes` are
    those to compare, by default the busiest, or groups of threads such as service:nginx;
    `quantities` names those to compare, by default all. `align` matches steps by their name (if the
    sides share none, or with "all", all recordings of a side are repeats of one step). `keep` is a
    folder for the databases of what had to be analyzed.
    Raises `SchedlensError` if nothing can be compared.
    """
    resampling.libraries()
    chosen = _chosen(quantities)
    # Who asks for one quantity does not wait for all analyzers.
    judged = len(chosen) == len(QUANTITIES)
    with contextlib.ExitStack() as stack:
        side_a, side_b = (
            stack.enter_context(
                sides.opened(_paths(paths), name, judged=judged, keep=keep, progress=progress)
            )
            for name, paths in (("a", a), ("b", b))
        )
        wanted = list(processes) or _busiest(side_a, side_b)
        if rules is not None:
            wanted += [name for name in _ruled(rules, side_a, side_b) if name not in wanted]
        for side in (side_a, side_b):
            group_subjects.add(side, [name for name in wanted if thread_groups.is_one(name)])
        _check_processes(wanted, side_a, side_b)
        steps, unmatched = _aligned(side_a, side_b, align)
        compared: list[Compared] = []
        for number, (step, of_a, of_b) in enumerate(steps):
            for place, quantity in enumerate(chosen):
                progress(f"{step}: {quantity.name}", (number + place / len(chosen)) / len(steps))
                compared += _differences(quantity, step, of_a, of_b, wanted)
        if not compared:
            raise NothingToReadError(
                "the two sides have no quantity in common: compare recordings of the same program "
                "with the same events"
            )
        compared = adjusted(compared)
        differing, known = machine_facts.facts(side_a, side_b)
        found = Comparison(
            tuple(one.label for one in side_a.recordings),
            tuple(one.label for one in side_b.recordings),
            tuple(one.difference for one in compared),
            mechanisms.found(compared),
            differing,
            tuple(unmatched),
            (*side_a.failures, *side_b.failures),
            known,
            matched_findings.ordered(
                [
                    one
                    for step, of_a, of_b in steps
                    if judged
                    for one in matched_findings.matched(step, of_a, of_b)
                ]
            ),
            compared=tuple(compared),
        )
    if rules is None:
        return found
    from schedlens.differences import verdicts

    return replace(found, gate=verdicts.judged(found, rules))


def _paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    return [Path(given)] if isinstance(given, (str, Path)) else [Path(one) for one in given]


def _chosen(names: Iterable[str]) -> list[Quantity]:
    wanted = list(names)
    for name in wanted:
        if name not in BY_NAME:
            raise UnknownNameError("quantity", name, sorted(BY_NAME))
    return [quantity for quantity in QUANTITIES if not wanted or quantity.name in wanted]


def _busiest(*every: sides.Side) -> list[str]:
    """The processes that both sides have: all that present frames, and those that run longest."""
    ran: list[dict[str, float]] = []
    presenting: list[set[str]] = []
    for side in every:
        total: dict[str, float] = {}
        for _, con in side.databases:
            for name, ns in con.execute(
                "SELECT process, sum(run_ns) FROM block_process WHERE process IS NOT NULL "
                "GROUP BY process"
            ).fetchall():
                total[name] = total.get(name, 0) + float(ns)
        ran.append(total)
        presenting.append(
            {
                row[0]
                for _, con in side.databases
                for row in con.execute("SELECT DISTINCT process FROM frame_time").fetchall()
            }
        )
    both = ran[0].keys() & ran[1].keys()
    busiest = sorted(both, key=lambda name: (-max(ran[0][name], ran[1][name]), name))[:PROCESSES]
    return list(dict.fromkeys([*busiest, *sorted(presenting[0] & presenting[1])]))


def _ruled(rules: Rules, *every: sides.Side) -> list[str]:
    """Groups that rules name, and processes that they name if both sides have them."""
    owners = [
        group_subjects.owner(BY_NAME[rule.metric], rule.subject)
        for rule in rules.rules
        if rule.subject is not None
    ]
    both = set.intersection(*(_processes(side) for side in every))
    return [one for one in owners if one in both or (one and thread_groups.is_one(one))]


def _processes(side: sides.Side) -> set[str]:
    return {
        row[0]
        for _, con in side.databases
        for row in con.execute(
            "SELECT DISTINCT process FROM block_process WHERE process IS NOT NULL "
            "UNION SELECT DISTINCT process FROM frame_time"
        ).fetchall()
    }


def _check_processes(names: Sequence[str], *every: sides.Side) -> None:
    for side in every:
        known = _processes(side)
        for name in names:
            if name not in known:
                raise UnknownNameError(f"process of side {side.name}", name, sorted(known))


def _aligned(
    a: sides.Side, b: sides.Side, align: Align
) -> tuple[list[tuple[str, list[sides.Recorded], list[sides.Recorded]]], list[str]]:
    """The steps with the recordings of each side, and the steps that only one side has."""
    groups: list[dict[str, list[sides.Recorded]]] = []
    for side in (a, b):
        steps: dict[str, list[sides.Recorded]] = {}
        for one in side.recordings:
            steps.setdefault(one.step, []).append(one)
        groups.append(steps)
    common = [step for step in groups[0] if step in groups[1]]
    if align == "all" or not common:
        return [(ALL_STEPS, list(a.recordings), list(b.recordings))], []
    unmatched = [
        f"{step} (only {name})"
        for name, own, other in (("A", groups[0], groups[1]), ("B", groups[1], groups[0]))
        for step in own
        if step not in other
    ]
    return [(step, groups[0][step], groups[1][step]) for step in common], unmatched


def _differences(
    quantity: Quantity,
    step: str,
    of_a: list[sides.Recorded],
    of_b: list[sides.Recorded],
    processes: Sequence[str],
) -> list[Compared]:
    read_a, read_b = series.read(quantity, of_a), series.read(quantity, of_b)
    found = []
    common = [subject for subject in read_a if subject in read_b]
    if quantity.of == "mark":
        often = {
            subject: min(sum(len(one.num) for one in side[subject]) for side in (read_a, read_b))
            for subject in common
        }
        common = sorted(common, key=lambda subject: -often[subject])[:MARKS]
    for subject in common:
        if quantity.of == "process" and subject not in processes:
            continue
        if quantity.of == "counter" and str(subject).rpartition(": ")[0] not in processes:
            continue
        a, b = read_a[subject], read_b[subject]
        if not any(one.num.any() for one in (*a, *b)):
            # Nothing of this kind happened on either side, such as parking on Linux.
            continue
        difference = difference_of(quantity, step, subject, a, b)
        found.append(Compared(difference, tuple(a), tuple(b)))
    return found


def difference_of(
    quantity: Quantity, step: str, subject: str | None, a: Sequence[Series], b: Sequence[Series]
) -> Difference:
    """The difference of one quantity of one subject, its p-value not yet adjusted."""
    is_lossy = any(one.recorded.is_lossy and not one.is_exact for one in (*a, *b))
    cut = series.cut(a, b)
    blank = Difference(
        quantity.name, quantity.text, quantity.unit, step, subject, quantity.analyzer,
        quantity.better, quantity.is_symptom, None, None, None, None, None, None, None, None,
        cut.by, cut.a.number if cut.a else 0, cut.b.number if cut.b else 0, cut.length, is_lossy,
        None, group_subjects.sql(quantity, subject),
    )  # fmt: skip
    if not all(one.has_bounds for one in (*a, *b)):
        return replace(blank, reason="records were lost, and this quantity has no bounds then")
    if cut.a is None or cut.b is None:
        return replace(blank, reason=cut.reason)
    middle = resampling.estimate(cut.a, cut.b, quantity.quantile)
    low, high, p = middle.low, middle.high, middle.p
    if is_lossy:
        # The smallest and the largest difference that the lost records permit.
        ends = [series.cut(a, b, ends) for ends in (("high", "low"), ("low", "high"))]
        limits = [
            resampling.estimate(one.a, one.b, quantity.quantile)
            for one in ends
            if one.a is not None and one.b is not None
        ]
        if len(limits) < 2:
            return replace(blank, reason="records were lost, and its bounds cannot be compared")
        low, high = min(low, limits[0].low), max(high, limits[1].high)
        same = limits[0].difference * limits[1].difference > 0
        p = max(p, limits[0].p, limits[1].p) if same else 1.0
    return replace(
        blank, a=middle.a, b=middle.b, difference=middle.difference, low=low, high=high, p=p,
        statistic=middle.statistic,
    )  # fmt: skip


def adjusted(compared: list[Compared]) -> list[Compared]:
    """The same with adjusted p-values: symptoms first, then by how surely they differ."""
    tested = [one.difference.p for one in compared if one.difference.p is not None]
    adjusted = iter(resampling.false_discovery(tested))
    filled = [
        one
        if one.difference.p is None
        else replace(one, difference=replace(one.difference, p_adjusted=next(adjusted)))
        for one in compared
    ]

    def order(one: Compared) -> tuple[bool, bool, float, float]:
        found = one.difference
        p = math.inf if found.p_adjusted is None else found.p_adjusted
        return (
            not found.is_symptom,
            found.verdict == "cannot tell",
            p if found.verdict == "cannot tell" else 0.0,
            -abs(found.change_pct or 0.0),
        )

    return sorted(filled, key=order)


def as_json(found: Comparison) -> dict[str, Any]:
    """The comparison as a JSON object: everything but the series."""
    facts: dict[str, Any] = typed_json.written(replace(found, compared=()))
    del facts["compared"]
    for row, one in zip(facts["differences"], found.differences, strict=True):
        row |= {
            "verdict": one.verdict,
            "is_worse": one.is_worse,
            "change_pct": one.change_pct,
        }
    for row, matched in zip(facts["findings"], found.findings, strict=True):
        row |= {"state": matched.state}
    if found.gate is not None:
        facts["gate"] = {
            "state": found.gate.state,
            "alpha": found.gate.alpha,
            "judged": [
                {
                    "name": one.name,
                    "state": one.state,
                    "reason": one.reason,
                    "p_regression": one.p_regression,
                    "p_within": one.p_within,
                }
                for one in found.gate.judged
            ],
        }
    return facts
