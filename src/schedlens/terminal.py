"""Text for the terminal: names from a recording must not control it."""

from __future__ import annotations

from rich import markup

from schedlens.figures import visible


def plain(text: str) -> str:
    """The text with escape sequences and other hidden characters spelled out; line ends stay.

    Names of threads, processes, cgroups and files come from the recording: printed as they are,
    they could move the cursor, change colors or hide a part of the line.
    """
    return "\n".join(visible(line) for line in text.split("\n"))


def escape(text: str) -> str:
    """The same for rich, which then takes nothing in it for markup."""
    return markup.escape(plain(text))
