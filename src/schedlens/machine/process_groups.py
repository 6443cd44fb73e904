"""Groups of running processes: those of a cgroup, a container, a pod, or a systemd unit.

The rules are those of `FROM thread_group`, for recorders, which start without a database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from schedlens.machine import cgroups

KINDS = ("cgroup", "container", "pod", "service")
_CONTAINER = re.compile(
    r"(?:(?:docker|libpod|cri-containerd|crio)-|/(?:docker|libpod)/"
    r"|/kubepods[^:]*/pod[0-9a-f_-]+/|:(?:cri-containerd|crio):)([0-9a-f]{64})(?:\.scope)?(?:/|$)"
)
_MACHINE = re.compile(r"(?:^|/)(?:lxc\.payload\.|machine-)([^/]+?)(?:\.scope)?(?:/|$)")
_POD = re.compile(r"[/-]pod([0-9a-f]{8}[0-9a-f_-]{8,28})(?:\.slice|/|:|$)")
_UNIT = re.compile(r"[^/]+\.(?:service|scope)(?=/|$)")
# Digits of a container's id that are shown and compared.
_ID_DIGITS = 12
_LEAST_DIGITS = 4


@dataclass(frozen=True)
class Group:
    """A kind and a name, such as the service nginx."""

    kind: str
    text: str

    def contains(self, cgroup: str) -> bool:
        """Whether threads in this cgroup are in the group."""
        if self.kind == "cgroup":
            return cgroup == self.text or cgroup.startswith(self.text.rstrip("/") + "/")
        name = name_of(self.kind, cgroup)
        if name is None:
            return False
        if self.kind == "container":
            begins = len(self.text) >= _LEAST_DIGITS and name.startswith(self.text[:_ID_DIGITS])
            return name == self.text or begins
        if self.kind == "pod":
            return name.startswith(self.text)
        return self.text in (name, re.sub(r"\.(service|scope)$", "", name))


def parsed(name: str) -> Group | None:
    """The group that a name means, such as service:nginx; None: it is a process."""
    kind, colon, text = name.partition(":")
    return Group(kind, text) if kind in KINDS and colon and text else None


def name_of(kind: str, cgroup: str) -> str | None:
    """The group of a kind to which a cgroup belongs, as users name it; None: to none."""
    if kind == "cgroup":
        return cgroup
    if kind == "container":
        found = _CONTAINER.search(cgroup)
        if found:
            return found[1][:_ID_DIGITS]
        found = _MACHINE.search(cgroup)
        return found[1] if found else None
    if kind == "pod":
        found = _POD.search(cgroup)
        return found[1].replace("_", "-") if found else None
    units = _UNIT.findall(cgroup)
    return units[-1] if units else None


def running(proc: Path = Path("/proc")) -> dict[int, str]:
    """The cgroup of each running process, as far as it may be read."""
    found = {}
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        cgroup = cgroups.of_thread(text)
        if cgroup is not None and stat[stat.rindex(")") + 2] not in "ZX":
            found[int(folder.name)] = cgroup
    return found


def members(group: Group, proc: Path = Path("/proc")) -> list[int]:
    """The running processes of a group."""
    return sorted(pid for pid, cgroup in running(proc).items() if group.contains(cgroup))


def known(kind: str, proc: Path = Path("/proc")) -> list[str]:
    """The groups of a kind that have running processes, each as it is given, sorted."""
    names = {name_of(kind, cgroup) for cgroup in running(proc).values()}
    return sorted(f"{kind}:{name}" for name in names if name is not None)
