"""Windows event logs byte by byte, for files that neither the corpus nor the writer covers.

Layouts: `WMI_BUFFER_HEADER`, `TRACE_LOGFILE_HEADER` and the headers of records, as in the published
descriptions that docs/windows-traces.md cites.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

BUFFER_HEADER = 0x48
# Raw clock of the header record, and FILETIME of the same moment.
START = 1_000_000
START_TIME = 133_900_000_000_000_000
# BufferFlag
EVENTS_LOST, BUFFER_LOST, WIDE_INDEX, COMPRESSED = 0x2, 0x4, 0x20, 0x40
# LogFileMode
SEQUENTIAL, CIRCULAR, NEW_FILE, BUFFERING, PRIVATE = 1 << 0, 1 << 1, 1 << 3, 1 << 10, 1 << 11
RELOG = 1 << 16


def _padded(record: bytes) -> bytes:
    return record + bytes(-len(record) % 8)


def perfinfo(
    hook: int, version: int, ts: int, payload: bytes, pointer: int = 8, words: bytes = b""
) -> bytes:
    """`PERFINFO_TRACE_HEADER`; `words`: counters, whose number is `version`."""
    kind = 17 if pointer == 8 else 16
    size = 16 + len(words) + len(payload)
    return struct.pack("<HBBHHq", version, kind, 0xC0, size, hook, ts) + words + payload


def system(
    hook: int, version: int, ts: int, payload: bytes, *, ids: tuple[int, int] = (4, 8),
    pointer: int = 8,
) -> bytes:  # fmt: skip
    """`SYSTEM_TRACE_HEADER`; `ids`: process and thread."""
    kind = 2 if pointer == 8 else 1
    head = struct.pack("<HBBHH", version, kind, 0xC0, 32 + len(payload), hook)
    return head + struct.pack("<IIqII", ids[1], ids[0], ts, 0, 0) + payload


def classic(
    group: bytes, opcode: int, version: int, ts: int, payload: bytes, *,
    ids: tuple[int, int] = (4, 8), pointer: int = 8,
) -> bytes:  # fmt: skip
    """`EVENT_TRACE_HEADER` of an event class; `ids`: process and thread."""
    kind = 20 if pointer == 8 else 10
    head = struct.pack("<HBBBBHIIq", 48 + len(payload), kind, 0xC0, opcode, 0, version,
                       ids[1], ids[0], ts)  # fmt: skip
    return head + group + bytes(8) + payload


def message(ts: int, number: int, payload: bytes = b"", *, guid: bytes = bytes(16)) -> bytes:
    """`MESSAGE_TRACE_HEADER` of WPP with GUID, time and ids."""
    size = 8 + 16 + 8 + 8 + len(payload)
    return (
        struct.pack("<HBBHH", size, 0, 0x90, number, 0x02 | 0x08 | 0x20)
        + guid + struct.pack("<qII", ts, 8, 4) + payload
    )  # fmt: skip


def event(
    provider: bytes, number: int, version: int, ts: int, payload: bytes, *,
    ids: tuple[int, int] = (4, 8), pointer: int = 8,
) -> bytes:  # fmt: skip
    """`EVENT_HEADER` without extended items; `ids`: process and thread."""
    kind = 19 if pointer == 8 else 18
    head = struct.pack("<HBBHHIIq", 80 + len(payload), kind, 0xC0, 0, 0, ids[1], ids[0], ts)
    descriptor = struct.pack("<HBBBBHQ", number, version, 0, 4, 0, 0, 0)
    return head + provider + descriptor + bytes(24) + payload


def switch(
    ts: int, old: int, new: int, *, state: int = 5, reason: int = 6, pointer: int = 8,
    version: int = 4, quantum: int = 0, tail: bytes = b"",
) -> bytes:  # fmt: skip
    """CSwitch: outgoing thread with state and reason, and incoming thread; then `tail`."""
    payload = struct.pack("<IIbbbbbbbbIi", new, old, 8, 8, 0, 0, reason, 0, state, 0, 0, quantum)
    return perfinfo(0x0524, version, ts, payload[: 16 if version < 2 else 24] + tail, pointer)


def ready(ts: int, tid: int, *, in_dpc: bool = False) -> bytes:
    """ReadyThread of the thread running on the buffer's CPU."""
    return perfinfo(0x0532, 2, ts, struct.pack("<IbbBB", tid, 1, 0, in_dpc, 0))


def sampled_profile(ts: int, tid: int, address: int, *, pointer: int = 8) -> bytes:
    """SampledProfile of version 2."""
    payload = struct.pack("<Q" if pointer == 8 else "<I", address) + struct.pack(
        "<IHBB", tid, 1, 0, 0
    )
    return perfinfo(0x0F2E, 2, ts, payload, pointer)


def stack_walk(
    ts: int, event: int, ids: tuple[int, int], addresses: Sequence[int], *, pointer: int = 8
) -> bytes:
    """A part of the stack of the event at `event`; `ids`: process and thread."""
    form = "Q" if pointer == 8 else "I"
    payload = struct.pack(f"<qII{len(addresses)}{form}", event, *ids, *addresses)
    return perfinfo(0x1820, 2, ts, payload, pointer)


def stack_key(ts: int, event: int, ids: tuple[int, int], key: int, *, kernel: bool) -> bytes:
    """The same, with a key instead of the addresses."""
    hook = 0x1825 if kernel else 0x1826
    return perfinfo(hook, 2, ts, struct.pack("<qIIQ", event, *ids, key))


def stack_definition(ts: int, key: int, addresses: Sequence[int], *, opcode: int = 0x24) -> bytes:
    """What a key stands for: 0x22 create, 0x23 delete, 0x24 rundown."""
    payload = struct.pack(f"<Q{len(addresses)}Q", key, *addresses)
    return perfinfo(0x1800 | opcode, 2, ts, payload)


def image(
    ts: int, pid: int, base: int, size: int, path: str, *, hook: int = 0x1403, stamp: int = 7
) -> bytes:
    """An image of version 3 is loaded, unloaded, or listed; process 0 is the kernel."""
    payload = struct.pack("<QQIIIIQ16x", base, size, pid, 0, stamp, 0, base)
    payload += path.encode("utf-16-le") + bytes(2)
    return system(hook, 3, ts, payload, ids=(pid, 0xFFFFFFFF))


# KernelTraceControl's ImageID.
IMAGE_ID = bytes.fromhex("d775e6b35425184f830b2762732560de")


def rsds(ts: int, pid: int, base: int, guid: bytes, age: int, name: str) -> bytes:
    """DbgID_RSDS: the PDB file of the image at that address."""
    payload = struct.pack("<QI16sI", base, pid, guid, age) + name.encode() + b"\0"
    return classic(IMAGE_ID, 36, 2, ts, payload, ids=(pid, 0xFFFFFFFF))


# Microsoft-Windows-DotNETRuntime and its rundown, and their events of methods: a rundown at the
# start has the number of a load, one at the end that of an unload.
RUNTIME = bytes.fromhex("230d3ce1bccc124e931bd9cc2eee27e4")
RUNDOWN = bytes.fromhex("1c0269a650c40946a0355af59af4df18")
METHOD_LOAD, METHOD_UNLOAD = 143, 144


def method(
    ts: int, start: int, name: str, *, number: int = METHOD_LOAD, provider: bytes = RUNTIME,
    size: int = 16, ids: tuple[int, int] = (100, 8),
) -> bytes:  # fmt: skip
    """MethodLoadVerbose of version 2, and the events with the same fields."""
    namespace, _, own = name.rpartition(".")
    payload = struct.pack("<QQQIII", 1, 2, start, size, 0x06000001, 1)
    for text in (namespace, own, "void  ()"):
        payload += text.encode("utf-16-le") + bytes(2)
    payload += struct.pack("<HQQ", 8, 0, 0)
    return event(provider, number, 2, ts, payload, ids=ids)


def _word(value: int, pointer: int) -> bytes:
    return struct.pack("<Q" if pointer == 8 else "<I", value)


def hard_fault(
    ts: int, begin: int, tid: int, address: int, *, file: int = 0, size: int = 4096,
    pointer: int = 8,
) -> bytes:  # fmt: skip
    """HardFault: the thread has the page; `file`: object of the file."""
    payload = struct.pack("<qQ", begin, 0) + _word(address, pointer) + _word(file, pointer)
    return perfinfo(0x0220, 2, ts, payload + struct.pack("<II", tid, size), pointer)


# Opcodes of DiskIo; the start of each is 2 higher, that of a flush 1.
READ, WRITE, FLUSH = 10, 11, 14


def disk_init(
    ts: int, irp: int, tid: int, *, opcode: int = READ, version: int = 3, pointer: int = 8
) -> bytes:
    """The start of a request; before version 3 only the header names the thread."""
    payload = _word(irp, pointer) + (struct.pack("<I", tid) if version >= 3 else b"")
    hook = 0x0100 | opcode + (1 if opcode == FLUSH else 2)
    return system(hook, version, ts, payload, ids=(100, tid), pointer=pointer)


def disk_done(
    ts: int, irp: int, tid: int, ticks: int, *, opcode: int = READ, version: int = 3,
    disk: int = 0, offset: int = 0, size: int = 4096, file: int = 0, pointer: int = 8,
) -> bytes:  # fmt: skip
    """The end of a request, with its response time in ticks of the performance counter."""
    issuer = struct.pack("<I", tid) if version >= 3 else b""
    if opcode == FLUSH:
        payload = struct.pack("<IIQ", disk, 0, ticks) + _word(irp, pointer) + issuer
    else:
        payload = struct.pack("<IIIIQ", disk, 0, size, 0, offset)
        payload += _word(file, pointer) + _word(irp, pointer) + struct.pack("<Q", ticks) + issuer
    return perfinfo(0x0100 | opcode, version, ts, payload, pointer)


def file_name(ts: int, file: int, name: str, *, opcode: int = 36, pointer: int = 8) -> bytes:
    """FileIo: a file is created (32), deleted (35), or listed at the end (36)."""
    payload = _word(file, pointer) + name.encode("utf-16-le") + bytes(2)
    return perfinfo(0x0400 | opcode, 2, ts, payload, pointer)


def thread(ts: int, pid: int, tid: int, *, opcode: int = 3, version: int = 3) -> bytes:
    """Thread start, end, or rundown of a 64-bit system, with the fields of version 3."""
    payload = struct.pack("<II7QIBBBB", pid, tid, *[0] * 4, 0xF, 0, 0, 0, 8, 5, 2, 0)
    return system(0x0500 | opcode, version, ts, payload, ids=(pid, tid))


def process(
    ts: int, pid: int, name: bytes, *, opcode: int = 3, version: int = 4, tail: bytes = b""
) -> bytes:
    """Process start, end, or rundown of a 64-bit system, without a user."""
    payload = struct.pack("<QIIIiQII", 0xFFFF0000 + pid, pid, 4, 1, 0, 0x1000, 0, 0)
    payload += name + b"\0" + "cmd".encode("utf-16-le") + bytes(6) + tail
    return system(0x0300 | opcode, version, ts, payload, ids=(pid, 0xFFFFFFFF))


@dataclass
class Buffer:
    """Records of a CPU as one flush wrote them."""

    records: Sequence[bytes]
    cpu: int = 0
    sequence: int = 1
    flags: int = WIDE_INDEX
    kind: int = 0
    # The unpacked bytes become these.
    packed: bytes | None = None

    def content(self) -> bytes:
        """The records as stored in the buffer."""
        return b"".join(_padded(record) for record in self.records)

    def encoded(self, size: int, state: int = 3) -> bytes:
        """Header and records; `size`: that of an uncompressed buffer."""
        content = self.content()
        filled = BUFFER_HEADER + len(content)
        flags = self.flags | (COMPRESSED if self.packed is not None else 0)
        body = content if self.packed is None else self.packed
        whole = size if self.packed is None else BUFFER_HEADER + len(body)
        assert BUFFER_HEADER + len(body) <= whole, "the records do not fit into the buffer"
        head = struct.pack("<IIIiqqQ", whole, filled, filled, 0, 0, self.sequence, 0)
        head += struct.pack("<HHIIHH16x", self.cpu, 0, state, filled, flags, self.kind)
        return (head + body).ljust(whole, b"\xff")


@dataclass
class Log:
    """A file: its header and its buffers."""

    buffers: Iterable[Buffer]
    mode: int = SEQUENTIAL
    buffer_size: int = 4096
    layout: tuple[int, int] = (1, 5)
    os: tuple[int, int, int] = (10, 0, 26100)
    cpus: int = 4
    end_time: int = START_TIME + 10_000_000
    # None: the actual number.
    buffers_written: int | None = None
    pointer: int = 8
    events_lost: int = 0
    buffers_lost: int = 0
    mhz: int = 3000
    clock: int = 1
    hz: int = 10_000_000
    start: int = START
    start_time: int = START_TIME
    boot_time: int = START_TIME - 1_000_000
    state: int = 3
    # After the header's record, in the same buffer.
    first: Sequence[bytes] = field(default_factory=list)

    def header(self, written: int) -> bytes:
        """`TRACE_LOGFILE_HEADER` as a record."""
        zone = struct.pack("<i168x", -60)
        payload = struct.pack("<IBBBB", self.buffer_size, *self.os[:2], *self.layout)
        payload += struct.pack("<IIq", self.os[2], self.cpus, self.end_time)
        payload += struct.pack("<IIIII", 156_250, 0, self.mode, written, 1)
        payload += struct.pack("<III", self.pointer, self.events_lost, self.mhz)
        payload += bytes(2 * self.pointer) + zone
        payload += bytes(-len(payload) % 8)
        payload += struct.pack("<qqq", self.boot_time, self.hz, self.start_time)
        payload += struct.pack("<II", self.clock, self.buffers_lost)
        payload += "by hand\0made.etl\0".encode("utf-16-le")
        return system(0, 2, self.start, payload, pointer=self.pointer)

    def encoded(self) -> bytes:
        """All of its bytes."""
        buffers = list(self.buffers)
        written = 1 + len(buffers) if self.buffers_written is None else self.buffers_written
        first = Buffer([self.header(written), *self.first], sequence=0, kind=4)
        return first.encoded(self.buffer_size, self.state) + b"".join(
            buffer.encoded(self.buffer_size) for buffer in buffers
        )
