"""Text for the terminal: names from a recording must not control it."""

from __future__ import annotations

import re

from rich import markup

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def visible(text: str) -> str:
    """The text with control, direction and zero-width characters spelled out."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(text: str) -> str:
    """The text with escape sequences and other hidden characters spelled out; keeps newlines.

    Names of threads, processes, cgroups and files come from the recording. Printed unchanged, they
    could move the cursor, change colors or hide a part of the line.
    """
    return "\n".join(visible(line) for line in text.split("\n"))


def escape(text: str) -> str:
    """The same for rich, with all its markup escaped."""
    return markup.escape(plain(text))
