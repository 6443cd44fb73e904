"""The options `--from` and `--to`, which several commands share."""

from __future__ import annotations

import click

# Times are nanoseconds in 64 bits: no trace is longer than 292 years.
LONGEST_TRACE_S = 9.2e9


def trace_time(ctx: click.Context, param: click.Parameter, seconds: float | None) -> float | None:
    """Rejects what is not a time in a trace; NaN fails every comparison."""
    if seconds is None or abs(seconds) <= LONGEST_TRACE_S:
        return seconds
    raise click.BadParameter(f"{seconds:g} is not a time in a trace; give seconds, such as 0.2")


def checked(from_s: float | None, to_s: float | None) -> None:
    """Rejects a window that ends before it begins."""
    if from_s is not None and to_s is not None and from_s >= to_s:
        raise click.UsageError(f"--from {from_s:g} is not before --to {to_s:g}")
