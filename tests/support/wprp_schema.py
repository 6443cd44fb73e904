"""A schema of recording profiles for WPR, written after its public documentation.

References: the element and attribute tables of "Recording Profile XML Reference" with its schema
WPRControlProfiles.xsd (learn.microsoft.com/windows-hardware/test/wpt/wprcontrolprofiles-schema, of
2017 and of today), "1. Collector Definitions", "2. System and Event Provider Definitions" (order of
definitions), "HardwareCounter", and for the place of its id the published profile CPUCounters.wprp
of github.com/microsoft/MSO-Scripts. It covers the elements that our profiles have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

Element = ElementTree.Element

# First build of WPR that documents or contains a keyword. The schema and the keyword table of 2017
# have all of these but IdealProcessor, which is only known of 25145.
KEYWORD_SINCE = {
    "CpuConfig": 9600, "Loader": 9600, "ProcessThread": 9600, "CSwitch": 9600, "ReadyThread": 9600,
    "ThreadPriority": 9600, "IdleStates": 9600, "Power": 9600, "DPC": 9600, "Interrupt": 9600,
    "CompactCSwitch": 9600, "SampledProfile": 9600, "HardFaults": 9600, "DiskIO": 9600,
    "DiskIOInit": 9600, "Filename": 9600, "IdealProcessor": 25145,
}  # fmt: skip
# Builds of Windows whose WPR the profile must suit: 1809, 19041, 22000, 26100.
OLDEST = 17763

_ID = re.compile(r"[^:\s]+")
_BOOLEAN = re.compile(r"true|false|1|0")
_NUMBER = re.compile(r"\d+")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_GUID_OR_NAME = re.compile(r"\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?|[A-Za-z][\w.-]+")
_ANY = re.compile(r".*", re.DOTALL)
_OPERATION = re.compile(r"Set|Add|Remove")
_SYSTEM_SESSION = re.compile(r"NT Kernel Logger|Circular Kernel Context Logger")
_CUSTOM_EVENT = re.compile(
    r"None|ImageId|BuildInfo|VolumeMapping|EventMetadata|PerfTrackMetadata|WinSAT|NetworkInterface"
)


@dataclass(frozen=True)
class Rule:
    """An element: its children in order with their least and greatest number, its attributes.

    `required` and `optional`: the form of each attribute's value.
    """

    children: tuple[tuple[str, int, int | None], ...] = ()
    required: dict[str, re.Pattern[str]] = field(default_factory=dict)
    optional: dict[str, re.Pattern[str]] = field(default_factory=dict)


def _value(form: re.Pattern[str], **optional: re.Pattern[str]) -> Rule:
    return Rule((), {"Value": form}, optional)


_BUFFERS = (("BufferSize", 0, 1), ("Buffers", 0, 1), ("StackCaching", 0, 1))
_COLLECTOR = {"Base": _ANY, "Realtime": _BOOLEAN}
_CAPTURE = Rule((("Keyword", 1, None),), {}, {"Operation": _OPERATION})
_PROVIDER = (
    ("Keywords", 0, None), ("CaptureStateOnStart", 0, None), ("CaptureStateOnSave", 0, None),
)  # fmt: skip

RULES: dict[str, Rule] = {
    "WindowsPerformanceRecorder": Rule(
        (("Profiles", 0, 1), ("TraceMergeProperties", 0, None)),
        {"Version": re.compile(r"1(\.0)?")},
        {"Author": _ANY, "Comments": _ANY, "Company": _ANY, "Copyright": _ANY, "Tag": _ANY,
         "Team": _ANY},
    ),
    "Profiles": Rule(
        (("SystemCollector", 0, None), ("EventCollector", 0, None), ("SystemProvider", 0, None),
         ("HardwareCounter", 0, None), ("EventProvider", 0, None), ("Profile", 1, None)), {}, {},
    ),
    "SystemCollector": Rule(_BUFFERS, {"Id": _ID, "Name": _SYSTEM_SESSION}, _COLLECTOR),
    "EventCollector": Rule(_BUFFERS, {"Id": _ID, "Name": _ANY}, _COLLECTOR),
    "BufferSize": _value(_NUMBER, Operation=_OPERATION),
    "Buffers": _value(_NUMBER, Operation=_OPERATION, PercentageOfTotalMemory=_BOOLEAN),
    "SystemProvider": Rule(
        (("Keywords", 0, None), ("Stacks", 0, None)), {"Id": _ID}, {"Base": _ANY}
    ),
    "Stacks": Rule((("Stack", 1, None),), {}, {"Operation": _OPERATION}),
    "Stack": _value(re.compile(r"CSwitch|ReadyThread|SampledProfile")),
    "Keywords": Rule((("Keyword", 1, None),), {}, {"Operation": _OPERATION}),
    "Keyword": _value(_ANY, Strict=_BOOLEAN),
    "HardwareCounter": Rule(
        (("Counters", 0, 1), ("Events", 0, 1), ("SampledCounters", 0, 1)),
        {"Id": _ID}, {"Base": _ANY, "Strict": _BOOLEAN},
    ),
    "Counters": Rule((("Counter", 1, None),), {}, {}),
    "Counter": _value(re.compile(r"\S+")),
    "Events": Rule((("Event", 1, None),), {}, {}),
    "Event": _value(re.compile(r"CSwitch|SampledProfile|PmcInterrupt")),
    "EventProvider": Rule(
        _PROVIDER, {"Id": _ID, "Name": _GUID_OR_NAME},
        {"Base": _ANY, "NonPagedMemory": _BOOLEAN, "Stack": _BOOLEAN, "SID": _BOOLEAN,
         "TSID": _BOOLEAN, "Level": re.compile(r"[0-5]|0?25[0-5]"), "CaptureStateOnly": _BOOLEAN,
         "Strict": _BOOLEAN},
    ),
    "CaptureStateOnStart": _CAPTURE,
    "CaptureStateOnSave": _CAPTURE,
    "Profile": Rule(
        (("ProblemCategories", 0, None), ("Collectors", 0, None)),
        {"Id": _ID, "Name": _ANY, "Description": _ANY, "LoggingMode": re.compile("File|Memory"),
         "DetailLevel": re.compile("Light|Verbose")},
        {"Base": _ANY, "Internal": _BOOLEAN, "Default": _BOOLEAN, "Strict": _BOOLEAN},
    ),
    "ProblemCategories": Rule((("ProblemCategory", 1, None),), {}, {"Operation": _OPERATION}),
    "ProblemCategory": _value(_ANY),
    "Collectors": Rule(
        (("SystemCollectorId", 0, 1), ("EventCollectorId", 0, None)), {}, {"Operation": _OPERATION}
    ),
    "SystemCollectorId": Rule(
        (*_BUFFERS, ("SystemProviderId", 0, 1), ("HardwareCounterId", 0, 1)), {"Value": _ID}, {}
    ),
    "SystemProviderId": _value(_ID),
    "HardwareCounterId": _value(_ID),
    "EventCollectorId": Rule((*_BUFFERS, ("EventProviders", 0, None)), {"Value": _ID}, {}),
    "EventProviders": Rule((("EventProviderId", 0, None),), {}, {"Operation": _OPERATION}),
    "EventProviderId": _value(_ID),
    "TraceMergeProperties": Rule((("TraceMergeProperty", 1, None),), {}, {}),
    "TraceMergeProperty": Rule(
        (("DeletePreMergedTraceFiles", 0, 1), ("CustomEvents", 1, None)),
        {"Id": _ID, "Name": _ANY}, {"Base": _ANY},
    ),
    "DeletePreMergedTraceFiles": _value(_BOOLEAN),
    "CustomEvents": Rule((("CustomEvent", 1, None),), {}, {"Operation": _OPERATION}),
    "CustomEvent": _value(_CUSTOM_EVENT),
}  # fmt: skip


def violations(text: str, build: int) -> list[str]:
    """What a WPR of that build refuses in a profile."""
    root = ElementTree.fromstring(text.encode())
    checks: tuple[Callable[[Element, int], Iterator[str]], ...] = (
        _elements, _keywords, _unique, _references, _profiles, _providers,
    )  # fmt: skip
    return [line for check in checks for line in check(root, build)]


def _elements(root: Element, build: int) -> Iterator[str]:
    if root.tag != "WindowsPerformanceRecorder":
        yield f"the root is {root.tag}"
    for element in root.iter():
        rule = RULES.get(element.tag)
        if rule is None:
            yield f"unknown element {element.tag}"
            continue
        yield from _attributes(element, rule)
        yield from _children(element, rule)


def _attributes(element: Element, rule: Rule) -> Iterator[str]:
    for name in rule.required:
        if name not in element.attrib:
            yield f"{element.tag} has no {name}"
    known = {**rule.required, **rule.optional}
    for name, value in element.attrib.items():
        if name not in known:
            yield f"{element.tag} has an unknown attribute {name}"
        elif not known[name].fullmatch(value):
            yield f"{element.tag} {name} is '{value}'"


def _children(element: Element, rule: Rule) -> Iterator[str]:
    tags = [child.tag for child in element]
    order = [name for name, _, _ in rule.children]
    places = [order.index(tag) for tag in tags if tag in order]
    if places != sorted(places):
        yield f"the children of {element.tag} are in another order"
    for tag in sorted(set(tags) - set(order)):
        yield f"{element.tag} contains {tag}"
    for name, least, most in rule.children:
        count = tags.count(name)
        if count < least or (most is not None and count > most):
            yield f"{element.tag} contains {name} {count} times"


def _keywords(root: Element, build: int) -> Iterator[str]:
    for element in root.iterfind(".//SystemProvider//Keyword"):
        name = element.get("Value", "")
        if KEYWORD_SINCE.get(name, 1 << 31) > build:
            yield f"WPR of {build} does not know the keyword {name}"
    for element in root.iterfind(".//EventProvider//Keyword"):
        if not _HEX.fullmatch(element.get("Value", "")):
            yield f"the keyword {element.get('Value')} of a provider is not hexadecimal"
    for parent in root.iter():
        values = [child.get("Value") for child in parent if child.tag == "Keyword"]
        if len(set(values)) != len(values):
            yield f"{parent.tag} names a keyword twice"


def _unique(root: Element, build: int) -> Iterator[str]:
    ids = [element.get("Id") for element in root.iterfind("*/*")]
    for name in sorted({str(name) for name in ids if ids.count(name) > 1}):
        yield f"the id {name} is used twice"


def _references(root: Element, build: int) -> Iterator[str]:
    for kind in (
        "SystemCollector", "EventCollector", "SystemProvider", "EventProvider", "HardwareCounter",
    ):  # fmt: skip
        defined = {element.get("Id") for element in root.iter(kind)}
        for element in root.iter(f"{kind}Id"):
            if element.get("Value") not in defined:
                yield f"no {kind} has the id {element.get('Value')}"
    profiles = {element.get("Id") for element in root.iter("Profile")}
    for element in root.iter("Profile"):
        if element.get("Base") not in (None, "", *profiles):
            yield f"no Profile has the id {element.get('Base')}"


def _profiles(root: Element, build: int) -> Iterator[str]:
    for element in root.iter("Profile"):
        parts = [element.get(name, "") for name in ("Name", "DetailLevel", "LoggingMode")]
        if element.get("Id") != ".".join(parts):
            yield f"the id of the Profile {element.get('Id')} is not {'.'.join(parts)}"
        if not element.get("Base") and element.find("Collectors") is None:
            yield f"the Profile {element.get('Id')} has neither a base nor collectors"
    # 0xc5580612: a session cannot be started without any providers.
    for element in root.iter("EventCollectorId"):
        if element.find("EventProviders/EventProviderId") is None:
            yield f"the collector {element.get('Value')} has no provider"
    for element in root.iter("SystemCollectorId"):
        if element.find("SystemProviderId") is None:
            yield f"the collector {element.get('Value')} has no provider"


def _providers(root: Element, build: int) -> Iterator[str]:
    # Providers in the kernel need memory that cannot be paged out.
    kernel = {
        "0f67e49f-fe51-4e9f-b490-6f2948cc6027", "331c3b3a-2005-44c2-ac5e-77220c37d6b4",
        "802ec45a-1e99-4b83-9920-87c98277ba9d",
    }  # fmt: skip
    for element in root.iter("EventProvider"):
        name = element.get("Name", "").strip("{}")
        if name in kernel and element.get("NonPagedMemory") != "true":
            yield f"the provider {name} of the kernel has no NonPagedMemory"
