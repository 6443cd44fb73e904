"""Reads the batches of a workload to compute its throughput."""

from __future__ import annotations

import statistics
import struct
from pathlib import Path

from schedlens.errors import WorkloadError

MAGIC = b"SLSAMP1\0"
# worker, CPU at start and end, flags, 0, start, end, iterations, bytes
RECORD = struct.Struct("<IHHIIqqQQ")


def throughput(path: Path, unit: str) -> float:
    """Units a second of all workers together while they run: the sum of their median batches.

    `unit` is `bytes` or `iterations`. The median ignores batches that other threads disturbed, so
    this compares two runs of one plan. With more workers than CPUs, it exceeds the real throughput.
    Raises `WorkloadError`.
    """
    return sum(statistics.median(batch) for batch in _rates(path, unit).values())


def spread_pct(path: Path, unit: str) -> float:
    """The spread of a worker's batches: their interquartile range in percent of the median.

    The mean over the workers; 0 without batches. Raises `WorkloadError`.
    """
    spreads = []
    for batch in _rates(path, unit).values():
        if len(batch) > 1:
            low, middle, high = statistics.quantiles(batch, n=4, method="inclusive")
            if middle:
                spreads.append(100 * (high - low) / middle)
    return statistics.fmean(spreads) if spreads else 0.0


def _rates(path: Path, unit: str) -> dict[int, list[float]]:
    """Units a second of each batch, by worker."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror}") from None
    if data[:8] != MAGIC or (len(data) - 8) % RECORD.size:
        raise WorkloadError(f"{path} is not a file of batches, or is truncated")
    rates: dict[int, list[float]] = {}
    for worker, _, _, _, _, start, end, iterations, size in RECORD.iter_unpack(data[8:]):
        if end > start:
            count = size if unit == "bytes" else iterations
            rates.setdefault(worker, []).append(count * 1e9 / (end - start))
    return rates
