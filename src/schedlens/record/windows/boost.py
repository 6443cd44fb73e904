"""The boost switch on Windows: the power plan's processor performance boost mode, by powercfg.

0 is off; any other mode lets clocks above the nominal one. It has a value on mains and one on
battery, and counts once its plan is made active again.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from schedlens.errors import KnobError
from schedlens.record.windows import power_plan

NAME = "boost"
ALIAS = "PERFBOOSTMODE"
DISABLED = 0
# What Windows itself takes where a plan says nothing.
AGGRESSIVE = 2
# The plan in force, as powercfg takes it.
CURRENT = "scheme_current"

LIMIT_S = 60.0
_ROW = re.compile(r"powercfg ([0-9a-fA-F-]{36}) perfboostmode")
_VALUES = re.compile(r"(\d+) (\d+)")


def asking(plan: str = CURRENT) -> list[str]:
    """The command that prints the processor's settings of a plan, this one among them."""
    return [*power_plan.PROCESSOR[:2], plan, power_plan.PROCESSOR[3]]


def setting(plan: str, ac: int, dc: int) -> list[list[str]]:
    """The commands that set the mode on mains and on battery, and let it count."""
    words = [plan, "sub_processor", ALIAS.lower()]
    return [
        ["powercfg", "/setacvalueindex", *words, str(ac)],
        ["powercfg", "/setdcvalueindex", *words, str(dc)],
        ["powercfg", "/setactive", CURRENT],
    ]


@dataclass(frozen=True)
class BoostMode:
    """The switch of one power plan; `found` are its modes before anything was changed."""

    plan: str
    found: power_plan.Value
    name: str = NAME

    def state(self) -> str | None:
        """`on` or `off`; None where mains and battery differ in it, or nothing is told."""
        value = _read(self.plan)
        if value is None or (value.ac == DISABLED) != (value.dc == DISABLED):
            return None
        return "off" if value.ac == DISABLED else "on"

    def set(self, state: str) -> None:
        """Sets a state and reads it back; `on` is the mode that was found. Raises `KnobError`."""
        modes = [
            DISABLED if state == "off" else mode or AGGRESSIVE
            for mode in (self.found.ac, self.found.dc)
        ]
        _set(self.plan, modes[0], modes[1])
        if _read(self.plan) != power_plan.Value(modes[0], modes[1]):
            raise KnobError(f"{self.name}: the power plan does not keep the state '{state}'")

    def contents(self) -> list[tuple[str, str]]:
        """The setting with the values it holds now, for `guard`."""
        value = _read(self.plan) or self.found
        return [(f"powercfg {self.plan} {ALIAS.lower()}", f"{value.ac} {value.dc}")]


def find() -> tuple[BoostMode | None, str]:
    """The switch of the plan in force, or None and why there is none."""
    code, said = _run(asking())
    plan, value = power_plan.plan_id(said), power_plan.settings(said).get(ALIAS)
    if code != 0 or plan is None:
        return None, f"powercfg tells no power plan ({_last(said, code)})"
    if value is None:
        return None, "the power plan has no boost mode: this processor or its firmware offers none"
    return BoostMode(plan, value), ""


def is_setting(name: str) -> bool:
    """Whether a name of `BoostMode.contents` is meant, and no file."""
    return _ROW.fullmatch(name) is not None


def put_back(name: str, text: str) -> bool:
    """Sets the values that `BoostMode.contents` told; whether they are in the plan now."""
    row, values = _ROW.fullmatch(name), _VALUES.fullmatch(text)
    if row is None or values is None:
        return False
    wanted = power_plan.Value(int(values[1]), int(values[2]))
    try:
        if _read(row[1]) != wanted:
            _set(row[1], wanted.ac, wanted.dc)
    except KnobError:
        return False
    return _read(row[1]) == wanted


def _set(plan: str, ac: int, dc: int) -> None:
    for command in setting(plan, ac, dc):
        code, said = _run(command)
        if code != 0:
            raise KnobError(f"{NAME}: `{' '.join(command)}` failed: {_last(said, code)}")


def _read(plan: str) -> power_plan.Value | None:
    code, said = _run(asking(plan))
    return power_plan.settings(said).get(ALIAS) if code == 0 else None


def _run(command: list[str]) -> tuple[int, str]:
    """Exit code of powercfg, and what it printed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout


def _last(said: str, code: int) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"it ended with code {code}"
