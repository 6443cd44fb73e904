"""The profile and the command lines of the Windows recorders, against recorded texts."""

from __future__ import annotations

from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from collectors import etw_command, etw_profile
else:
    from schedlens.collectors import etw_command, etw_profile

EXPECTED = Path(__file__).parents[1] / "expected"

KEYWORDS = {
    "CSwitch", "ReadyThread", "ProcessThread", "ThreadPriority", "IdealProcessor", "IdleStates",
    "DPC", "Interrupt", "CpuConfig", "Loader", "Power",
}  # fmt: skip
PROCESSOR_POWER = "0f67e49f-fe51-4e9f-b490-6f2948cc6027"
KERNEL_POWER = "331c3b3a-2005-44c2-ac5e-77220c37d6b4"
DXGI, DXGKRNL = "ca11c036-0102-4a2d-a6ad-f03cfed5d3c9", "802ec45a-1e99-4b83-9920-87c98277ba9d"


def profiles(text: str) -> ElementTree.Element:
    """The element Profiles."""
    found = ElementTree.fromstring(text.encode()).find("Profiles")
    assert found is not None
    return found


def providers(root: ElementTree.Element, profile: str) -> list[str]:
    """The names of the event providers of a profile."""
    names = {element.get("Id"): element.get("Name") for element in root.iter("EventProvider")}
    ids = root.iterfind(f"Profile[@Id='{profile}.Verbose.File']//EventProviderId")
    return [str(names[element.get("Value")]) for element in ids]


def test_shipped_profile_records_what_queries_need() -> None:
    root = profiles(etw_profile.SHIPPED.read_text(encoding="utf-8"))
    keywords = {element.get("Value") for element in root.iterfind("SystemProvider//Keyword")}
    assert keywords == KEYWORDS
    assert providers(root, "SchedLens") == [PROCESSOR_POWER, KERNEL_POWER]
    assert providers(root, "SchedLensPresents") == [PROCESSOR_POWER, KERNEL_POWER, DXGI, DXGKRNL]
    for name in (PROCESSOR_POWER, KERNEL_POWER):
        for state in ("CaptureStateOnStart", "CaptureStateOnSave"):
            assert root.find(f"EventProvider[@Name='{name}']/{state}/Keyword") is not None


def test_each_profile_has_file_and_memory_mode_and_valid_names() -> None:
    root = profiles(etw_profile.SHIPPED.read_text(encoding="utf-8"))
    found = {element.get("Id"): element for element in root.iterfind("Profile")}
    names = (etw_profile.NAME, etw_profile.PRESENTS_NAME)
    modes = ("File", "Memory")
    assert set(found) == {f"{name}.Verbose.{mode}" for name in names for mode in modes}
    # WPR accepts an id only as name, detail level, and logging mode, joined by dots.
    for element in found.values():
        parts = (element.get("Name"), element.get("DetailLevel"), element.get("LoggingMode"))
        assert element.get("Id") == ".".join(map(str, parts))
        assert element.get("Base") in (None, *found)
    defined = {element.get("Id") for element in root}
    for kind in ("SystemCollectorId", "SystemProviderId", "EventCollectorId", "EventProviderId"):
        assert {element.get("Value") for element in root.iter(kind)} <= defined


def test_counters_and_ring_change_nothing_else() -> None:
    assert profiles(etw_profile.render())[0].tag == "SystemCollector"
    plain = etw_profile.render().splitlines()
    assert plain == etw_profile.SHIPPED.read_text(encoding="utf-8").splitlines()
    rendered = etw_profile.render(("InstructionRetired", "TotalCycles"), 480, event_buffers=216)
    assert rendered == (EXPECTED / "profile_counters_ring.wprp").read_text(encoding="utf-8")
    added = [line for line in rendered.splitlines() if line not in plain]
    assert all(
        "Counter" in line or "Event" in line or '"480"' in line or '"216"' in line for line in added
    )


@pytest.mark.parametrize(("seconds", "cpus", "buffers"), [(30, 16, 480), (1, 1, 5), (30, 64, 1560)])
def test_ring_grows_with_seconds_and_cpus(seconds: float, cpus: int, buffers: int) -> None:
    # 4 MB per second, and 0.75 for each logical CPU.
    assert etw_profile.ring_buffers(seconds, cpus) == buffers


def test_counter_name_is_escaped_in_its_attribute() -> None:
    root = profiles(etw_profile.render(('"/><Evil a="',)))
    assert [element.get("Value") for element in root.iter("Counter")] == ['"/><Evil a="']


STEP, PROFILE = PureWindowsPath("STEP"), PureWindowsPath("schedlens.wprp")


def lines(capture: etw_command.Capture) -> list[str]:
    """All commands of a recording as typed."""
    parts = (
        etw_command.begin(capture, STEP, PROFILE),
        etw_command.end(capture, STEP),
        etw_command.cancel(capture),
    )
    return [etw_command.shown(command) for commands in parts for command in commands]


def test_wpr_commands() -> None:
    assert lines(etw_command.Capture("wpr", "wpr", ("TotalCycles",))) == [
        "wpr -start schedlens.wprp!SchedLens -filemode -recordtempto STEP -instancename schedlens",
        r"wpr -stop STEP\trace.etl -skipPdbGen -instancename schedlens",
        "wpr -cancel -instancename schedlens",
    ]
    ring = etw_command.Capture("wpr", "wpr", presents=True, ring_s=30.0, cpus=16)
    assert lines(ring)[0] == "wpr -start schedlens.wprp!SchedLensPresents -instancename schedlens"
    assert ring.kernel_buffers == 480


def test_xperf_commands() -> None:
    capture = etw_command.Capture("xperf", "xperf", ("InstructionRetired", "TotalCycles"))
    flags = (
        "CPU_CONFIG+PROC_THREAD+LOADER+CSWITCH+DISPATCHER+PRIORITY+IDLE_STATES+POWER+DPC+INTERRUPT"
        "+IDEAL_PROC"
    )
    power = "Microsoft-Windows-Kernel-Processor-Power"
    states = f"xperf -capturestate schedlens {power}+Microsoft-Windows-Kernel-Power"
    assert lines(capture) == [
        f"xperf -on {flags} -Pmc InstructionRetired,TotalCycles CSWITCH strict "
        r"-f STEP\kernel.etl -BufferSize 1024 -MinBuffers 256 -MaxBuffers 1024",
        f"xperf -start schedlens -on {power}:0xe7:5+"
        r"Microsoft-Windows-Kernel-Power:0xffffffffffffffff:4 -f STEP\events.etl",
        states,
        states,
        "xperf -stop schedlens",
        "xperf -stop",
        r"xperf -merge STEP\kernel.etl STEP\events.etl STEP\trace.etl",
        "xperf -stop schedlens",
        "xperf -stop",
    ]
    assert "COMPACT_CSWITCH" not in " ".join(lines(capture))
    ring = etw_command.Capture("xperf", "xperf", ring_s=30.0, cpus=16, presents=True)
    assert "-FileMode Circular -MaxFile 480" in lines(ring)[0]
    assert "Microsoft-Windows-DxgKrnl:0x8000000:5" in lines(ring)[1]
    assert "-FileMode Circular -MaxFile 54" in lines(ring)[1]
    assert capture.missing == ()


def test_command_is_shown_as_typed() -> None:
    typed = etw_command.shown(["a b", "c", "", ">", "x|y", "50%"])
    assert typed == '"a b" c "" > "x|y" 50%'


def test_stacks_are_those_of_switches_wakeups_and_samples() -> None:
    root = profiles(etw_profile.render(stacks=True, samples=True))
    stacks = [element.get("Value") for element in root.iterfind("SystemProvider/Stacks/Stack")]
    assert stacks == ["CSwitch", "ReadyThread", "SampledProfile"]
    keywords = {element.get("Value") for element in root.iterfind("SystemProvider//Keyword")}
    # Without these, no address of a stack has a file.
    assert {"SampledProfile", "Loader", "ProcessThread"} <= keywords
    assert keywords - KEYWORDS == {"SampledProfile"}
    merged = ElementTree.fromstring(etw_profile.render(stacks=True).encode())
    assert "ImageId" in {element.get("Value") for element in merged.iter("CustomEvent")}
    only = profiles(etw_profile.render(samples=True))
    assert only.find("SystemProvider/Stacks") is None


def test_xperf_walks_the_same_stacks_at_the_same_rate() -> None:
    capture = etw_command.Capture("xperf", "xperf", stacks=True, samples_hz=499)
    kernel = lines(capture)[0]
    assert "+PROFILE -stackwalk CSwitch+ReadyThread+Profile -SetProfInt 20040 -f" in kernel
    plain = lines(etw_command.Capture("xperf", "xperf", stacks=True))[0]
    assert "-stackwalk CSwitch+ReadyThread -f" in plain
    assert "PROFILE" not in plain


def test_a_ring_with_stacks_has_room_for_them() -> None:
    # 16 MB a second for 16 CPUs, six times that with stacks.
    ring = etw_command.Capture("wpr", "wpr", ring_s=30.0, cpus=16, stacks=True)
    assert ring.kernel_buffers == 2880


def test_waits_add_hard_faults_requests_and_names_of_files() -> None:
    root = profiles(etw_profile.render(waits=True))
    keywords = {element.get("Value") for element in root.iterfind("SystemProvider//Keyword")}
    assert keywords - KEYWORDS == {"HardFaults", "DiskIO", "DiskIOInit", "Filename"}
    fewer = profiles(etw_profile.render(waits=True, without=("IdealProcessor",)))
    without = {element.get("Value") for element in fewer.iterfind("SystemProvider//Keyword")}
    assert keywords - without == {"IdealProcessor"}
    capture = etw_command.Capture("xperf", "xperf", waits=True, samples_hz=499)
    flags = "INTERRUPT+HARD_FAULTS+DISK_IO+DISK_IO_INIT+FILENAME+IDEAL_PROC+PROFILE"
    assert f"+{flags} " in lines(capture)[0]
