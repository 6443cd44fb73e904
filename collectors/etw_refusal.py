"""What the errors of the Windows recorders mean, and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schedlens.errors import NoSpaceError, RecorderError

from .etw_command import INSTANCE, Capture

ELEVATE = (
    "recording needs an elevated prompt. Right-click Terminal, choose 'Run as administrator', "
    "and run the command again there"
)
# WPR returns HRESULTs, xperf Win32 error codes.
_NOT_ELEVATED = (0xC5585011, 0x80070005, 0xC0000022, 0x5)
_RUNNING = (0xC5583001, 0x800700B7, 0xB7)
_NOT_RUNNING = (0xC5583000,)
_TOO_MANY = (0x800705AA, 0x80070718, 0x5AA)
_NO_MEMORY = (0x80070008, 0x8007000E, 0x8)
_COUNTERS_IN_USE = (0x800700AA, 0xAA)
_DISK_FULL = (0x80070070, 0x70)

HIDDEN = (
    "the only available counter is the timer: a hypervisor (Hyper-V, virtualization-based "
    "security, or a virtual machine) hides the others. Turn off memory integrity and the Windows "
    "features 'Virtual Machine Platform' and 'Hyper-V' and restart, or record without --counters"
)


def error(
    capture: Capture, command: Sequence[str], code: int, said: str
) -> RecorderError | NoSpaceError:
    """The error for a command that ended with this `code` and output."""
    found = _codes(code, said)
    if found & set(_DISK_FULL):
        return NoSpaceError("no space left on the disk for the recording. Free some and retry")
    return RecorderError(_meaning(capture, command, found, code, said))


def _meaning(
    capture: Capture, command: Sequence[str], found: set[int], code: int, said: str
) -> str:
    if found & set(_NOT_ELEVATED):
        return ELEVATE
    if found & set(_RUNNING):
        ends = f"wpr -cancel -instancename {INSTANCE}" if capture.kind == "wpr" else "xperf -stop"
        return f"an earlier recording is still running. Stop it with `{ends}` and run this again"
    if found & set(_NOT_RUNNING):
        return "another program stopped the recording, and nothing of it is left. Record again"
    if found & set(_TOO_MANY):
        return (
            "Windows cannot run more kernel recordings. Stop one of those that "
            "`logman query -ets` lists and run this again"
        )
    if found & set(_NO_MEMORY):
        return "not enough memory for the buffers. Close programs or use a shorter --ring"
    if found & set(_COUNTERS_IN_USE):
        return "another program uses the processor's counters. Stop it or omit --counters"
    if capture.counters and command[1] in ("-start", "-on"):
        why = "the recorder does not start with these counters. `wpr -pmcsources` lists the "
        return f"{why}available ones. {capture.program} said: {_last(said, code)}"
    return f"{capture.program} {command[1]} failed: {_last(said, code)}"


def _codes(code: int, said: str) -> set[int]:
    """The error codes of a recorder, from its exit code and its output."""
    named = {int(text, 16) for text in re.findall(r"0x([0-9a-fA-F]{1,8})\b", said)}
    return named | {code & 0xFFFFFFFF}


def _last(said: str, code: int) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(lines[-2:])[:300] if lines else f"it ended with code {code & 0xFFFFFFFF:#x}"


def offered(listing: str) -> tuple[str, ...]:
    """The names in the output of `-pmcsources`: lines of id, name, interval, least and most."""
    rows = re.findall(r"^\s*\d+\s+(\S+)\s+\d+\s+\d+\s+\d+\s*$", listing, re.MULTILINE)
    return tuple(rows)
