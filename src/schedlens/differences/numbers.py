"""Quantities and differences as text: value with unit, interval, and percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlens.output import wording

if TYPE_CHECKING:
    from schedlens.differences.contrast import Difference


def value(number: float | None, unit: str, *, signed: bool = False) -> str:
    """A value with three significant digits and its unit; `?` for None."""
    if number is None:
        return "?"
    sign = "+" if signed and number > 0 else ""
    if unit == "ns":
        return f"{sign}{wording.duration(number)}"
    if abs(number) >= 1e7:
        return f"{sign}{number / 1e6:,.0f} million{f' {unit}' if unit else ''}"
    return f"{sign}{wording.number(number)}{f' {unit}' if unit else ''}"


def difference(one: Difference) -> str:
    """The difference with its 95 % interval; in percent of A if the interval is below 1,000 %."""
    if one.difference is None or one.low is None or one.high is None:
        return "?"
    three = (one.difference, one.low, one.high)
    shares = [one.percent(x) for x in three]
    if one.unit != "%" and all(share is not None and abs(share) < 1000 for share in shares):
        middle, low, high = (value(share, "%", signed=True) for share in shares)
    else:
        middle, low, high = (value(x, one.unit, signed=True) for x in three)
    return f"{middle} ({low} to {high})"
