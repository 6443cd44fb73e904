"""An .etl in memory: buffers of records, damaged as Windows and disks damage them.

Layouts: WMI_BUFFER_HEADER, the record headers and TRACE_LOGFILE_HEADER of a 64-bit file with
uncompressed buffers of one size.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from damage.stream import Chunk, Plan, Record, by_cpu

HEADER = 0x48
EVENTS_LOST, BUFFER_LOST = 2, 4
# In the first buffer: the payload of TRACE_LOGFILE_HEADER follows a system header.
_PAYLOAD = HEADER + 32
_BUFFERS_WRITTEN, _EVENTS_LOST, _PERF_FREQ, _BUFFERS_LOST = 36, 48, 256, 276

_HOOKS = {
    0x0524: "switch",
    0x0532: "wakeup",
    0x0530: "priority",
    0x1239: "idle",
    0x123A: "idle",
    0x0F42: "interrupt",
    0x0F43: "interrupt",
    0x0F44: "interrupt",
    0x0F45: "interrupt",
    0x0301: "thread",
    0x0302: "thread",
    0x0303: "rundown",
    0x0304: "rundown",
    0x0501: "thread",
    0x0502: "thread",
    0x0503: "rundown",
    0x0504: "rundown",
}


class EtlFile:
    """A file as the test writer writes it, with fewer records in each buffer."""

    def __init__(self, data: bytes, seed: int, records_per_buffer: tuple[int, int] = (8, 24)):
        self.size = struct.unpack_from("<I", data, 0)[0]
        self.head = bytearray(data[: self.size])
        self.hz = struct.unpack_from("<Q", data, _PAYLOAD + _PERF_FREQ)[0]
        chance = random.Random(seed)
        streams: dict[int, list[Record]] = {}
        for at in range(self.size, len(data), self.size):
            cpu = struct.unpack_from("<H", data, at + 0x28)[0] & 0x7FF
            filled = struct.unpack_from("<I", data, at + 0x30)[0]
            streams.setdefault(cpu, []).extend(_records(data[at + HEADER : at + filled]))
        parts = []
        for cpu, records in streams.items():
            at = 0
            while at < len(records):
                count = chance.randint(*records_per_buffer)
                parts.append((cpu, records[at : at + count]))
                at += count
        parts.sort(key=lambda part: max(record.ticks or 0 for record in part[1]))
        self.chunks = [
            Chunk(number, cpu, records, sequence=number)
            for number, (cpu, records) in enumerate(parts, start=1)
        ]

    def damaged(self, plan: Plan, seed: int) -> bytes:
        """The bytes of a copy with the plan applied."""
        chance = random.Random(seed)
        head = bytearray(self.head)
        steps = dict(plan.steps)
        stamps = {(number, place): ticks for number, place, ticks in plan.stamps}
        flags: dict[int, int] = {}
        kept: list[Chunk] = []
        for stream in by_cpu(self.chunks).values():
            shift, missing = 0, False
            for chunk in stream:
                shift += steps.get(chunk.number, 0)
                if chunk.number in plan.lost:
                    missing = True
                    continue
                if missing and plan.signaled:
                    flags[chunk.number] = EVENTS_LOST if plan.only_events else BUFFER_LOST
                missing = False
                records = [
                    _moved(record, stamps.get((chunk.number, place)), shift)
                    for place, record in enumerate(chunk.records)
                    if not plan.leaves_out(record, chance)
                ]
                if records:
                    flag = flags.get(chunk.number, 0)
                    kept.append(Chunk(chunk.number, chunk.cpu, records, chunk.sequence, flag))
        kept.sort(key=lambda chunk: chunk.number)
        if plan.renumbered or plan.only_events:
            for sequence, chunk in enumerate(kept, start=1):
                chunk.sequence = sequence
        kept += [chunk for chunk in kept if chunk.number in plan.repeated]
        if plan.reordered:
            chance.shuffle(kept)
        if plan.signaled:
            events = sum(len(c.records) for c in self.chunks if c.number in plan.lost)
            struct.pack_into("<I", head, _PAYLOAD + _EVENTS_LOST, events)
            buffers = 0 if plan.only_events else len(plan.lost)
            struct.pack_into("<I", head, _PAYLOAD + _BUFFERS_LOST, buffers)
        struct.pack_into("<I", head, _PAYLOAD + _BUFFERS_WRITTEN, 1 + len(kept))
        data = bytes(head) + b"".join(self._encoded(chunk) for chunk in kept)
        return data if plan.cut is None else data[: max(self.size, int(len(data) * plan.cut))]

    def _encoded(self, chunk: Chunk) -> bytes:
        body = b"".join(record.data + bytes(-len(record.data) % 8) for record in chunk.records)
        filled = HEADER + len(body)
        head = struct.pack("<IIIiqqQ", self.size, filled, filled, 0, chunk.last + 10,
                           chunk.sequence, 0)  # fmt: skip
        head += struct.pack("<HHIIHH16x", chunk.cpu, 5, 3, filled, chunk.flags | 0x20, 0)
        return (head + body).ljust(self.size, b"\xff")


def _records(data: bytes) -> Iterator[Record]:
    at = 0
    while at + 8 <= len(data):
        word, kind, marker = struct.unpack_from("<HBB", data, at)
        if marker != 0xC0:
            raise ValueError(f"no record at {at}: marker {marker:#x}")
        if kind in (1, 2, 3, 4, 16, 17):
            size, hook = struct.unpack_from("<HH", data, at + 4)
            where = at + (8 if kind in (16, 17) else 16)
        else:
            size, hook, where = word, 0, at + 16
        ticks = struct.unpack_from("<q", data, where)[0]
        yield Record(data[at : at + size], ticks, _HOOKS.get(hook, "other"))
        at += size + -size % 8


def _moved(record: Record, stamp: int | None, shift: int) -> Record:
    if stamp is None and not shift:
        return record
    ticks = stamp if stamp is not None else (record.ticks or 0) + shift
    where = 8 if record.data[2] in (16, 17) else 16
    data = bytearray(record.data)
    struct.pack_into("<q", data, where, ticks)
    return Record(bytes(data), ticks, record.kind)
