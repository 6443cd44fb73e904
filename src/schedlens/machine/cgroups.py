"""Where the cgroups of this machine are mounted, their CPU usage and their throttling."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy; `inside` is the mounted part of it."""

    folder: Path
    inside: str
    controllers: frozenset[str]
    unified: bool

    def path(self, cgroup: str) -> Path:
        """The folder of a cgroup, whether or not it exists."""
        inside = self.inside.rstrip("/")
        below = cgroup[len(inside) :] if inside and cgroup.startswith(inside) else cgroup
        return self.folder / below.lstrip("/")


def mounts(mountinfo: str, root: Path = Path("/")) -> list[Mount]:
    """The hierarchies named in the text of /proc/self/mountinfo."""
    found = []
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if "-" not in fields[6:]:
            continue
        kind, _, options = fields[fields.index("-", 6) + 1 :][:3]
        if kind not in ("cgroup", "cgroup2"):
            continue
        inside, folder = (_unescape(field) for field in fields[3:5])
        found.append(
            Mount(
                root / folder.lstrip("/"),
                inside,
                frozenset(options.split(",")) if kind == "cgroup" else frozenset(),
                kind == "cgroup2",
            )
        )
    return found


def of_thread(text: str) -> str | None:
    """The cgroup that schedules a thread, from the text of its /proc file `cgroup`.

    The cpu controller throttles, so its version 1 hierarchy decides if there is one, else the
    unified hierarchy.
    """
    unified = None
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpu" in controllers.split(","):
            return path
        if controllers == "":
            unified = path
    return unified


def with_ancestors(cgroups: Iterable[str]) -> list[str]:
    """The cgroups and all their ancestors: a quota in any ancestor throttles too."""
    found: set[str] = set()
    for cgroup in cgroups:
        path = PurePosixPath(cgroup)
        found.update(str(step) for step in (path, *path.parents))
    return sorted(found)


def every(hierarchies: Iterable[Mount]) -> list[str]:
    """All cgroups of the scheduling hierarchy, with or without threads."""
    known = list(hierarchies)
    mount = next((one for one in known if "cpu" in one.controllers), None)
    mount = mount or next((one for one in known if one.unified), None)
    if mount is None:
        return []
    base = PurePosixPath(mount.inside)
    return sorted(
        str(base / Path(folder).relative_to(mount.folder)) for folder, _, _ in os.walk(mount.folder)
    )


def was_readable(row: dict[str, Any]) -> bool:
    """Whether a row of `read` has any value: the cgroup existed when it was read."""
    return any(value is not None for key, value in row.items() if key != "cgroup")


def read(cgroup: str, hierarchies: Iterable[Mount]) -> dict[str, Any]:
    """The row of `snapshot_cgroup`, in ns; None for unknown values (and for no quota)."""
    row: dict[str, Any] = {
        "cgroup": cgroup,
        "usage_ns": None,
        "throttled_ns": None,
        "nr_throttled": None,
        "quota_ns": None,
        "period_ns": None,
    }
    every = list(hierarchies)
    scheduled = next((mount for mount in every if "cpu" in mount.controllers), None)
    accounted = next((mount for mount in every if "cpuacct" in mount.controllers), None)
    if scheduled is None:
        unified = next((mount for mount in every if mount.unified), None)
        if unified is not None:
            _unified(unified.path(cgroup), row)
        return row
    folder = scheduled.path(cgroup)
    stat = _pairs(folder / "cpu.stat")
    row["throttled_ns"] = stat.get("throttled_time")
    row["nr_throttled"] = stat.get("nr_throttled")
    row["quota_ns"] = _times_1000(_number(folder / "cpu.cfs_quota_us"))
    row["period_ns"] = _times_1000(_number(folder / "cpu.cfs_period_us"))
    if accounted is not None:
        row["usage_ns"] = _number(accounted.path(cgroup) / "cpuacct.usage")
    return row


def _unified(folder: Path, row: dict[str, Any]) -> None:
    stat = _pairs(folder / "cpu.stat")
    row["usage_ns"] = _times_1000(stat.get("usage_usec"))
    row["throttled_ns"] = _times_1000(stat.get("throttled_usec"))
    row["nr_throttled"] = stat.get("nr_throttled")
    quota, _, period = (_text(folder / "cpu.max") or "").partition(" ")
    row["quota_ns"] = int(quota) * 1000 if quota.isdigit() else None
    row["period_ns"] = int(period) * 1000 if period.isdigit() else None


def _pairs(path: Path) -> dict[str, int]:
    found = {}
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if value.isdigit():
            found[key] = int(value)
    return found


def _number(path: Path) -> int | None:
    """A count; -1 (no quota) is None."""
    text = _text(path)
    return int(text) if text and text.isdigit() else None


def _times_1000(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds * 1000


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return None


def _unescape(field: str) -> str:
    """Decodes the octal escapes of mountinfo: a blank is `\\040`."""
    parts = field.split("\\")
    return parts[0] + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts[1:])
