"""Room for a recording: required before it begins, and watched while it grows.

WPR writes its temporary files, and merges them into the recording when it stops. Both are on the
disk of the session, so a recording needs twice its size.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from schedlens.errors import NoSpaceError

# A recording of a busy machine grows by this much in a few seconds.
FREE_BYTES = 256 << 20

Free = Callable[[Path], int]


def free(folder: Path) -> int:
    """The bytes that are left on the disk of a folder."""
    return shutil.disk_usage(folder).free


def check(folder: Path, expected: int, ask: Free = free) -> None:
    """Raises `NoSpaceError` unless there is room for twice the `expected` bytes, and some more."""
    needed, left = 2 * expected + FREE_BYTES, ask(folder)
    if left >= needed:
        return
    if not expected:
        raise NoSpaceError(f"less than {FREE_BYTES >> 20} MB left on the disk of {folder}")
    raise NoSpaceError(
        f"{left >> 20} MB left on the disk of {folder}: a recording of this length may need "
        f"{needed >> 20} MB while it is merged. Free some, record for a shorter time, or choose "
        "another disk with -o"
    )


class Watch:
    """Whether a growing recording must stop now, while what it wrote can still be merged."""

    def __init__(self, folder: Path, ask: Free = free) -> None:
        self._folder, self._ask = folder, ask
        self._at_begin = ask(folder)

    def is_short(self) -> bool:
        """Whether less is left than was written since the begin, and some more."""
        left = self._ask(self._folder)
        return left < max(0, self._at_begin - left) + FREE_BYTES
