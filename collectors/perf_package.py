"""Which package contains perf here, and the command that installs it."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path


def install_command(release: Path = Path("/etc/os-release")) -> str | None:
    """The command for this distribution; None if the distribution is not known."""
    fields = {}
    try:
        for line in release.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition("=")
            fields[key] = " ".join(shlex.split(value))
    except (OSError, ValueError):
        return None
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    for name in names:
        if name == "ubuntu":
            return f"sudo apt-get install linux-tools-common linux-tools-{platform.release()}"
        if name == "debian":
            return "sudo apt-get install linux-perf"
        if name in ("fedora", "rhel", "centos"):
            return "sudo dnf install perf"
        if name in ("suse", "opensuse"):
            return "sudo zypper install perf"
        if name == "arch":
            return "sudo pacman -S perf"
        if name == "alpine":
            return "sudo apk add perf"
    return None
