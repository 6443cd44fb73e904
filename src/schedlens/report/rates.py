"""Rates of work, by kernel, in the unit that suits them."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import short

_MIB = float(2**20)


def unit_text(unit: str | None, most: float) -> tuple[float, str]:
    """Divisor and name of the unit for rates up to `most` a second: MiB/s, or iterations/s."""
    if unit == "bytes":
        return (_MIB * 1024, "GiB/s") if most >= 100 * 1024 * _MIB else (_MIB, "MiB/s")
    for size, prefix in ((1e9, "billion "), (1e6, "million "), (1e3, "thousand ")):
        if most >= size:
            return size, f"{prefix}iterations/s"
    return 1.0, "iterations/s"


def digits(value: float) -> str:
    """A rate as text: three digits, or all of a whole number: 0.1, 1.43, 1,234."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def scaled(rows: list[dict[str, Any]], column: str, size: float) -> list[float | None]:
    """A column divided by the unit; None if unknown."""
    return [None if row[column] is None else row[column] / size for row in rows]


def by_kernel(rows: list[dict[str, Any]], most: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """The rows of each kernel and variant under its name, in the order of the names.

    The variant `default` is not part of the name.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        variant = "" if row["variant"] in (None, "default") else row["variant"]
        found.setdefault((row["workload"] or "", variant), []).append(row)
    return [
        (short(" ".join(part for part in kernel if part), 60) or "the workload", found[kernel])
        for kernel in sorted(found)[:most]
    ]
