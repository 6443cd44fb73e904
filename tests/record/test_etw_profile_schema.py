"""Every profile that `collect` can write is valid for the WPR it is for, by a schema of our own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import wprp_schema
from wprp_schema import OLDEST, violations

if TYPE_CHECKING:
    from collectors import etw_command, etw_profile
else:
    from schedlens.collectors import etw_command, etw_profile

Element = ElementTree.Element

BUILDS = (OLDEST, 19041, 22000, 26100)
COUNTERS: tuple[tuple[str, ...], ...] = ((), ("InstructionRetired",), ("A", "B", "C", "D"))
RINGS = (None, 20.0, 30.0, 600.0)
BUFFERS = ((None, None), (512, 2048), (256, None))
NEWER = tuple(etw_profile.NEWER_KEYWORDS)


def rendered(
    counters: tuple[str, ...], ring_s: float | None, buffers: tuple[int | None, int | None],
    without: tuple[str, ...], stacks: bool = False, samples_hz: int | None = None,
) -> str:  # fmt: skip
    """The profile for these options, as `collect` writes it."""
    capture = etw_command.Capture(
        "wpr", "wpr", counters, ring_s=ring_s, cpus=16, buffer_kb=buffers[0],
        buffer_count=buffers[1], without=without, stacks=stacks, samples_hz=samples_hz,
    )  # fmt: skip
    return etw_profile.render(
        capture.counters, capture.kernel_buffers, capture.buffer_kb,
        event_buffers=capture.event_buffers, without=capture.without, stacks=capture.stacks,
        samples=capture.samples_hz is not None,
    )  # fmt: skip


@pytest.mark.parametrize("build", BUILDS)
def test_every_combination_of_options_is_valid(build: int) -> None:
    without = () if build > wprp_schema.KEYWORD_SINCE["IdealProcessor"] else NEWER
    texts = [
        rendered(counters, ring_s, buffers, without)
        for counters, ring_s, buffers in itertools.product(COUNTERS, RINGS, BUFFERS)
    ]
    assert len(set(texts)) == len(texts) == 36
    assert [violations(text, build) for text in texts] == [[]] * 36


@pytest.mark.parametrize("build", BUILDS)
def test_profiles_with_stacks_and_samples_are_valid(build: int) -> None:
    without = () if build > wprp_schema.KEYWORD_SINCE["IdealProcessor"] else NEWER
    choices = [(True, None), (True, 1000), (False, 1000)]
    texts = [
        rendered(counters, ring_s, (None, None), without, *choice)
        for counters, ring_s, choice in itertools.product(COUNTERS, RINGS, choices)
    ]
    assert len(set(texts)) == len(texts) == 36
    assert [violations(text, build) for text in texts] == [[]] * 36


@pytest.mark.parametrize("build", BUILDS)
def test_profile_with_waits_is_valid(build: int) -> None:
    without = () if build > wprp_schema.KEYWORD_SINCE["IdealProcessor"] else NEWER
    assert violations(etw_profile.render(without=without, waits=True), build) == []


def test_only_the_newest_keywords_are_refused_by_an_older_wpr() -> None:
    for counters, ring_s, buffers in itertools.product(COUNTERS, RINGS, BUFFERS):
        text = rendered(counters, ring_s, buffers, ())
        assert violations(text, OLDEST) == [
            f"WPR of {OLDEST} does not know the keyword {name}" for name in NEWER
        ]


def one(root: Element, path: str) -> Element:
    """The first element of that path."""
    found = root.find(path)
    assert found is not None, path
    return found


def moved(root: Element, parent: str, child: str) -> None:
    """Moves a child of an element to the end."""
    place = one(root, parent)
    element = one(place, child)
    place.remove(element)
    place.append(element)


def removed(root: Element, parent: str, child: str) -> None:
    """Removes a child of an element."""
    place = one(root, parent)
    place.remove(one(place, child))


def doubled(root: Element, parent: str, child: str) -> None:
    """Adds a child of an element once more."""
    place = one(root, parent)
    place.insert(list(place).index(one(place, child)), one(place, child))


def assigned(root: Element, path: str, name: str, value: str | None) -> None:
    """Gives an element an attribute, or takes it away."""
    element = one(root, path)
    if value is None:
        del element.attrib[name]
    else:
        element.set(name, value)


PROFILE = "Profiles/Profile"
# One for each rule: what is done to a valid profile, and the only violations that it causes.
MISTAKES: dict[str, tuple[Callable[[Element], None], str]] = {
    "root": (
        lambda root: setattr(root, "tag", "Recorder"),
        "the root is Recorder; unknown element Recorder",
    ),
    "unknown element": (
        lambda root: one(root, "Profiles/EventProvider").append(Element("StackWalk")),
        "EventProvider contains StackWalk; unknown element StackWalk",
    ),
    "missing attribute": (
        lambda root: assigned(root, PROFILE, "Description", None), "Profile has no Description",
    ),
    "unknown attribute": (
        lambda root: assigned(root, "Profiles/SystemProvider", "Level", "5"),
        "SystemProvider has an unknown attribute Level",
    ),
    "id with a colon": (
        lambda root: assigned(root, "TraceMergeProperties/TraceMergeProperty", "Id", "a:b"),
        "TraceMergeProperty Id is 'a:b'",
    ),
    "number": (
        lambda root: assigned(root, "Profiles/SystemCollector/Buffers", "Value", "-1"),
        "Buffers Value is '-1'",
    ),
    "boolean": (
        lambda root: assigned(root, "Profiles/HardwareCounter", "Strict", "yes"),
        "HardwareCounter Strict is 'yes'",
    ),
    "level": (
        lambda root: assigned(root, "Profiles/EventProvider", "Level", "verbose"),
        "EventProvider Level is 'verbose'",
    ),
    "name of the kernel's session": (
        lambda root: assigned(root, "Profiles/SystemCollector", "Name", "My Logger"),
        "SystemCollector Name is 'My Logger'",
    ),
    "provider": (
        lambda root: assigned(root, "Profiles/EventProvider[3]", "Name", "{ca11c036}"),
        "EventProvider Name is '{ca11c036}'",
    ),
    "event with counters": (
        lambda root: assigned(root, "Profiles/HardwareCounter/Events/Event", "Value", "Ready"),
        "Event Value is 'Ready'",
    ),
    "event of the merge": (
        lambda root: assigned(root, ".//CustomEvent", "Value", "Build"),
        "CustomEvent Value is 'Build'",
    ),
    "order of definitions": (
        lambda root: moved(root, "Profiles", "HardwareCounter"),
        "the children of Profiles are in another order",
    ),
    "order in a provider": (
        lambda root: moved(root, "Profiles/EventProvider", "Keywords"),
        "the children of EventProvider are in another order",
    ),
    "order of ids": (
        lambda root: moved(root, f"{PROFILE}//SystemCollectorId", "SystemProviderId"),
        "the children of SystemCollectorId are in another order",
    ),
    "misplaced element": (
        lambda root: one(root, "Profiles").append(Element("Keyword", Value="0x1")),
        "Profiles contains Keyword",
    ),
    "too many": (
        lambda root: doubled(root, "Profiles/SystemCollector", "BufferSize"),
        "SystemCollector contains BufferSize 2 times",
    ),
    "too few": (
        lambda root: one(root, "TraceMergeProperties/TraceMergeProperty/CustomEvents").clear(),
        "CustomEvents contains CustomEvent 0 times",
    ),
    "keyword of no build": (
        lambda root: assigned(root, ".//SystemProvider//Keyword", "Value", "Scheduler"),
        "WPR of 26100 does not know the keyword Scheduler",
    ),
    "keyword of a provider": (
        lambda root: assigned(root, ".//EventProvider//Keyword", "Value", "Perf"),
        "the keyword Perf of a provider is not hexadecimal",
    ),
    "keyword twice": (
        lambda root: doubled(root, ".//SystemProvider/Keywords", "Keyword"),
        "Keywords names a keyword twice",
    ),
    "id twice": (
        lambda root: doubled(root, "Profiles", "EventProvider"),
        "the id SchedLensProcessorPower is used twice",
    ),
    "undefined counter": (
        lambda root: assigned(root, f"{PROFILE}//HardwareCounterId", "Value", "None"),
        "no HardwareCounter has the id None",
    ),
    "undefined base": (
        lambda root: assigned(root, f"{PROFILE}[2]", "Base", "Other.Verbose.File"),
        "no Profile has the id Other.Verbose.File",
    ),
    "id of a profile": (
        lambda root: assigned(root, f"{PROFILE}[2]", "DetailLevel", "Light"),
        "the id of the Profile SchedLens.Verbose.Memory is not SchedLens.Light.Memory",
    ),
    "profile without collectors": (
        lambda root: assigned(root, f"{PROFILE}[2]", "Base", None),
        "the Profile SchedLens.Verbose.Memory has neither a base nor collectors",
    ),
    "session without providers": (
        lambda root: removed(root, f"{PROFILE}//EventCollectorId", "EventProviders"),
        "the collector SchedLensEvents has no provider",
    ),
    "kernel session without provider": (
        lambda root: removed(root, f"{PROFILE}//SystemCollectorId", "SystemProviderId"),
        "the collector SchedLensKernel has no provider",
    ),
    "paged memory for the kernel": (
        lambda root: assigned(root, "Profiles/EventProvider", "NonPagedMemory", None),
        "the provider 0f67e49f-fe51-4e9f-b490-6f2948cc6027 of the kernel has no NonPagedMemory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_schema_refuses_each_mistake(name: str) -> None:
    change, violation = MISTAKES[name]
    root = ElementTree.fromstring(rendered(("InstructionRetired",), 30.0, (None, None), ()))
    change(root)
    found = violations(ElementTree.tostring(root, encoding="unicode"), 26100)
    assert "; ".join(found) == violation


def test_every_rule_of_an_element_is_used_by_the_profile() -> None:
    text = rendered(("InstructionRetired",), None, (None, None), (), stacks=True)
    root = ElementTree.fromstring(text)
    assert {element.tag for element in root.iter()} == set(wprp_schema.RULES)
