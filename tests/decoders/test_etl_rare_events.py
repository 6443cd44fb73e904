"""Rare event forms byte by byte: versions, headers, ids, places."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import etl_bytes
import pytest
from etl_bytes import Buffer, Log, perfinfo, process, switch, system, thread
from etl_drawn import TWO_CPUS, US, at, life, read, slices, two_cpus


def test_thread_ids_use_all_32_bits(tmp_path: Path) -> None:
    tids = (1 << 22, 0x8000_0004, 0xFFFF_FFFC)
    records = [process(at(0), 100, b"a.exe"), *(thread(at(0), 100, tid) for tid in tids)]
    for number, tid in enumerate(tids):
        records += slices(tid, 100 * number, 1)
    found = read(tmp_path, Log([Buffer(records)]))
    truth = [(0, tid, (100 * n + 10) * 1000, 50_000) for n, tid in enumerate(tids)]
    assert found.ran() == truth


@pytest.mark.parametrize("coding", ["utf-8", "cp1252"])
def test_later_record_versions_are_read(coding: str, tmp_path: Path) -> None:
    # Version 9 of everything, each with more data after the known fields.
    records = [
        process(at(0), 100, "Jörg.exe".encode(coding), version=9, tail=b"\1" * 40),
        thread(at(0), 100, 8, version=9),
        switch(at(10), 0, 8, state=2, version=9, tail=bytes(20)),
        switch(at(60), 8, 0, version=9, tail=bytes(20)),
    ]
    found = read(tmp_path, Log([Buffer(records)]))
    assert found.ran() == [(0, 8, 10_000, 50_000)]
    assert {(row["pid"], row["name"]) for row in found.of("process")} == {
        (0, "Idle"),
        (100, "Jörg.exe"),
    }


def test_events_that_are_too_short_are_reported(tmp_path: Path) -> None:
    hooks = (0x0524, 0x0532, 0x0F44, 0x1239, 0x053D)
    short = [perfinfo(hook, 9, at(0), b"\1\2\3") for hook in hooks]
    short.append(system(0x0303, 9, at(0), b"\1\2\3"))
    found = read(tmp_path, Log([Buffer(life() + short + slices(8, 0)), two_cpus()[1]]))
    assert found.ran() == TWO_CPUS
    problems = {row["what"]: row["count"] for row in found.of("problem")}
    assert problems["events shorter than any version of their layout"] == len(short)


def test_messages_alone_are_only_counted(tmp_path: Path) -> None:
    messages = [etl_bytes.message(at(us), 10 + us % 3, b"\1\0\0\0") for us in range(30)]
    found = read(tmp_path, Log([Buffer(messages)]))
    counts = {f"WPP message {number}": 10 for number in (10, 11, 12)}
    assert found.facts["records_by_event"] == {"EventTrace/Header": 1} | counts
    assert found.facts["documentation_only"] == ["WPP messages"]
    assert (found.of("context_switch"), found.of("problem")) == ([], [])
    (trace,) = found.of("trace")
    assert trace["duration_ns"] == 29_000


def test_more_than_256_cpus_are_read(tmp_path: Path) -> None:
    # 300 CPUs in five groups of 60; thread 8 may use two CPUs of the fourth.
    masks = struct.pack("<I5Q", 5, *[(1 << 60) - 1] * 5)
    confined = perfinfo(0x0535, 2, at(5), struct.pack("<QIHH", 0b11, 8, 3, 0))
    buffers = [
        Buffer([system(0x0B1A, 2, at(0), masks), *life(), confined], sequence=1),
        Buffer(slices(8, 0), cpu=181, sequence=2),
        Buffer(slices(9, 5), cpu=299, sequence=3),
    ]
    found = read(tmp_path, Log(buffers, cpus=300))
    assert found.ran() == [
        (cpu, tid, ts, dur) for old, tid, ts, dur in TWO_CPUS for cpu in ((181, 299)[old],)
    ]
    places = {row["cpu"]: (row["group_no"], row["number_in_group"]) for row in found.of("cpu")}
    assert (len(places), places[181], places[299]) == (300, (3, 1), (4, 59))
    assert [row["cpus"] for row in found.of("affinity_change")] == [[180, 181]]


def test_cpu_without_description_exists(tmp_path: Path) -> None:
    # Group and number of CPUs 0 and 1; records of CPU 3.
    idle_record = system(0x0B1B, 2, at(0), struct.pack("<IHBBHBB", 2, 0, 0, 0, 0, 1, 0))
    buffers = [
        Buffer([idle_record, *life(), *slices(8, 0)]),
        Buffer(slices(9, 5), cpu=3, sequence=2),
    ]
    found = read(tmp_path, Log(buffers))
    places = [(row["cpu"], row["number_in_group"]) for row in found.of("cpu")]
    assert places == [(0, 0), (1, 1), (2, None), (3, None)]


def test_counters_used_by_something_else_are_left_out(tmp_path: Path) -> None:
    names = struct.pack("<I", 1) + "TotalCycles\0".encode("utf-16-le")
    # From 100 us on the counter of CPU 0 is invalid; that of CPU 1 is valid.
    spoiled = perfinfo(0x0F31, 2, at(400), struct.pack("<IIIq", 0, 1, 19, at(100)))
    sound = perfinfo(0x0F31, 2, at(400), struct.pack("<II", 1, 0))
    body = struct.pack("<IIbbbbbbbbII", 8, 0, 8, 8, 0, 0, 0, 0, 2, 0, 0, 0)

    def counted(us: int) -> bytes:
        value = struct.pack("<Q", 1000 * us)
        return perfinfo(0x0524, 4 | 1 << 8, at(us), body, words=value)

    buffers = [
        Buffer([perfinfo(0x0F30, 2, at(0), names), *map(counted, (50, 100, 101, 300)), spoiled]),
        Buffer([*map(counted, (50, 300)), sound], cpu=1, sequence=2),
    ]
    found = read(tmp_path, Log(buffers))
    samples = [(row["cpu"], row["ts"], row["value"]) for row in found.of("counter_sample")]
    assert sorted(samples) == [
        (0, 50_000, 50_000),
        (0, 100_000, 100_000),
        (1, 50_000, 50_000),
        (1, 300_000, 300_000),
    ]
    places = [row["place"] for row in found.of("problem") if "counters of this CPU" in row["what"]]
    assert places == ["cpu 0"]


# The kernel's class Thread, its class PerfInfo, and KernelTraceControl's ImageID.
THREAD_CLASS = UUID("3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c").bytes_le
PERF_INFO = UUID("ce1dbfb4-137e-4da6-87b0-3f59aa102cbc").bytes_le
IMAGE_ID = UUID("b3e675d7-2554-4f18-830b-2762732560de").bytes_le


def body(old: int, new: int) -> bytes:
    """The payload of a CSwitch."""
    return switch(0, old, new, state=5 if old else 2)[16:]


@pytest.mark.parametrize(
    "switched",
    [
        lambda ts, old, new: system(0x0524, 4, ts, body(old, new), ids=(0, 77)),
        lambda ts, old, new: etl_bytes.classic(THREAD_CLASS, 36, 4, ts, body(old, new)),
        lambda ts, old, new: perfinfo(0x0524, 4, ts, body(old, new), pointer=4),
        lambda ts, old, new: perfinfo(0x0524, 0x8004, ts, body(old, new), words=bytes(8)),
    ],
    ids=["system header", "classic header", "32 bit", "PEBS index"],
)
def test_switch_is_read_under_any_header(switched: Any, tmp_path: Path) -> None:
    records = [switched(at(us), old, 8 - old) for us, old in ((10, 0), (60, 8), (110, 0))]
    found = read(tmp_path, Log([Buffer(life() + records)]))
    assert [(row["ts"], row["prev_state"]) for row in found.of("context_switch")] == [
        (10_000, 2),
        (60_000, 5),
        (110_000, 2),
    ]
    assert found.ran()[0] == (0, 8, 10_000, 50_000)


def test_marks_are_read_under_two_headers(tmp_path: Path) -> None:
    marks = [
        perfinfo(0x0F22, 0, at(5), b"first"),
        etl_bytes.classic(PERF_INFO, 34, 0, at(7), b"second\0"),
    ]
    found = read(tmp_path, Log([Buffer(marks)]))
    assert [(row["ts"], row["name"]) for row in found.of("mark")] == [
        (5_000, "first"),
        (7_000, "second"),
    ]


def test_image_records_from_merging_create_no_threads(tmp_path: Path) -> None:
    # It names the thread that loaded the image and another process.
    image = struct.pack("<QQII", 0x7FF0_0000, 0x1000, 500, 0) + "a.dll\0".encode("utf-16-le")
    switches = [switch(at(10), 0, 8, state=2), switch(at(60), 8, 0)]
    added = etl_bytes.classic(IMAGE_ID, 0, 2, at(20), image, ids=(500, 8))
    found = read(tmp_path, Log([Buffer([*switches, added])]))
    assert found.ran() == [(0, 8, 10_000, 50_000)]
    assert [(row["tid"], row["upid"]) for row in found.of("thread") if row["tid"]] == [(8, None)]
    assert [row["pid"] for row in found.of("process")] == [0]


def test_windows_7_32_bit_file_is_read(tmp_path: Path) -> None:
    # Process v3 with a user: TOKEN_USER of two pointers, then S-1-5-18.
    sid = struct.pack("<IIBB6sI", 0x8000_1000, 0, 1, 1, b"\0\0\0\0\0\5", 18)
    game = struct.pack("<IIIIiI", 0x8512_3456, 100, 4, 1, 259, 0x7F00_0000) + sid
    game += b"game.exe\0" + "game.exe -x\0".encode("utf-16-le")
    worker = struct.pack("<II7IIBBBB", 100, 8, *[0] * 4, 0b11, 0, 0, 0, 8, 5, 2, 0)
    records = [
        system(0x0303, 3, at(0), game, pointer=4),
        system(0x0503, 3, at(0), worker, pointer=4),
        switch(at(10), 0, 8, state=2, version=2, pointer=4),
        switch(at(60), 8, 0, version=2, pointer=4),
    ]
    log = Log([Buffer(records, flags=0, cpu=1 | 8 << 8)], os=(6, 1, 7601), pointer=4, hz=2_208_984)
    found = read(tmp_path, log)
    assert found.facts["header"]["os_version"] == "6.1.7601"
    assert [(p["pid"], p["name"]) for p in found.facts["processes"]] == [(100, "game.exe")]
    begin, end = (int(Fraction(us * US * 10**9, 2_208_984)) for us in (10, 60))
    assert found.ran() == [(1, 8, begin, end - begin)]
    assert [row["cpus"] for row in found.of("affinity")] == [[0, 1]]
    assert [row["base_priority"] for row in found.of("thread") if row["tid"]] == [8]


@pytest.mark.parametrize("start", [at(10) - (1 << 62), -(1 << 63), (1 << 63) - 1])
def test_extreme_start_of_a_dpc_is_damage(tmp_path: Path, start: int) -> None:
    # In ns, such times do not fit into 64 bits: 2^62 ticks of 100 ns before a time wrapped to it.
    dpc = perfinfo(0x0F44, 2, at(20), struct.pack("<qQ", start, 0))
    found = read(tmp_path, Log([Buffer([*life(), dpc])]))
    assert found.of("interrupt_slice") == []
    problems = [(row["place"], row["what"], row["count"]) for row in found.of("problem")]
    assert ("DPC and ISR", "an interrupt with an impossible start", 1) in problems


@pytest.mark.parametrize(
    ("start", "row"),
    [
        (at(10), (10_000, 10_000)),
        # It was running when the session started.
        (at(-50), (0, 20_000)),
        # The watchdog ends the system before an interrupt lasts 700 s.
        (at(-700_000_000), None),
    ],
)
def test_dpc_is_within_the_recording(
    start: int, row: tuple[int, int] | None, tmp_path: Path
) -> None:
    dpc = perfinfo(0x0F44, 2, at(20), struct.pack("<qQ", start, 0))
    found = read(tmp_path, Log([Buffer([*life(), dpc])]))
    interrupts = [(one["ts"], one["dur"]) for one in found.of("interrupt_slice")]
    assert interrupts == ([row] if row else [])
    assert found.of("trace")[0]["first_ns"] == 0
    states = [*found.of("cpu_state_other"), *found.of("sched_slice")]
    assert min(one["ts"] for one in states) == 0


def test_thread_that_runs_there_set_the_affinity(tmp_path: Path) -> None:
    confined = struct.pack("<QIHH", 0b10, 8, 0, 0)
    records = [
        *life(),
        # Nothing says yet who runs there.
        perfinfo(0x0535, 2, at(5), confined),
        switch(at(10), 0, 9, state=2),
        perfinfo(0x0535, 2, at(20), confined),
        switch(at(60), 9, 0),
        # The header names it.
        system(0x0535, 2, at(70), confined, ids=(100, 8)),
    ]
    found = read(tmp_path, Log([Buffer(records)]))
    tids = {row["utid"]: row["tid"] for row in found.of("thread")} | {None: None}
    assert [
        (row["ts"], tids[row["utid"]], row["cpus"], tids[row["setter_utid"]])
        for row in found.of("affinity_change")
    ] == [(5_000, 8, [1], None), (20_000, 8, [1], 9), (70_000, 8, [1], 8)]
