"""Writes a perf.data again as another version of perf, or another machine, would lay it out.

Sizes and numbers are those of the kernel's include/uapi/linux/perf_event.h and of perf's
util/header.h and event.h. It shares nothing with the reader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TID, _TIME, _ID, _STREAM_ID, _CPU, _IDENTIFIER = 2, 4, 1 << 6, 1 << 9, 1 << 7, 1 << 16
_SAMPLE_ID_ALL = 1 << 18
SAMPLE, ATTR, COMPRESSED, COMPRESSED2 = 9, 64, 81, 83
_TRACING_DATA, _OSRELEASE, _VERSION, _ARCH, _EVENT_DESC, _E_MACHINE = 1, 4, 5, 6, 12, 32
# Of these records, the size does not include what follows: tracing data and AUX buffers.
_WITH_PAYLOAD = (66, 71)


@dataclass(frozen=True)
class Version:
    """What one version of perf writes differently from another."""

    name: str
    attr_size: int
    last_feature: int
    """The highest feature that it knows; those above are left out."""
    kernel_records: tuple[int, ...] = ()
    """Kinds of records of the kernel to insert, which no table is made from."""
    own_records: tuple[int, ...] = ()
    """Kinds of records of perf itself to insert."""
    arch: str = "x86_64"
    e_machine: int | None = None
    page_size: int = 4096
    tail: bytes = b""
    """What the unknown rest of each attribute contains."""
    more: dict[int, bytes] = field(default_factory=dict)
    """Features that the original does not have."""


# THROTTLE, NAMESPACES, KSYMBOL, BPF_EVENT, CGROUP, TEXT_POKE, AUX_OUTPUT_HW_ID,
# CALLCHAIN_DEFERRED; FINISHED_INIT, BPF_METADATA, SCHEDSTAT_CPU, SCHEDSTAT_DOMAIN.
VERSIONS = (
    Version("5.0", 112, 26, (5, 16, 17, 18)),
    Version("5.4", 120, 27, (5, 17, 18)),
    Version("5.10", 120, 28, (17, 19, 20)),
    Version("5.15", 128, 30, (19, 20, 21)),
    Version("6.3", 136, 31, (19, 20, 21), (82,)),
    Version("6.17", 136, 31, (20, 21), (82, 84)),
    Version("7.0", 144, 33, (21, 22), (82, 84, 85, 86), more={33: struct.pack("<I", 64)}),
    # A later one, with features, records and fields that nothing is known of.
    Version("9.0", 176, 40, (22, 29), (90,), tail=b"\xa5" * 32, more={39: b"anything"}),
    Version("6.17 on arm64", 136, 32, (21,), (82,), "aarch64", 183, 4096),
    Version("6.17 on arm64, pages of 16 KiB", 136, 32, (), (), "aarch64", 183, 16_384),
    Version("5.15 on arm64, pages of 64 KiB", 128, 30, (19,), (), "aarch64", None, 65_536),
)


def rewritten(data: bytes, version: Version) -> bytes:
    """The same recording as this version writes it."""
    if struct.unpack_from("<Q", data, 8)[0] == 16:
        return data[:16] + _records(data[16:], version, _attrs_of_pipe(data[16:]))
    old_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from("<5Q", data, 16)
    parts = [data[at : at + old_size] for at in range(attrs_at, attrs_at + attrs_size, old_size)]
    attrs = [(part[:-16], *struct.unpack("<2Q", part[-16:])) for part in parts]
    features = _features(data, data_at + data_size)
    records = _records(data[data_at : data_at + data_size], version, attrs[0][0])

    out = bytearray(104)
    placed = []
    for _, at, size in attrs:
        placed.append((len(out), size))
        out += data[at : at + size]
    new_attrs_at = len(out)
    for (attr, _, _), (at, size) in zip(attrs, placed, strict=True):
        out += _attr(attr, version) + struct.pack("<2Q", at, size)
    new_data_at = len(out)
    out += records
    chosen = _chosen(features, version)
    sections = len(out)
    out += bytes(16 * len(chosen))
    bits = 0
    for place, (number, content) in enumerate(sorted(chosen.items())):
        struct.pack_into("<2Q", out, sections + 16 * place, len(out), len(content))
        out += content
        bits |= 1 << number
    struct.pack_into(
        "<8s8Q", out, 0, b"PERFILE2", 104, version.attr_size + 16,
        new_attrs_at, len(attrs) * (version.attr_size + 16), new_data_at, len(records), 0, 0,
    )  # fmt: skip
    out[72:104] = bits.to_bytes(32, "little")
    return bytes(out)


def with_records(data: bytes, records: list[bytes]) -> bytes:
    """The same file with these records before all others."""
    data_at, data_size = struct.unpack_from("<2Q", data, 40)
    more = b"".join(records)
    rest = bytearray(data[data_at + data_size :])
    bits = int.from_bytes(data[72:104], "little")
    for place in range(bits.bit_count()):
        at, size = struct.unpack_from("<2Q", rest, 16 * place)
        struct.pack_into("<2Q", rest, 16 * place, at + len(more), size)
    head = bytearray(data[:data_at])
    struct.pack_into("<Q", head, 48, data_size + len(more))
    return bytes(head) + more + data[data_at : data_at + data_size] + bytes(rest)


def _attr(attr: bytes, version: Version) -> bytes:
    """A `perf_event_attr` of this version's size, which it names."""
    made = bytearray(attr[: version.attr_size].ljust(version.attr_size, b"\0"))
    if version.tail:
        made[-len(version.tail) :] = version.tail
    struct.pack_into("<I", made, 4, version.attr_size)
    return bytes(made)


def _features(data: bytes, at: int) -> dict[int, bytes]:
    bits = int.from_bytes(data[72:104], "little")
    found = {}
    for number in (bit for bit in range(256) if bits >> bit & 1):
        begin, size = struct.unpack_from("<2Q", data, at)
        found[number] = data[begin : begin + size]
        at += 16
    return found


def _text(words: str) -> bytes:
    """A string as features contain it."""
    raw = words.encode() + b"\0"
    padded = raw.ljust(-(-len(raw) // 64) * 64, b"\0")
    return struct.pack("<I", len(padded)) + padded


def _chosen(features: dict[int, bytes], version: Version) -> dict[int, bytes]:
    """The features that this version and machine have."""
    found = {n: content for n, content in features.items() if n <= version.last_feature}
    found |= version.more
    if _EVENT_DESC in found:
        found[_EVENT_DESC] = _event_desc(found[_EVENT_DESC], version)
    found[_VERSION] = _text(version.name.split()[0])
    found[_ARCH] = _text(version.arch)
    if version.e_machine is not None:
        found[_E_MACHINE] = struct.pack("<II", version.e_machine, 0)
    if _TRACING_DATA in found:
        content = bytearray(found[_TRACING_DATA])
        # Magic, version, byte order, size of long; then the size of a page.
        at = content.index(b"\0", 10) + 3
        assert struct.unpack_from("<I", content, at) == (4096,)
        struct.pack_into("<I", content, at, version.page_size)
        found[_TRACING_DATA] = bytes(content)
    return found


def _event_desc(content: bytes, version: Version) -> bytes:
    number, old_size = struct.unpack_from("<II", content)
    out, at = struct.pack("<II", number, version.attr_size), 8
    for _ in range(number):
        out += _attr(content[at : at + old_size], version)
        at += old_size
        ids, length = struct.unpack_from("<II", content, at)
        rest = 8 + length + 8 * ids
        out += content[at : at + rest]
        at += rest
    return out


def walked(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and bytes of each record, with what follows it."""
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if kind in _WITH_PAYLOAD:
            size += -(-struct.unpack_from("<I", data, at + 8)[0] // 8) * 8
        yield kind, data[at : at + size]
        at += size


def _attrs_of_pipe(data: bytes) -> bytes:
    return next(record[8:] for kind, record in walked(data) if kind == ATTR)


def _records(data: bytes, version: Version, attr: bytes) -> bytes:
    """The records in the form of this version, with others of it in between."""
    sample_type, flags = (struct.unpack_from("<Q", attr, at)[0] for at in (24, 40))
    assert flags & _SAMPLE_ID_ALL
    out, samples = [], 0
    for kind, record in walked(data):
        made = record
        if kind == ATTR:
            size = struct.unpack_from("<I", record, 12)[0]
            made = _record(ATTR, _attr(record[8 : 8 + size], version) + record[8 + size :])
        elif kind == COMPRESSED and version.last_feature >= 32:
            packed = record[8:]
            padded = packed.ljust(-(-len(packed) // 8) * 8, b"\0")
            made = _record(COMPRESSED2, struct.pack("<Q", len(packed)) + padded)
        out.append(made)
        if kind == SAMPLE:
            samples += 1
            if samples % 50 == 1:
                trailer = _trailer(record, sample_type)
                out += [_record(one, bytes(16) + trailer) for one in version.kernel_records]
                out += [_record(one, bytes(24)) for one in version.own_records]
    return b"".join(out)


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack("<IHH", kind, 0, 8 + len(content)) + content


def _trailer(sample: bytes, sample_type: int) -> bytes:
    """The `sample_id` of a record that the kernel writes at the time of a sample."""
    fields: dict[int, Any] = {}
    at = 8
    for bit in (_IDENTIFIER, 1, _TID, _TIME, 8, _ID, _STREAM_ID, _CPU):
        if sample_type & bit:
            fields[bit] = sample[at : at + 8]
            at += 8
    order = (_TID, _TIME, _ID, _STREAM_ID, _CPU, _IDENTIFIER)
    return b"".join(fields[bit] for bit in order if bit in fields)
