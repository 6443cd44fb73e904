"""A perf.data in memory: records in per-CPU streams, damaged as the kernel and disks damage them.

Layouts: `perf_file_header`, `perf_event_attr`, PERF_RECORD_* and `struct sample_id` of the uapi
header perf_event.h. All events of the file must have the same fields up to the CPU.
"""

from __future__ import annotations

import random
import struct
from collections import defaultdict

from damage.stream import Chunk, Plan, Record

LOST, COMM, EXIT, FORK, SAMPLE, LOST_SAMPLES, USER_TYPES = 2, 3, 4, 7, 9, 13, 64
SWITCH, SWITCH_CPU_WIDE = 14, 15
_IP, _TID, _TIME, _ADDR, _ID, _STREAM_ID, _CPU = 1, 2, 4, 8, 1 << 6, 1 << 9, 1 << 7
_IDENTIFIER = 1 << 16
_EVENT_DESC = 12
# `perf_event_attr.write_backward`, in the bit field after the first five words.
_FLAGS_AT, _WRITE_BACKWARD = 40, 1 << 27

# sched_switch: common_pid, prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid,
# next_prio, after the four bytes of the common fields; padded to 68 bytes at a record's end.
SWITCH_FIELDS = "<I16sIIQ16sII"
SWITCH_SIZE = 68
HOTPLUG_TID = 900_000

_KINDS = {
    "sched_switch": "switch",
    "sched_waking": "wakeup",
    "sched_wakeup": "wakeup",
    "sched_wakeup_new": "wakeup",
    "sched_migrate_task": "migration",
    "cpu_idle": "idle",
    "irq_handler_entry": "interrupt",
    "irq_handler_exit": "interrupt",
    "softirq_entry": "interrupt",
    "softirq_exit": "interrupt",
    "sched_process_fork": "thread",
    "sched_process_exit": "thread",
}


class PerfFile:
    """A file with its records in the order in which perf wrote them."""

    hz = 1_000_000_000

    def __init__(self, data: bytes, seed: int, records_per_chunk: tuple[int, int] = (8, 24)):
        fields = struct.unpack_from("<8s8Q", data, 0)
        if fields[0] != b"PERFILE2":
            raise ValueError("not a perf.data file")
        self.data = data
        _, _, attr_size, attrs_at, attrs_size, self.data_at, self.data_size, _, _ = fields
        self.attrs = range(attrs_at, attrs_at + attrs_size, attr_size)
        self.features = [bit for bit in range(256) if data[72 + bit // 8] >> bit % 8 & 1]
        count = attrs_size // attr_size
        self.sample_type = struct.unpack_from("<Q", data, attrs_at + 24)[0]
        kinds = {
            struct.unpack_from("<Q", data, attrs_at + number * attr_size + 24)[0]
            & (_IP | _TID | _TIME | _ADDR | _ID | _STREAM_ID | _CPU | _IDENTIFIER)
            for number in range(count)
        }
        needed = _TID | _TIME | _CPU
        if len(kinds) != 1 or self.sample_type & needed != needed:
            raise ValueError("events with other fields")
        self.names = self._event_names()
        self.items: list[tuple[Record, int | None]] = []
        """Records with the number of their chunk, None for those without a CPU."""
        self.chunks: list[Chunk] = []
        self._read(random.Random(seed), records_per_chunk)

    def _sections(self) -> list[tuple[int, int, int]]:
        table = self.data_at + self.data_size
        return [
            (bit, *struct.unpack_from("<QQ", self.data, table + 16 * place))
            for place, bit in enumerate(self.features)
        ]

    def _event_names(self) -> dict[int, str]:
        """Names of the events by the ids of their records (HEADER_EVENT_DESC)."""
        names: dict[int, str] = {}
        begin = next((at for bit, at, _ in self._sections() if bit == _EVENT_DESC), None)
        if begin is None:
            return names
        count, attr_size = struct.unpack_from("<II", self.data, begin)
        at = begin + 8
        for _ in range(count):
            ids, length = struct.unpack_from("<II", self.data, at + attr_size)
            at += attr_size + 8
            text = self.data[at : at + length].split(b"\0")[0].decode()
            at += length
            for own in struct.unpack_from(f"<{ids}Q", self.data, at):
                names[own] = text.rpartition(":")[2]
            at += 8 * ids
        return names

    def _read(self, chance: random.Random, sizes: tuple[int, int]) -> None:
        open_: dict[int, Chunk] = {}
        room: dict[int, int] = {}
        at, end = self.data_at, self.data_at + self.data_size
        order: dict[int, int] = defaultdict(int)
        while at + 8 <= end:
            kind, _misc, size = struct.unpack_from("<IHH", self.data, at)
            if size < 8:
                raise ValueError(f"a record of {size} bytes")
            raw = self.data[at : at + size]
            at += size
            placed = self._placed(kind, raw)
            if placed is None:
                self.items.append((Record(raw, None, "other"), None))
                continue
            ticks, cpu, what = placed
            record = Record(raw, ticks, what)
            if not ticks:
                record.kind, record.ticks = "rundown", None
                self.items.append((record, None))
                continue
            if cpu not in open_ or len(open_[cpu].records) >= room[cpu]:
                order[cpu] += 1
                open_[cpu] = Chunk(len(self.chunks) + 1, cpu, [], sequence=order[cpu])
                room[cpu] = chance.randint(*sizes)
                self.chunks.append(open_[cpu])
            open_[cpu].records.append(record)
            self.items.append((record, open_[cpu].number))

    def _placed(self, kind: int, raw: bytes) -> tuple[int, int, str] | None:
        """Clock, CPU, and kind of a record; None for those that perf itself added."""
        if kind >= USER_TYPES:
            return None
        at_time, at_cpu = self._offsets(kind, len(raw))
        ticks = struct.unpack_from("<Q", raw, at_time)[0]
        cpu = struct.unpack_from("<I", raw, at_cpu)[0]
        what = "other"
        if kind == SAMPLE and self.sample_type & _IDENTIFIER:
            what = _KINDS.get(self.names.get(struct.unpack_from("<Q", raw, 8)[0], ""), "other")
        elif kind in (COMM, FORK, EXIT):
            what = "thread"
        elif kind in (SWITCH, SWITCH_CPU_WIDE):
            # The same switches again, a little later.
            what = "switch_record"
        return ticks, cpu, what

    def _offsets(self, kind: int, size: int) -> tuple[int, int]:
        """Offsets of the clock and the CPU in a record."""
        flags = self.sample_type
        if kind == SAMPLE:
            at = 8 + 8 * bool(flags & _IDENTIFIER) + 8 * bool(flags & _IP) + 8
            time = at
            at += 8
            for bit in (_ADDR, _ID, _STREAM_ID):
                at += 8 * bool(flags & bit)
            return time, at
        at = size - 8 * bool(flags & _IDENTIFIER) - 8
        cpu = at
        at -= 8 * bool(flags & _STREAM_ID) + 8 * bool(flags & _ID) + 8
        return at, cpu

    def damaged(self, plan: Plan, seed: int) -> bytes:
        """The bytes of a copy with the plan applied."""
        chance = random.Random(seed)
        steps = dict(plan.steps)
        shifts: dict[int, int] = {}
        for chunk in self.chunks:
            before = max(
                (other.number for other in self.chunks
                 if other.cpu == chunk.cpu and other.number < chunk.number), default=0,
            ) if steps else 0  # fmt: skip
            shifts[chunk.number] = shifts.get(before, 0) + steps.get(chunk.number, 0)
        stamps = {
            id(self.chunks[number - 1].records[place]): ticks
            for number, place, ticks in plan.stamps
        }
        missing: dict[int, int] = defaultdict(int)
        """Records lost since the last one of a CPU."""
        lost: dict[int, int] = defaultdict(int)
        out: list[bytes] = []
        own = [] if plan.overwritten else out
        """Records that perf itself added."""
        later: list[bytes] = []
        for record, number in self.items:
            if plan.leaves_out(record, chance):
                continue
            if number is None:
                own.append(record.data)
                continue
            chunk = self.chunks[number - 1]
            if number in plan.lost:
                missing[chunk.cpu] += 1
                lost[chunk.cpu] += 1
                continue
            data = self._moved(record, stamps.get(id(record)), shifts[number])
            if missing[chunk.cpu] and plan.signaled:
                out.append(self._lost(data, missing[chunk.cpu]))
            missing[chunk.cpu] = 0
            if plan.reordered and chance.random() < 0.2:
                later.append(data)
                continue
            out.append(data)
            if plan.offline.get(chunk.cpu) == number and record is chunk.records[-1]:
                out.append(self._hotplug(chunk))
            if number in plan.repeated:
                later.append(data)
            if later and chance.random() < 0.1:
                out += later
                later = []
        out += later
        if plan.signaled and any(missing.values()):
            out.append(self._lost_samples(sum(lost.values())))
        if plan.overwritten:
            return self._file(b"".join([*own, *reversed(out)]), plan.cut, _WRITE_BACKWARD)
        return self._file(b"".join(out), plan.cut)

    def _moved(self, record: Record, stamp: int | None, shift: int) -> bytes:
        if stamp is None and not shift:
            return record.data
        data = bytearray(record.data)
        kind = struct.unpack_from("<I", data, 0)[0]
        at_time, _ = self._offsets(kind, len(data))
        value = stamp if stamp is not None else (record.ticks or 0) + shift
        struct.pack_into("<Q", data, at_time, value)
        if kind in (FORK, EXIT):
            struct.pack_into("<Q", data, 24, value)
        return bytes(data)

    def _hotplug(self, chunk: Chunk) -> bytes:
        """The idle thread of a CPU yields to the thread that takes the CPU offline."""
        cpu = chunk.cpu
        data = bytearray(next(r.data for r in reversed(chunk.records) if r.kind == "switch"))
        at_time, _ = self._offsets(SAMPLE, len(data))
        struct.pack_into("<IIQ", data, at_time - 8, 0, 0, chunk.last)
        raw = len(data) - SWITCH_SIZE
        struct.pack_into(
            SWITCH_FIELDS, data, raw + 4, 0, f"swapper/{cpu}".encode(), 0, 120, 0,
            f"cpuhp/{cpu}".encode(), HOTPLUG_TID + cpu, 120,
        )  # fmt: skip
        return bytes(data)

    def _lost(self, following: bytes, count: int) -> bytes:
        """PERF_RECORD_LOST before the first record that fit again."""
        kind = struct.unpack_from("<I", following, 0)[0]
        at_time, at_cpu = self._offsets(kind, len(following))
        time, cpu = following[at_time : at_time + 8], following[at_cpu : at_cpu + 8]
        flags = self.sample_type
        own = min(self.names, default=0)
        trailer = bytes(8) + time
        trailer += struct.pack("<Q", own) * bool(flags & _ID)
        trailer += bytes(8) * bool(flags & _STREAM_ID) + cpu
        trailer += struct.pack("<Q", own) * bool(flags & _IDENTIFIER)
        body = struct.pack("<QQ", own, count) + trailer
        return struct.pack("<IHH", LOST, 0, 8 + len(body)) + body

    def _lost_samples(self, count: int) -> bytes:
        """PERF_RECORD_LOST_SAMPLES, which perf writes last: the kernel's total."""
        flags = self.sample_type
        own = min(self.names, default=0)
        body = struct.pack("<Q", count) + bytes(16)
        body += struct.pack("<Q", own) * bool(flags & _ID)
        body += bytes(8) * bool(flags & _STREAM_ID) + bytes(8)
        body += struct.pack("<Q", own) * bool(flags & _IDENTIFIER)
        return struct.pack("<IHH", LOST_SAMPLES, 0, 8 + len(body)) + body

    def _file(self, records: bytes, cut: float | None, flags: int = 0) -> bytes:
        grown = len(records) - self.data_size
        head = bytearray(self.data[: self.data_at])
        for at in self.attrs:
            old = struct.unpack_from("<Q", head, at + _FLAGS_AT)[0]
            struct.pack_into("<Q", head, at + _FLAGS_AT, old | flags)
        struct.pack_into("<Q", head, 48, len(records))
        end = self.data_at + self.data_size
        tail = bytearray(self.data[end:])
        for place, (_, at, size) in enumerate(self._sections()):
            struct.pack_into("<QQ", tail, 16 * place, at + grown, size)
        whole = bytes(head) + records + bytes(tail)
        return whole if cut is None else whole[: self.data_at + int(len(records) * cut)]


def enters_idle(record: Record) -> bool:
    """Whether a sched_switch record switches to the idle thread."""
    raw = len(record.data) - SWITCH_SIZE
    fields = struct.unpack_from(SWITCH_FIELDS, record.data, raw + 4)
    return bool(fields[6] == 0)
