"""Reads the rules of a gate: a TOML file of limits on differences. None of it is trusted."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlens.differences.quantities import BY_NAME
from schedlens.errors import RulesError

MOST_BYTES = 1 << 20
MOST_RULES = 200
_LIMITS = ("max_increase", "max_increase_pct", "max_decrease", "max_decrease_pct")


@dataclass(frozen=True)
class Rule:
    """A limit on the difference of one quantity; each limit is in its unit or in percent of A.

    Without a subject or a step, the rule applies to each that both sides have.
    """

    metric: str
    max_increase: float | None = None
    max_increase_pct: float | None = None
    max_decrease: float | None = None
    max_decrease_pct: float | None = None
    subject: str | None = None
    step: str | None = None

    @property
    def limits(self) -> list[tuple[str, float]]:
        """Name and value of each limit that is set."""
        return [(name, value) for name in _LIMITS if (value := getattr(self, name)) is not None]

    @property
    def words(self) -> str:
        """The rule as a line of text."""
        limits = ", ".join(f"{name} = {value:g}" for name, value in self.limits)
        where = "".join(
            f", {name} = {text}"
            for name, text in (("subject", self.subject), ("step", self.step))
            if text is not None
        )
        return f"{self.metric}: {limits}{where}"


@dataclass(frozen=True)
class Rules:
    """The rules of a gate.

    `alpha` is the share of gates that fail although nothing changed, at most. `min_recordings` is
    the number of recordings on each side below which no rule can tell. `same` names facts of the
    machine (`FROM machine_fact`) that must not differ.
    """

    rules: tuple[Rule, ...]
    alpha: float = 0.05
    min_recordings: int = 1
    same: tuple[str, ...] = ()


def read(path: Path) -> Rules:
    """The rules in a file. Raises `RulesError`, one line that names the place and the choices."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise RulesError(f"{path}: larger than {MOST_BYTES >> 20} MiB: it is no file of rules")
        found = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise RulesError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise RulesError(f"{path} is not UTF-8 at byte {error.start}: write it as TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise RulesError(f"{path} is not TOML: {str(error) or 'nested too deeply'}") from None
    try:
        return parsed(found)
    except RulesError as error:
        raise RulesError(f"{path}: {error}") from None


def parsed(found: dict[str, Any]) -> Rules:
    """The rules in a decoded TOML document. Raises `RulesError`."""
    _keys("the file", found, ("gate", "rule"))
    gate = found.get("gate", {})
    if not isinstance(gate, dict):
        raise RulesError("gate must be a table: write [gate] above its keys")
    _keys("[gate]", gate, ("alpha", "min_recordings", "same"))
    alpha = _number("gate.alpha", gate.get("alpha", 0.05))
    if not 0.001 <= alpha <= 0.2:
        raise RulesError(f"gate.alpha is {alpha:g}: choose a value from 0.001 to 0.2")
    least = gate.get("min_recordings", 1)
    if not isinstance(least, int) or isinstance(least, bool) or not 1 <= least <= 10_000:
        raise RulesError("gate.min_recordings must be a whole number from 1 to 10000")
    same = gate.get("same", [])
    if not isinstance(same, list) or not all(isinstance(key, str) for key in same):
        raise RulesError('gate.same must be a list of texts, such as ["cpu_model", "microcode"]')
    listed = found.get("rule", [])
    if not isinstance(listed, list) or not listed:
        raise RulesError("has no rules: write [[rule]] with metric and max_increase_pct")
    if len(listed) > MOST_RULES:
        raise RulesError(f"has {len(listed)} rules; at most {MOST_RULES} are allowed")
    rules = tuple(_rule(number, one) for number, one in enumerate(listed, 1))
    return Rules(rules, alpha, least, tuple(same))


def _rule(number: int, found: object) -> Rule:
    place = f"rule {number}"
    if not isinstance(found, dict):
        raise RulesError(f"{place} must be a table: write [[rule]] above its keys")
    _keys(place, found, ("metric", "subject", "step", *_LIMITS))
    metric = found.get("metric")
    if not isinstance(metric, str):
        raise RulesError(f"{place}: metric must be a text: choose from {', '.join(BY_NAME)}")
    if metric not in BY_NAME:
        raise RulesError(
            f"{place}: no metric named {_shown(metric)}: choose from {', '.join(BY_NAME)}"
        )
    limits = {name: _number(f"{place}: {name}", found[name]) for name in _LIMITS if name in found}
    if not limits:
        raise RulesError(f"{place} has no limit: set one of {', '.join(_LIMITS)}")
    for name, value in limits.items():
        # No number of recordings shows that nothing changed at all.
        if value <= 0:
            raise RulesError(f"{place}: {name} is {value:g}: it must be above 0")
    for direction in ("increase", "decrease"):
        if f"max_{direction}" in limits and f"max_{direction}_pct" in limits:
            raise RulesError(
                f"{place}: set max_{direction} or max_{direction}_pct, not both: write two rules"
            )
    if limits.get("max_decrease_pct", 0.0) >= 100:
        raise RulesError(f"{place}: max_decrease_pct must be below 100: nothing falls further")
    texts: dict[str, str] = {}
    for name in ("subject", "step"):
        if name in found:
            if not isinstance(found[name], str):
                raise RulesError(f"{place}: {name} must be a text")
            texts[name] = found[name]
    return Rule(
        metric,
        limits.get("max_increase"),
        limits.get("max_increase_pct"),
        limits.get("max_decrease"),
        limits.get("max_decrease_pct"),
        texts.get("subject"),
        texts.get("step"),
    )


def _keys(place: str, found: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in found:
        if key not in known:
            raise RulesError(
                f"{place} has an unknown key {_shown(key)}: choose from {', '.join(known)}"
            )


def _number(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RulesError(f"{place} must be a number")
    try:
        number = float(value)
    except OverflowError:
        raise RulesError(f"{place} is too large") from None
    if not math.isfinite(number) or abs(number) > 1e18:
        raise RulesError(f"{place} must be a finite number below 1e18")
    return number


def _shown(text: str) -> str:
    return f"'{text[:60]}{'…' if len(text) > 60 else ''}'"
