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


class ProfileError(RecorderError):
    """WPR refuses the profile, as older versions do if it has a keyword they do not know."""


# WPR returns HRESULTs, xperf Win32 error codes.
_NOT_ELEVATED = (0xC5585011, 0x80070005, 0xC0000022, 0x5)
_RUNNING = (0xC5583001, 0x800700B7, 0xB7)
_PROFILE = (0xC5580701, 0xC5580612)
_IN_USE = (0xC5583014,)
_NO_PROVIDER = (0xC558300C,)
_THREAD_MODE = (0x80010106,)
_NOT_RUNNING = (0xC5583000,)
_TOO_MANY = (0x800705AA, 0x80070718, 0x5AA)
_NO_MEMORY = (0x80070008, 0x8007000E, 0x8)
_COUNTERS_IN_USE = (0x800700AA, 0xAA)
_DISK_FULL = (0x80070070, 0x70)
# What WPR reports for a full disk of its temporary files; the system's own text names neither.
_TEMP_FULL = (0x80071069, 0x1069)
_KNOWN = frozenset(
    (
        *_NOT_ELEVATED, *_RUNNING, *_PROFILE, *_IN_USE, *_NO_PROVIDER, *_THREAD_MODE,
        *_NOT_RUNNING, *_TOO_MANY, *_NO_MEMORY, *_COUNTERS_IN_USE, *_DISK_FULL, *_TEMP_FULL,
    )
)  # fmt: skip

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
    if command[1] == "-stop" and found & set(_TEMP_FULL):
        return NoSpaceError(
            "the recording could not be saved: the disk of its temporary files may be full. Free "
            "some space there and on the disk of the session, and retry"
        )
    if found & set(_PROFILE):
        return ProfileError(
            f"{capture.program} refuses the profile ({_last(said, code)}): this version may be "
            "older than the profile, or made for another Windows. Use the newest WPR of the "
            "Windows ADK, or --recorder xperf"
        )
    return RecorderError(_meaning(capture, command, found, code, said))


def is_known(code: int, said: str) -> bool:
    """Whether a command failed with one of these errors: another form of it would fail, too."""
    return bool(_codes(code, said) & _KNOWN)


def _meaning(
    capture: Capture, command: Sequence[str], found: set[int], code: int, said: str
) -> str:
    if found & set(_NOT_ELEVATED):
        return ELEVATE
    if found & set(_RUNNING):
        ends = f"wpr -cancel -instancename {INSTANCE}" if capture.kind == "wpr" else "xperf -stop"
        twice = found & {0x800700B7} and capture.kind == "wpr"
        also = " (WPR also reports this for a profile that is named twice)" if twice else ""
        return (
            f"an earlier recording is still running{also}. Stop it with `{ends}` and run this again"
        )
    if found & set(_IN_USE):
        return (
            "another program uses the same collector, such as Process Monitor or Process Explorer. "
            "End it, or stop its session: `logman query -ets` lists them"
        )
    if found & set(_NO_PROVIDER):
        return (
            "Windows did not enable an event provider of the profile. Use a WPR of the same "
            "version as Windows (C:\\Windows\\System32\\wpr.exe), and omit --presents"
        )
    if found & set(_THREAD_MODE):
        return (
            "WPR failed internally (RPC_E_CHANGED_MODE), which older versions such as 10.0.19041 "
            "do. Restart Windows, or install the newest Windows Performance Toolkit"
        )
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


def flags(listing: str) -> frozenset[str]:
    """The names in the output of `xperf -providers KF`: lines of flag, colon, and description."""
    return frozenset(re.findall(r"^\s*([A-Z][A-Z_0-9]+)\s*:", listing, re.MULTILINE))


def offered(listing: str) -> tuple[str, ...]:
    """The names in the output of `-pmcsources`: lines of id, name, interval, least and most."""
    rows = re.findall(r"^\s*\d+\s+(\S+)\s+\d+\s+\d+\s+\d+\s*$", listing, re.MULTILINE)
    return tuple(rows)
