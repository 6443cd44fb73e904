"""Reads the header of an .etl file: its clock, its start, and the reported loss.

Used only for the checks right after a recording; analysis uses the reader in `decoders/`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

# WMI_BUFFER_HEADER, then the system header of the first record.
_BUFFER_BYTES, _RECORD_BYTES = 72, 32
_SYSTEM_TYPES = (1, 2)
_TRACE_FLAGS = 0xC0
# TRACE_LOGFILE_HEADER.ReservedFlags.
CLOCKS = {0: "qpc", 1: "qpc", 2: "system_time", 3: "cpu_cycle"}


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
