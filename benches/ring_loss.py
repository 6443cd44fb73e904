"""What a flight recorder holds in the same memory, and how long it is blind while it is saved.

`python benches/ring_loss.py [--megabytes 1] [--seconds 6]`, as root: the same tracepoints at the
same time in buffers of the same size, of `perf record --overwrite` as `collect --ring` runs it, and
of an instance of tracefs. A tracefs snapshot would not be blind, but needs CONFIG_TRACER_SNAPSHOT.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import schedlens._decoders as decoders
from schedlens.record import option_groups
from schedlens.record.linux.platform import Linux
from schedlens.record.request import Request

if TYPE_CHECKING:
    from collectors import perf, perf_ring
else:
    from schedlens.collectors import perf, perf_ring

TRACEFS = Path("/sys/kernel/tracing")


class Instance:
    """A buffer of tracefs with the events of a capture."""

    def __init__(self, capture: perf.Capture) -> None:
        self._folder = TRACEFS / "instances" / "schedlens-bench"
        self._folder.mkdir()
        self.write("tracing_on", "0")
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", str(capture.buffer_bytes >> 10))
        for event in capture.events:
            self.write(f"events/{event.replace(':', '/')}/enable", "1")
        self.write("tracing_on", "1")

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def held_s(self) -> float:
        """How far back the buffer of the CPU that holds least goes."""
        found = []
        for path in sorted((self._folder / "per_cpu").glob("cpu*/stats")):
            text = path.read_text()
            oldest, now = (
                float(re.search(rf"{name} ts:\s*([\d.]+)", text)[1])  # type: ignore[index]
                for name in ("oldest event", "now")
            )
            found.append(now - oldest)
        return min(found)

    def save(self, target: Path) -> None:
        """Stops, reads everything, and goes on."""
        self.write("tracing_on", "0")
        with target.open("wb") as out:
            for path in sorted((self._folder / "per_cpu").glob("cpu*/trace_pipe_raw")):
                with path.open("rb", buffering=0) as pages:
                    os.set_blocking(pages.fileno(), False)
                    while page := pages.read(4096):
                        out.write(page)
        self.write("tracing_on", "1")

    def remove(self) -> None:
        self.write("tracing_on", "0")
        self._folder.rmdir()


def span(path: Path) -> tuple[int, int, int]:
    """CLOCK_MONOTONIC of the first and the last event, and until when events were overwritten."""
    first = last = until = 0
    for table, batch in decoders.load(str(path), 0, None, None, "ring"):
        if table == "trace":
            (row,) = batch.to_pylist()
            first = row["start_clock"] + row["first_ns"]
            last = row["start_clock"] + row["duration_ns"]
            start = row["start_clock"]
        elif table == "loss":
            ends = [row["end_ns"] for row in batch.to_pylist()
                    if row["signalled_by"] == "overwritten"]  # fmt: skip
            until = max([until, *ends])
    return first, last, start + until


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6)
    given = parser.parse_args()
    platform = Linux(given.seconds)
    with platform.changing(), tempfile.TemporaryDirectory() as name:
        platform.prepare(
            Request.checked(option_groups.CollectOptions(), "linux"), platform.topology()
        )
        capture = replace(platform.capture, buffer_bytes=given.megabytes << 20, switch_events=False)
        folder = Path(name)
        ring = perf_ring.RingRecorder(capture, folder)
        instance = Instance(capture)
        try:
            ring.enable()
            time.sleep(given.seconds)
            held = instance.held_s()
            ring.save(folder / "first")
            ring.save(folder / "second")
            began = time.monotonic()
            instance.save(folder / "pages")
            blind = time.monotonic() - began
        finally:
            instance.remove()
            ring.close()
        first, last, until = span(folder / "first")
        after, _, _ = span(folder / "second")
        print(f"perf     held {(last - max(first, until)) / 1e9:.2f} s, "
              f"blind for {(after - last) / 1e6:.1f} ms while saved")  # fmt: skip
        print(f"tracefs  held {held:.2f} s, blind for {blind * 1e3:.1f} ms while saved")


if __name__ == "__main__":
    main()
