"""No tracked text uses the private vocabulary that was replaced by terms of the field."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Word or phrase, and what to write instead.
INSTEAD = {
    "told": "reported, recorded, known",
    "untold": "unknown",
    "tells": "reports, records, shows",
    "enterer": "incoming thread",
    "rung": "capture mode",
    "shelf": "the thing itself",
    "shelves": "the thing itself",
    "scene": "drawing, timeline, setup",
    "scenes": "drawings, timelines",
    "mended": "fixed, repaired",
    "unmended": "not fixed",
    "held against": "checked against",
    "come-out": "result",
    "stand-still": "idle time",
    "stand-stills": "idle times",
    "stay": "slice (a verb: remain, keep)",
    "stays": "slices (a verb: remains, keeps)",
}
# An underscore ends a word, so that identifiers count as well. A hyphen matches an underscore
# too; a space matches a line break.
PATTERN = re.compile(
    r"(?<![A-Za-z0-9])("
    + "|".join(word.replace(" ", r"\s+").replace("-", "[-_]") for word in INSTEAD)
    + r")(?![A-Za-z0-9])",
    re.IGNORECASE,
)

SUFFIXES = {
    "", ".cs", ".csproj", ".css", ".html", ".js", ".json", ".md", ".ps1", ".py", ".pyi", ".rs",
    ".sh", ".sql", ".toml", ".wprp", ".yml",
}  # fmt: skip
# Generated or recorded.
LEFT_OUT = ("fixtures/", "tests/expected/", "docs/third-party-licenses.md")
SELF = "tests/project/test_plain_words.py"

# Phrases that may use a word.
ALLOWED = (
    # The ordinary verb.
    "rarely stay on", "rarely stays on",
)  # fmt: skip


def tracked() -> list[str]:
    """Text files under version control, without those left out."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [
        name
        for name in done.stdout.split("\0")
        if name
        and Path(name).suffix in SUFFIXES
        and not name.endswith(".lock")
        and not name.startswith(LEFT_OUT)
        and name != SELF
        and (ROOT / name).is_file()
    ]


def uses(name: str, text: str) -> list[str]:
    """Each use of a word as file:line: word, and what to write instead."""
    for phrase in ALLOWED:
        text = text.replace(phrase, re.sub(r"\S", " ", phrase))
    found = []
    for match in PATTERN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        word = " ".join(match[0].lower().split()).replace("_", "-")
        found.append(f"{name}:{line}: {match[0]!r}, write {INSTEAD[word]}")
    return found


def test_no_tracked_text_uses_private_words() -> None:
    found = [use for name in tracked() for use in uses(name, (ROOT / name).read_text("utf-8"))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a stay of 3 ms", [1]),
        ("def test_the_loss_is_told() -> None:", [1]),
        ("\nit is held\nagainst the text; stand_still", [2, 3]),
        ("class Stay:\n    Stays = 1", [1, 2]),
        ("a stayed retold teller installs", []),
    ],
)
def test_words_are_found_with_their_line(text: str, lines: list[int]) -> None:
    assert [int(use.split(":")[1]) for use in uses("x.py", text)] == lines


def test_every_allowed_phrase_is_used() -> None:
    texts = "\n".join((ROOT / name).read_text("utf-8") for name in tracked())
    assert [phrase for phrase in ALLOWED if phrase not in texts] == []
