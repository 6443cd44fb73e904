"""PDB files that are made to be endless, too deep or too large: they cost no more than others.

The streams of a program that is built here are changed and put together again.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import windows_program
from sampled_program import functions, sampled
from windows_program import Program

TPI, DBI, IPI = 2, 3, 4
PROCEDURE, MEMBER_FUNCTION, ARGUMENTS, NAME_PARTS = 0x1008, 0x1009, 0x1201, 0x1604
FUNCTION_ID, MEMBER_FUNCTION_ID = 0x1601, 0x1602
GLOBAL_FUNCTION, SCOPE_END, INLINED, INLINED_END = 0x1147, 0x114F, 0x114D, 0x114E
VOID = 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return windows_program.built(tmp_path_factory.mktemp("program"))


@pytest.fixture
def streams(program: Program) -> list[bytes]:
    return windows_program.streams(program.pdb.read_bytes())


def found(
    folder: Path, program: Program, streams: list[bytes], *addresses: int
) -> list[tuple[str | None, str | None]]:
    """Name, or why there is none, of the functions at these addresses."""
    (folder / "game.pdb").write_bytes(windows_program.container(streams, page=4096))
    path = sampled(folder, program, [[address] for address in addresses])
    return [(row[1], row[4]) for row in functions(path, folder)]


def record(kind: int, body: bytes) -> bytes:
    """A type or a symbol; its size, of which the length itself is no part, is a multiple of 4."""
    body += bytes(-(len(body)) % 4)
    return struct.pack("<HH", len(body) + 2, kind) + body


def with_types(stream: bytes, records: list[bytes]) -> tuple[bytes, int]:
    """The stream of types with more of them, and the number of the first."""
    end, size = struct.unpack_from("<II", stream, 12)
    added = b"".join(records)
    changed = bytearray(stream + added)
    struct.pack_into("<II", changed, 12, end + len(records), size + len(added))
    return bytes(changed), end


def with_symbols(streams: list[bytes], records: list[bytes]) -> list[bytes]:
    """The streams with these symbols in place of those of the module with the program's code."""
    dbi = bytearray(streams[DBI])
    (size,) = struct.unpack_from("<I", dbi, 24)
    at = 64
    while at < 64 + size:
        name_end = dbi.index(b"\0", at + 64)
        (stream,) = struct.unpack_from("<H", dbi, at + 34)
        if b"-cgu." in dbi[at + 64 : name_end]:
            symbols = struct.pack("<I", 4) + b"".join(records)
            struct.pack_into("<III", dbi, at + 36, len(symbols), 0, 0)
            changed = list(streams)
            changed[DBI], changed[stream] = bytes(dbi), symbols
            return changed
        names_end = dbi.index(b"\0", name_end + 1) + 1
        at = names_end + -names_end % 4
    raise AssertionError("no module has the code of the program")


def function(program: Program, name: bytes, end: int, *, length: int) -> bytes:
    """`S_GPROC32_ID` of code at the program's entry."""
    offset = program.entry - program.code.start
    words = struct.pack("<8I", 0, end, 0, length, 0, 0, 0, offset)
    return record(GLOBAL_FUNCTION, words + struct.pack("<HB", 1, 0) + name + b"\0")


def inlined(end: int, annotations: bytes = b"") -> bytes:
    """`S_INLINESITE`"""
    return record(INLINED, struct.pack("<III", 0, end, 0x1000) + annotations)


def test_functions_in_a_sound_module_are_named(
    program: Program, streams: list[bytes], tmp_path: Path
) -> None:
    """What the other tests change is read where it is sound."""
    head = function(program, b"sound", 0, length=8)
    end = 4 + len(head) + len(inlined(0)) + 4
    symbols = [
        function(program, b"sound", end, length=8),
        inlined(end - 4),
        record(INLINED_END, b""),
        record(SCOPE_END, b""),
    ]
    changed = with_symbols(streams, symbols)
    assert found(tmp_path, program, changed, program.entry) == [("sound", None)]


def test_a_function_that_ends_before_it_begins_is_not_read_again_and_again(
    program: Program, streams: list[bytes], tmp_path: Path
) -> None:
    # The first function contains the second, which ends at the start of the first.
    symbols = [
        function(program, b"outer", 1 << 20, length=8),
        function(program, b"inner", 4, length=0),
        record(SCOPE_END, b""),
    ]
    changed = with_symbols(streams, symbols)
    assert found(tmp_path, program, changed, program.entry) == [(None, "no_symbol")]


def test_functions_inlined_too_deeply_are_not_read(
    program: Program, streams: list[bytes], tmp_path: Path
) -> None:
    whole = 1 << 24
    for depth, expected in ((100, ("deep", None)), (200_000, (None, "no_symbol"))):
        head = function(program, b"deep", whole, length=8)
        changed = with_symbols(streams, [head, *[inlined(whole)] * depth])
        assert found(tmp_path, program, changed, program.entry) == [expected]


def test_inlined_functions_that_would_take_hours_are_not_read(
    program: Program, streams: list[bytes], tmp_path: Path
) -> None:
    whole = 1 << 30
    head = function(program, b"slow", whole, length=8)
    site = inlined(0, bytes(60_000))
    changed = with_symbols(streams, [head, *[site] * 200])
    assert found(tmp_path, program, changed, program.entry) == [(None, "no_symbol")]


def test_a_name_that_doubles_with_each_type_is_refused(
    program: Program, streams: list[bytes], tmp_path: Path
) -> None:
    # void(), void(a, a) where a is the one before, and so on: 2^40 names.
    first = struct.unpack_from("<I", streams[TPI], 12)[0]
    (pop, _), _ = program.calls()
    answers = []
    for levels in (5, 40):
        types = []
        last = first + 2 * levels
        for level in range(levels):
            before = [first + 2 * level - 1] * 2 if level else []
            types.append(
                record(ARGUMENTS, struct.pack(f"<{1 + len(before)}I", len(before), *before))
            )
            words = struct.pack("<IBBHI", VOID, 0, 0, len(before), first + 2 * level)
            types.append(record(PROCEDURE, words))
        words = struct.pack("<IIIBBHIi", VOID, last - 1, 0, 0, 0, 0, first, 0)
        types.append(record(MEMBER_FUNCTION, words))
        changed = list(streams)
        changed[TPI], _ = with_types(streams[TPI], types)
        ids = bytearray(streams[IPI])
        at = ids.index(b"spin\0") - 10
        assert struct.unpack_from("<H", ids, at) == (FUNCTION_ID,)
        struct.pack_into("<HII", ids, at, MEMBER_FUNCTION_ID, last - 1, last)
        changed[IPI] = bytes(ids)
        answers.append(found(tmp_path, program, changed, pop + 20))
    (few, many) = answers
    (spin,) = (name for name, _ in few if name is not None and name.endswith("::spin"))
    assert spin.count("void") <= 2**6
    assert many == [(None, "pdb_unreadable")]


@pytest.mark.parametrize("stream", [TPI, IPI])
def test_a_number_of_types_that_is_wrong_reserves_no_memory(
    program: Program, streams: list[bytes], tmp_path: Path, stream: int
) -> None:
    for end in (0, 0xFFFF_FFF0):
        changed = bytearray(streams[stream])
        struct.pack_into("<I", changed, 12, end)
        parts = [*streams[:stream], bytes(changed), *streams[stream + 1 :]]
        assert found(tmp_path, program, parts, program.entry) == [(None, "pdb_unreadable")]


@pytest.mark.parametrize(("stream", "kind"), [(TPI, ARGUMENTS), (IPI, NAME_PARTS)])
def test_a_list_that_is_longer_than_its_record_reserves_no_memory(
    program: Program, streams: list[bytes], tmp_path: Path, stream: int, kind: int
) -> None:
    expected = [("game::entry", None)], [(None, "pdb_unreadable")], [(None, "pdb_unreadable")]
    for claimed, names in zip((1, 2, 0xFFFF_FFFF), expected, strict=True):
        changed, _ = with_types(streams[stream], [record(kind, struct.pack("<II", claimed, VOID))])
        parts = [*streams[:stream], changed, *streams[stream + 1 :]]
        assert found(tmp_path, program, parts, program.entry) == names
