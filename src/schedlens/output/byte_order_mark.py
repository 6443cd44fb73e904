"""The encoding of a text by the mark at its begin.

PowerShell's `>` and some programs of Windows write UTF-16 with such a mark.
"""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding(begin: bytes) -> str:
    """The encoding of a text that begins with these bytes; without a mark, UTF-8."""
    return next((name for mark, name in _MARKS if begin.startswith(mark)), "utf-8")


def decoded(data: bytes) -> str:
    """The text without its mark; what is no text becomes U+FFFD."""
    return data.decode(encoding(data), "replace")
