"""A DLL for Windows with exports, some of them by name, built by mingw's compiler."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = """
#define EXPORTED __declspec(dllexport) __attribute__((noinline))
EXPORTED int first(int n) { return n * 3 + 1; }
static __attribute__((noinline, used)) int hidden(int n) { return n / 7; }
EXPORTED int second(int n) { return hidden(n) - 2; }
EXPORTED int third(int n) { return n ^ 5; }
EXPORTED int data_export = 4;
int __stdcall DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }
"""
EXPORTS = """
EXPORTS
first
second
third @7 NONAME
data_export DATA
nap=kernel32.Sleep
"""


class Library:
    """A DLL that is built here, and what its header says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = path.read_bytes()
        (header,) = struct.unpack_from("<I", data, 0x3C)
        (self.stamp,) = struct.unpack_from("<I", data, header + 8)
        (self.size,) = struct.unpack_from("<I", data, header + 24 + 56)
        (count,) = struct.unpack_from("<H", data, header + 6)
        (optional,) = struct.unpack_from("<H", data, header + 20)
        self.sections = {
            data[start : start + 8].rstrip(b"\0").decode(): struct.unpack_from(
                "<II", data, start + 8
            )
            for start in range(header + 24 + optional, header + 24 + optional + 40 * count, 40)
        }


def built(folder: Path) -> Library:
    """The DLL, or a skip without the compiler."""
    compiler = shutil.which("x86_64-w64-mingw32-gcc")
    if compiler is None:
        pytest.skip("no mingw compiler: the DLL cannot be built")
    source, exports, path = folder / "made.c", folder / "made.def", folder / "Made.dll"
    source.write_text(SOURCE)
    exports.write_text(EXPORTS)
    subprocess.run(
        [compiler, "-O1", "-shared", "-nostdlib", "-Wl,--insert-timestamp",
         "-Wl,--entry=DllMainCRTStartup", "-o", path, source, exports],
        check=True,
    )  # fmt: skip
    return Library(path)
