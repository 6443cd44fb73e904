"""Reads the machine settings that affect scheduling: rows of `machine_setting`."""

from __future__ import annotations

import gzip
import os
import platform
import re
from pathlib import Path

# The files that each contain one setting, below the root.
FILES = {
    "governor": "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
    "frequency_driver": "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_driver",
    "energy_preference": "sys/devices/system/cpu/cpu[0-9]*/cpufreq/energy_performance_preference",
    "idle_driver": "sys/devices/system/cpu/cpuidle/current_driver",
    "idle_governor": "sys/devices/system/cpu/cpuidle/current_governor",
    "smt_control": "sys/devices/system/cpu/smt/control",
    "smt_active": "sys/devices/system/cpu/smt/active",
    "isolated_cpus": "sys/devices/system/cpu/isolated",
    "nohz_full": "sys/devices/system/cpu/nohz_full",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "transparent_hugepage": "sys/kernel/mm/transparent_hugepage/enabled",
    "autogroup": "proc/sys/kernel/sched_autogroup_enabled",
    "numa_balancing": "proc/sys/kernel/numa_balancing",
    "nmi_watchdog": "proc/sys/kernel/nmi_watchdog",
    "perf_event_paranoid": "proc/sys/kernel/perf_event_paranoid",
}

_OPTION = re.compile(r"^CONFIG_(HZ|PREEMPT|PREEMPT_\w+)=(\w+)$")


def read(root: Path = Path("/")) -> dict[str, str | None]:
    """Setting by key; None if the system does not report it."""
    found: dict[str, str | None] = {key: _values(root, pattern) for key, pattern in FILES.items()}
    found["boost"] = _boost(root)
    found["hypervisor"] = _hypervisor(root)
    found["scheduler"] = _scheduler(root)
    found["cpu_model"] = _cpu_model(root)
    options = _kernel_options(root)
    found["hz"] = options.get("HZ")
    found["preempt"] = _preempt(root, options)
    for path in sorted((root / "sys/devices/system/cpu/vulnerabilities").glob("*")):
        found[f"vulnerabilities.{path.name}"] = _text(path)
    return found


def _values(root: Path, pattern: str) -> str | None:
    """The distinct texts of the files."""
    texts = {text for path in root.glob(pattern) if (text := _text(path)) is not None}
    # The kernel prints "(null)" for a mask that was never allocated: no CPU.
    texts = {"" if text == "(null)" else text for text in texts}
    # The kernel writes the active choice in brackets.
    chosen = {match[1] if (match := re.search(r"\[(\S+)\]", text)) else text for text in texts}
    return ",".join(sorted(chosen)) if chosen else None


def _boost(root: Path) -> str | None:
    boost = _text(root / "sys/devices/system/cpu/cpufreq/boost")
    if boost is None:
        off = _text(root / "sys/devices/system/cpu/intel_pstate/no_turbo")
        boost = {"0": "1", "1": "0"}.get(off or "")
    return {"1": "on", "0": "off"}.get(boost or "")


def _hypervisor(root: Path) -> str | None:
    """The hypervisor's name, or `yes` if only the CPU's flag shows that there is one."""
    info = _text(root / "proc/cpuinfo") or ""
    flagged = any(
        "hypervisor" in line.split() for line in info.splitlines() if line.startswith("flags")
    )
    kind = _text(root / "sys/hypervisor/type")
    if kind:
        return kind
    if not flagged:
        return "none" if "flags" in info else None
    vendor = _text(root / "sys/class/dmi/id/sys_vendor")
    return vendor or "yes"


def _scheduler(root: Path) -> str | None:
    """`sched_ext NAME` if such a scheduler is loaded, else the kernel's fair class."""
    if _text(root / "sys/kernel/sched_ext/state") == "enabled":
        return f"sched_ext {_text(root / 'sys/kernel/sched_ext/root/ops') or ''}".strip()
    release = _release(root)
    version = re.match(r"(\d+)\.(\d+)", release or "")
    if not version:
        return None
    return "EEVDF" if (int(version[1]), int(version[2])) >= (6, 6) else "CFS"


def _cpu_model(root: Path) -> str | None:
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "cpu model", "Model"):
            return value.strip()
    return None


def _release(root: Path) -> str | None:
    return _text(root / "proc/sys/kernel/osrelease") or (
        platform.release() if root == Path("/") else None
    )


def _kernel_options(root: Path) -> dict[str, str]:
    """HZ and the preemption options from the kernel's configuration, or the one in /boot."""
    release = _release(root) or ""
    for path in (
        root / "proc/config.gz",
        root / f"boot/config-{release}",
        root / f"lib/modules/{release}/config",
    ):
        try:
            raw = path.read_bytes()
            content = gzip.decompress(raw) if path.suffix == ".gz" else raw
        except (OSError, EOFError, gzip.BadGzipFile):
            continue
        matches = (_OPTION.match(line) for line in content.decode("utf-8", "replace").splitlines())
        return {match[1]: match[2] for match in matches if match}
    return {}


def _preempt(root: Path, options: dict[str, str]) -> str | None:
    """The active preemption model if debugfs shows it, else the one built in."""
    live = _text(root / "sys/kernel/debug/sched/preempt")
    if live and (match := re.search(r"\((\w+)\)", live)):
        return match[1]
    for option, name in (
        ("PREEMPT_RT", "rt"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ):
        if options.get(option) == "y":
            dynamic = " (default of a dynamic kernel)" if "PREEMPT_DYNAMIC" in options else ""
            return name + dynamic
    return None


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read()).strip()
    except OSError:
        return None
