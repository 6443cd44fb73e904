"""Which .etl files are parts of one recording: a kernel and a user session write a file each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlens import _decoders
from schedlens.errors import SchedlensError

# A log that was not closed tells no end: it may last as long as anything.
_OPEN_END = 1 << 63
# FILETIMEs count 100 ns. The time of boot is worked out anew for each session.
_SAME_BOOT = 10_000_000


def together(paths: Sequence[Path]) -> list[list[Path]]:
    """The paths in the order given, files of one recording in one list with the first of them.

    Logs belong together that were recorded after the same boot and overlap in time. A file that
    cannot be read stands alone, so that its reader can say why.
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
    """Boot, begin and end of the log in a file; None if it holds none."""
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
