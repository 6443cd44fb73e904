"""How Linux weighs groups of threads against each other: shares of cgroups, and autogroups.

With autogroups, the kernel makes a group of each session of processes that is in no other cgroup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from schedlens.machine.cgroups import Mount

# A cgroup with cpu.idle has the weight of SCHED_IDLE (WEIGHT_IDLEPRIO): 0 as a weight of version 2.
_IDLE = 3
# `/autogroup-12 nice 0`
_AUTOGROUP = re.compile(r"/autogroup-\d+ nice -?\d+")


def of_cgroup(cgroup: str, hierarchies: Iterable[Mount]) -> int | None:
    """The shares of a cgroup, 1024 by default; None if unknown. A weight of version 2 counts as
    the shares that the kernel makes of it."""
    every = list(hierarchies)
    scheduled = next((mount for mount in every if "cpu" in mount.controllers), None)
    if scheduled is not None:
        return _number(scheduled.path(cgroup) / "cpu.shares")
    unified = next((mount for mount in every if mount.unified), None)
    weight = None if unified is None else _number(unified.path(cgroup) / "cpu.weight")
    return None if weight is None else weight * 1024 // 100 or _IDLE


def autogroup_of(pid: int | str, proc: str) -> str | None:
    """The autogroup of a process as the kernel prints it; None if it has none."""
    try:
        text = Path(f"{proc}/{pid}/autogroup").read_text("utf-8", "replace").strip()
    except OSError:
        return None
    return text if _AUTOGROUP.fullmatch(text) else None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text("utf-8", "replace").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
