"""The active power plan, from the output of `powercfg`.

Its labels are in the system's language, so only ids, aliases, numbers and their order are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ACTIVE = ["powercfg", "/getactivescheme"]
# /qh includes hidden settings, such as those of parking and of hybrid parts.
PROCESSOR = ["powercfg", "/qh", "scheme_current", "sub_processor"]
# Power Mode: a scheme of its own for mains and for battery, whose processor settings override
# those of the plan. `/getactivescheme` does not show it.
OVERLAY = ["reg", "query", r"HKLM\SYSTEM\CurrentControlSet\Control\Power\User\PowerSchemes"]
NO_OVERLAY = "00000000-0000-0000-0000-000000000000"
_OVERLAYS = {
    "961cc777-2547-4f9d-8174-7d86181b8a7a": "better battery",
    "ded574b5-45a0-4f42-8737-46345c09c238": "best performance",
}

# Settings for which some versions of Windows print no alias.
ALIASES = {
    "0cc5b647-c1df-4637-891a-dec35c318583": "CPMINCORES",
    "0cc5b647-c1df-4637-891a-dec35c318584": "CPMINCORES1",
    "ea062031-0e34-4ff1-9b6d-eb1059334028": "CPMAXCORES",
    "ea062031-0e34-4ff1-9b6d-eb1059334029": "CPMAXCORES1",
    "7f2f5cfa-f10c-4823-b5e1-e93ae85f46b5": "HETEROPOLICY",
    "93b8b6dc-0698-4d1c-9ee4-0644e900c85d": "SCHEDPOLICY",
    "bae08b81-2d5e-4688-ad6a-13243356654b": "SHORTSCHEDPOLICY",
    "893dee8e-2bef-41e0-89c6-b55d0929964c": "PROCTHROTTLEMIN",
    "bc5038f7-23e0-4960-96da-33abaf5935ec": "PROCTHROTTLEMAX",
    "be337238-0d82-4146-a960-4f3749d470c7": "PERFBOOSTMODE",
    "36687f9e-e3a5-4dbf-b1dc-15eb381c6863": "PERFEPP",
    "36687f9e-e3a5-4dbf-b1dc-15eb381c6864": "PERFEPP1",
}

_GUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ACTIVE_OVERLAY = re.compile(
    rf"^\s*ActiveOverlay(Ac|Dc)PowerScheme\s+REG_SZ\s+\{{?({_GUID})", re.MULTILINE
)
_NAMED = re.compile(rf":\s*({_GUID})\s*(?:\((.*)\))?\s*\*?\s*$")
_ALIAS = re.compile(r":\s*([A-Z][A-Z0-9_]+)\s*$")
_HEX = re.compile(r":\s*0x([0-9a-fA-F]{1,8})\s*$")


@dataclass(frozen=True)
class Value:
    """The value of a setting on mains and on battery, in the setting's own unit."""

    ac: int
    dc: int


def active(text: str) -> str | None:
    """Name and id of the plan in the output of `/getactivescheme`."""
    for line in text.splitlines():
        found = _NAMED.search(line)
        if found:
            guid = found[1].lower()
            return f"{found[2]} ({guid})" if found[2] else guid
    return None


def plan_id(text: str) -> str | None:
    """The id of the plan in the output of `/getactivescheme` or `/qh`."""
    found = next(filter(None, map(_NAMED.search, text.splitlines())), None)
    return found[1].lower() if found else None


def overlays(text: str) -> dict[str, str]:
    """Ids of the overlays on mains (`ac`) and on battery (`dc`) in the output of `OVERLAY`.

    `NO_OVERLAY` if the plan itself is in effect; without an entry if it is unknown.
    """
    return {kind.lower(): guid.lower() for kind, guid in _ACTIVE_OVERLAY.findall(text)}


def overlay_name(guid: str) -> str:
    """An overlay as people know it, with its id."""
    if guid == NO_OVERLAY:
        return "none"
    return f"{_OVERLAYS[guid]} ({guid})" if guid in _OVERLAYS else guid


def settings(text: str) -> dict[str, Value]:
    """Settings by alias (by id if there is none) in the output of `/qh`."""
    found: dict[str, Value] = {}
    guid: str | None = None
    alias: str | None = None
    numbers: list[int] = []
    # The first two ids are those of the plan and of the group.
    ids = 0
    for line in [*text.splitlines(), ":" + "0" * 8 + "-0000-0000-0000-" + "0" * 12]:
        if match := _NAMED.search(line):
            # Minimum, maximum and step of a range precede the two active values.
            if ids > 2 and guid is not None and len(numbers) >= 2:
                found[alias or ALIASES.get(guid, guid)] = Value(numbers[-2], numbers[-1])
            guid, alias, numbers = match[1].lower(), None, []
            ids += 1
        elif match := _HEX.search(line):
            numbers.append(int(match[1], 16))
        elif guid is not None and not numbers and (match := _ALIAS.search(line)):
            alias = match[1]
    return found
