"""A Windows recording with samples in a program, and the names that its functions get."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl_bytes import Buffer, Log, image, rsds, sampled_profile, stack_walk
from etl_drawn import at, life
from windows_program import Program

from schedlens import _decoders

if TYPE_CHECKING:
    from schedlens._decoders import SymbolSources

BASE = 0x7FF6_0000_0000
IDS = (100, 8)
Row = tuple[int, str | None, str | None, int | None, str | None]


def sampled(
    folder: Path, program: Program, stacks: list[list[int]], *, signed: bool = True
) -> Path:
    """A recording with a sample per stack: addresses in the program, innermost first."""
    records = [*life(), image(at(0), 100, BASE, program.size, r"\Device\HarddiskVolume3\game.exe")]
    if signed:
        records.append(rsds(at(0), 100, BASE, program.guid, program.age, "game.pdb"))
    for number, stack in enumerate(stacks):
        addresses = [BASE + address for address in stack]
        ts = at(10 + 10 * number)
        records += [sampled_profile(ts, 8, addresses[0]), stack_walk(ts + 1, ts, IDS, addresses)]
    path = folder / "made.etl"
    path.write_bytes(Log([Buffer(records)], buffer_size=1 << 16).encoded())
    return path


def frame_rows(path: Path, *folders: Path | str) -> list[dict[str, Any]]:
    """Rows of `frame_symbol` with these elements of the symbol path."""
    nowhere = str(path.parent / "no cache")
    sources: SymbolSources = {
        "kallsyms": None, "perf_maps": [], "debug": [], "symbol_path": ";".join(map(str, folders)),
        "cache": (nowhere, nowhere), "fetch": None,
    }  # fmt: skip
    found: list[dict[str, Any]] = []
    with _decoders.load(str(path), 1, None, None, "made", sources) as loader:
        for table, batch in loader:
            found += batch.to_pylist() if table == "frame_symbol" else []
    return found


def functions(path: Path, *folders: Path) -> list[Row]:
    """Address, function, file, line, and why the name is unknown, with these symbol folders."""
    found: list[Row] = []
    for row in frame_rows(path, *folders):
        file = row["file"] and Path(row["file"]).name
        found.append((row["address"], row["symbol"], file, row["line"], row["unknown_reason"]))
    return found
