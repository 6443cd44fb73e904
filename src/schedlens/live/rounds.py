"""Reads a ring again and again, with the decoder and the queries that `analyze` uses."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens.ask import analysis, blank_database
from schedlens.live import picture
from schedlens.live.picture import Cost, Picture
from schedlens.load import query_threads, store
from schedlens.load.recording import Recording
from schedlens.machine import stop_signals
from schedlens.machine.topology import Topology
from schedlens.output.leftover import TemporaryFolder
from schedlens.record import option_groups
from schedlens.record.linux import ring, snapshot
from schedlens.record.linux.platform import Linux
from schedlens.record.request import Request

if TYPE_CHECKING:
    from collectors import perf_ring
else:
    from schedlens.collectors import perf_ring

# What the buffers hold if a round takes longer than planned: this many intervals.
_SPARE = 4.0


def pictures(interval_s: float) -> Generator[Picture]:
    """A picture of the last seconds each `interval_s`, until the caller stops or is interrupted.

    Raises `RecorderError` if the scheduling of the machine cannot be recorded.
    """
    request = Request.checked(option_groups.CollectOptions(), "linux")
    platform = Linux(interval_s * _SPARE)
    with platform.changing(), TemporaryFolder() as place:
        machine = platform.topology()
        platform.prepare(request, machine)
        capture = platform.capture
        ring.require_tracepoints(capture, "watch")
        sized, _ = ring.sized(replace(capture, ring_s=interval_s * _SPARE), machine)
        recorder = perf_ring.RingRecorder(sized, place)
        try:
            recorder.enable()
            yield from _rounds(recorder, platform, place, interval_s)
        finally:
            recorder.close()


def _rounds(
    recorder: perf_ring.RingRecorder, platform: Linux, place: Path, interval_s: float
) -> Generator[Picture]:
    began, before = time.monotonic(), _used_s(recorder.pid)
    while True:
        with stop_signals.waiting():
            time.sleep(max(0.0, began + interval_s - time.monotonic()))
        path = place / "now.data"
        recorder.save(path)
        # Affinities and quotas say why a thread waited.
        state = snapshot.take("begin")
        machine = platform.topology()
        found = _read(path, machine, state, place)
        path.unlink(missing_ok=True)
        now, used = time.monotonic(), _used_s(recorder.pid)
        cost = Cost(
            own_pct=100 * (used[0] - before[0]) / (now - began),
            recorder_pct=100 * (used[1] - before[1]) / (now - began),
        )
        began, before = now, used
        if found is not None:
            yield replace(found, cost=cost)


def _read(path: Path, machine: Topology, state: dict[str, Any], place: Path) -> Picture | None:
    """The picture of one recording; None if nothing happened in it."""
    database = place / "now.duckdb"
    one = Recording("now", path, topology=machine.saved, edges={"begin": state})
    with store.create(
        database,
        place=blank_database.place,
        to_read=one.size,
        threads=query_threads.count([one]),
    ) as con:
        failures = analysis.load(con, [one], (None, None), lambda name, share: None)
        found = None if failures else picture.of(con, machine)
    with contextlib.suppress(OSError):
        database.unlink()
    return found


def _used_s(recorder: int) -> tuple[float, float]:
    """CPU time of this process and of perf, in s."""
    own = time.process_time()
    try:
        fields = Path(f"/proc/{recorder}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return own, 0.0
    return own, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
