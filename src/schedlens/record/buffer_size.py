"""The option --buffer-size: how much memory the recorder gets before it loses events."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedlens.errors import PlanError

PAGE = 4096
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_FORM = re.compile(r"(\d{1,9})([KMG]?)(?:x(\d{1,6}))?", re.IGNORECASE)
# What ETW accepts: a buffer of 4 KiB to 16 MiB, and at least two for each CPU.
_ETW_LARGEST = 16 << 20
_ETW_FEWEST = 2


@dataclass(frozen=True)
class BufferSize:
    """Bytes of a buffer (perf: of each CPU's), and on Windows the number of buffers."""

    size: int
    count: int | None = None


def parse(text: str, target: str) -> BufferSize:
    """Parses `8192` (pages of 4 KiB, as in `perf record -m`), `32M` or `1Mx2048`.

    `target` is the system that records. Raises `PlanError`.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise PlanError(
            f"--buffer-size: '{text}' is not a number of pages (8192), a size (32M), or on Windows "
            "the size and number of buffers (1Mx2048)"
        )
    number, unit, count = found.groups()
    size = int(number) * (_UNITS[unit.upper()] if unit else PAGE)
    if target == "windows":
        if not PAGE <= size <= _ETW_LARGEST:
            raise PlanError(
                f"--buffer-size: a buffer of {text} is not between 4K and 16M: use more buffers "
                "instead, as in 1Mx2048"
            )
        if count is not None and int(count) < _ETW_FEWEST:
            raise PlanError(f"--buffer-size: {count} buffers are not enough: use at least 2")
        return BufferSize(size, None if count is None else int(count))
    if count is not None:
        raise PlanError(
            f"--buffer-size: {text}: perf has one buffer for each CPU: name its size, such as 32M"
        )
    if size < PAGE:
        raise PlanError(f"--buffer-size: {text} is less than a page of 4 KiB")
    # The kernel accepts only powers of two.
    return BufferSize(1 << (size - 1).bit_length())
