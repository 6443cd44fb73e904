"""Writes a long perf.data: the records of a real one, repeated end to end with shifted times.

`python benches/long_recording.py SOURCE TIMES TARGET` needs a recording whose samples contain their
times, as `perf record -a -e sched:...` writes it. Each copy begins where the last one ended.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SAMPLE = 9
_FIRST_OF_PERF_ITSELF = 64
_IP, _TID, _TIME, _ID, _CPU, _STREAM_ID, _IDENTIFIER = (1 << bit for bit in (0, 1, 2, 6, 7, 9, 16))
# These decide where the time of a record is.
_BEFORE_OR_AFTER = _IP | _TID | _TIME | _ID | _STREAM_ID | _CPU | _IDENTIFIER
_WORD = 8


def repeat(source: Path, times: int, target: Path) -> int:
    """Writes the copies, and returns how many records they contain.

    Raises ValueError for a file whose samples have different fields or no times.
    """
    data = source.read_bytes()
    magic, _, attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from(
        "<8s6Q", data
    )
    if magic != b"PERFILE2":
        raise ValueError(f"{source.name}: not a perf.data file")
    flags = {
        struct.unpack_from("<Q", data, at + 24)[0] & _BEFORE_OR_AFTER
        for at in range(attrs_at, attrs_at + attrs_size, attr_size)
    }
    if len(flags) != 1 or not min(flags) & _TIME:
        raise ValueError(f"{source.name}: its samples have different fields, or no times")
    words = np.frombuffer(data, "<u8", data_size // _WORD, data_at)
    places = _time_places(data, data_at, data_size, min(flags))
    places = places[words[places] > 0]
    length = int(words[places].max() - words[places].min()) + 1
    grown = (times - 1) * data_size
    features = [bit for bit in range(256) if data[72 + bit // 8] >> bit % 8 & 1]
    with target.open("wb") as file:
        file.write(data[:48] + struct.pack("<Q", data_size * times) + data[56:data_at])
        for copy in range(times):
            moved = words.copy()
            moved[places] += np.uint64(copy * length)
            file.write(moved.tobytes())
        after = data_at + data_size
        for place in range(len(features)):
            at, size = struct.unpack_from("<QQ", data, after + 16 * place)
            file.write(struct.pack("<QQ", at + grown, size))
        file.write(data[after + 16 * len(features) :])
    return len(places) * times


def _time_places(data: bytes, begin: int, size: int, flags: int) -> NDArray[np.int64]:
    """Where the time of each record of the kernel is, in words from the begin of the data."""
    in_sample = 1 + bool(flags & _IDENTIFIER) + bool(flags & _IP) + bool(flags & _TID)
    trailing = sum(bool(flags & bit) for bit in (_TIME, _ID, _STREAM_ID, _CPU, _IDENTIFIER))
    header = struct.Struct("<IHH").unpack_from
    places: list[int] = []
    at = begin
    while at < begin + size:
        kind, _, length = header(data, at)
        if length < _WORD or length % _WORD:
            raise ValueError(f"a record of {length} bytes at {at}")
        if kind == _SAMPLE:
            places.append((at - begin) // _WORD + in_sample)
        elif kind < _FIRST_OF_PERF_ITSELF:
            places.append((at + length - begin) // _WORD - trailing)
        at += length
    return np.array(places, np.int64)


if __name__ == "__main__":
    records = repeat(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    print(f"{sys.argv[3]}: {records:,} records")
