"""The columns of a wide table that a terminal has room for, and text with a hanging indent."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

# Between two columns of a table.
_GAP = 3
# A longer text is folded within its column.
_MOST_TEXT = 40
_RAW_ID = re.compile(r"(^|_)(utid|upid|trace_id)$")
_BOUND = re.compile(r"_(high|low)(_|$)|^(left|right)_censored$")
# Names that tell rows apart are shown whatever else is left out.
_NAMES = frozenset({"thread", "process", "cpu", "core", "label", "step", "title", "query"})


def chosen(
    names: Sequence[str], cells: Sequence[Sequence[str]], width: int, *, null: str = "NULL"
) -> list[int]:
    """Places of the columns that fit `width` characters, in their order.

    `cells` are the texts of each row. Left out first are columns without values, raw ids, bounds of
    other columns and columns with one value in all rows, then columns from the right.
    """
    widths = [
        max([len(name), *(min(_MOST_TEXT, len(row[place])) for row in cells)])
        for place, name in enumerate(names)
    ]
    kept = list(range(len(names)))

    def used() -> int:
        return sum(widths[place] + _GAP for place in kept) - _GAP

    def rank(place: int) -> tuple[int, int]:
        values = {row[place] for row in cells}
        name = names[place]
        # Without its number, nobody sees which recording a row belongs to.
        if (name in _NAMES and values != {null}) or (name == "trace_id" and len(values) > 1):
            return 5, -place
        if values <= {null}:
            return 0, -place
        if _RAW_ID.search(name):
            return 1, -place
        if _BOUND.search(name):
            return 2, -place
        if len(values) == 1 and len(cells) > 1:
            return 3, -place
        return 4, -place

    for place in sorted(range(len(names)), key=rank):
        if used() <= width or len(kept) == 1:
            break
        kept.remove(place)
    return kept


def hanging(text: str, width: int, indent: int) -> list[str]:
    """The text in lines of at most `width`, each behind `indent` spaces; long words are kept."""
    before = " " * indent
    lines = textwrap.wrap(
        text,
        max(width, indent + 20),
        initial_indent=before,
        subsequent_indent=before,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [before]
