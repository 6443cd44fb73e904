"""The boost switch on Windows: the power plan's processor performance boost mode, by powercfg.

0 is off; any other mode allows clocks above the nominal one. The mode has a value on mains and
one on battery, and takes effect once its plan is made active again.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from schedlens.errors import KnobError
from schedlens.output import system_text
from schedlens.record.windows import power_plan

NAME = "boost"
ALIAS = "PERFBOOSTMODE"
DISABLED = 0
# The mode that Windows uses if a plan has none.
AGGRESSIVE = 2
# The active plan, by powercfg's name.
CURRENT = "scheme_current"

LIMIT_S = 60.0
_ROW = re.compile(r"powercfg ([0-9a-fA-F-]{36}) perfboostmode")
_VALUES = re.compile(r"(\d+) (\d+)")


def query(plan: str = CURRENT) -> list[str]:
    """The command that prints the processor settings of a plan, including this one."""
    return [*power_plan.PROCESSOR[:2], plan, power_plan.PROCESSOR[3]]


def setting(plan: str, ac: int, dc: int) -> list[list[str]]:
    """The commands that set the mode on mains and on battery, and make it take effect."""
    words = [plan, "sub_processor", ALIAS.lower()]
    return [
        ["powercfg", "/setacvalueindex", *words, str(ac)],
        ["powercfg", "/setdcvalueindex", *words, str(dc)],
        ["powercfg", "/setactive", CURRENT],
    ]


@dataclass(frozen=True)
class BoostMode:
    """The switch of one power plan; `found` are its modes before any change."""

    plan: str
    found: power_plan.Value
    name: str = NAME

    def state(self) -> str | None:
        """`on` or `off`; None if mains and battery differ, or if it is unknown."""
        value = _read(self.plan)
        if value is None or (value.ac == DISABLED) != (value.dc == DISABLED):
            return None
        return "off" if value.ac == DISABLED else "on"

    def set(self, state: str) -> None:
        """Sets a state and reads it back; `on` is the original mode. Raises `KnobError`."""
        modes = [
            DISABLED if state == "off" else mode or AGGRESSIVE
            for mode in (self.found.ac, self.found.dc)
        ]
        _set(self.plan, modes[0], modes[1])
        if _read(self.plan) != power_plan.Value(modes[0], modes[1]):
            raise KnobError(f"{self.name}: the power plan does not accept the state '{state}'")

    def contents(self) -> list[tuple[str, str]]:
        """The setting with its current values, for `guard`."""
        value = _read(self.plan) or self.found
        return [(f"powercfg {self.plan} {ALIAS.lower()}", f"{value.ac} {value.dc}")]


def find() -> tuple[BoostMode | None, str]:
    """The switch of the active plan, or None and why there is none."""
    code, said = _run(query())
    plan, value = power_plan.plan_id(said), power_plan.settings(said).get(ALIAS)
    if code != 0 or plan is None:
        return None, f"powercfg reports no power plan ({_last(said, code)})"
    if value is None:
        return None, "the power plan has no boost mode: this processor or its firmware offers none"
    for guid in sorted(set(power_plan.overlays(_run(power_plan.OVERLAY)[1]).values())):
        # An overlay without a boost mode of its own leaves the plan's in effect.
        if guid != power_plan.NO_OVERLAY and _read(guid) is not None:
            return None, (
                f"the Power Mode '{power_plan.overlay_name(guid)}' overrides the plan's boost "
                "mode: choose Balanced in Settings > System > Power, on mains and on battery"
            )
    return BoostMode(plan, value), ""


def is_setting(name: str) -> bool:
    """Whether this is a name from `BoostMode.contents` instead of a file."""
    return _ROW.fullmatch(name) is not None


def put_back(name: str, text: str) -> bool:
    """Sets the values from `BoostMode.contents`; returns whether the plan has them now."""
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
    code, said = _run(query(plan))
    return power_plan.settings(said).get(ALIAS) if code == 0 else None


def _run(command: list[str]) -> tuple[int, str]:
    """Exit code and output of powercfg."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, system_text.decoded(done.stdout)


def _last(said: str, code: int) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"it exited with code {code}"
