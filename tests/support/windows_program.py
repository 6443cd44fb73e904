"""A program for Windows with a PDB file, built by the Rust toolchain and its linker."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

TARGET = "x86_64-pc-windows-msvc"
SOURCE = """\
#![no_std]
#![no_main]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
#[inline(always)]
fn spin(turns: u64) -> u64 {
    let mut sum = turns;
    for n in 0..turns {
        sum = unsafe { core::ptr::read_volatile(&sum) } ^ n;
    }
    sum
}
struct Queue<T>(T);
impl Queue<u64> {
    #[inline(never)]
    fn pop(&self) -> u64 { spin(self.0) + 1 }
}
#[unsafe(export_name = "?push@JobQueue@@QEAAXH@Z")]
#[inline(never)]
extern "C" fn push(n: u64) -> u64 { n / 3 }
#[unsafe(no_mangle)]
extern "C" fn entry() -> u64 { Queue(7).pop() * 2 + push(core::hint::black_box(9)) }
"""
# `call` and the 4 bytes of its distance.
CALL, CALL_SIZE = 0xE8, 5


@dataclass(frozen=True)
class Program:
    """The file with code, and what it says about itself.

    Addresses count from where it is loaded.
    """

    exe: Path
    guid: bytes
    age: int
    pdb_name: str
    size: int
    entry: int
    code: range

    @property
    def pdb(self) -> Path:
        return self.exe.with_suffix(".pdb")

    @property
    def id(self) -> str:
        """Signature and age, as symbol servers name a folder."""
        first, *rest = struct.unpack_from("<IHH", self.guid)
        words = "".join(f"{word:04X}" for word in rest)
        return f"{first:08X}{words}{self.guid[8:].hex().upper()}{self.age:X}"

    def calls(self) -> list[tuple[int, int]]:
        """The functions that the entry calls, and where they return to, read from its code."""
        found = []
        data = self.exe.read_bytes()
        file_offset = _section(data, b".text")[2] - self.code.start
        for at in range(self.entry, self.code.stop - CALL_SIZE):
            if data[at + file_offset] == CALL:
                (distance,) = struct.unpack_from("<i", data, at + file_offset + 1)
                if at + CALL_SIZE + distance in self.code:
                    found.append((at + CALL_SIZE + distance, at + CALL_SIZE))
        return found


def built(folder: Path, *, debug: int = 2, name: str = "game") -> Program:
    """The program, or a skip without the toolchain.

    With `debug` 0 its PDB has only public names.
    """
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("no Rust toolchain: the program for Windows cannot be built")
    (root,) = _output(rustc, "--print", "sysroot")
    host = next(line.split()[1] for line in _output(rustc, "-vV") if line.startswith("host:"))
    linker = Path(root, "lib/rustlib", host, "bin/rust-lld")
    if not linker.exists() or not Path(root, "lib/rustlib", TARGET).is_dir():
        pytest.skip(f"no Rust library for {TARGET} or no rust-lld: `rustup target add {TARGET}`")
    source, exe = folder / f"{name}.rs", folder / f"{name}.exe"
    source.write_text(SOURCE)
    links = ("/NODEFAULTLIB", "/ENTRY:entry", "/SUBSYSTEM:CONSOLE", "/DEBUG")
    subprocess.run(
        [rustc, source, "--target", TARGET, "-C", "opt-level=2", "-C", f"debuginfo={debug}",
         "-C", "panic=abort", "-C", "strip=none", "-C", f"linker={linker}", "-C",
         "linker-flavor=lld-link", *(part for link in links for part in ("-C", f"link-arg={link}")),
         "-o", exe],
        check=True,
    )  # fmt: skip
    return _read(exe)


def streams(pdb: bytes) -> list[bytes]:
    """The streams of a PDB file by number."""
    page, _, _, size, _ = struct.unpack_from("<5I", pdb, 32)

    def joined(pages: Sequence[int], length: int) -> bytes:
        return b"".join(pdb[at * page : (at + 1) * page] for at in pages)[:length]

    list_at = struct.unpack_from("<I", pdb, 52)[0] * page
    directory = joined(struct.unpack_from(f"<{-(-size // page)}I", pdb, list_at), size)
    (count,) = struct.unpack_from("<I", directory)
    sizes = struct.unpack_from(f"<{count}I", directory, 4)
    at, found = 4 + 4 * count, []
    for length in sizes:
        pages = struct.unpack_from(f"<{-(-length // page)}I", directory, at)
        at += 4 * len(pages)
        found.append(joined(pages, length))
    return found


def container(parts: Sequence[bytes], page: int = 512) -> bytes:
    """A PDB file with these streams in small pages."""
    contents: list[bytes] = []
    next_page = 3

    def placed(content: bytes) -> list[int]:
        nonlocal next_page
        count = -(-len(content) // page)
        contents.append(content.ljust(count * page, b"\0"))
        next_page += count
        return list(range(next_page - count, next_page))

    numbers = [number for part in parts for number in placed(part)]
    words = [len(parts), *map(len, parts), *numbers]
    directory = struct.pack(f"<{len(words)}I", *words)
    pages = placed(directory)
    of_list = placed(struct.pack(f"<{len(pages)}I", *pages))
    head = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0"
    head += struct.pack("<5I", page, 1, next_page, len(directory), 0)
    head += struct.pack(f"<{len(of_list)}I", *of_list)
    return head.ljust(3 * page, b"\0") + b"".join(contents)


def _output(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _section(data: bytes, name: bytes) -> tuple[int, int, int]:
    """Address, size and place in the file."""
    header = struct.unpack_from("<I", data, 0x3C)[0]
    sections, optional = struct.unpack_from("<H12xH", data, header + 6)
    for number in range(sections):
        at = header + 24 + optional + 40 * number
        if data[at : at + 8].rstrip(b"\0") == name:
            size, address, _, offset = struct.unpack_from("<IIII", data, at + 8)
            return address, size, offset
    raise AssertionError(name)


def _read(exe: Path) -> Program:
    data = exe.read_bytes()
    header = struct.unpack_from("<I", data, 0x3C)[0]
    (entry,) = struct.unpack_from("<I", data, header + 24 + 16)
    (size,) = struct.unpack_from("<I", data, header + 24 + 56)
    at = data.index(b"RSDS")
    guid, (age,) = data[at + 4 : at + 20], struct.unpack_from("<I", data, at + 20)
    name = data[at + 24 : data.index(b"\0", at + 24)].decode()
    address, length, _ = _section(data, b".text")
    return Program(exe, guid, age, name, size, entry, range(address, address + length))
