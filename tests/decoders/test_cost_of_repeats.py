"""Eight times as many records of any kind take about eight times as long, not 64 times.

A coarse clock gives many records one time, and a damaged or hostile file may repeat whatever it
likes. Sound files are changed here: one record is repeated, with a word that counts up.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from decoded import decoded
from etl_bytes import Buffer, Log, perfinfo, process, ready, sampled_profile, switch, thread
from etl_drawn import at, life, slices

SEEDS = Path(__file__).resolve().parents[2] / "fixtures" / "fuzz"
FEW, MANY = 8_000, 64_000
# Shorter times are those of everything else.
LEAST_S = 0.05
# How much longer a record may take among many.
MOST_FACTOR = 3


def repeated(record: bytes, count: int, word: int | None) -> bytes:
    """The record many times; the 32-bit word at `word` counts up."""
    copies = np.frombuffer(record * count, dtype=np.uint8).reshape(count, len(record)).copy()
    if word is not None:
        values = copies[:, word : word + 4].copy().view(np.uint32)
        values[:, 0] += np.arange(count, dtype=np.uint32)
        copies[:, word : word + 4] = values.view(np.uint8)
    return copies.tobytes()


class Placed(NamedTuple):
    """A record of a perf.data: its type, and where it is."""

    kind: int
    start: int
    end: int


PERF = (SEEDS / "sound.perf.data").read_bytes()
DATA_START, DATA_SIZE = struct.unpack_from("<QQ", PERF, 40)


def perf_records() -> list[Placed]:
    found, place = [], DATA_START
    while place < DATA_START + DATA_SIZE:
        kind, _, size = struct.unpack_from("<IHH", PERF, place)
        found.append(Placed(kind, place, place + size))
        place += size
    return found


def with_perf_record(record: Placed, count: int, word: int | None) -> bytes:
    """The sound file with one record repeated behind itself."""
    copies = repeated(PERF[record.start : record.end], count, word)
    data_end = DATA_START + DATA_SIZE
    head = bytearray(PERF[:DATA_START])
    struct.pack_into("<Q", head, 48, DATA_SIZE + len(copies))
    features = bytearray(PERF[data_end:])
    bits = sum(value.bit_count() for value in struct.unpack_from("<4Q", PERF, 72))
    for number in range(bits):
        (offset,) = struct.unpack_from("<Q", features, 16 * number)
        struct.pack_into("<Q", features, 16 * number, offset + len(copies))
    return (
        bytes(head)
        + PERF[DATA_START : record.end]
        + copies
        + PERF[record.end : data_end]
        + bytes(features)
    )


def seconds(path: Path, content: bytes) -> float:
    """Processor time of reading a file."""
    path.write_bytes(content)
    begin = time.process_time()
    decoded(path)
    return time.process_time() - begin


@pytest.mark.parametrize("record", perf_records(), ids=lambda r: f"{r.kind}-{r.start}")
def test_repeated_record_of_perf_takes_its_share(record: Placed, tmp_path: Path) -> None:
    path = tmp_path / "repeated.perf.data"
    # The address, ids and time of a sample, and the first words of other records.
    for word in (None, 8, 16, 24, 32):
        if word is not None and word + 4 > record.end - record.start:
            continue
        few = seconds(path, with_perf_record(record, FEW, word))
        many = seconds(path, with_perf_record(record, MANY, word))
        assert many <= MOST_FACTOR * MANY / FEW * max(few, LEAST_S), word


@pytest.mark.parametrize("word", [None, 0, 16, 20, 24, 28])
def test_repeated_page_of_trace_cmd_takes_its_share(word: int | None, tmp_path: Path) -> None:
    sound = (SEEDS / "sound.dat").read_bytes()
    places = sound.index(b"flyrecord\0") + 10
    start, _ = struct.unpack_from("<QQ", sound, places)
    page = sound[start : start + 1024]

    def content(count: int) -> bytes:
        pages = repeated(page, count, word)
        head = bytearray(sound)
        struct.pack_into("<QQ", head, places, len(sound), len(pages))
        return bytes(head) + pages

    path = tmp_path / "repeated.dat"
    few, many = (seconds(path, content(count)) for count in (FEW // 8, MANY // 8))
    assert many <= MOST_FACTOR * MANY / FEW * max(few, LEAST_S)


# A few bytes each say that another buffer has the same list of thousands of CPUs.
def test_buffers_beyond_a_maximum_are_left_out(tmp_path: Path) -> None:
    cpus, buffers = 8192, 20_000
    sound = (SEEDS / "sound.dat").read_bytes()
    options = sound.index(b"options  \0") + 10
    lists = sound.index(b"flyrecord\0") + 10
    first = sound[options:lists] + bytes(16 * cpus - 32) + sound[lists:]

    def option(number: int, content: bytes) -> bytes:
        return struct.pack("<HI", number, len(content)) + content

    def described(place: int) -> bytes:
        buffer = option(3, struct.pack("<Q", place) + b"more\0")
        return sound[:options] + option(8, struct.pack("<I", cpus)) + buffer * buffers + first

    path = tmp_path / "buffers.dat"
    path.write_bytes(described(len(described(0))) + b"flyrecord\0" + bytes(16 * cpus))
    problems = {row["what"]: row["count"] for row in decoded(path)["problem"].to_pylist()}
    # 131,072 CPUs are read: those of the first buffer and of 15 more.
    assert problems["are more than are read, or have too many CPUs: left out"] == buffers - 15
    assert decoded(path)["loss"].num_rows > 0


@pytest.mark.parametrize(
    ("record", "words"),
    [
        # Time, then the first words of the payload.
        (switch(at(1000), 8, 9), (8, 16, 20)),
        (ready(at(1000), 8), (8, 16)),
        (sampled_profile(at(1000), 8, 0x1000), (8, 16, 24)),
        (perfinfo(0x0F2D, 2, at(1000), bytes(24)), (8, 16)),
        (thread(at(1000), 100, 10), (16, 32, 36)),
        (thread(at(1000), 100, 10, opcode=1), (16, 36)),
        (process(at(1000), 200, b"many.exe", opcode=1), (16, 32, 40)),
        (process(at(1000), 200, b"many.exe", opcode=39), (16, 32, 40)),
    ],
    ids=["switch", "ready", "sample", "counters", "rundown", "thread", "process", "defunct"],
)
def test_repeated_record_of_windows_takes_its_share(
    record: bytes, words: tuple[int, ...], tmp_path: Path
) -> None:
    record += bytes(-len(record) % 8)
    size = 1 << 16

    def content(count: int, word: int | None) -> bytes:
        copies = repeated(record, count, word)
        step = (size - 200) // len(record) * len(record)
        parts = [copies[place : place + step] for place in range(0, len(copies), step)]
        buffers = [Buffer(life() + slices(8, 0))]
        buffers += [Buffer([part], sequence=2 + number) for number, part in enumerate(parts)]
        return Log(buffers, buffer_size=size).encoded()

    path = tmp_path / "repeated.etl"
    for word in (None, *words):
        few, many = (seconds(path, content(count, word)) for count in (FEW, MANY))
        assert many <= MOST_FACTOR * MANY / FEW * max(few, LEAST_S), word


# As on a kernel whose clock counts jiffies, or with the system time of older Windows.
def test_many_switches_at_one_time_are_analyzed(tmp_path: Path) -> None:
    switches = [record for record in perf_records() if record.end - record.start == 168]
    path = tmp_path / "tied.perf.data"
    path.write_bytes(with_perf_record(switches[2], MANY, 16))
    begin = os.times()
    subprocess.run(
        [Path(sys.executable).parent / "analyze", path, "-o", tmp_path / "out"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    end = os.times()
    # A join of these records with each other would take minutes.
    assert end.children_user - begin.children_user < 60
