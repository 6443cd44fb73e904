"""Exports of a DLL name its functions approximately, where no PDB file does."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import windows_library
from etl_bytes import Buffer, Log, image, sampled_profile, stack_walk
from etl_drawn import at, life
from loaded_recording import loaded
from sampled_program import frame_rows
from windows_library import Library

from schedlens.ask import judging
from schedlens.ask.findings import Scope

BASE = 0x7FF6_0000_0000
IDS = (100, 8)
Row = tuple[str | None, str | None, str | None]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return windows_library.built(tmp_path_factory.mktemp("library"))


def sampled(
    folder: Path, library: Library, addresses: list[int], *, stamp: int | None = None
) -> Path:
    """A recording with a sample at each address of the DLL, and without its PDB's signature."""
    name = r"C:\Program Files\Made.dll"
    own = library.stamp if stamp is None else stamp
    records = [*life(), image(at(0), 100, BASE, library.size, name, stamp=own)]
    for number, address in enumerate(addresses):
        ts = at(10 + 10 * number)
        stack = [BASE + address]
        records += [sampled_profile(ts, 8, stack[0]), stack_walk(ts + 1, ts, IDS, stack)]
    path = folder / "made.etl"
    path.write_bytes(Log([Buffer(records)], buffer_size=1 << 16).encoded())
    return path


def named(path: Path, *folders: Path | str) -> dict[int, Row]:
    """By address: name, where it is from, and why there is no exact one."""
    return {
        row["address"]: (row["symbol"], row["symbol_source"], row["unknown_reason"])
        for row in frame_rows(path, *folders)
    }


def listed(library: Library) -> dict[int, str]:
    """Address and name of each export, or its number, as objdump lists them."""
    oracle = shutil.which("x86_64-w64-mingw32-objdump") or shutil.which("objdump")
    if oracle is None:
        pytest.skip("no objdump to compare with")
    text = subprocess.run(
        [oracle, "-p", str(library.path)], capture_output=True, text=True, check=True
    ).stdout
    if "Export Address Table" not in text:
        pytest.skip("this objdump does not read files of Windows")
    entries = re.findall(r"\[ *(\d+)\] \+base\[ *(\d+)\] +([0-9a-f]+) Export RVA", text)
    names = dict(
        re.findall(r"\[ *(\d+)\](?: \+base\[ *\d+\])? +(?:[0-9a-f]{4,8} +)?([a-z]\w*)$", text, re.M)
    )
    return {int(rva, 16): names.get(index, f"#{number}") for index, number, rva in entries}


def test_names_are_those_of_the_nearest_export_below_in_the_section(
    library: Library, tmp_path: Path
) -> None:
    size, code = library.sections[".text"]
    exports = {rva: name for rva, name in listed(library).items() if code <= rva < code + size}
    assert sorted(exports.values()) == ["#7", "first", "second"]
    addresses = range(code, code + size)
    rows = named(sampled(tmp_path, library, list(addresses)), library.path.parent)
    expected: dict[int, Row] = {}
    for address in addresses:
        below = [rva for rva in exports if rva <= address]
        name = f"{exports[max(below)]} (export)" if below else None
        expected[address] = (name, "export" if below else None, "pdb_not_recorded")
    assert rows == expected
    assert len({row[0] for row in rows.values()} - {None}) == 3


def test_addresses_outside_of_code_have_no_name(library: Library, tmp_path: Path) -> None:
    starts = [start for name, (_, start) in library.sections.items() if name != ".text"]
    outside = [8, *(start + 1 for start in starts)]
    rows = named(sampled(tmp_path, library, outside), library.path.parent)
    assert rows == dict.fromkeys(outside, (None, None, "pdb_not_recorded"))


def test_only_the_recorded_file_names_functions(library: Library, tmp_path: Path) -> None:
    _, code = library.sections[".text"]
    store = tmp_path / "store"
    place = store / "made.dll" / f"{library.stamp:08X}{library.size:x}" / "made.dll"
    place.parent.mkdir(parents=True)
    shutil.copy(library.path, place)
    exact = named(sampled(tmp_path, library, [code]), f"srv*{store}")
    assert exact[code][1:] == ("export", "pdb_not_recorded")
    # Of another stamp, or of none: it could be another build.
    for stamp in (library.stamp + 1, 0):
        rows = named(sampled(tmp_path, library, [code], stamp=stamp), library.path.parent)
        assert rows == {code: (None, None, "pdb_not_recorded")}


def test_damaged_files_leave_functions_without_names(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    _, code = library.sections[".text"]
    path = sampled(tmp_path, library, [code, code + 8])
    whole = library.path.read_bytes()
    chosen = random.Random(1)
    seen: set[Row] = set()
    for number in range(60):
        data = bytearray(whole)
        for _ in range(chosen.choice([1, 20, 400])):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        (folder / "Made.dll").write_bytes(data[: len(data) * (number % 4 + 1) // 4])
        seen |= set(named(path, folder).values())
    assert {reason for *_, reason in seen} == {"pdb_not_recorded"}
    assert (None, None, "pdb_not_recorded") in seen
    assert any(source == "export" for _, source, _ in seen)


def test_approximate_names_are_reported_with_what_gives_exact_ones(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("_NT_SYMBOL_PATH", str(library.path.parent))
    _, code = library.sections[".text"]
    with loaded(sampled(tmp_path, library, [code + 1, 8]), tmp_path) as con:
        rows = con.execute("SELECT frames, approximate_frames, reason FROM unnamed_code").fetchall()
        assert rows == [(2, 1, "pdb_not_recorded")]
        (found,) = (
            finding
            for finding in judging.judge_all(Scope(con), only=["unnamed_code"]).findings
            if finding.kind == "unnamed_functions"
        )
        assert found.title == "100\u00a0% of the functions in stacks have no exact name"
