"""Samples, stacks and images of Windows recordings: drawn by hand, and real ones counted by another
decoder."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import shared_files
from decoded import decoded
from etl_bytes import (
    Buffer,
    Log,
    image,
    ready,
    rsds,
    sampled_profile,
    stack_definition,
    stack_key,
    stack_walk,
    switch,
)
from etl_drawn import Read, at, life, read
from etl_files import needs, written
from etl_truth import load
from loaded_recording import loaded

from schedlens import _decoders

KERNEL = 0xFFFFF800_00000000
GUID = bytes(range(16))
PDB = "0302010005040706" + "08090A0B0C0D0E0F" + "B"
IDS = (100, 8)
IMAGES = [
    image(at(0), 0, KERNEL, 0x10000, r"\SystemRoot\system32\ntoskrnl.exe"),
    image(at(0), 100, 0x10000, 0x1000, r"\Device\HarddiskVolume3\drawn.exe"),
    rsds(at(0), 100, 0x10000, GUID, 11, "drawn.pdb"),
]
Stack = list[tuple[str | None, int]]


def stacks(found: Read, table: str, column: str = "stack_id") -> list[tuple[int, Stack | None]]:
    """Rows with their time in us, and the file's name and address of each function, innermost
    first."""
    frames = {row["frame_id"]: row for row in found.of("frame_symbol")}
    nodes = {row["stack_id"]: row for row in found.of("stack")}

    def functions(node: int | None) -> Stack:
        stack: Stack = []
        while node is not None:
            frame = frames[nodes[node]["frame_id"]]
            module = frame["module"]
            stack.append((module and module.rpartition("\\")[2], frame["address"]))
            node = nodes[node]["parent_id"]
        return stack

    return [
        (row["ts"] // 1000, None if row[column] is None else functions(row[column]))
        for row in found.of(table)
    ]


# Kernel and user part of a stack, the innermost address first.
IN_KERNEL = [KERNEL + 0x20, KERNEL + 0x10]
IN_USER = [0x10040, 0x10030]
WHOLE: Stack = [
    ("ntoskrnl.exe", 0x20), ("ntoskrnl.exe", 0x10), ("drawn.exe", 0x40), ("drawn.exe", 0x30),
]  # fmt: skip


def test_parts_of_stacks_belong_to_the_sample_of_their_time_and_thread(tmp_path: Path) -> None:
    # us   10           20          30      40
    #      sample of 8  sample of 9  of 8    of 8
    # then the kernel and the user part of the first, in both forms, and the user part of the third
    records = [
        *life(), *IMAGES,
        sampled_profile(at(10), 8, IN_KERNEL[0]),
        sampled_profile(at(20), 9, 0x10050),
        stack_walk(at(21), at(10), IDS, IN_KERNEL),
        stack_walk(at(22), at(10), IDS, IN_USER),
        sampled_profile(at(30), 8, 0x10060),
        stack_key(at(31), at(30), IDS, 77, kernel=False),
        sampled_profile(at(40), 8, 0x10060),
        stack_key(at(41), at(40), IDS, 78, kernel=True),
        stack_key(at(42), at(40), IDS, 77, kernel=False),
        # When the event at 30 happened the key still stood for another stack.
        stack_definition(at(30), 77, [0x10070], opcode=0x23),
        stack_definition(at(90), 77, IN_USER, opcode=0x23),
        stack_definition(at(91), 78, IN_KERNEL),
        stack_definition(at(92), 77, [0x10070]),
    ]  # fmt: skip
    found = read(tmp_path, _log(records))
    assert stacks(found, "sample") == [(10, WHOLE), (20, None), (30, WHOLE[2:]), (40, WHOLE)]
    assert {row["event"] for row in found.of("sample")} == {"SampledProfile"}
    tids = {row["utid"]: row["tid"] for row in found.of("thread")}
    assert [tids[row["utid"]] for row in found.of("sample")] == [8, 9, 8, 8]
    of_file = {row["module"]: row for row in found.of("frame_symbol")}
    program = of_file[r"\Device\HarddiskVolume3\drawn.exe"]
    assert (program["build_id"], program["is_kernel"]) == (PDB, False)
    assert of_file[r"\SystemRoot\system32\ntoskrnl.exe"]["is_kernel"] is True


def test_a_stack_of_a_switch_is_that_of_the_thread_switched_in(tmp_path: Path) -> None:
    # CPU 0: 8 leaves at 10, 9 runs, 8 is back at 30; its stack then shows where it had waited
    records = [
        *life(), *IMAGES,
        switch(at(5), 0, 8, state=2, reason=0),
        switch(at(10), 8, 9),
        switch(at(30), 9, 8),
        stack_walk(at(31), at(30), IDS, IN_KERNEL),
        stack_walk(at(33), at(30), IDS, IN_USER),
        # The thread that leaves at that time is not the one whose stack is recorded.
        stack_walk(at(34), at(10), IDS, IN_USER),
        switch(at(40), 8, 0),
    ]  # fmt: skip
    path = tmp_path / "made.etl"
    path.write_bytes(_log(records).encoded())
    found = Read(path)
    entered = stacks(found, "context_switch", "next_stack_id")
    assert entered == [(5, None), (10, None), (30, WHOLE), (40, None)]
    with loaded(path, tmp_path) as con:
        left = con.execute(
            "SELECT ts // 1000, tid, frames FROM left_stack JOIN thread USING (utid) "
            "JOIN stack_text USING (stack_id)"
        ).fetchall()
        assert left == [(10, 8, 4)]
        off = con.execute(
            "SELECT left_ns // 1000, state, dur_ns // 1000 FROM off_cpu_slice "
            "WHERE stack_id IS NOT NULL"
        ).fetchall()
        assert off == [(10, "waiting", 20)]
        covered = con.execute(
            "SELECT kind, records, with_stack, named_frames FROM stack_coverage"
        ).fetchall()
        # Of the threads switched in at 5, 10 and 30, one has a stack.
        assert covered == [("switch", 3, 1, 0)]
        ((quality,),) = con.execute("SELECT round(with_stack_pct) FROM trace_quality").fetchall()
        assert quality == 33


def test_a_stack_of_a_wakeup_is_that_of_the_waker(tmp_path: Path) -> None:
    # CPU 0: 8 wakes 9 at 20, and again at 30, without a stack; 9 runs from 40 on
    records = [
        *life(), *IMAGES,
        switch(at(5), 0, 9, state=2, reason=0),
        switch(at(10), 9, 8),
        ready(at(20), 9),
        stack_walk(at(21), at(20), IDS, IN_KERNEL),
        stack_walk(at(22), at(20), IDS, IN_USER),
        ready(at(30), 9),
        switch(at(40), 8, 9),
    ]  # fmt: skip
    path = tmp_path / "made.etl"
    path.write_bytes(_log(records).encoded())
    found = Read(path)
    assert stacks(found, "wakeup") == [(20, WHOLE), (30, None)]
    tids = {row["utid"]: row["tid"] for row in found.of("thread")}
    wakers = [(tids[row["waker_utid"]], tids[row["utid"]]) for row in found.of("wakeup")]
    assert wakers == [(8, 9), (8, 9)]
    with loaded(path, tmp_path) as con:
        # The second wakeup changes nothing: the thread was ready already.
        rows = con.execute("SELECT wakings, stack_id IS NOT NULL FROM waker_stack").fetchall()
    assert rows == [(1, True)]


def test_images_are_where_they_were_at_the_time_of_the_stack(tmp_path: Path) -> None:
    # a.dll is at 0x20000 until it is unloaded at 15, b.dll from 25 on; c.dll, which only the
    # rundown at the end lists, has been at 0x30000 from the start
    records = [
        *life(),
        image(at(1), 100, 0x20000, 0x1000, r"c:\a.dll", hook=0x030A),
        *_sampled(10, 0x20010),
        image(at(15), 100, 0x20000, 0x1000, r"c:\a.dll", hook=0x1402),
        *_sampled(20, 0x20010),
        image(at(25), 100, 0x20000, 0x1000, r"c:\b.dll", hook=0x030A),
        *_sampled(30, 0x20010),
        *_sampled(40, 0x30010),
        image(at(90), 100, 0x30000, 0x1000, r"c:\c.dll", hook=0x1404),
    ]
    found = read(tmp_path, _log(records))
    assert stacks(found, "sample") == [
        (10, [("a.dll", 0x10)]), (20, [(None, 0x20010)]), (30, [("b.dll", 0x10)]),
        (40, [("c.dll", 0x10)]),
    ]  # fmt: skip


def test_keys_without_a_definition_are_counted(tmp_path: Path) -> None:
    records = [*life(), sampled_profile(at(10), 8, 0x10060)]
    records += [stack_key(at(11), at(10), IDS, 77, kernel=False)]
    found = read(tmp_path, _log(records))
    assert stacks(found, "sample") == [(10, None)]
    counted = {row["what"].partition(":")[0]: row["count"] for row in found.of("problem")}
    assert counted["parts of stacks whose key no record defines"] == 1


@pytest.mark.parametrize("pointer", [4, 8])
def test_addresses_have_the_width_of_the_system(tmp_path: Path, pointer: int) -> None:
    high = 0x8000_0010 if pointer == 4 else KERNEL + 0x10
    records = [
        *life(),
        sampled_profile(at(10), 8, high, pointer=pointer),
        stack_walk(at(11), at(10), IDS, [high, 0x10040], pointer=pointer),
    ]
    found = read(tmp_path, _log(records))
    signed = struct.unpack("<q", struct.pack("<Q", high))[0]
    assert stacks(found, "sample") == [(10, [("[kernel]", signed), (None, 0x10040)])]


def test_payloads_that_are_too_short_are_problems(tmp_path: Path) -> None:
    short = [
        sampled_profile(at(10), 8, 1)[:-8], stack_walk(at(11), at(10), IDS, [])[:-8],
    ]  # fmt: skip
    fixed = [struct.pack("<HBBH", 2, 17, 0xC0, len(one)) + one[6:] for one in short]
    found = read(tmp_path, _log([*life(), *fixed]))
    counted = {row["what"]: row["count"] for row in found.of("problem")}
    assert counted["events shorter than any version of their layout"] == 2


def test_damaged_stacks_and_images_are_read_or_refused(tmp_path: Path) -> None:
    records = [
        *life(), *IMAGES,
        sampled_profile(at(10), 8, IN_KERNEL[0]),
        stack_walk(at(11), at(10), IDS, IN_KERNEL),
        switch(at(12), 0, 8, state=2, reason=0),
        stack_key(at(13), at(12), IDS, 77, kernel=False),
        stack_definition(at(14), 77, IN_USER),
        image(at(15), 100, 0x10000, 0x1000, "a.dll", hook=0x1402),
    ]  # fmt: skip
    whole = _log(records).encoded()
    begin = whole.index(records[len(life())])
    rng = random.Random(23)
    outcomes: set[tuple[int, ...]] = set()
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(begin, begin + 900)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        path = tmp_path / "damaged.etl"
        path.write_bytes(damaged)
        tables = decoded(path)
        rows = {
            name: tables[name].to_pylist() if name in tables else [] for name in ("stack", "sample")
        }
        depths = {row["stack_id"]: row["depth"] for row in rows["stack"]}
        for row in rows["stack"]:
            parent = row["parent_id"]
            assert row["depth"] == (0 if parent is None else depths[parent] + 1)
        assert {row["stack_id"] for row in rows["sample"]} - {None} <= set(depths)
        outcomes.add(tuple(sorted(depths.values())))
    # Depths of the functions: of both parts, of one, of none.
    assert outcomes == {(0, 0, 1, 1), (0, 1), ()}


def _log(records: list[bytes]) -> Log:
    return Log([Buffer(records)])


def _sampled(us: int, address: int) -> list[bytes]:
    """A sample of thread 8 at an address, with its stack."""
    return [
        sampled_profile(at(us), 8, address),
        stack_walk(at(us) + 1, at(us), IDS, [address]),
    ]


NAME = "pv_net452_x64"
# Stacks, keys deleted and listed, kernel and user parts by key.
KINDS = ["1820", "1823", "1824", "1825", "1826"]


@needs("corpus")
def test_a_real_recording_has_as_many_samples_and_stacks_as_another_decoder_counts(
    tmp_path: Path,
) -> None:
    shared_files.need("etw/truth/traceevent/corpus.json")
    truth = load("traceevent/corpus.json")["files"][NAME]["classes"]
    path = written(f"{NAME}.etl", tmp_path)
    found = Read(path)
    samples = found.of("sample")
    assert len(samples) == truth["0f2e v2"]["count"] == 79_528
    # Put together again from the fields of the events, which are checked elsewhere.
    by_stamp: dict[tuple[int, int], list[int]] = defaultdict(list)
    defined: dict[int, list[tuple[int, int]]] = defaultdict(list)
    kinds: Counter[str] = Counter()
    events = _events(path)
    for event in events:
        fields, kind = event["fields"], event["id"]
        kinds[kind] += 1
        if kind in ("1823", "1824"):
            defined[fields["StackKey"]].append((event["clock"], len(fields["Stack"])))
    for event in events:
        fields, kind = event["fields"], event["id"]
        if kind not in ("1820", "1825", "1826"):
            continue
        stamp = (fields["EventTimeStamp"], fields["StackThread"])
        if kind == "1820":
            by_stamp[stamp].append(len(fields["Stack"]))
        else:
            later = [n for ts, n in sorted(defined[fields["StackKey"]]) if ts >= event["clock"]]
            by_stamp[stamp] += later[:1]
    assert kinds == {kind: truth[f"{kind} v2"]["count"] for kind in KINDS}
    clock = found.facts["start_clock"], found.facts["clock_hz"]
    tids = {row["utid"]: row["tid"] for row in found.of("thread")}
    depth = {row["stack_id"]: row["depth"] for row in found.of("stack")}
    stamps = {
        ((raw - clock[0]) * 1_000_000_000 // clock[1], tid): sum(lengths)
        for (raw, tid), lengths in by_stamp.items()
        if lengths
    }
    expected = {
        (row["ts"], tids[row["utid"]], row["cpu"]): stamps.get((row["ts"], tids[row["utid"]]))
        for row in samples
    }
    got = {
        (row["ts"], tids[row["utid"]], row["cpu"]): row["stack_id"] and depth[row["stack_id"]] + 1
        for row in samples
    }
    assert sum(one is not None for one in got.values()) == 6_318
    assert got == expected


def _events(path: Path) -> list[dict[str, Any]]:
    """All events about stacks."""
    lines = _decoders.events([str(path)], names=KINDS)
    return [json.loads(line) for chunk in lines for line in str(chunk).splitlines()]
