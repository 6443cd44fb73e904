"""Windows logs of two threads on two CPUs, drawn by hand, and the rows read from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import etl_bytes
from decoded import decoded
from etl_bytes import Buffer, Log, process, switch, thread

from schedlens import _decoders

US = 10  # ticks of the usual clock


def at(us: int) -> int:
    """Raw time this many us after the header's record."""
    return etl_bytes.START + US * us


def life() -> list[bytes]:
    """A process of two threads, as the rundown at the start lists them."""
    return [process(at(0), 100, b"drawn.exe"), thread(at(0), 100, 8), thread(at(0), 100, 9)]


def slices(tid: int, from_us: int, count: int = 3) -> list[bytes]:
    """A thread runs 50 us of every 100: in at 10, out at 60."""
    return [
        record
        for begin in range(from_us, from_us + 100 * count, 100)
        for record in (
            switch(at(begin + 10), 0, tid, state=2, reason=0),
            switch(at(begin + 60), tid, 0),
        )
    ]


def two_cpus(**first: Any) -> list[Buffer]:
    """Thread 8 on CPU 0 and thread 9, 5 us later, on CPU 1."""
    return [
        Buffer(life() + slices(8, 0), **({"cpu": 0, "sequence": 1} | first)),
        Buffer(slices(9, 5), cpu=1, sequence=2),
    ]


# CPU, thread, start, and length in ns.
Rows = list[tuple[int, int, int, int]]
TWO_CPUS: Rows = [
    *((0, 8, us * 1000, 50_000) for us in (10, 110, 210)),
    *((1, 9, us * 1000, 50_000) for us in (15, 115, 215)),
]


def written(folder: Path, content: bytes | Log, name: str = "made.etl") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encoded())
    return path


class Read:
    """A file read by `inspect` and by the decoder."""

    def __init__(self, path: Path) -> None:
        self.facts: dict[str, Any] = json.loads(_decoders.inspect(str(path)))
        self.tables: dict[str, list[dict[str, Any]]] = {
            table: rows.to_pylist() for table, rows in decoded(path).items()
        }

    def of(self, table: str) -> list[dict[str, Any]]:
        return self.tables.get(table, [])

    def ran(self) -> Rows:
        """Slices of threads by CPU and time."""
        tids = {row["utid"]: row["tid"] for row in self.of("thread")}
        found = [
            (row["cpu"], tids[row["utid"]], row["ts"], row["dur"])
            for row in self.of("sched_slice")
            if not row["is_idle"]
        ]
        return sorted(found)

    def problems(self) -> list[tuple[str, str, int]]:
        """Problems in `inspect`: place, the text up to its first colon, how often."""
        return [
            (problem["place"], problem["what"].partition(":")[0], problem["count"])
            for problem in self.facts["problems"]
        ]

    def gaps(self) -> list[tuple[int | None, int | None, int | None, str]]:
        return [
            (gap["cpu"], gap["start_ns"], gap["end_ns"], gap["signalled_by"])
            for gap in self.facts["loss"]["gaps"]
        ]


def read(folder: Path, content: bytes | Log) -> Read:
    return Read(written(folder, content))
