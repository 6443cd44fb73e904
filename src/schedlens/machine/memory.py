"""Sizes of memory as users write them."""

from __future__ import annotations

import re

from schedlens.errors import SizeError

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def size(text: str) -> int:
    """The bytes of a size such as 2G, 512M or 1.5GiB; units are powers of 1024.

    Raises `SizeError`.
    """
    found = _SIZE.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise SizeError(f"{text!r} is not a size: write it as 512M or 2G")
    return int(float(found[1]) * (1 << _UNITS[found[2].lower()]))
