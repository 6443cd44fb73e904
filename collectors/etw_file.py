"""Reads the header of an .etl file: its clock, its start, and the reported loss.

Used only for the checks right after a recording; analysis uses the reader in `decoders/`.
"""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path

# WMI_BUFFER_HEADER, then the system header of the first record.
_BUFFER_BYTES, _RECORD_BYTES = 72, 32
_SYSTEM_TYPES = (1, 2)
_TRACE_FLAGS = 0xC0
# TRACE_LOGFILE_HEADER.ReservedFlags.
CLOCKS = {0: "qpc", 1: "qpc", 2: "system_time", 3: "cpu_cycle"}

# PERFINFO_TRACE_HEADER of a context switch: version, number of counters, header type for 32 and
# 64 bits, marker, size, hook. Its payload has 24 bytes, and each counter before it has 8.
_SWITCH = re.compile(rb"[\x02-\x05]([\x00-\x07])[\x10\x11]\xc0(..)\x24\x05", re.DOTALL)
_SWITCH_BYTES, _COUNTER_BYTES, _ALIGNED = 40, 8, 8
_SEARCHED_BYTES, _ENOUGH_SWITCHES = 256 << 20, 1000


@dataclass(frozen=True)
class Header:
    """Fields of TRACE_LOGFILE_HEADER; `begin_ticks` is the raw clock of its own record."""

    build: int
    cpus: int
    clock: str | None
    clock_hz: int
    begin_ticks: int
    events_lost: int
    buffers_lost: int

    @property
    def begin_ns(self) -> int | None:
        """Start of the recording in ns of the performance counter; None for another clock."""
        if self.clock != "qpc" or self.clock_hz <= 0:
            return None
        return self.begin_ticks * 1_000_000_000 // self.clock_hz


def read(path: Path) -> Header | None:
    """The header of an .etl file; None if the file has none."""
    try:
        with path.open("rb") as file:
            data = file.read(_BUFFER_BYTES + _RECORD_BYTES + 280)
        return _header(data)
    except (OSError, struct.error):
        return None


def _header(data: bytes) -> Header | None:
    _, kind, flags, _, hook, _, _, begin = struct.unpack_from("<HBBHHIIq", data, _BUFFER_BYTES)
    if kind not in _SYSTEM_TYPES or flags != _TRACE_FLAGS or hook != 0:
        return None
    body = data[_BUFFER_BYTES + _RECORD_BYTES :]
    build, cpus = struct.unpack_from("<II", body, 8)
    pointer, events_lost = struct.unpack_from("<II", body, 44)
    if pointer not in (4, 8):
        return None
    # With 4-byte pointers, the fields after the two pointers start 8 bytes earlier.
    shift = 0 if pointer == 8 else -8
    (hz,) = struct.unpack_from("<q", body, 256 + shift)
    clock, buffers_lost = struct.unpack_from("<II", body, 272 + shift)
    return Header(build, cpus, CLOCKS.get(clock), hz, begin, events_lost, buffers_lost)


def counters_at_switches(path: Path) -> tuple[int, int]:
    """How many of the first context switches there are, and how many of them have counters.

    WPR does not compress its buffers, so the headers of the records can be searched for.
    """
    seen = with_counters = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for found in _SWITCH.finditer(data, 0, min(len(data), _SEARCHED_BYTES)):
            counters, size = found[1][0], int.from_bytes(found[2], "little")
            if found.start() % _ALIGNED or size != _SWITCH_BYTES + _COUNTER_BYTES * counters:
                continue
            seen += 1
            with_counters += counters > 0
            if seen == _ENOUGH_SWITCHES:
                break
    return seen, with_counters
