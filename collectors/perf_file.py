"""Reads which records a perf.data file contains and the names of its events.

Used only for the checks right after a recording; analysis uses the reader in `decoders/`.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# perf_event_header types, with the names of the kernel and perf.
LOST, SAMPLE, SWITCH, SWITCH_CPU_WIDE = 2, 9, 14, 15
# MMAP and MMAP2: where the file's name begins.
_NAME_AT = {1: 40, 10: 72}
FINISHED_ROUND = 68
HEADER_EVENT_DESC = 12

_MAGIC = b"PERFILE2"
_RECORD = struct.Struct("<IHH")


@dataclass
class PerfFile:
    """Records by type, lost events, event names; `whole` is False for a truncated file."""

    whole: bool = False
    records: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    events: list[str] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Records of tracepoints and counters."""
        return self.records[SAMPLE]

    @property
    def switches(self) -> int:
        """Records of `--switch-events`."""
        return self.records[SWITCH] + self.records[SWITCH_CPU_WIDE]


def read(path: Path) -> PerfFile:
    """Walks the record headers; damage ends the walk and leaves `whole` False."""
    found = PerfFile()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _walk(data, found)
    except (OSError, ValueError, struct.error):
        found.whole = False
    return found


def mapped(data: mmap.mmap) -> Iterator[tuple[int, str]]:
    """Process and name of each mapped file, up to where the file is damaged."""
    if data[:8] != _MAGIC:
        return
    at, size = struct.unpack_from("<QQ", data, 40)
    # A killed recorder leaves 0.
    limit = min(at + size, len(data)) if size else len(data)
    while at + 8 <= limit:
        kind, _, length = _RECORD.unpack_from(data, at)
        name_at = _NAME_AT.get(kind)
        if length < 8:
            return
        if name_at is not None and length > name_at:
            name = data[at + name_at : at + length].split(b"\0", 1)[0]
            yield struct.unpack_from("<i", data, at + 8)[0], os.fsdecode(name)
        at += length


def _walk(data: mmap.mmap, found: PerfFile) -> None:
    if data[:8] != _MAGIC:
        return
    # perf_file_header: size, attr_size, three perf_file_section, then the feature bits.
    start, size = struct.unpack_from("<QQ", data, 40)
    end = start + size
    features = struct.unpack_from("<4Q", data, 72)
    # perf writes the size when it exits normally; a killed recorder leaves 0.
    found.whole = size > 0 and end <= len(data)
    at, limit = start, min(end, len(data))
    unpack = _RECORD.unpack_from
    records: dict[int, int] = {}
    while at + 8 <= limit:
        kind, _, length = unpack(data, at)
        if length < 8:
            found.whole = False
            break
        records[kind] = records.get(kind, 0) + 1
        if kind == LOST:
            found.lost += struct.unpack_from("<Q", data, at + 16)[0]
        at += length
    found.records.update(records)
    if found.whole:
        found.events = _event_names(data, end, features)


def _event_names(data: mmap.mmap, at: int, features: tuple[int, ...]) -> list[str]:
    """The names in HEADER_EVENT_DESC; sections exist only for the features that are set."""
    present = [bit for bit in range(256) if features[bit // 64] >> (bit % 64) & 1]
    if HEADER_EVENT_DESC not in present:
        return []
    offset, _ = struct.unpack_from("<QQ", data, at + 16 * present.index(HEADER_EVENT_DESC))
    count, attr_size = struct.unpack_from("<II", data, offset)
    at, names = offset + 8, []
    for _ in range(min(count, 4096)):
        ids, length = struct.unpack_from("<II", data, at + attr_size)
        at += attr_size + 8
        names.append(data[at : at + length].split(b"\0")[0].decode("utf-8", "replace"))
        at += length + 8 * ids
    return names
