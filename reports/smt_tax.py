"""Cycles per instruction by core type, and what busy SMT siblings cost."""

from __future__ import annotations

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Counters: speed by core type, cost of siblings"
ORDER = 87
FIGURES = {
    "cycles_per_instruction": "by thread, on each core type, alone and shared",
}

_MOST_BARS = 12
# Results first, then what they are based on.
_TAX = (
    "thread", "tid", "core_type", "shared_ns", "alone_cpi", "shared_cpi", "tax_ns", "tax_pct",
    "refused",
)  # fmt: skip
_CPI = ("thread", "tid", "core_type", "cpi", "instructions_per_s", "relative_to_p")
_HIDDEN = {*_TAX, *_CPI, "trace_id", "utid"}
_INDEX = {"P": 0, "U": 0, "E": 2, "LP-E": 5}


def section(view: View) -> Section | Nothing:
    """CPI of the busiest threads by core type, and the SMT tax, of the step in view."""
    cpi = view.ask_step("thread_cpi", process=view.process)
    rows = [row for row in cpi.rows if row["cpi"] is not None]
    if not rows:
        return Nothing("no cycles and instructions were recorded at context switches")
    chosen = list(dict.fromkeys(row["utid"] for row in rows))[:MOST_SOUGHT]
    shown = min(len(chosen), _MOST_BARS)
    first = {row["utid"]: row for row in reversed(rows)}
    labels = unique(thread_label(first[utid]) for utid in chosen)
    known = {(row["utid"], row["core_type"]): row["cpi"] for row in rows}
    kinds = sorted({kind for _, kind in known}, key=str)
    traces = [
        bar(kind or "unknown", labels, [known.get((utid, kind)) for utid in chosen],
            _INDEX.get(kind or "", 3), unit="cycles per instruction")
        for kind in kinds
    ]  # fmt: skip
    tax = view.ask_step("smt_tax", process=view.process)
    caption = (
        f"Cycles per instruction of the {shown} longest-measured threads on each core type; lower "
        "is better. Compare cores of different frequency by instructions per second."
    )
    return Section(
        "`relative to p` is the speed on an E core relative to P cores. The cost of a busy SMT "
        "sibling is shared time x (1 - CPI alone / CPI shared), with a 95 % confidence interval. "
        "It is refused if too few intervals are purely alone or purely shared.",
        view.step_window(),
        (
            Figure(
                "cycles_per_instruction",
                caption,
                rows_across(
                    traces,
                    "cycles per instruction",
                    stacked=False,
                    sought=[thread_words(first[utid]) for utid in chosen],
                    first=_MOST_BARS,
                ),
                height=row_height(2 * shown),
            ),
        ),
        (
            tax.showing(*_TAX, *(name for name in tax.names if name not in _HIDDEN)),
            cpi.showing(*_CPI, *(name for name in cpi.names if name not in _HIDDEN)),
        ),
    )
