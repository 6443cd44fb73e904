"""The SMT and boost switches: finds, reads and sets them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schedlens.errors import KnobError

ON, OFF = "on", "off"

_SMT = "sys/devices/system/cpu/smt/control"
_WHY_NO_SMT = {
    "forceoff": "SMT is switched off (nosmt=force) until the next restart",
    "notsupported": "this CPU has no SMT, or the hypervisor hides it",
    "notimplemented": "the kernel cannot switch SMT",
}


class Knob(Protocol):
    """A setting of two states, `on` and `off`."""

    @property
    def name(self) -> str:
        """`smt` or `boost`."""

    def state(self) -> str | None:
        """`on` or `off`; None if it is neither."""

    def set(self, state: str) -> None:
        """Sets a state and reads it back; raises `KnobError`."""

    def contents(self) -> list[tuple[str, str]]:
        """The items of the setting with their current texts, for `guard`."""


Knobs = Mapping[str, Knob]


@dataclass(frozen=True)
class FileKnob:
    """A setting in one or more files; `words` are the file contents for each state."""

    name: str
    files: tuple[Path, ...]
    words: dict[str, str]

    def state(self) -> str | None:
        """`on` or `off`; None if the files differ or contain something else."""
        texts = {_text(file) for file in self.files}
        return next((state for state, word in self.words.items() if texts == {word}), None)

    def set(self, state: str) -> None:
        """Writes a state and reads it back; raises `KnobError`."""
        for file in self.files:
            try:
                file.write_text(f"{self.words[state]}\n", encoding="utf-8")
            except OSError as error:
                raise KnobError(f"{self.name}: {file}: {error.strerror or error}") from None
        if self.state() != state:
            raise KnobError(f"{self.name}: {self.files[0]} does not accept the state '{state}'")

    def contents(self) -> list[tuple[str, str]]:
        """The files with their current texts, for `guard`."""
        return [(str(file), _text(file) or "") for file in self.files]


def find(root: Path = Path("/")) -> tuple[dict[str, FileKnob], list[str]]:
    """The knobs that can be changed here, by name, and a line for each that cannot."""
    found: dict[str, FileKnob] = {}
    missing = []
    for name, knob, why in (("smt", *_smt(root)), ("boost", *_boost(root))):
        if knob is None:
            missing.append(f"{name}: {why}")
        elif not all(os.access(file, os.W_OK) for file in knob.files):
            missing.append(f"{name}: only root can change {knob.files[0]}")
        elif knob.state() is None:
            missing.append(f"{name}: {knob.files[0]} is in a state that cannot be restored")
        else:
            found[name] = knob
    return found, missing


def _smt(root: Path) -> tuple[FileKnob | None, str]:
    text = _text(root / _SMT)
    if text is None:
        return None, "the system does not report SMT (smt/control)"
    if text in _WHY_NO_SMT:
        return None, _WHY_NO_SMT[text]
    return FileKnob("smt", (root / _SMT,), {ON: "on", OFF: "off"}), ""


def _boost(root: Path) -> tuple[FileKnob | None, str]:
    cpu = root / "sys/devices/system/cpu"
    pstate = cpu / "intel_pstate/no_turbo"
    if pstate.exists():
        return FileKnob("boost", (pstate,), {ON: "0", OFF: "1"}), ""
    if (cpu / "cpufreq/boost").exists():
        return FileKnob("boost", (cpu / "cpufreq/boost",), {ON: "1", OFF: "0"}), ""
    policies = tuple(sorted(cpu.glob("cpufreq/policy*/boost")))
    if policies:
        return FileKnob("boost", policies, {ON: "1", OFF: "0"}), ""
    return None, "the system has no switch for it (cpufreq/boost, intel_pstate/no_turbo)"


def _text(file: Path) -> str | None:
    try:
        return os.fsdecode(file.read_bytes()).strip()
    except OSError:
        return None
