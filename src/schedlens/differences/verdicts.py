"""Judges the rules of a gate: regression, within limits, or cannot tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from schedlens.differences import resampling, series
from schedlens.differences.resampling import Alternative, Units
from schedlens.differences.rules_file import Rule, Rules

if TYPE_CHECKING:
    from schedlens.differences.contrast import Compared, Comparison, Difference

State = Literal["regression", "within", "cannot tell"]
EXIT_CODES: dict[State, int] = {"within": 0, "regression": 1, "cannot tell": 2}


@dataclass(frozen=True)
class Judged:
    """A rule applied to one difference.

    `p_regression` tests that the limit is exceeded, after Benjamini and Hochberg over all rules;
    `p_within` tests that it is not. It cannot tell if neither is small.
    """

    rule: Rule
    limit: str
    value: float
    difference: Difference | None
    state: State
    reason: str
    p_regression: float | None = None
    p_within: float | None = None

    @property
    def name(self) -> str:
        """The quantity, its subject and step, and the limit."""
        one = self.difference
        where = ", ".join(
            part
            for part in (
                one.subject if one else self.rule.subject,
                one.step if one else self.rule.step,
            )
            if part
        )
        return f"{self.rule.metric}{f' ({where})' if where else ''} {self.limit} {self.value:g}"


@dataclass(frozen=True)
class Gate:
    """The verdicts on all rules; `state` is that of the gate."""

    judged: tuple[Judged, ...]
    alpha: float

    @property
    def state(self) -> State:
        """Regression if a rule is broken; within only if every rule is kept."""
        states = {one.state for one in self.judged}
        if "regression" in states:
            return "regression"
        return "within" if states == {"within"} else "cannot tell"

    @property
    def exit_code(self) -> int:
        """0 within limits, 1 for a regression, 2 if it cannot tell."""
        return EXIT_CODES[self.state]


def judged(found: Comparison, rules: Rules) -> Gate:
    """Applies every rule to every difference that it names.

    A regression needs a test that the limit is exceeded, with all such tests of the gate adjusted
    for their number, so that a gate fails by chance at most at the rate `alpha`. Within limits
    needs the opposite test of every rule; these need no adjustment, since all must succeed.
    """
    different = [fact.key for fact in found.machine if fact.key in rules.same]
    recorded = {fact.key for fact in found.machine} | set(found.facts)
    missing = [key for key in rules.same if key not in recorded]
    blocked = None
    if missing:
        blocked = f"neither side recorded {missing[0]}"
    elif different:
        blocked = f"{', '.join(different)} differs between the sides"
    every: list[Judged] = []
    for rule in rules.rules:
        chosen = [one for one in found.compared if _applies(rule, one.difference)]
        for limit, value in rule.limits:
            every += [_tested(rule, limit, value, one, rules) for one in chosen]
            if not chosen:
                every.append(Judged(rule, limit, value, None, "cannot tell", _absent(rule, found)))
    every = _decided(every, rules.alpha)
    if blocked:
        every = [replace(one, state="cannot tell", reason=blocked) for one in every]
    return Gate(tuple(every), rules.alpha)


def _applies(rule: Rule, one: Difference) -> bool:
    return (
        one.quantity == rule.metric
        and rule.subject in (None, one.subject)
        and rule.step in (None, one.step)
    )


def _absent(rule: Rule, found: Comparison) -> str:
    same = [one for one in found.differences if one.quantity == rule.metric]
    if not same:
        return "not recorded on both sides"
    known = sorted({f"{one.subject or 'the machine'} in {one.step}" for one in same})
    return f"not compared for this subject and step, only for {', '.join(known[:5])}"


def _tested(rule: Rule, limit: str, value: float, one: Compared, rules: Rules) -> Judged:
    blank = Judged(rule, limit, value, one.difference, "cannot tell", "")
    fewest = min(len(one.a), len(one.b))
    if fewest < rules.min_recordings:
        return replace(
            blank,
            reason=f"{fewest} recordings on a side; the rules need {rules.min_recordings}",
        )
    if one.difference.p is None:
        return replace(blank, reason=one.difference.reason or "not estimated")
    rising = "increase" in limit
    # Lost records: the ends of the bounds that speak most against each conclusion.
    innocent, guilty = ("high", "low"), ("low", "high")
    if not rising:
        innocent, guilty = guilty, innocent
    beyond: Alternative = "greater" if rising else "less"
    inside: Alternative = "less" if rising else "greater"
    return replace(
        blank,
        p_regression=_p(one, limit, value, innocent, beyond),
        p_within=_p(one, limit, value, guilty, inside),
    )


def _p(
    one: Compared, limit: str, value: float, ends: tuple[str, str], alternative: Alternative
) -> float:
    """The p-value of B against A moved to its limit."""
    cut = series.cut(one.a, one.b, ends)
    if cut.a is None or cut.b is None:
        return 1.0
    sign = 1 if "increase" in limit else -1
    values = cut.a.values
    moved = values * (1 + sign * value / 100) if limit.endswith("pct") else values + sign * value
    quantile = one.a[0].quantity.quantile
    return resampling.p_value(Units(moved, cut.a.are_repeats), cut.b, quantile, alternative)


def _decided(every: Sequence[Judged], alpha: float) -> list[Judged]:
    tested = [one.p_regression for one in every if one.p_regression is not None]
    adjusted = iter(resampling.false_discovery(tested))
    decided = []
    for one in every:
        if one.p_regression is None or one.p_within is None:
            decided.append(one)
            continue
        p = next(adjusted)
        state: State = "cannot tell"
        reason = "the interval contains the limit: record more repeats"
        if p <= alpha:
            state, reason = "regression", f"beyond the limit (p = {_shown(p)})"
        elif one.p_within <= alpha:
            state, reason = "within", f"within the limit (p = {_shown(one.p_within)})"
        decided.append(replace(one, state=state, reason=reason, p_regression=p))
    return decided


def _shown(p: float) -> str:
    return f"{p:.1e}" if p < 0.001 else f"{p:.3f}".rstrip("0") if math.isfinite(p) else "?"
