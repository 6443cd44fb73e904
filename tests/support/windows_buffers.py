"""Buffers as GetLogicalProcessorInformationEx(RelationAll) writes them, built record by record.

Layouts: SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX of winnt.h on a 64-bit system.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

# LOGICAL_PROCESSOR_RELATIONSHIP.
CORE, NODE, CACHE, PACKAGE, GROUP = range(5)
UNIFIED, INSTRUCTION, DATA = range(3)

Affinity = tuple[int, int]


def record(kind: int, body: bytes) -> bytes:
    """`Relationship` and `Size` before the rest."""
    return struct.pack("<II", kind, 8 + len(body)) + body


def affinities(parts: Sequence[Affinity]) -> bytes:
    """GROUP_AFFINITY of each (group, mask)."""
    return b"".join(struct.pack("<QH6x", mask, group) for group, mask in parts)


def core(efficiency_class: int, *parts: Affinity, smt: bool = False) -> bytes:
    """PROCESSOR_RELATIONSHIP of a core."""
    return record(CORE, struct.pack("<BB20xH", smt, efficiency_class, 1) + affinities(parts))


def package(*parts: Affinity) -> bytes:
    """PROCESSOR_RELATIONSHIP of a package."""
    return record(PACKAGE, struct.pack("<BB20xH", 0, 0, len(parts)) + affinities(parts))


def node(number: int, part: Affinity) -> bytes:
    """NUMA_NODE_RELATIONSHIP."""
    return record(NODE, struct.pack("<I18xH", number, 1) + affinities([part]))


def cache(level: int, kind: int, size: int, part: Affinity) -> bytes:
    """CACHE_RELATIONSHIP."""
    return record(
        CACHE, struct.pack("<BBHII18xH", level, 8, 64, size, kind, 1) + affinities([part])
    )


def groups(*masks: int) -> bytes:
    """GROUP_RELATIONSHIP with a PROCESSOR_GROUP_INFO for each mask."""
    infos = b"".join(struct.pack("<BB38xQ", 64, mask.bit_count(), mask) for mask in masks)
    return record(GROUP, struct.pack("<HH20x", len(masks), len(masks)) + infos)


def hybrid_8p8e() -> bytes:
    """Simulated: 8 P cores with siblings (CPUs 0-15), 8 E cores in two clusters of 4 (16-23)."""
    parts = [core(1, (0, 0b11 << 2 * rank), smt=True) for rank in range(8)]
    parts += [core(0, (0, 1 << cpu)) for cpu in range(16, 24)]
    for rank in range(8):
        pair = (0, 0b11 << 2 * rank)
        parts += [cache(1, DATA, 48 << 10, pair), cache(1, INSTRUCTION, 32 << 10, pair)]
        parts.append(cache(2, UNIFIED, 1280 << 10, pair))
    parts += [cache(1, DATA, 32 << 10, (0, 1 << cpu)) for cpu in range(16, 24)]
    parts += [cache(2, UNIFIED, 2 << 20, (0, 0xF << first)) for first in (16, 20)]
    whole = (0, (1 << 24) - 1)
    parts += [cache(3, UNIFIED, 30 << 20, whole), package(whole), node(0, whole), groups(whole[1])]
    return b"".join(parts)


def one_core_of_two() -> bytes:
    """Simulated: one core with two siblings."""
    both = (0, 0b11)
    caches = [cache(level, UNIFIED, 1 << 20, both) for level in (2, 3)]
    parts = [core(0, both, smt=True), cache(1, DATA, 48 << 10, both), *caches]
    return b"".join([*parts, package(both), node(0, both), groups(0b11)])


def server_96() -> bytes:
    """Simulated: two packages of 24 cores with siblings, a group of 48 CPUs each."""
    half = (1 << 48) - 1
    parts = [groups(half, half)]
    for group in range(2):
        parts += [core(0, (group, 0b11 << 2 * rank), smt=True) for rank in range(24)]
        parts += [package((group, half)), node(group, (group, half))]
        parts.append(cache(3, UNIFIED, 36 << 20, (group, half)))
    return b"".join(parts)
