"""Threads of Linux that handle an interrupt, as their names show."""

from __future__ import annotations

import re

# Names are cut at 15 characters, and that of a second handler is irq/24-s-name.
_NAME = re.compile(r"irq/([0-9]+)-.*")


def affinity_file(thread: str | None) -> str | None:
    """The file with the CPUs of the interrupt that a thread handles; None: it handles none.

    The kernel gives such a thread (irq/24-nvme0q1) the CPUs of its interrupt whenever these change,
    so a mask of its own does not last.
    """
    found = _NAME.fullmatch(thread or "")
    return f"/proc/irq/{found[1]}/smp_affinity_list" if found else None
