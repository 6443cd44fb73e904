"""Dumps of just-in-time compilers, record by record (jitdump-specification.txt of Linux)."""

from __future__ import annotations

import struct

LOAD, MOVE, DEBUG_INFO = 0, 1, 2
_PID = 7


def header(*, flags: int = 0, pid: int = _PID) -> bytes:
    """`JITHEADER`; flag 1: times are ticks of the processor."""
    return b"DTiJ" + struct.pack("<5IQQ", 1, 40, 62, 0, pid, 0, flags)


def load(ts: int, address: int, code: bytes, name: str, number: int = 0) -> bytes:
    """`JIT_CODE_LOAD`."""
    words = struct.pack("<2I4Q", _PID, _PID, address, address, len(code), number)
    return _record(LOAD, ts, words + name.encode() + b"\0" + code)


def move(ts: int, old: int, new: int, size: int, number: int = 0) -> bytes:
    """`JIT_CODE_MOVE`."""
    return _record(MOVE, ts, struct.pack("<2I5Q", _PID, _PID, new, old, new, size, number))


def lines(ts: int, address: int, entries: list[tuple[int, int, bytes]]) -> bytes:
    """`JIT_CODE_DEBUG_INFO`: address, line and file of each entry."""
    body = struct.pack("<QQ", address, len(entries))
    body += b"".join(struct.pack("<QII", at, line, 0) + file + b"\0" for at, line, file in entries)
    return _record(DEBUG_INFO, ts, body)


def _record(kind: int, ts: int, body: bytes) -> bytes:
    return struct.pack("<IIQ", kind, 16 + len(body), ts) + body


def dump() -> bytes:
    """A dump with each kind of record, the last one unknown."""
    return (
        header()
        + lines(4, 0x1000, [(0x1000, 8, b"a.js"), (0x1004, 9, b"\xff"), (0x1008, 7, b"b.js")])
        + load(5, 0x1000, bytes(16), "fib")
        + move(6, 0x1000, 0x2000, 16)
        + load(8, 0x1000, bytes(32), "main", 1)
        + _record(9, 9, b"unknown")
    )
