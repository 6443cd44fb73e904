"""Methods that .NET compiled, from its events: names of code that no file contains, by time."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from etl_bytes import (
    METHOD_LOAD,
    METHOD_UNLOAD,
    RUNDOWN,
    RUNTIME,
    Buffer,
    Log,
    event,
    image,
    method,
    process,
    sampled_profile,
    stack_walk,
)
from etl_drawn import Read, at, life, read
from etl_files import needs, written

CODE, IMAGE = 0x7FFE_0000_0000, 0x7FF6_0000_0000
IDS = (100, 8)


def sampled(us: int, *addresses: int) -> list[bytes]:
    ts = at(us)
    return [sampled_profile(ts, 8, addresses[0]), stack_walk(ts + 1, ts, IDS, addresses)]


def named(found: Read) -> list[list[tuple[str | None, str | None]]]:
    """Of each sample in time order: its functions with their files, innermost first."""
    frames = {row["frame_id"]: row for row in found.of("frame_symbol")}
    nodes = {row["stack_id"]: row for row in found.of("stack")}

    def functions(node: int | None) -> list[tuple[str | None, str | None]]:
        names = []
        while node is not None:
            frame = frames[nodes[node]["frame_id"]]
            names.append((frame["symbol"] or frame["unknown_reason"], frame["module"]))
            node = nodes[node]["parent_id"]
        return names

    return [functions(row["stack_id"]) for row in found.of("sample")]


def test_methods_name_code_from_when_they_are_loaded_until_they_are_unloaded(
    tmp_path: Path,
) -> None:
    # us  10       20                    30       40              50
    #     unknown  Game.Loop.Tick loaded sampled  it is unloaded  unknown
    records = [
        *life(),
        *sampled(10, CODE + 8),
        method(at(20), CODE, "Game.Loop.Tick"),
        *sampled(30, CODE + 8),
        method(at(40), CODE, "Game.Loop.Tick", number=METHOD_UNLOAD),
        *sampled(50, CODE + 8),
    ]
    unknown, there = [("unmapped", None)], [("Game.Loop.Tick", "[anonymous]")]
    assert named(read(tmp_path, Log([Buffer(records)]))) == [unknown, there, unknown]


def test_methods_of_a_rundown_at_the_end_were_there_from_the_start(tmp_path: Path) -> None:
    # Main calls Compiled, which was compiled at 20; code of Main is in an image.
    path = r"\Device\HarddiskVolume3\app.dll"
    records = [
        *life(), image(at(0), 100, IMAGE, 0x1000, path),
        *sampled(10, IMAGE + 0x108),
        method(at(20), CODE, "Compiled"),
        # The call is the last instruction of Main.
        *sampled(30, CODE, IMAGE + 0x110),
        *sampled(40, IMAGE + 0x110),
        method(at(90), IMAGE + 0x100, "App.Main", number=METHOD_UNLOAD, provider=RUNDOWN),
        method(at(91), CODE, "Compiled", number=METHOD_UNLOAD, provider=RUNDOWN),
    ]  # fmt: skip
    main = ("App.Main", path)
    assert named(read(tmp_path, Log([Buffer(records)]))) == [
        [main],
        [("Compiled", "[anonymous]"), main],
        [("pdb_not_recorded", path)],
    ]


KERNEL_PROCESS = bytes.fromhex("d62cfb227b0e2b42a0c72fad1fd0e716")


@pytest.mark.parametrize("source", ["kernel logger", "provider"])
def test_another_process_with_the_same_id_has_methods_of_its_own(
    tmp_path: Path, source: str
) -> None:
    # us  10   20             30   40      50       70
    #     Old  another 100    -    New     listed:  New, Later
    started = process(at(20), 100, b"new.exe", opcode=1)
    if source == "provider":
        # ProcessStart of version 0: process, times, parent, session, name.
        payload = struct.pack("<IQII", 100, 0, 4, 1) + bytes(2)
        started = event(KERNEL_PROCESS, 1, 0, at(20), payload, ids=(4, 8))
    later = CODE + 0x100
    records = [
        *life(),
        method(at(5), CODE, "Old"),
        *sampled(10, CODE + 8, later + 8),
        started,
        *sampled(30, CODE + 8, later + 8),
        method(at(40), CODE, "New"),
        *sampled(50, CODE + 8),
        method(at(70), CODE, "New", number=METHOD_UNLOAD, provider=RUNDOWN),
        method(at(71), later, "Later", number=METHOD_UNLOAD, provider=RUNDOWN),
    ]
    names = [[name for name, _ in stack] for stack in named(read(tmp_path, Log([Buffer(records)])))]
    assert names == [["Old", "unmapped"], ["unmapped", "Later"], ["New"]]


@pytest.mark.parametrize("length", range(0, 80, 9))
def test_events_that_are_cut_off_or_impossible_name_nothing(tmp_path: Path, length: int) -> None:
    whole = method(at(20), CODE, "A.B")
    payload = whole[80 : 80 + length]
    records = [
        *life(),
        event(RUNTIME, METHOD_LOAD, 2, at(20), payload, ids=IDS),
        method(at(21), 2**64 - 8, "Wraps"),
        method(at(22), CODE + 0x100, "Endless", size=2**32 - 1),
        method(at(23), CODE + 0x200, "Empty", size=0),
        *sampled(30, CODE + 8),
        *sampled(40, CODE + 0x108),
        *sampled(50, CODE + 0x200),
    ]
    first, *others = named(read(tmp_path, Log([Buffer(records)])))
    # Where only the texts are cut off, what is left of them is the name.
    assert (first == [("unmapped", None)]) == (length < 36)
    assert others == [[("unmapped", None)]] * 2


@needs("corpus")
def test_methods_of_a_real_recording_name_its_compiled_code(tmp_path: Path) -> None:
    """Without events of methods, 1,161 of its functions would be in no recorded mapping."""
    rows = Read(written("pv_net452_x64.etl", tmp_path)).of("frame_symbol")
    compiled = Counter(row["symbol"] for row in rows if row["module"] == "[anonymous]")
    assert compiled.total() == 1087
    assert compiled["Test.Program.Main"] == 21
    assert sum(row["unknown_reason"] == "unmapped" for row in rows) == 74
