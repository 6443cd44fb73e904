"""Columns of time: their widths, how intervals are split at them, and which ones fill a range."""

from __future__ import annotations

# The narrowest columns of a recording: about this many; each level above has a quarter.
_FINEST = 1 << 16
_COARSEST = 256
FACTOR = 4


def widths_of(length_ns: int) -> list[int]:
    """The widths of the columns of a recording, narrowest first: powers of two."""
    width = 1
    while length_ns // width > _FINEST:
        width *= 2
    widths = [width]
    while length_ns // widths[-1] > _COARSEST:
        widths.append(widths[-1] * FACTOR)
    return widths


def split_sql(source: str, width: int) -> str:
    """SQL that splits intervals [b, e) with lane and key at multiples of `width`.

    Its rows are lane, key, first, columns, ns, begins: the pieces in single columns, and one row
    for all columns that an interval fills from side to side. `begins` of an interval remains with
    its first piece.
    """
    return f"""
WITH piece AS NOT MATERIALIZED (
  SELECT lane, key, b, e, begins, b // {width} AS f FROM ({source}) WHERE e > b
)
SELECT lane, key, f AS first, 1 AS columns, least(e, (f + 1) * {width}) - b AS ns, begins FROM piece
UNION ALL
SELECT lane, key, rest.first, rest.columns, rest.ns, 0
FROM (
  SELECT lane, key, unnest([
    {{'first': l, 'columns': 1, 'ns': e - l * {width}}},
    {{'first': f + 1, 'columns': l - f - 1, 'ns': (l - f - 1) * {width}}}
  ]) AS rest
  -- To divide takes longer than to multiply, and few of these rows remain.
  FROM (SELECT *, (e - 1) // {width} AS l FROM piece WHERE e > (f + 1) * {width})
)
WHERE rest.columns > 0
"""


Segment = tuple[int, int, int]
Range = tuple[int, int]


def cover(start: int, end: int, widths: list[int]) -> tuple[list[Segment], list[Range]]:
    """The fewest columns that fill a range, and what is left of it at its edges.

    Columns are width, first, and behind the last; times are from the start of the recording.
    """
    if start >= end:
        return [], []
    if not widths:
        return [], [(start, end)]
    width, finer = max(widths), sorted(widths)[:-1]
    first, last = -(-start // width), end // width
    if first >= last:
        return cover(start, end, finer)
    before, after = cover(start, first * width, finer), cover(last * width, end, finer)
    return [*before[0], (width, first, last), *after[0]], [*before[1], *after[1]]
