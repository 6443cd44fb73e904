"""Which sections of the page are open, a line each, or in the group that no finding is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Place = Literal["open", "line", "group"]

TIMELINE = "cpu_timeline"


def arranged(
    sections: list[dict[str, Any]], findings: dict[str, Any], answers: Mapping[str | None, str]
) -> list[dict[str, Any]]:
    """The sections in the order of the page, each with its `place`.

    `answers` is the name of the section that answers the question of each kind of session.

    Open are the timeline, what answers the question of the session, and what the first findings
    rest on; of an experiment, what its results rest on. The other sections that a finding
    links to are a line each; those without one are in a group.
    """
    kind = findings["verdict"]["kind"]
    cards = findings["cards"]
    first = findings["stated" if kind == "experiment" else "top"]
    opened = {cards[place]["section"] for place in first} | {TIMELINE, answers.get(kind)}
    named = {card["section"] for card in cards}
    places: dict[str, Place] = {
        section["name"]: "open"
        if section["name"] in opened
        else "line"
        if section["name"] in named
        else "group"
        for section in sections
    }
    order = {"open": 0, "line": 1, "group": 2}
    # A moment is one step from its finding; an experiment's results come before its recordings.
    ahead = kind not in ("experiment", "sweep")

    def rank(section: dict[str, Any]) -> tuple[int, bool]:
        place = order[places[section["name"]]]
        return place, (section["name"] != TIMELINE) if ahead else (section["name"] == TIMELINE)

    return [section | {"place": places[section["name"]]} for section in sorted(sections, key=rank)]
