"""The settings of a Windows machine, from what its own commands print."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import windows_texts

from schedlens.errors import PlanError
from schedlens.record.windows import power_plan, processes, settings

ANSWERS = {
    tuple(settings.VERSION): windows_texts.VERSION,
    tuple(settings.PROCESSOR): windows_texts.PROCESSOR,
    tuple(settings.DEVICE_GUARD): windows_texts.DEVICE_GUARD,
    tuple(settings.COMPUTER): windows_texts.COMPUTER,
    tuple(power_plan.ACTIVE): windows_texts.ACTIVE_SCHEME,
    tuple(power_plan.OVERLAY): windows_texts.OVERLAY,
    tuple(power_plan.PROCESSOR): windows_texts.PROCESSOR_POWER,
}


def test_every_setting_has_the_value_its_command_prints() -> None:
    asked = []

    def ask(command: Sequence[str]) -> str | None:
        asked.append(list(command))
        return ANSWERS[tuple(command)]

    assert settings.read(ask) == {
        "scheduler": "Windows",
        "windows_product": "Windows 11 Pro",
        "windows_build": "10.0.22631.3479 (23H2)",
        "cpu_model": "12th Gen Intel(R) Core(TM) i9-12900K",
        "base_mhz": "3192",
        "vbs": "running",
        "memory_integrity": "on",
        "hypervisor": "Example Tower 1",
        "power_plan": "Balanced (381b4222-f694-41f0-9685-ff5bb260df2e)",
        "power_overlay.ac": "best performance (ded574b5-45a0-4f42-8737-46345c09c238)",
        "power_overlay.dc": "none",
        "power_plan.CPMINCORES.ac": "100",
        "power_plan.CPMINCORES.dc": "10",
        "power_plan.HETEROPOLICY.ac": "0",
        "power_plan.HETEROPOLICY.dc": "4",
        "power_plan.PERFBOOSTMODE.ac": "2",
        "power_plan.PERFBOOSTMODE.dc": "2",
    }
    # The dry run prints exactly the commands that are run.
    assert sorted(asked) == sorted(map(list, settings.COMMANDS))


def test_settings_without_command_are_unknown() -> None:
    found = settings.read(lambda command: None)
    assert found.pop("scheduler") == "Windows"
    assert set(found.values()) == {None}
    assert "power_plan" in found
    assert "vbs" in found


def test_power_mode_overlay_is_unknown_without_its_value() -> None:
    only_mains = windows_texts.OVERLAY.replace("ActiveOverlayDc", "Other")
    assert power_plan.overlays(only_mains) == {"ac": windows_texts.BEST_PERFORMANCE}
    assert power_plan.overlays(windows_texts.ACTIVE_SCHEME) == {}
    other = "3af9b8d9-7c97-431d-ad78-34a8bfea439f"
    assert power_plan.overlay_name(other) == other


@pytest.mark.parametrize(
    ("guard", "vbs", "integrity"),
    [
        ('{"VirtualizationBasedSecurityStatus":0,"SecurityServicesRunning":[0]}', "off", "off"),
        (
            '{"VirtualizationBasedSecurityStatus":1,"SecurityServicesRunning":2}',
            "on, not running",
            "on",
        ),
        ('{"VirtualizationBasedSecurityStatus":"2"}', None, None),
        ("[1]", None, None),
        ("{", None, None),
    ],
)
def test_virtualization_based_security_is_read(
    guard: str, vbs: str | None, integrity: str | None
) -> None:
    found = settings.read(lambda command: guard if command == settings.DEVICE_GUARD else None)
    assert (found["vbs"], found["memory_integrity"]) == (vbs, integrity)


def test_system_language_does_not_matter() -> None:
    text = windows_texts.GERMAN_PROCESSOR_POWER
    assert power_plan.settings(text) == {"CPMINCORES": power_plan.Value(100, 50)}
    assert power_plan.active(text) == "Höchstleistung (8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c)"


def test_text_without_power_plan_gives_none() -> None:
    for text in ("", "nonsense", 'Invalid Parameters -- try "/?" for help\n', ": 0x1\n: 0x2\n"):
        assert power_plan.settings(text) == {}
        assert power_plan.active(text) is None


def test_process_is_found_by_name() -> None:
    asked = []

    def ask(command: Sequence[str]) -> str | None:
        asked.append(list(command))
        return windows_texts.TASKS

    assert processes.find("game", ask) == 8388608
    assert asked == [["tasklist", "/fo", "csv", "/nh", "/fi", "imagename eq game.exe"]]
    assert processes.running(8388608, ask)
    assert not processes.running(8388609, ask)
    # Python's int() refuses this digit.
    assert not processes.running(8388608, lambda command: '"game.exe","8388²08"\r\n')
    with pytest.raises(PlanError, match=r"no process named 'game\.exe' is running"):
        processes.find("game.exe", lambda command: windows_texts.NO_TASKS)
    twice = windows_texts.TASKS + windows_texts.TASKS.replace("8388608", "815")
    with pytest.raises(
        PlanError, match=r"2 processes are named 'game.exe': use --pid \(815, 8388608\)"
    ):
        processes.find("game", lambda command: twice)
