"""Recognizes Perfetto traces, systrace files, and ftrace texts by their content."""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from pathlib import Path

# Enough for the header of a text and for several lines.
_BEGIN = 65_536
_GZIP = b"\x1f\x8b"
# What other readers take.
_OTHERS = (b"PERFILE2", b"2ELIFREP", b"PK\x03\x04", b"\x17\x08\x44tracing")
_PACKET = 0x0A
# comm-pid (tgid) [cpu] flags time: event:
_LINE = re.compile(rb"^ *.{1,40}-\d+ +(?:\( *[\d-]+\) +)?\[\d+\] +(?:\S{4,5} +)?\d+\.\d+: +\w+: ")
_TRACER = re.compile(rb"^# tracer: \w+", re.MULTILINE)
_SYSTRACE = re.compile(rb'<script class="trace-data"|<!-- BEGIN TRACE -->')


def is_one(path: Path) -> bool:
    """Whether a file is a recording that trace_processor reads."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            begin = file.read(_BEGIN)
            size = path.stat().st_size
            if begin.startswith(_OTHERS):
                return False
            if begin.startswith(_GZIP):
                with contextlib.suppress(OSError, EOFError, zlib.error):
                    begin = gzip.GzipFile(fileobj=path.open("rb")).read(_BEGIN)
                    return _is_text(begin) or _is_proto(begin, None)
                return False
            return _is_text(begin) or _is_proto(begin, size)
    except OSError:
        return False


def _is_text(begin: bytes) -> bool:
    if _TRACER.search(begin) or (b"<html" in begin and _SYSTRACE.search(begin)):
        return True
    return any(_LINE.match(line) for line in begin.splitlines()[:100])


def _is_proto(begin: bytes, size: int | None) -> bool:
    """Whether whole packets follow each other, as far as can be seen."""
    place, seen = 0, 0
    while place < len(begin):
        if begin[place] != _PACKET:
            return False
        length, place = _varint(begin, place + 1)
        if length is None:
            # The number continues behind what was read.
            break
        if not length:
            return False
        if place < len(begin) and begin[place] & 7 not in (0, 1, 2, 5):
            return False
        place += length
        seen += 1
        if size is not None and place > size:
            # The last packet of a truncated trace.
            return seen > 1
    return seen > 0


def _varint(data: bytes, place: int) -> tuple[int | None, int]:
    """A number and the place behind it; None if the data ends in it, 0 if it has no end."""
    value = 0
    for shift in range(0, 35, 7):
        if place >= len(data):
            return None, place
        value |= (data[place] & 0x7F) << shift
        place += 1
        if data[place - 1] < 0x80:
            return value, place
    return 0, place
