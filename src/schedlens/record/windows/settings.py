"""Reads the Windows settings that affect scheduling: rows of `machine_setting`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence

from schedlens.output import system_text
from schedlens.record.windows import power_plan

LIMIT_S = 60.0
# The first public build of Windows 11 (21H2); Windows 10 ended at 19045.
FIRST_WINDOWS_11 = 22000

VERSION = ["reg", "query", r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion"]
PROCESSOR = ["reg", "query", r"HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor\0"]
DEVICE_GUARD = [
    "powershell", "-NoProfile", "-NonInteractive", "-Command",
    "Get-CimInstance -Namespace root/Microsoft/Windows/DeviceGuard -ClassName Win32_DeviceGuard | "
    "Select-Object VirtualizationBasedSecurityStatus, SecurityServicesRunning | "
    "ConvertTo-Json -Compress",
]  # fmt: skip
COMPUTER = [
    "powershell", "-NoProfile", "-NonInteractive", "-Command",
    "Get-CimInstance Win32_ComputerSystem | "
    "Select-Object HypervisorPresent, Manufacturer, Model, TotalPhysicalMemory | "
    "ConvertTo-Json -Compress",
]  # fmt: skip
COMMANDS = (
    VERSION, PROCESSOR, power_plan.ACTIVE, power_plan.OVERLAY, power_plan.PROCESSOR, DEVICE_GUARD,
    COMPUTER,
)  # fmt: skip

_VBS = {0: "off", 1: "on, not running", 2: "running"}
# SecurityServicesRunning: memory integrity, by its technical name.
_HVCI = 2

Run = Callable[[Sequence[str]], str | None]


def run(command: Sequence[str]) -> str | None:
    """The output of a system command; None if it fails."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return system_text.decoded(done.stdout) if done.returncode == 0 else None


def read(ask: Run = run) -> dict[str, str | None]:
    """Setting by key; None if the system does not report it."""
    version, processor = _registry(ask(VERSION)), _registry(ask(PROCESSOR))
    guard, computer = _object(ask(DEVICE_GUARD)), _object(ask(COMPUTER))
    found: dict[str, str | None] = {
        "scheduler": "Windows",
        "windows_product": _product(version),
        "windows_build": _build(version),
        "cpu_model": (processor.get("ProcessorNameString") or "").strip() or None,
        "base_mhz": processor.get("~MHz"),
        "vbs": _vbs(guard),
        "memory_integrity": _memory_integrity(guard),
        "hypervisor": _hypervisor(computer),
        "power_plan": power_plan.active(ask(power_plan.ACTIVE) or ""),
    }
    overlays = power_plan.overlays(ask(power_plan.OVERLAY) or "")
    for source in ("ac", "dc"):
        guid = overlays.get(source)
        found[f"power_overlay.{source}"] = guid and power_plan.overlay_name(guid)
    for name, value in power_plan.settings(ask(power_plan.PROCESSOR) or "").items():
        found[f"power_plan.{name}.ac"] = str(value.ac)
        found[f"power_plan.{name}.dc"] = str(value.dc)
    return found


def memory_bytes(ask: Run = run) -> int | None:
    """The memory of this machine; None if Windows does not report it."""
    found = _object(ask(COMPUTER)).get("TotalPhysicalMemory")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _registry(text: str | None) -> dict[str, str]:
    """Values by name in the output of `reg query`; numbers as decimal digits."""
    found = {}
    for name, kind, value in re.findall(r"^ {4}(\S.*?) {4}(REG_\w+) {4}(.*)$", text or "", re.M):
        number = kind in ("REG_DWORD", "REG_QWORD")
        found[name] = str(int(value, 16)) if number else value.rstrip()
    return found


def _product(version: dict[str, str]) -> str | None:
    """Name of the system; the registry of Windows 11 still has the name of Windows 10."""
    name, build = version.get("ProductName"), version.get("CurrentBuild", "")
    if name is not None and build.isdecimal() and int(build) >= FIRST_WINDOWS_11:
        return re.sub(r"^Windows 10\b", "Windows 11", name)
    return name


def _build(version: dict[str, str]) -> str | None:
    build = version.get("CurrentBuild")
    if build is None:
        return None
    major, minor = (version.get(f"Current{part}VersionNumber") for part in ("Major", "Minor"))
    full = [part for part in (major, minor, build, version.get("UBR")) if part is not None]
    release = version.get("DisplayVersion") or version.get("ReleaseId")
    return ".".join(full) + (f" ({release})" if release else "")


def _object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _vbs(guard: dict[str, object]) -> str | None:
    """Whether virtualization-based security runs: it hides counters and costs time."""
    status = guard.get("VirtualizationBasedSecurityStatus")
    return _VBS.get(status) if isinstance(status, int) else None


def _memory_integrity(guard: dict[str, object]) -> str | None:
    running = guard.get("SecurityServicesRunning")
    if isinstance(running, int):
        running = [running]
    return ("on" if _HVCI in running else "off") if isinstance(running, list) else None


def _hypervisor(computer: dict[str, object]) -> str | None:
    present = computer.get("HypervisorPresent")
    if not isinstance(present, bool):
        return None
    if not present:
        return "none"
    parts = [computer.get(key) for key in ("Manufacturer", "Model")]
    return " ".join(str(part) for part in parts if part) or "yes"
