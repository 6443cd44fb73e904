"""How findings write numbers and names."""

from __future__ import annotations

import re

_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=%|(?:ns|us|ms|s|min|[kMG]?Hz|W)\b)")
_PLACES = {
    "same_cpu": "one CPU",
    "siblings": "SMT siblings",
    "same_l2": "cores that share an L2",
    "same_llc": "cores that share a last-level cache",
    "across_llc": "cores with different last-level caches",
    "across_package": "different packages",
    "p_beside_e": "a P core and an E core",
    "two_cpus": "two CPUs",
}
_BOUND_WORDS = {"at_least": "at least ", "range": "up to ", None: "about "}


def duration(ns: float) -> str:
    """A duration in the unit that a reader would choose: 840 ns, 12.5 us, 3.2 ms, 1.5 s."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        # 999.9 us is 1 ms.
        if abs(ns) >= size * 0.9995:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def place(name: str) -> str:
    """Where the two threads of an experiment ran: `cores that share an L2`."""
    return _PLACES.get(name, name.replace("_", " "))


def minutes(seconds: float) -> str:
    """How long something will take: 40 s, 12 min."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def percent(value: float) -> str:
    """A share in percent: 0.43 %, 12.3 %, 100 %."""
    return f"{value:.0f} %" if abs(value) >= 99.95 else f"{value:.3g} %"


def between(low: str, high: str) -> str:
    """Two ends of a range that are written out: `4.9 to 6.2`, or the text that both have."""
    return low if low == high else f"{low} to {high}"


def interval(low: float | None, high: float | None) -> str:
    """The interval of a number, to append to it: ` (4.9 to 6.2)`; empty if there is none."""
    if low is None or high is None or f"{low:.3g}" == f"{high:.3g}":
        return ""
    return f" ({low:.3g} to {high:.3g})"


def times(low_ns: float | None, high_ns: float | None) -> str:
    """The interval of a duration, to append to it: ` (207 ns to 1.2 us)`."""
    if low_ns is None or high_ns is None or duration(low_ns) == duration(high_ns):
        return ""
    return f" ({duration(low_ns)} to {duration(high_ns)})"


def cost(ns: int, bound: str | None, low_ns: int | None = None, high_ns: int | None = None) -> str:
    """A cost with its bound: `at least 3.2 ms`, `3.2 ms to 4.1 ms`, `up to 4 ms`, `about 4 ms`."""
    if bound == "range" and low_ns is not None and high_ns is not None:
        return between(duration(low_ns), duration(high_ns))
    return f"{_BOUND_WORDS.get(bound, '')}{duration(ns)}"


def with_bound(text: str, cost: str, bound: str | None) -> str:
    """The text with the words of the bound before the first place that states the cost."""
    if bound not in ("at_least", None):
        return text
    words = _BOUND_WORDS[bound]
    return re.sub(
        rf"(?<!{words})(?<![\w.,]){re.escape(cost)}(?!\w)",
        lambda found: f"{words}{found[0]}",
        text,
        count=1,
    )


def unbroken(text: str) -> str:
    """The text with a no-break space between each number and its unit."""
    return _NUMBER_AND_UNIT.sub("\u00a0", text)


def number(value: float) -> str:
    """A number with three significant digits: 0.0123, 4.56, 12,300."""
    shown = float(f"{value:.3g}")
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:.3g}"


def recordings(label: str, others: int = 0) -> str:
    """Where a sentence holds, as it begins: `In game.etl, `, `In game.etl (and 2 others), `."""
    more = "" if others <= 0 else f" (and {count(others, 'other recording')})"
    return f"In {_visible(label)}{more}, "


def thread_name(thread: str | None, tid: int | None, process: str | None = None) -> str:
    """`name (tid)`, and its process if the name differs; control characters are made visible."""
    own = _visible(thread) if thread else "an unnamed thread"
    shown = f"{own} ({tid})" if tid is not None else own
    return f"{shown} of {_visible(process)}" if process and process != thread else shown


def code_name(frame: str, own: str | None) -> str:
    """`pthread_mutex_lock` from `JobQueue::pop`: a function, and the program's own around it."""
    return f"`{frame}`" if own is None or own == frame else f"`{frame}` from `{own}`"


def count(number: int, noun: str, several: str | None = None) -> str:
    """`1 thread`, `3,000 threads`; `several` is the plural if it is irregular."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {several or noun + 's'}"


def and_more(others: int) -> str:
    """What to add to the last detail where further findings of its kind are left out."""
    if others <= 0:
        return ""
    return f" There {'is' if others == 1 else 'are'} {others} more like it."


def _visible(text: str) -> str:
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
