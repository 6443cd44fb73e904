"""PDB files and debug files from servers: only if the user asks, and into a bounded cache."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import stack_program
import windows_program
from conftest import command
from etl_bytes import Buffer, Log, image, rsds, sampled_profile, stack_walk
from etl_drawn import at, life
from loaded_recording import loaded
from symbol_server import SymbolServer, serving
from windows_program import Program

from schedlens import _decoders
from schedlens.errors import SymbolServerError
from schedlens.load import recording, symbol_cache, symbol_servers, symbol_sources
from schedlens.load.symbol_servers import Servers

MEBI = 1 << 20


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SymbolServer]:
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "client"))
    monkeypatch.delenv("_NT_SYMBOL_PATH", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as started:
        yield started


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return windows_program.built(tmp_path_factory.mktemp("program"))


def of_windows(folder: Path, program: Program) -> Path:
    """A recording with one sample at the program's entry."""
    base = 0x7FF6_0000_0000
    records = [
        *life(),
        image(at(0), 100, base, program.size, r"C:\game.exe"),
        rsds(at(0), 100, base, program.guid, program.age, r"D:\build\game.pdb"),
        sampled_profile(at(10), 8, base + program.entry),
        stack_walk(at(11), at(10), (100, 8), [base + program.entry]),
    ]
    path = folder / "made.etl"
    path.write_bytes(Log([Buffer(records)]).encoded())
    return path


def names(path: Path, servers: Servers | None, module: str) -> set[str | None]:
    """Names of the functions of a file, or why they are unknown."""
    (found,) = recording.gather([path])
    sources = symbol_sources.of(replace(found, servers=servers))
    with _decoders.load(str(path), 1, None, None, "made", sources) as loader:
        rows = [
            row for table, batch in loader if table == "frame_symbol" for row in batch.to_pylist()
        ]
    return {
        row["symbol"] or row["unknown_reason"] for row in rows if module in (row["module"] or "")
    }


def test_a_pdb_is_fetched_only_if_a_server_is_named_and_then_kept(
    server: SymbolServer, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"/symbols/game.pdb/{program.id}/game.pdb"
    server.files[place] = program.pdb.read_bytes()
    path = of_windows(tmp_path, program)
    monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{server.url}/symbols")
    assert names(path, None, "game") == {"pdb_missing"}
    assert server.asked == []
    asked = symbol_servers.asked((f"{server.url}/symbols/",), debuginfod=False)
    assert names(path, asked, "game") == {"game::entry"}
    assert server.asked == [place]
    # The cache is read without asking.
    assert names(path, None, "game") == {"game::entry"}
    assert server.asked == [place]


def test_answers_that_are_wrong_or_cut_off_name_nothing(
    server: SymbolServer, program: Program, tmp_path: Path
) -> None:
    place = f"/game.pdb/{program.id}/game.pdb"
    path = of_windows(tmp_path, program)
    absent = Servers(pdb=(server.url,))
    assert names(path, absent, "game") == {"pdb_missing"}
    assert absent.lines() == []
    server.files[place] = program.pdb.read_bytes()
    server.cut_off = True
    broken = Servers(pdb=(server.url,))
    assert names(path, broken, "game") == {"pdb_missing"}
    assert broken.lines() == [f"symbols: {server.url}: cannot fetch (game.pdb was cut off)"]
    server.cut_off = False
    server.files[place] = windows_program.built(tmp_path, debug=0, name="other").pdb.read_bytes()
    assert names(path, Servers(pdb=(server.url,)), "game") == {"pdb_other_build"}


def test_a_server_that_cannot_be_reached_is_asked_once(tmp_path: Path) -> None:
    servers = Servers(debuginfod=("http://127.0.0.1:9",))
    assert not servers.fetch("debuginfo", "", "0123456789abcdef")
    assert not servers.fetch("debuginfo", "", "fedcba9876543210")
    (line,) = servers.lines()
    assert line.startswith("symbols: http://127.0.0.1:9: cannot fetch (")


def test_names_that_lead_out_of_the_cache_are_not_asked_for(server: SymbolServer) -> None:
    servers = Servers(pdb=(server.url,), debuginfod=(server.url,))
    for kind, name, identity in [
        ("pdb", "..", "0" * 33),
        ("pdb", "a.pdb", "../../x"),
        ("pdb", "a.pdb:stream", "0" * 33),
        ("debuginfo", "", "../etc"),
        ("executable", "", ""),
    ]:
        assert not servers.fetch(kind, name, identity)
    assert server.asked == []


def test_files_that_were_added_first_make_room(
    server: SymbolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(symbol_cache.VARIABLE, "1")
    ids = [f"{number:016x}" for number in range(3)]
    for identity in ids[:2]:
        server.files[f"/buildid/{identity}/debuginfo"] = bytes(600_000)
    server.files[f"/buildid/{ids[2]}/debuginfo"] = bytes(2 * MEBI)
    servers = Servers(debuginfod=(server.url,))
    there = [symbol_cache.debug_files() / identity / "debuginfo" for identity in ids]
    assert servers.fetch("debuginfo", "", ids[0])
    assert servers.fetch("debuginfo", "", ids[1])
    assert [path.is_file() for path in there] == [False, True, False]
    assert not servers.fetch("debuginfo", "", ids[2])
    assert servers.lines() == [
        f"symbols: {server.url}: debuginfo is larger than the cache (SCHEDLENS_SYMBOL_CACHE_MB)"
    ]
    kept = [path for path in symbol_cache.debug_files().rglob("*") if path.is_file()]
    assert kept == [there[1]]


def test_options_that_name_no_server_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "")
    for server in ("symbols", "file:///etc", "https://"):
        with pytest.raises(SymbolServerError, match="not an address of a server"):
            symbol_servers.asked((server,), debuginfod=False)
    done = command("analyze", "--debuginfod", str(tmp_path / "made.etl"), check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "--debuginfod: DEBUGINFOD_URLS names no server" in line


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A recording of a program, the program itself, and its stripped form that was recorded."""
    if shutil.which("perf") is None or shutil.which("objcopy") is None:
        pytest.skip("no perf or no objcopy: a stripped program cannot be recorded")
    folder = tmp_path_factory.mktemp("stripped")
    whole = stack_program.built(folder, (*stack_program.WITH_FRAME_POINTERS, "-Wl,--build-id"))
    stripped = folder / "bare"
    subprocess.run(["objcopy", "--strip-all", str(whole), str(stripped)], check=True)
    output = folder / "perf.data"
    done = subprocess.run(
        ["perf", "record", "-q", "--sample-cpu", "--buildid-mmap", "-k", "mono", "-F", "999",
         "-e", "cpu-clock:u", "--call-graph", "fp", "-o", str(output), str(stripped)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"perf cannot record here: {done.stderr.strip()[:200]}")
    return output, whole, stripped


def test_debug_files_are_fetched_by_build_id_only_if_the_user_asks(
    server: SymbolServer,
    recorded: tuple[Path, Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, whole, stripped = recorded
    text = subprocess.run(
        ["readelf", "-n", str(whole)], capture_output=True, text=True, check=True
    ).stdout
    build_id = text.partition("Build ID: ")[2].split()[0]
    monkeypatch.setenv("DEBUGINFOD_URLS", server.url)
    place = f"/buildid/{build_id}/debuginfo"
    server.files[place] = whole.read_bytes()
    assert names(path, None, "/bare") == {"stripped"}
    assert server.asked == []
    found = names(path, symbol_servers.asked((), debuginfod=True), "/bare")
    assert {"spin_outer", "spin_inner"} <= found
    assert place in server.asked
    # Neither does it ask again, nor is the option needed then.
    asked = len(server.asked)
    assert names(path, None, "/bare") == found
    assert len(server.asked) == asked
    # Without the file itself, another one of the same build serves.
    server.files[f"/buildid/{build_id}/executable"] = stripped.read_bytes()
    stripped.unlink()
    assert names(path, None, "/bare") == {"file_missing"}
    assert names(path, symbol_servers.asked((), debuginfod=True), "/bare") == found


CABINET = b"MSCF" + bytes(60)
SHARE = r"\\server\share\game.pdb"


def test_a_server_with_a_compressed_file_or_a_pointer_is_one_line(
    server: SymbolServer, program: Program, tmp_path: Path
) -> None:
    path = of_windows(tmp_path, program)
    start = f"/game.pdb/{program.id}"
    cases = [
        (
            {f"{start}/game.pd_": CABINET, f"{start}/file.ptr": f"PATH:{SHARE}".encode()},
            f"has only a compressed game.pd_: save {server.url}{start}/game.pd_ and expand it with "
            "`cabextract game.pd_` into a folder of _NT_SYMBOL_PATH",
        ),
        (
            {
                f"{start}/game.pd_": b"no cabinet",
                f"{start}/file.ptr": f"Path: {SHARE}\r\n".encode(),
            },
            f"game.pdb is at {SHARE}, which is not fetched: copy it into a folder of "
            "_NT_SYMBOL_PATH",
        ),
        ({f"{start}/file.ptr": b"MSG: removed\nmore"}, "game.pdb: MSG: removed"),
    ]
    for files, said in cases:
        server.files = files
        servers = Servers(pdb=(server.url,))
        for _ in range(2):
            assert names(path, servers, "game") == {"pdb_missing"}
        assert servers.lines() == [f"symbols: {server.url}: {said}"]


def test_a_store_with_a_compressed_file_or_a_pointer_is_a_reason_with_a_remedy(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("_NT_SYMBOL_PATH", str(tmp_path / "store"))
    path = of_windows(tmp_path, program)
    store = tmp_path / "store" / "game.pdb" / program.id
    store.mkdir(parents=True)
    pointer, packed = store / "file.ptr", store / "game.pd_"
    pointer.write_text(f"PATH:{SHARE}")
    assert names(path, None, "game") == {"pdb_elsewhere"}
    packed.write_bytes(CABINET)
    assert names(path, None, "game") == {"pdb_compressed"}
    # A pointer to a file that is here is followed.
    pointer.write_text(f"PATH:{program.pdb}")
    assert names(path, None, "game") == {"game::entry"}
    pointer.unlink()
    with loaded(path, tmp_path) as con:
        ((reason, remedy),) = con.execute("SELECT reason, remedy FROM unnamed_code").fetchall()
    assert (reason, "cabextract" in remedy) == ("pdb_compressed", True)


def test_shares_in_the_symbol_path_are_one_line(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(
        "_NT_SYMBOL_PATH", rf"srv*{tmp_path}*\\one\symbols;https://127.0.0.1:9;\\two\more"
    )
    path = of_windows(tmp_path, program)
    done = command("analyze", "--no-report", str(path), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        r"analyze: symbols: _NT_SYMBOL_PATH: \\one\symbols and 1 more is not read, because it is "
        "on another machine: name a folder with a copy, or one where the share is mounted"
    ]
