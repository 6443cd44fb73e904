"""What the recorders on Windows mean by their errors, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schedlens.errors import NoSpaceError, RecorderError

from .etw_command import INSTANCE, Capture

ELEVATE = (
    "recording needs an elevated prompt: right-click on Terminal, 'Run as administrator', "
    "and type the command again there"
)
# WPR gives HRESULTs, xperf the numbers of Windows itself.
_NOT_ELEVATED = (0xC5585011, 0x80070005, 0xC0000022, 0x5)
_RUNNING = (0xC5583001, 0x800700B7, 0xB7)
_NOT_RUNNING = (0xC5583000,)
_TOO_MANY = (0x800705AA, 0x80070718, 0x5AA)
_NO_MEMORY = (0x80070008, 0x8007000E, 0x8)
_COUNTERS_IN_USE = (0x800700AA, 0xAA)
_DISK_FULL = (0x80070070, 0x70)

HIDDEN = (
    "the only counter offered is the timer: a hypervisor (Hyper-V, virtualization-based security, "
    "a virtual machine) hides the others; turn off memory integrity and the Windows features "
    "'Virtual Machine Platform' and 'Hyper-V' and restart, or record without --counters"
)


def error(
    capture: Capture, command: Sequence[str], code: int, said: str
) -> RecorderError | NoSpaceError:
    """The error for a command that ended with `code` and these words."""
    found = _codes(code, said)
    if found & set(_DISK_FULL):
        return NoSpaceError("no space left on the disk for the recording: free some, then go on")
    return RecorderError(_meaning(capture, command, found, code, said))


def _meaning(
    capture: Capture, command: Sequence[str], found: set[int], code: int, said: str
) -> str:
    if found & set(_NOT_ELEVATED):
        return ELEVATE
    if found & set(_RUNNING):
        ends = f"wpr -cancel -instancename {INSTANCE}" if capture.kind == "wpr" else "xperf -stop"
        return f"a recording of an earlier run goes on: `{ends}` ends it, then type this again"
    if found & set(_NOT_RUNNING):
        return "the recording was ended by another program: nothing of it is left, record it again"
    if found & set(_TOO_MANY):
        return (
            "Windows runs as many kernel recordings as it can: end one of those that "
            "`logman query -ets` lists, then type this again"
        )
    if found & set(_NO_MEMORY):
        return "not enough memory for the buffers: close programs, or ask for a shorter --ring"
    if found & set(_COUNTERS_IN_USE):
        return "another program counts with the processor's counters: end it, or omit --counters"
    if capture.counters and command[1] in ("-start", "-on"):
        why = "with these counters the recorder does not begin; `wpr -pmcsources` lists what is "
        return f"{why}offered, {capture.program} said: {_last(said, code)}"
    return f"{capture.program} {command[1]} failed: {_last(said, code)}"


def _codes(code: int, said: str) -> set[int]:
    """The error numbers a recorder gave, as exit code and in its words."""
    named = {int(text, 16) for text in re.findall(r"0x([0-9a-fA-F]{1,8})\b", said)}
    return named | {code & 0xFFFFFFFF}


def _last(said: str, code: int) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(lines[-2:])[:300] if lines else f"it ended with code {code & 0xFFFFFFFF:#x}"


def offered(listing: str) -> tuple[str, ...]:
    """The names in the answer to `-pmcsources`: lines of id, name, interval, least and most."""
    rows = re.findall(r"^\s*\d+\s+(\S+)\s+\d+\s+\d+\s+\d+\s*$", listing, re.MULTILINE)
    return tuple(rows)
