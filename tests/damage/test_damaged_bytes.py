"""Damaged bytes of a perf.data that no other test has: claims are limited to what is known."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from damage import judge, sources
from damage.bench import Answers, Bench
from damage.stream import Plan
from schedlens.load.recording import Recording

pytestmark = pytest.mark.slow

SWITCH_CPU_WIDE = 15


def loaded(source: sources.Source, data: bytes, folder: Path) -> tuple[Bench, Answers]:
    path = folder / "damaged.perf.data"
    path.write_bytes(data)
    bench = Bench()
    recording: Recording = sources.with_trace(source, path, True)
    answers = bench.load(recording)
    assert isinstance(answers, Answers)
    bench.read_states(answers)
    return bench, answers


def records(data: bytes) -> list[tuple[int, int, int]]:
    """(offset, size, kind) of the records in the data section."""
    at, size = struct.unpack_from("<QQ", data, 40)
    found, position = [], at
    while position < at + size:
        kind, _, length = struct.unpack_from("<IHH", data, position)
        found.append((position, length, kind))
        position += length
    return found


def test_record_that_is_too_long_is_damage(tmp_path: Path) -> None:
    source = sources.draw(60, "real", tmp_path)
    data = bytearray(source.file.damaged(Plan(), 0))
    own = records(bytes(data))
    starts = {position for position, _, _ in own}
    # Its size hides the records up to another one.
    place, size = next(
        (position, size)
        for position, _, kind in own[len(own) // 2 :]
        if kind == SWITCH_CPU_WIDE
        for size in range(65_528, 20_000, -8)
        if position + size in starts
    )
    struct.pack_into("<H", data, place + 6, size)
    bench, _ = loaded(source, bytes(data), tmp_path)
    row = bench.con.execute("SELECT count(*) FROM loss WHERE signalled_by = 'damaged'").fetchone()
    assert row is not None
    assert row[0] > 0
    # The records behind it are read.
    [(count,)] = bench.con.execute("SELECT sum(count) FROM record_count").fetchall()
    assert count > len(own) * 0.9
    bench.close()


def test_swapped_runs_of_records_make_no_false_states(tmp_path: Path) -> None:
    source = sources.draw(501, "perf", tmp_path)
    whole_bench, whole = loaded(source, source.file.damaged(Plan(), 501), tmp_path)
    data = source.file.damaged(Plan(), 501)
    own = [position for position, _, _ in records(data)]
    cut = len(own) // 2
    for count in (20, 40):
        first, second, third = own[cut], own[cut + count], own[cut + 2 * count]
        swapped = data[:first] + data[second:third] + data[first:second] + data[third:]
        bench, answers = loaded(source, swapped, tmp_path)
        edge = (whole.duration_ns - whole.first_ns) // 10
        whole.window = (whole.first_ns + edge, whole.duration_ns - edge)
        shift = judge.shift_ns(answers, whole)
        answers.window = (whole.window[0] - shift, whole.window[1] - shift)
        found = judge.judge([], answers, whole)
        assert {key: column.wrong for key, column in found.items() if column.wrong} == {}
        assert found["cpu_state", "state"].rows > 100
        bench.close()
    whole_bench.close()
