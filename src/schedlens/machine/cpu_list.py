"""Lists of CPUs as the kernel writes them: `0-3,8,10-11`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from schedlens.errors import TopologyError

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9})/(\d{1,9}))?)?")

# The largest CPU number allowed in a list; Linux supports at most 8192 CPUs.
LIMIT = 65536


def parse(text: str) -> list[int]:
    """CPU numbers, ascending and without duplicates. Raises `TopologyError` if malformed.

    Also accepts strides, as `cpuset` does (`0-31:2/8`: two of each eight).
    """
    return sorted(set(parse_in_order(text)))


def parse_in_order(text: str) -> list[int]:
    """The same in the order given, with duplicates: `1,1` is two workers on CPU 1."""
    found: list[int] = []
    for part in filter(None, (part.strip() for part in text.strip().split(","))):
        match = _PART.fullmatch(part)
        if not match:
            raise TopologyError(f"'{part}' is not a CPU or range of CPUs (as in 0-3,8)")
        low = int(match[1])
        high = int(match[2]) if match[2] else low
        used, group = (int(match[3]), int(match[4])) if match[3] else (1, 1)
        if high < low or high >= LIMIT or group == 0 or used > group:
            raise TopologyError(f"'{part}' is not a range of CPUs below {LIMIT}")
        found.extend(cpu for cpu in range(low, high + 1) if (cpu - low) % group < used)
    return found


def text(cpus: Iterable[int]) -> str:
    """The list in the kernel's short form."""
    parts: list[str] = []
    run: list[int] = []
    for cpu in [*sorted(set(cpus)), None]:
        if run and cpu == run[-1] + 1:
            run.append(cpu)
            continue
        if run:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
        run = [] if cpu is None else [cpu]
    return ",".join(parts)
