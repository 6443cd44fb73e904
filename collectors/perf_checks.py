"""Checks after every recording, so that a damaged one is not mistaken for a good one."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlens.load.step_file import Check

from . import perf_file
from .perf_command import Capture, size_text


def check(
    path: Path, capture: Capture, begin_mono_ns: int | None = None, end_mono_ns: int | None = None
) -> list[Check]:
    """Rows of `checks` in step.json for one recording.

    The recorder starts and stops its CPUs one after another, so breaks in the chains of switches
    count only between the two CLOCK_MONOTONIC times; without them, everywhere.
    """
    found = perf_file.read(path)
    rows = [_whole(found), _samples(found, capture), _lost(found, capture)]
    if found.whole and capture.requested_events:
        rows.append(_renamed(found.events, capture.requested_events))
    if capture.mode == "full" and capture.switch_events and found.whole:
        rows.extend(_chains(path, capture, begin_mono_ns, end_mono_ns))
    return rows


def usable(rows: Sequence[Check]) -> str | None:
    """Why a recording must not be used; None if it may."""
    for row in rows:
        if row.check in ("whole", "samples") and not row.ok:
            return f"{row.detail}: {row.advice}"
    return None


def _whole(found: perf_file.PerfFile) -> Check:
    return _row(
        "whole",
        found.whole,
        "the file is complete" if found.whole else "the file is truncated",
        "check the free space, and what ended perf",
    )


def _samples(found: perf_file.PerfFile, capture: Capture) -> Check:
    if capture.mode == "full":
        count, what = found.samples, "samples"
    else:
        count, what = found.switches, "switch records"
    return _row("samples", count > 0, f"{count} {what}", "`schedlens doctor` shows why")


def _lost(found: perf_file.PerfFile, capture: Capture) -> Check:
    total = sum(found.records.values())
    return _row(
        "lost",
        found.lost == 0,
        f"{found.lost} of {total + found.lost} records were lost",
        f"buffers were {size_text(capture.buffer_bytes)} for each CPU. Use larger ones "
        f"(-m {size_text(2 * capture.buffer_bytes)}), or record less with --light",
    )


def _renamed(got: Sequence[str], requested: Sequence[str]) -> Check:
    """perf adds `:u` and the like to an event that it may not record in full."""
    odd = [name for name in requested if name not in {_plain(other) for other in got}]
    renamed = [f"{name} became {other}" for name in odd for other in got if other.startswith(name)]
    detail = "; ".join(renamed) if renamed else f"not in the file: {', '.join(odd)}"
    return _row(
        "events",
        not odd,
        f"all {len(requested)} requested events were recorded" if not odd else detail,
        "the kernel part of these events is missing. `schedlens doctor` prints how to allow it",
    )


def _plain(name: str) -> str:
    """An event name without those modifiers that exclude nothing."""
    head, colon, modifier = name.rpartition(":")
    return head if colon and modifier and set(modifier) <= set("SDGH") else name


def _chains(
    path: Path, capture: Capture, begin_mono_ns: int | None, end_mono_ns: int | None
) -> list[Check]:
    """Whether each switch-out on a CPU follows that thread's switch-in, and what a ring covers.

    [] without the decoders.
    """
    try:
        decoders = importlib.import_module("schedlens._decoders")
    except ImportError:
        return []
    from_switch_events = clock = 0
    hz = 1_000_000_000
    gaps: list[tuple[int | None, int | None]] = []
    overwritten_until = 0
    try:
        for table, batch in decoders.load(str(path), 0, None, None, path.parent.name):
            if table == "trace" and batch.num_rows:
                clock = batch.column("start_clock")[0].as_py() or 0
                hz = batch.column("clock_hz")[0].as_py() or hz
            elif table == "loss":
                for row in batch.select(["start_ns", "end_ns", "signalled_by"]).to_pylist():
                    if row["signalled_by"] == "chain_break":
                        gaps.append((row["start_ns"], row["end_ns"]))
                    elif row["signalled_by"] == "overwritten":
                        overwritten_until = max(overwritten_until, row["end_ns"] or 0)
            elif table == "context_switch":
                from_switch_events += _count(batch.column("source"), "switch_event")
    except Exception as error:
        return [_row("chains", False, f"cannot decode the recording: {error}", "record again")]
    zero = clock * 1_000_000_000 // hz
    inner = [
        (start, end)
        for start, end in gaps
        if start is None
        or end is None
        or (
            (begin_mono_ns is None or zero + end > begin_mono_ns)
            and (end_mono_ns is None or zero + start < end_mono_ns)
        )
    ]
    lengths = sum(end - start for start, end in inner if start is not None and end is not None)
    rows = []
    if capture.ring_s is not None and begin_mono_ns is not None and end_mono_ns is not None:
        begin = max(zero + overwritten_until, begin_mono_ns)
        rows.append(_ring(capture, max(0, end_mono_ns - begin), end_mono_ns - begin_mono_ns))
    breaks = f"{len(inner)} break{'' if len(inner) == 1 else 's'} in the chains of switches"
    return [
        *rows,
        _row(
            "chains",
            not inner,
            f"{breaks}, {lengths / 1e6:.1f} ms of CPU time" if inner else breaks,
            "which thread ran in between is unknown",
        ),
        Check(
            "switch_records",
            True,
            f"{from_switch_events} switches came from PERF_RECORD_SWITCH; no data was lost",
            None,
            from_switch_events,
        ),
    ]


def _ring(capture: Capture, covered_ns: int, wanted_ns: int) -> Check:
    """Whether the buffers held the seconds that they were meant to keep, on every CPU."""
    assert capture.ring_s is not None
    return _row(
        "ring",
        covered_ns >= min(capture.ring_s * 1e9, wanted_ns),
        f"the buffers held the last {covered_ns / 1e9:.1f} s of every CPU",
        f"what is older is lost on at least one CPU. Use larger ones "
        f"(-m {size_text(2 * capture.buffer_bytes)}), or record less with --light",
    )


def _count(column: Any, value: str) -> int:
    """How often an Arrow column contains a value, without a Python object for each row."""
    counts = {row["values"]: int(row["counts"]) for row in column.value_counts().to_pylist()}
    return counts.get(value, 0)


def _row(check: str, ok: bool, detail: str, advice: str) -> Check:
    return Check(check, ok, detail, None if ok else advice)
