"""The series of a quantity: read by SQL for each recording, cut into exchangeable units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlens.differences import resampling
from schedlens.differences.quantities import BLOCKS, Quantity
from schedlens.differences.resampling import Floats, Units
from schedlens.differences.sides import Recorded


@dataclass(frozen=True)
class Series:
    """A quantity of one subject in one recording, in order of time.

    A ratio has `num` and `den`, and `slack` and `wide` as `Quantity` describes them; None: without
    bounds. Items and a whole have their values in `num`. `place` is the block of a ratio's value,
    or the time of an item in ns.
    """

    recorded: Recorded
    quantity: Quantity
    place: Floats
    num: Floats
    den: Floats
    slack: Floats | None
    wide: Floats
    is_exact: bool

    @property
    def has_bounds(self) -> bool:
        """Whether the true values are limited: nothing was lost, or it is known how much."""
        return self.is_exact or not self.recorded.is_lossy or self.slack is not None

    @cached_property
    def fine(self) -> Floats:
        """The value of each block or item; blocks without a denominator are left out."""
        if self.quantity.kind != "ratio":
            return self.num
        known = self.den > 0
        fine: Floats = self.num[known] / self.den[known]
        return fine

    def units(self, length: int, end: str = "value") -> list[Floats]:
        """Runs of `length` consecutive blocks as one value each, or of as many items.

        `end` is value, low or high: low and high are the limits of the true value.
        """
        number = len(self.num) // length
        if self.quantity.kind == "items":
            return [self.num[i * length : (i + 1) * length] for i in range(number)]
        units = []
        for part in range(number):
            value = self._ratio(slice(part * length, (part + 1) * length), end)
            if value is not None:
                units.append(_row(value))
        return units

    def whole(self, end: str = "value") -> float | None:
        """The value over the whole recording; None if there is none."""
        numpy, _ = resampling.libraries()
        if self.quantity.kind == "ratio":
            return self._ratio(slice(None), end)
        if not len(self.num):
            return None
        if self.quantity.kind == "items" and self.quantity.quantile is not None:
            quantile = self.quantity.quantile
            if len(self.num) * min(quantile, 1 - quantile) < resampling.LEAST_BEYOND:
                return None
            return float(numpy.quantile(self.num, quantile))
        return float(self.num.mean())

    def _ratio(self, part: slice, end: str) -> float | None:
        num, den = float(self.num[part].sum()), float(self.den[part].sum())
        if end != "value" and self.slack is not None:
            den += float(self.wide[part].sum())
            num += float(self.slack[part].sum()) if end == "high" else 0.0
        return num / den if den > 0 else None


def _row(value: float) -> Floats:
    numpy, _ = resampling.libraries()
    row: Floats = numpy.array([value])
    return row


def read(quantity: Quantity, recordings: Sequence[Recorded]) -> dict[str | None, list[Series]]:
    """The series of each subject, one for each recording that has values of it."""
    numpy, _ = resampling.libraries()
    found: dict[str | None, list[Series]] = {}
    wanted = {(one.database, one.trace_id): one for one in recordings}
    order = "block" if quantity.kind == "ratio" else "ts" if quantity.kind == "items" else "1"
    for database, con in {one.database: one.con for one in recordings}.items():
        table = con.sql(
            f"SELECT * FROM ({quantity.sql}) ORDER BY trace_id, subject, {order}"
        ).to_arrow_table()
        if not table.num_rows:
            continue
        columns = {name: table.column(name) for name in table.column_names}
        traces = columns["trace_id"].to_numpy()
        subjects = columns["subject"].combine_chunks().dictionary_encode()
        codes = subjects.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        changes = (numpy.diff(traces) != 0) | (numpy.diff(codes) != 0)
        edges = [0, *(numpy.flatnonzero(changes) + 1).tolist(), table.num_rows]
        for begin, end in itertools.pairwise(edges):
            recorded = wanted.get((database, int(traces[begin])))
            code = int(codes[begin])
            subject = None if code < 0 else str(subjects.dictionary[code])
            if recorded is None or (subject is None and quantity.of != "machine"):
                continue
            part = {
                name: column[begin:end] for name, column in columns.items() if name != "subject"
            }
            one = _series(quantity, recorded, part)
            if len(one.num):
                found.setdefault(subject, []).append(one)
    return found


def _series(quantity: Quantity, recorded: Recorded, part: dict[str, Any]) -> Series:
    numpy, _ = resampling.libraries()

    def floats(name: str) -> Floats:
        return _floats(part[name])

    value = floats("num" if quantity.kind == "ratio" else "value")
    known = numpy.isfinite(value)
    if quantity.kind != "ratio":
        place = floats("ts") if quantity.kind == "items" else numpy.zeros(len(value))
        exact = quantity.kind == "whole" or bool(part["exact"][0].as_py())
        ones = numpy.ones(int(known.sum()))
        return Series(recorded, quantity, place[known], value[known], ones, None, 0 * ones, exact)
    den, slack, wide = floats("den"), floats("slack"), floats("wide")
    known &= numpy.isfinite(den)
    # Blocks without a row have no value; a gap must not shift those behind it.
    place = floats("block")
    bounded = bool(numpy.isfinite(slack).all())
    full = {name: numpy.zeros(BLOCKS) for name in ("num", "den", "slack", "wide")}
    where = place[known].astype(int)
    for name, values in (("num", value), ("den", den), ("slack", slack), ("wide", wide)):
        full[name][where] = values[known] if name != "slack" or bounded else 0.0
    if not len(where):
        empty = numpy.zeros(0)
        return Series(recorded, quantity, empty, empty, empty, None, empty, False)
    return Series(
        recorded,
        quantity,
        numpy.arange(BLOCKS, dtype=float),
        full["num"],
        full["den"],
        full["slack"] if bounded else None,
        full["wide"],
        False,
    )


def _floats(column: Any) -> Floats:
    import pyarrow as pa

    numpy, _ = resampling.libraries()
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    floats: Floats = numpy.asarray(values, dtype=float)
    return floats


@dataclass(frozen=True)
class Cut:
    """Both sides cut into units, or the reason why they cannot be compared.

    `by` says what a unit is: a recording, or a block of `length` consecutive values.
    """

    a: Units | None
    b: Units | None
    by: str
    reason: str | None = None
    length: int = 1


def cut(
    a: Sequence[Series], b: Sequence[Series], ends: tuple[str, str] = ("value", "value")
) -> Cut:
    """The units of both sides: recordings if there are enough, else blocks of time.

    `ends` chooses the value, or the low or high limit of the true value, for each side.
    """
    numpy, _ = resampling.libraries()
    quantity = a[0].quantity
    whole_a = [v for one in a if (v := one.whole(ends[0])) is not None]
    whole_b = [v for one in b if (v := one.whole(ends[1])) is not None]
    if (
        resampling.divisions(len(whole_a), len(whole_b)) >= resampling.LEAST_DIVISIONS
        and min(len(whole_a), len(whole_b)) > 1
    ):
        column_a, column_b = (numpy.array(values)[:, None] for values in (whole_a, whole_b))
        return Cut(Units(column_a, True), Units(column_b, True), "recordings")
    if quantity.kind == "whole":
        return Cut(None, None, "recordings", _FEW_REPEATS.format(len(a), len(b)))
    if quantity.kind == "items" and quantity.quantile is not None:
        beyond = min(quantity.quantile, 1 - quantity.quantile)
        least = math.ceil(resampling.LEAST_BEYOND / beyond)
        fewest = min(sum(len(one.num) for one in side) for side in (a, b))
        if fewest < least:
            return Cut(None, None, "blocks", f"only {fewest} values on a side; {least} are needed")
    length = _length([*a, *b], quantity)
    least_length = max(
        math.ceil(sum(len(one.num) for one in side) / resampling.MOST_BLOCKS) for side in (a, b)
    )
    length = max(length, least_length)
    units = [
        [unit for one in side for unit in one.units(length, end)]
        for side, end in zip((a, b), ends, strict=True)
    ]
    fewest = min(len(side) for side in units)
    if fewest < resampling.LEAST_BLOCKS:
        return Cut(
            None,
            None,
            "blocks",
            f"only {fewest} independent stretches of time on a side; "
            f"{resampling.LEAST_BLOCKS} are needed",
            length,
        )
    unit_a, unit_b = (Units(numpy.stack(side), False) for side in units)
    return Cut(unit_a, unit_b, "blocks", None, length)


_FEW_REPEATS = (
    "one value for each recording, and {} and {} recordings are too few: 4 and 4 are needed"
)


def _length(every: Sequence[Series], quantity: Quantity) -> int:
    """The longest of the block lengths of the series."""
    numpy, _ = resampling.libraries()
    longest = 1
    for one in every:
        fine = one.fine
        longest = max(longest, resampling.block_length(fine))
        if quantity.quantile is not None and quantity.quantile != 0.5 and len(fine):
            beyond = (fine > numpy.quantile(fine, quantity.quantile)).astype(float)
            longest = max(longest, resampling.block_length(beyond))
    return longest
