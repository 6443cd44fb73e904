"""Writes trace.dat files byte by byte: pages of the ring buffer, options, versions 6 and 7.

It shares nothing with the reader, and `trace-cmd report` reads what it writes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

PAGE = 4096
MAGIC = b"\x17\x08\x44tracing"
_MISSED, _STORED = 1 << 31, 1 << 30
_COMMON = [
    ("unsigned short", "common_type", 2, False),
    ("unsigned char", "common_flags", 1, False),
    ("unsigned char", "common_preempt_count", 1, False),
    ("int", "common_pid", 4, True),
]
_COMM = ("char", "comm[16]", 16, False)
# Fields by event: C type, name, size, signed. Ids count from 1.
_FIELDS: dict[str, list[tuple[str, str, int, bool]]] = {
    "sched:sched_switch": [
        ("char", "prev_comm[16]", 16, False), ("pid_t", "prev_pid", 4, True),
        ("int", "prev_prio", 4, True), ("long", "prev_state", 8, True),
        ("char", "next_comm[16]", 16, False), ("pid_t", "next_pid", 4, True),
        ("int", "next_prio", 4, True),
    ],
    "sched:sched_waking": [
        _COMM, ("pid_t", "pid", 4, True), ("int", "prio", 4, True), ("int", "target_cpu", 4, True),
    ],
    "sched:sched_migrate_task": [
        _COMM, ("pid_t", "pid", 4, True), ("int", "prio", 4, True), ("int", "orig_cpu", 4, True),
        ("int", "dest_cpu", 4, True),
    ],
    "sched:sched_process_exec": [
        _COMM, ("pid_t", "pid", 4, True), ("pid_t", "old_pid", 4, True),
    ],
    "sched:sched_process_exit": [_COMM, ("pid_t", "pid", 4, True), ("int", "prio", 4, True)],
    "task:task_newtask": [
        ("pid_t", "pid", 4, True), _COMM, ("unsigned long", "clone_flags", 8, False),
        ("short", "oom_score_adj", 2, True),
    ],
    "task:task_rename": [
        ("pid_t", "pid", 4, True), ("char", "oldcomm[16]", 16, False),
        ("char", "newcomm[16]", 16, False), ("short", "oom_score_adj", 2, True),
    ],
    "cgroup:cgroup_attach_task": [
        ("int", "dst_root", 4, True), ("int", "dst_level", 4, True),
        ("u64", "dst_id", 8, False), ("int", "pid", 4, True),
        ("char", "dst_path[16]", 16, False),
    ],
    "power:cpu_idle": [("u32", "state", 4, False), ("u32", "cpu_id", 4, False)],
    "power:cpu_frequency": [("u32", "state", 4, False), ("u32", "cpu_id", 4, False)],
}  # fmt: skip
_IDS = {name: number for number, name in enumerate(_FIELDS, start=1)}
IDLE_EXIT = 0xFFFFFFFF


@dataclass(frozen=True)
class Event:
    """A tracepoint at a time; `tid` is the thread in which it fires."""

    ts: int
    name: str
    tid: int = 0
    fields: dict[str, int | str] = field(default_factory=dict)

    def data(self) -> bytes:
        """As the kernel writes it."""
        values: dict[str, int | str] = {"common_type": _IDS[self.name], "common_pid": self.tid}
        values |= self.fields
        out = bytearray()
        for _, name, size, signed in [*_COMMON, *_FIELDS[self.name]]:
            out += bytes(-len(out) % min(size, 8)) if "[" not in name else b""
            value = values.get(name.split("[")[0], "" if "[" in name else 0)
            if isinstance(value, str):
                out += value.encode()[:15].ljust(size, b"\0")
            else:
                out += value.to_bytes(size, "little", signed=signed)
        return bytes(out) + bytes(-len(out) % 4)


def switch(ts: int, prev: int, following: int, state: int = 1) -> Event:
    """A switch between threads, which are called `tN`."""
    names = {"prev_comm": f"t{prev}", "next_comm": f"t{following}"}
    ids = {"prev_pid": prev, "next_pid": following, "prev_prio": 120, "next_prio": 120}
    return Event(ts, "sched:sched_switch", prev, {**names, **ids, "prev_state": state})


def waking(ts: int, waker: int, woken: int, cpu: int) -> Event:
    """A wakeup."""
    fields: dict[str, int | str] = {"comm": f"t{woken}", "pid": woken, "target_cpu": cpu}
    return Event(ts, "sched:sched_waking", waker, fields)


def idle(ts: int, cpu: int, state: int = IDLE_EXIT) -> Event:
    """A CPU begins or ends an idle state."""
    return Event(ts, "power:cpu_idle", 0, {"state": state, "cpu_id": cpu})


def page(events: Sequence[Event], lost: int | bool = False, size: int = PAGE) -> bytes:
    """A page with these events; `lost` events are missing before it, True: an unknown number."""
    begin = reached = events[0].ts if events else 0
    body = bytearray()
    for event in events:
        data, delta = event.data(), event.ts - reached
        reached = event.ts
        if delta >= 1 << 27:
            body += struct.pack("<II", 30 | (delta & 0x7FFFFFF) << 5, delta >> 27)
            delta = 0
        if len(data) <= 28 * 4:
            body += struct.pack("<I", len(data) // 4 | delta << 5) + data
        else:
            body += struct.pack("<II", delta << 5, len(data) + 4) + data
    commit = len(body)
    if lost is not False:
        commit |= _MISSED
        if lost is not True:
            commit |= _STORED
            body += struct.pack("<Q", lost)
    assert 16 + len(body) <= size
    return (struct.pack("<QQ", begin, commit) + body).ljust(size, b"\0")


def option(number: int, data: bytes) -> bytes:
    """An option."""
    return struct.pack("<HI", number, len(data)) + data


def time_shift(
    peer: int, samples: Sequence[tuple[int, int, int, int]], cpus: int, flags: int = 0
) -> bytes:
    """The option TIME_SHIFT: (time, offset, scaling, fraction) for each sample, of each CPU."""
    data = struct.pack("<QII", peer, flags, cpus)
    for _ in range(cpus):
        data += struct.pack("<I", len(samples))
        for column, form in ((0, "Q"), (1, "q"), (2, "Q")):
            data += struct.pack(f"<{len(samples)}{form}", *(one[column] for one in samples))
    data += struct.pack(f"<{len(samples)}Q", *(one[3] for one in samples)) * cpus
    return option(12, data)


def guest(name: str, trace_id: int, tids: Sequence[int]) -> bytes:
    """The option GUEST: the host's thread for each CPU of the guest."""
    data = name.encode() + b"\0" + struct.pack("<QI", trace_id, len(tids))
    return option(13, data + b"".join(struct.pack("<II", *pair) for pair in enumerate(tids)))


def stats(cpu: int, **counts: int) -> bytes:
    """The option CPUSTAT of a CPU, such as `overrun=3`."""
    lines = [f"CPU: {cpu}"] + [f"{key.replace('_', ' ')}: {n}" for key, n in counts.items()]
    return option(2, ("\n".join(lines) + "\n").encode() + b"\0")


@dataclass(frozen=True)
class Buffer:
    """A buffer: the pages of each CPU."""

    cpus: dict[int, bytes]
    name: str = ""
    clock: str = "mono"
    page_size: int = PAGE


def _header_page(size: int) -> bytes:
    text = (
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
        "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
        "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
        f"\tfield: char data;\toffset:16;\tsize:{size - 16};\tsigned:1;\n"
    ).encode()
    event = b"# compressed entry header\n"
    parts = ((b"header_page", text), (b"header_event", event))
    return b"".join(name + b"\0" + struct.pack("<Q", len(data)) + data for name, data in parts)


def _format(name: str) -> bytes:
    lines, offset = [f"name: {name.split(':')[1]}", f"ID: {_IDS[name]}", "format:"], 0
    for kind, declared, size, signed in [*_COMMON, *_FIELDS[name]]:
        if "[" not in declared:
            offset += -offset % min(size, 8)
        lines.append(
            f"\tfield:{kind} {declared};\toffset:{offset};\tsize:{size};\tsigned:{int(signed)};"
        )
        offset += size
        if declared == "common_pid":
            lines.append("")
    return ("\n".join(lines) + '\n\nprint fmt: "x"\n').encode()


def _formats() -> bytes:
    systems: dict[str, list[str]] = {}
    for name in _FIELDS:
        systems.setdefault(name.split(":")[0], []).append(name)
    out = struct.pack("<I", len(systems))
    for system, names in systems.items():
        out += system.encode() + b"\0" + struct.pack("<I", len(names))
        for name in names:
            text = _format(name)
            out += struct.pack("<Q", len(text)) + text
    return out


def _cmdlines(names: dict[int, str]) -> bytes:
    text = "".join(f"{tid} {name}\n" for tid, name in names.items()).encode() + b"\0"
    return struct.pack("<Q", len(text)) + text


def _aligned(out: bytearray, size: int) -> int:
    out += bytes(-len(out) % size)
    return len(out)


def _beginning(version: bytes, page_size: int) -> bytearray:
    return bytearray(MAGIC + version + b"\0\0\x08" + struct.pack("<I", page_size))


def version_6(
    buffers: Sequence[Buffer], options: bytes = b"", names: dict[int, str] | None = None
) -> bytes:
    """A file of version 6; the first buffer is the top one."""
    top = buffers[0]
    out = _beginning(b"6", top.page_size)
    out += _header_page(top.page_size) + struct.pack("<I", 0) + _formats()
    out += struct.pack("<II", 0, 0) + _cmdlines(names or {})
    cpus = max(cpu for buffer in buffers for cpu in buffer.cpus) + 1
    out += struct.pack("<I", cpus) + b"options  \0" + options
    places = []
    for buffer in buffers[1:]:
        places.append(len(out) + 6)
        out += option(3, bytes(8) + buffer.name.encode() + b"\0")
    out += option(4, b"") + bytes(2)
    for number, buffer in enumerate(buffers):
        if number:
            struct.pack_into("<Q", out, places[number - 1], len(out))
        out += b"flyrecord\0"
        table = len(out)
        out += bytes(16 * cpus)
        clock = f"[{buffer.clock}]".encode()
        out += struct.pack("<Q", len(clock)) + clock
        for cpu in range(cpus):
            data = buffer.cpus.get(cpu, b"")
            struct.pack_into(
                "<QQ", out, table + 16 * cpu, _aligned(out, buffer.page_size), len(data)
            )
            out += data
    return bytes(out)


def packed(compression: str, data: bytes) -> bytes:
    """A compressed block."""
    if compression == "zlib":
        return zlib.compress(data)
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def _chunks(compression: str, data: bytes, size: int) -> bytes:
    parts = [data[n : n + size] for n in range(0, len(data), size)]
    out = struct.pack("<I", len(parts))
    for part in parts:
        inner = packed(compression, part)
        out += struct.pack("<II", len(inner), len(part)) + inner
    return out


def version_7(
    buffers: Sequence[Buffer],
    options: bytes = b"",
    names: dict[int, str] | None = None,
    compression: str = "none",
    raw_pages: bool = False,
) -> bytes:
    """A file of version 7: sections, compressed or not, and a list of options for each buffer.

    `raw_pages`: the pages of the buffers are already in chunks.
    """
    is_packed = compression != "none"
    out = _beginning(b"7", PAGE) + f"{compression}\0".encode() + b"1.0\0"
    place = len(out)
    out += bytes(8)

    def section(number: int, data: bytes, is_packed: bool = is_packed) -> int:
        at = len(out)
        if is_packed:
            inner = packed(compression, data)
            data = struct.pack("<II", len(inner), len(data)) + inner
        out.extend(struct.pack("<HHIQ", number, is_packed, 0, len(data)) + data)
        return at

    page_size = buffers[0].page_size
    parts = {16: _header_page(page_size), 17: bytes(4), 18: _formats(), 21: _cmdlines(names or {})}
    where = [option(key, struct.pack("<Q", section(key, data))) for key, data in parts.items()]
    first = b"".join(where) + option(4, b"local [mono] \0") + options
    struct.pack_into("<Q", out, place, len(out))
    following = section(0, first + option(0, bytes(8)), is_packed=False) + 16 + len(first) + 6
    for buffer in buffers:
        begin = section(3, b"", is_packed=False)
        struct.pack_into("<H", out, begin + 2, is_packed)
        entries = b""
        for cpu, plain in buffer.cpus.items():
            at = _aligned(out, buffer.page_size)
            in_chunks = is_packed and plain and not raw_pages
            size = 10 * buffer.page_size
            data = _chunks(compression, plain, size) if in_chunks else plain
            out += data
            entries += struct.pack("<IQQ", cpu, at, len(data))
        struct.pack_into("<Q", out, begin + 8, len(out) - begin - 16)
        text = buffer.name.encode() + b"\0" + buffer.clock.encode() + b"\0"
        counts = struct.pack("<II", buffer.page_size, len(buffer.cpus))
        listed = option(3, struct.pack("<Q", begin) + text + counts + entries)
        struct.pack_into("<Q", out, following, len(out))
        following = section(0, listed + option(0, bytes(8)), is_packed=False) + 16 + len(listed) + 6
    return bytes(out)


def pages(events: Iterable[Event], size: int = PAGE) -> bytes:
    """Pages with all these events, as many in each as fit."""
    out, current, used = b"", list[Event](), 16
    for event in events:
        needed = 16 + len(event.data())
        if used + needed > size:
            out += page(current, size=size)
            current, used = [], 16
        current.append(event)
        used += needed
    return out + page(current, size=size)


def write(path: Path, data: bytes) -> Path:
    """Writes a file; returns its path."""
    path.write_bytes(data)
    return path
