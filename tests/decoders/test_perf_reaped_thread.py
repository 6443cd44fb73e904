"""Switch records of a thread whose exit status was collected before it left its CPU.

The kernel then writes -1 as its ids. When that happens depends on a race of two CPUs, so the ids
are replaced in a real recording, in which the kernel lost no such race.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from decoded import decoded
from fixture_files import fixture
from perf_versions import walked

EXIT, SWITCH_CPU_WIDE = 4, 15
OUT = 1 << 13
IDENTIFIER = 1 << 16
NOBODY = struct.pack("<2i", -1, -1)


def reaped_early(data: bytes) -> tuple[bytes, int]:
    """The same recording with -1 in the last switch of each exited thread, and their number."""
    start, size = struct.unpack_from("<2Q", data, 40)
    out, at, changed = bytearray(data), start, 0
    (attrs_at,) = struct.unpack_from("<Q", data, 24)
    (sample_type,) = struct.unpack_from("<Q", data, attrs_at + 24)
    cpu_from_end = 16 if sample_type & IDENTIFIER else 8
    exited: dict[int, int] = {}
    left: dict[int, int] = {}
    for kind, record in walked(data[start : start + size]):
        (cpu,) = struct.unpack_from("<I", record, len(record) - cpu_from_end)
        if kind == EXIT:
            (exited[cpu],) = struct.unpack_from("<i", record, 16)
        elif kind == SWITCH_CPU_WIDE:
            (misc,) = struct.unpack_from("<H", record, 4)
            other, own = (struct.unpack_from("<i", record, place)[0] for place in (12, 20))
            if misc & OUT and exited.get(cpu) == own:
                out[at + 16 : at + 24] = NOBODY
                left[cpu] = exited.pop(cpu)
                changed += 1
            elif not misc & OUT and left.pop(cpu, None) == other:
                out[at + 8 : at + 16] = NOBODY
        at += len(record)
    return bytes(out), changed


@pytest.mark.parametrize("name", ["switch_only", "loss"])
def test_switch_without_ids_is_of_the_thread_that_exited(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = fixture(name, tmp_path_factory)
    data, changed = reaped_early(whole.read_bytes())
    assert changed > 0
    copy = tmp_path / whole.name
    copy.write_bytes(data)
    before, after = decoded(whole), decoded(copy)
    assert before.keys() == after.keys()
    for table in ("context_switch", "thread", "loss"):
        assert after[table].equals(before[table]), table
