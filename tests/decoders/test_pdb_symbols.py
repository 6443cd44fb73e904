"""Functions of Windows recordings, named by the PDB file of a program that is built here."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import windows_program
from loaded_recording import loaded
from sampled_program import functions, sampled
from windows_program import Program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return windows_program.built(tmp_path_factory.mktemp("program"))


def reasons(path: Path, *folders: Path) -> set[object]:
    return {row[-1] for row in functions(path, *folders)}


def bare_name(name: str) -> str:
    return name.partition("(")[0].rpartition("::")[2]


def placed(program: Program, folder: Path, *parts: str) -> None:
    folder.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program.pdb, folder.joinpath(*parts))


def test_functions_are_named_with_inlined_ones_and_lines(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # entry calls pop, which has spin inlined, then push
    (pop, returns), (push, _) = program.calls()
    placed(program, tmp_path, "game.pdb", program.id, "game.pdb")
    monkeypatch.setenv("_NT_SYMBOL_PATH", f"C:\\none;srv*{tmp_path}*http://127.0.0.1:9/symbols")
    path = sampled(tmp_path, program, [[pop + 9, returns], [push]])
    with loaded(path, tmp_path) as con:
        ((folded,),) = con.execute(
            "SELECT folded FROM stack_text JOIN sample USING (stack_id) ORDER BY ts LIMIT 1"
        ).fetchall()
        assert folded.split(";")[:3] == ["game::entry", "game::Queue<u64>::pop", "game::spin"]
        rows = con.execute(
            "SELECT DISTINCT symbol, parse_filename(file), is_inlined, unknown_reason "
            "FROM frame_symbol ORDER BY symbol"
        ).fetchall()
    assert set(rows) >= {
        ("game::Queue<u64>::pop", "game.rs", False, None),
        ("game::entry", "game.rs", False, None),
        ("game::push", "game.rs", False, None),
        ("game::spin", "game.rs", True, None),
    }


def test_names_and_lines_are_those_of_llvm_symbolizer(program: Program, tmp_path: Path) -> None:
    oracle = shutil.which("llvm-symbolizer") or shutil.which("llvm-symbolizer-14")
    if oracle is None:
        pytest.skip("no llvm-symbolizer to compare with")
    placed(program, tmp_path, "game.pdb")
    addresses = list(program.code)
    path = sampled(tmp_path, program, [[address] for address in addresses])
    ours: dict[int, list[tuple[str, str | None, int | None]]] = {}
    for address, symbol, file, line, _ in functions(path, tmp_path):
        ours.setdefault(address, []).append((bare_name(symbol or ""), file, line))
    asked = subprocess.run(
        [oracle, f"--obj={program.exe}", "--relative-address", "--output-style=JSON",
         *map(hex, addresses)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    # Bytes between functions have no line.
    theirs = {
        int(found["Address"], 16): [
            (bare_name(part["FunctionName"]), Path(part["FileName"]).name, part["Line"])
            for part in found["Symbol"]
        ]
        for found in json.loads(asked)
        if found["Symbol"] and all(part["FileName"] for part in found["Symbol"])
    }
    assert len(theirs) > 60
    assert {address: ours[address] for address in theirs} == theirs


def test_a_pdb_with_public_names_alone_names_functions_demangled(tmp_path: Path) -> None:
    program = windows_program.built(tmp_path, debug=0, name="stripped")
    _, (push, _) = program.calls()
    placed(program, tmp_path, "game.pdb")
    rows = functions(sampled(tmp_path, program, [[push + 1], [program.entry]]), tmp_path)
    assert rows == [
        (push + 1, "JobQueue::push", None, None, None),
        (program.entry, "entry", None, None, None),
    ]


def test_a_missing_or_another_pdb_is_a_reason_with_a_remedy(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    path = sampled(tmp_path, program, [[program.entry]])
    assert reasons(path, first) == {"pdb_missing"}
    other = windows_program.built(tmp_path, debug=0, name="other")
    assert other.id != program.id
    placed(other, first, "game.pdb")
    monkeypatch.setenv("_NT_SYMBOL_PATH", str(first))
    with loaded(path, tmp_path) as con:
        ((reason, remedy),) = con.execute("SELECT reason, remedy FROM unnamed_code").fetchall()
    assert reason == "pdb_other_build"
    assert program.id in remedy
    # A later folder may have the right one.
    placed(program, second, "game.pdb")
    assert reasons(path, first, second) == {None}


def test_an_image_without_a_signature_names_no_pdb(program: Program, tmp_path: Path) -> None:
    placed(program, tmp_path, "game.pdb")
    path = sampled(tmp_path, program, [[program.entry]], signed=False)
    assert reasons(path, tmp_path) == {"pdb_not_recorded"}


def test_damaged_pdbs_leave_functions_without_names(program: Program, tmp_path: Path) -> None:
    path = sampled(tmp_path, program, [[program.entry]])
    whole = program.pdb.read_bytes()
    for size in range(0, len(whole) // 2, 4000):
        (tmp_path / "game.pdb").write_bytes(whole[:size])
        assert reasons(path, tmp_path) == {"pdb_unreadable"}, size
    random_bytes = random.Random(1)
    seen = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(random_bytes.choice([1, 20, 400])):
            data[random_bytes.randrange(len(data))] = random_bytes.randrange(256)
        (tmp_path / "game.pdb").write_bytes(data)
        seen |= reasons(path, tmp_path)
    assert seen <= {None, "no_symbol", "pdb_unreadable", "pdb_other_build"}
    assert {None, "pdb_unreadable"} <= seen


def test_types_that_refer_to_each_other_are_refused(program: Program, tmp_path: Path) -> None:
    """The scope of the inlined function is made the function itself, and others."""
    (pop, _), _ = program.calls()
    data = bytearray(program.pdb.read_bytes())
    # LF_FUNC_ID of `spin`: kind, scope, type, name.
    at = data.index(b"spin\0") - 10
    kind, scope = struct.unpack_from("<HI", data, at)
    assert kind == 0x1601
    placed(program, tmp_path, "game.pdb")
    path = sampled(tmp_path, program, [[pop + 20]])
    found = []
    for number in range(scope, scope + 64):
        struct.pack_into("<I", data, at + 2, number)
        (tmp_path / "game.pdb").write_bytes(data)
        found.append(reasons(path, tmp_path))
    # Earlier records may be scopes. The function itself and later ones may not.
    own = found.index({"pdb_unreadable"})
    assert found == [{None}] * own + [{"pdb_unreadable"}] * (64 - own)
    assert own > 0
