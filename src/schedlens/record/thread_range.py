"""Thread counts as users type them: `1..20`, `1,2,4`, `1..20:2`, `max`, and combinations."""

from __future__ import annotations

import re

from schedlens.errors import PlanError

# More workers than this is a typo, not an experiment.
LIMIT = 4096

_PART = re.compile(r"(\d+|max)(?:\.\.(\d+|max)(?::(\d+))?)?")


def parse(text: str, cpus: int) -> list[int]:
    """Thread counts, ascending and without duplicates; `cpus` is the value of `max`.

    Raises `PlanError` with the malformed part.
    """
    found: set[int] = set()
    for raw in text.split(","):
        part = raw.strip()
        match = _PART.fullmatch(part)
        if not match:
            raise PlanError(
                f"--threads: '{part}' is not a thread count; write 1..20, 1,2,4, 1..20:2 or max"
            )
        low = _number(match[1], cpus)
        high = _number(match[2], cpus) if match[2] else low
        stride = int(match[3]) if match[3] else 1
        if low < 1 or high > LIMIT:
            raise PlanError(f"--threads: '{part}' is outside the range 1 to {LIMIT}")
        if high < low:
            raise PlanError(f"--threads: '{part}' runs backwards")
        if stride < 1:
            raise PlanError(f"--threads: '{part}' has a stride of 0")
        found.update(range(low, high + 1, stride))
    return sorted(found)


def _number(text: str, cpus: int) -> int:
    return cpus if text == "max" else int(text[:9])
