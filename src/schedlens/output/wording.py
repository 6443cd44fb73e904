"""Numbers and names as findings write them."""

from __future__ import annotations

import re

_BOUND_WORDS = {"at_least": "at least ", "range": "up to ", None: "about "}


def duration(ns: float) -> str:
    """A length of time in the unit a reader would choose: 840 ns, 12.5 us, 3.2 ms, 1.5 s."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def minutes(seconds: float) -> str:
    """How long something will take: 40 s, 12 min."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def percent(value: float) -> str:
    """A share in percent: 0.43 %, 12.3 %, 100 %."""
    return f"{value:.0f} %" if abs(value) >= 99.95 else f"{value:.3g} %"


def interval(low: float | None, high: float | None) -> str:
    """The interval of a number, as it stands behind it: ` (4.9 to 6.2)`; empty if there is none."""
    return "" if low is None or high is None or low == high else f" ({low:.3g} to {high:.3g})"


def times(low_ns: float | None, high_ns: float | None) -> str:
    """The interval of a length of time, as it stands behind it: ` (207 ns to 1.2 us)`."""
    if low_ns is None or high_ns is None or duration(low_ns) == duration(high_ns):
        return ""
    return f" ({duration(low_ns)} to {duration(high_ns)})"


def cost(ns: int, bound: str | None, low_ns: int | None = None, high_ns: int | None = None) -> str:
    """A cost with its bound: `at least 3.2 ms`, `3.2 ms to 4.1 ms`, `up to 4 ms`, `about 4 ms`."""
    if bound == "range" and low_ns is not None and high_ns is not None:
        return f"{duration(low_ns)} to {duration(high_ns)}"
    return f"{_BOUND_WORDS.get(bound, '')}{duration(ns)}"


def bounded_title(title: str, ns: int, bound: str | None) -> str:
    """The title with the words of the bound before the cost, if the title states the cost."""
    if bound not in ("at_least", None):
        return title
    words, length = _BOUND_WORDS[bound], re.escape(duration(ns))
    return re.sub(
        rf"(?<!{words})(?<![\w.,]){length}(?!\w)", f"{words}{duration(ns)}", title, count=1
    )


def thread_name(thread: str | None, tid: int | None, process: str | None = None) -> str:
    """`name (tid)` with its process where that is another name; control characters made visible."""
    own = _visible(thread) if thread else "a thread without a name"
    shown = f"{own} ({tid})" if tid is not None else own
    return f"{shown} of {_visible(process)}" if process and process != thread else shown


def count(number: int, noun: str, several: str | None = None) -> str:
    """`1 thread`, `3 threads`; `several` for nouns that take no plain s."""
    return f"{number} {noun}" if number == 1 else f"{number} {several or noun + 's'}"


def elsewhere(others: int) -> str:
    """What to add to a title that stands for several recordings."""
    if others == 0:
        return ""
    return f" (and in {count(others, 'other recording')})"


def and_more(others: int) -> str:
    """What to add to the last title where further findings of its kind are left out."""
    return f" (and {others} more like it)" if others > 0 else ""


def _visible(text: str) -> str:
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
