"""The workload program as a Windows program: cross-built, and run under Wine.

Wine shows that the calls are correct, not how Windows schedules.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TARGET = "x86_64-pc-windows-gnu"
LINKER = "x86_64-w64-mingw32-gcc"
ROOT = Path(__file__).resolve().parents[2]

# Rust's library takes random numbers from a library of Windows 10 that Wine 8 lacks.
_PRNG = """
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{ return SystemFunction036(data, (ULONG)size); }
"""


def wine() -> str | None:
    """Wine for 64-bit programs; Debian keeps it off the path."""
    return shutil.which("wine64") or shutil.which(
        "wine64", path=f"/usr/lib/wine:{os.environ.get('PATH', '')}"
    )


def missing() -> str | None:
    """What is missing of Wine and the toolchain; None if complete."""
    if wine() is None:
        return "Wine (Debian: wine64) is not installed"
    if shutil.which(LINKER) is None:
        return f"{LINKER} (Debian: gcc-mingw-w64-x86-64-win32) is not installed"
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    done = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", TARGET],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if done.returncode != 0 or not Path(done.stdout.strip()).is_dir():
        return f"Rust's library for Windows is not installed: rustup target add {TARGET}"
    return None


@dataclass(frozen=True)
class Wine:
    """A fresh Windows prefix, ended with `close`."""

    folder: Path
    program: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its programs."""
        return {
            **os.environ,
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEDEBUG": "-all",
            # Skips the search for .NET and a browser.
            "WINEDLLOVERRIDES": "mscoree,mshtml=",
            "WINEPATH": str(self.folder / "libraries"),
        }

    def command(self, *words: str) -> list[str]:
        """The command that runs the workload program with these arguments."""
        return [str(wine()), str(self.program), *words]

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs the workload program."""
        return subprocess.run(
            self.command(*words),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=self.environment,
        )

    def close(self) -> None:
        """Ends all programs of this Windows prefix."""
        server = Path(str(wine())).with_name("wineserver")
        known = str(server) if server.exists() else shutil.which("wineserver")
        if known:
            subprocess.run([known, "-k"], env=self.environment, check=False, capture_output=True)


def cargo(*words: str, environment: dict[str, str] | None = None) -> str:
    """Runs cargo for Windows; returns its standard output. Fails with its error."""
    done = subprocess.run(
        ["cargo", *words, "--locked", "-j2", "-p", "schedlens-workloads", "--target", TARGET],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def build(folder: Path) -> Path:
    """Builds the program and what Wine lacks; returns the program's path."""
    cargo("build", "--quiet")
    libraries(folder)
    home = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return home / TARGET / "debug" / "schedlens-workloads.exe"


def libraries(folder: Path) -> None:
    """Builds what Wine lacks, for programs that run in the Windows prefix of this folder."""
    place = folder / "libraries"
    place.mkdir()
    source = folder / "prng.c"
    source.write_text(_PRNG)
    _link(["-shared", "-O1", "-o", str(place / "bcryptprimitives.dll"), str(source)])


def _link(words: Sequence[str]) -> None:
    subprocess.run([LINKER, *words, "-ladvapi32"], check=True, capture_output=True)
