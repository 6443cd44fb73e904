"""The profile for Windows Performance Recorder: the shipped one, adapted to a request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

SHIPPED = Path(__file__).with_name("schedlens.wprp")
NAME = "SchedLens"
PRESENTS_NAME = "SchedLensPresents"

# Buffer size for kernel events in the shipped profile.
BUFFER_KB = 1024
# Keywords that WPR of Windows 10 1809 may not know, and what is not recorded without each.
NEWER_KEYWORDS = {"IdealProcessor": "changes of the ideal processor"}
EVENTS_BUFFER_KB, EVENTS_BUFFERS = 256, 64
_HARDWARE = "SchedLensCounters"
# MB a second that a busy machine writes: in total, and for each logical CPU. At 100,000 switches
# a second (40 bytes each, 24 for a ready event, 40 for an interrupt), 16 CPUs write 12 MB.
_MB_PER_S, _MB_PER_S_AND_CPU = 4.0, 0.75
# The same for the providers of the event collector: states of power and frequency, and presents.
_EVENTS_MB_PER_S, _EVENTS_MB_PER_S_AND_CPU = 1.0, 0.05


# Stacks of 15 addresses in the kernel and as many outside, for a switch and its ready event, take
# 560 bytes where those two take 64 and the rest of a switch's events 40.
_STACKS_FACTOR = 6
# Events whose stacks are recorded, as WPR and xperf name them.
STACK_EVENTS = ("CSwitch", "ReadyThread")
_SAMPLES_KEYWORD = "SampledProfile"
# Recorded as well on request (`--waits`): hard faults, requests to disks, and the names of files.
WAIT_KEYWORDS = ("HardFaults", "DiskIO", "DiskIOInit", "Filename")


def ring_buffers(seconds: float, cpus: int, *, stacks: bool = False) -> int:
    """Number of 1 MB buffers that keep the last `seconds` of a busy machine."""
    mb_per_s = _MB_PER_S + _MB_PER_S_AND_CPU * cpus
    return math.ceil(seconds * mb_per_s * (_STACKS_FACTOR if stacks else 1))


def ring_event_buffers(seconds: float, cpus: int) -> int:
    """Number of buffers of the event collector that keep the same time; never below the shipped."""
    mb = seconds * (_EVENTS_MB_PER_S + _EVENTS_MB_PER_S_AND_CPU * cpus)
    return max(EVENTS_BUFFERS, math.ceil(mb * 1024 / EVENTS_BUFFER_KB))


def render(
    counters: Sequence[str] = (),
    kernel_buffers: int | None = None,
    buffer_kb: int | None = None,
    *,
    event_buffers: int | None = None,
    without: Sequence[str] = (),
    stacks: bool = False,
    samples: bool = False,
    waits: bool = False,
) -> str:
    """The text of the profile with `counters` read at each context switch.

    `kernel_buffers`, `buffer_kb`: number and size of the buffers for kernel events; None: as
    shipped. `event_buffers`: the number for all other events. `without`: keywords to leave out.
    `stacks`: of switches, wakeups and samples. `samples`: what runs, at the machine's interval.
    `waits`: hard faults and requests to disks.
    """
    builder = ElementTree.TreeBuilder(insert_comments=True)
    parser = ElementTree.XMLParser(target=builder)
    root = ElementTree.fromstring(SHIPPED.read_text(encoding="utf-8"), parser)
    profiles = _only(root, "Profiles")
    collector = _only(profiles, "SystemCollector")
    if buffer_kb is not None:
        _only(collector, "BufferSize").set("Value", str(buffer_kb))
    if kernel_buffers is not None:
        _only(collector, "Buffers").set("Value", str(kernel_buffers))
    if event_buffers is not None:
        _only(_only(profiles, "EventCollector"), "Buffers").set("Value", str(event_buffers))
    provider = _only(profiles, "SystemProvider")
    keywords = _only(provider, "Keywords")
    for name in (*(WAIT_KEYWORDS if waits else ()), *((_SAMPLES_KEYWORD,) if samples else ())):
        ElementTree.SubElement(keywords, "Keyword", Value=name)
    for keyword in list(keywords):
        if keyword.get("Value") in without:
            keywords.remove(keyword)
    if stacks:
        of_events = ElementTree.SubElement(provider, "Stacks")
        for event in (*STACK_EVENTS, *((_SAMPLES_KEYWORD,) if samples else ())):
            ElementTree.SubElement(of_events, "Stack", Value=event)
    if counters:
        _add_counters(profiles, counters)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(
        root, encoding="unicode"
    ) + "\n"  # fmt: skip


def _add_counters(profiles: ElementTree.Element, names: Sequence[str]) -> None:
    """Adds a HardwareCounter where the schema expects it, and its id to each collector."""
    # Not strict: otherwise one missing counter would make the whole recording fail.
    hardware = ElementTree.Element("HardwareCounter", Id=_HARDWARE, Strict="false")
    counters = ElementTree.SubElement(hardware, "Counters")
    for name in names:
        ElementTree.SubElement(counters, "Counter", Value=name)
    events = ElementTree.SubElement(hardware, "Events")
    ElementTree.SubElement(events, "Event", Value="CSwitch")
    tags = [element.tag for element in profiles]
    profiles.insert(tags.index("SystemProvider") + 1, hardware)
    for collector in profiles.iter("SystemCollectorId"):
        ElementTree.SubElement(collector, "HardwareCounterId", Value=_HARDWARE)


def _only(parent: ElementTree.Element, tag: str) -> ElementTree.Element:
    found = parent.find(tag)
    assert found is not None, f"the shipped profile has no {tag}"
    return found
