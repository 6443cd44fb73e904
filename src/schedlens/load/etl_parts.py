"""Groups the .etl files of one recording: kernel and user sessions write one file each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlens import _decoders
from schedlens.errors import SchedlensError

# A log that was not closed has no end time; it may be arbitrarily long.
_OPEN_END = 1 << 63
# FILETIMEs count 100 ns. Windows computes the boot time again for each session.
_SAME_BOOT = 10_000_000


def together(paths: Sequence[Path]) -> list[list[Path]]:
    """The paths in the given order; the files of one recording are grouped at the first of them.

    Logs are of one recording if they have the same boot time and overlap. An unreadable file forms
    its own group, so that its reader can report why.
    """
    groups: list[list[Path]] = []
    spans: list[tuple[int, int, int] | None] = []
    for path in paths:
        span = _span(path)
        partner = next((n for n, other in enumerate(spans) if _overlap(span, other)), None)
        if partner is None:
            groups.append([path])
            spans.append(span)
        else:
            groups[partner].append(path)
    return groups


def _overlap(one: tuple[int, int, int] | None, other: tuple[int, int, int] | None) -> bool:
    if one is None or other is None:
        return False
    same_boot = abs(one[0] - other[0]) <= _SAME_BOOT
    return same_boot and one[1] <= other[2] and other[1] <= one[2]


def _span(path: Path) -> tuple[int, int, int] | None:
    """Boot, start and end of the log in a file; None if it contains no log."""
    if not path.is_file():
        return None
    try:
        span = _decoders.etl_span(str(path))
    except (SchedlensError, OSError):
        return None
    if span is None:
        return None
    boot, begin, end = span
    return boot, begin, _OPEN_END if end is None else end
