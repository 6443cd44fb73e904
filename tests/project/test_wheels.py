"""tools/wheels.py: content of the Windows wheel, and the libraries it may import."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = """schedlens/__init__.py,sha256=_,1
schedlens-0.1.0.dist-info/RECORD,,
"""


@pytest.fixture(scope="module")
def wheels() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "tools" / "wheels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    """A wheel as setuptools writes it, with texts in place of binaries."""
    path = tmp_path / "schedlens-0.1.0-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("schedlens/__init__.py", "code")
        wheel.writestr("schedlens/_decoders.abi3.so", "ELF extension")
        program = zipfile.ZipInfo("schedlens-0.1.0.data/scripts/schedlens-workloads")
        program.external_attr = 0o100755 << 16
        wheel.writestr(program, "ELF program")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n"
        wheel.writestr("schedlens-0.1.0.dist-info/WHEEL", tags)
        wheel.writestr("schedlens-0.1.0.dist-info/RECORD", RECORD)
    return path


def test_windows_wheel_has_its_own_binaries_tags_and_checksums(
    wheels: ModuleType, linux: Path, tmp_path: Path
) -> None:
    (tmp_path / "to").mkdir()
    made = wheels.repack(linux, b"PE extension", b"PE program", tmp_path / "to")
    assert made.name == "schedlens-0.1.0-cp311-abi3-win_amd64.whl"
    with zipfile.ZipFile(made) as wheel:
        content = {name: wheel.read(name).decode() for name in wheel.namelist()}
        program = wheel.getinfo("schedlens-0.1.0.data/scripts/schedlens-workloads.exe")
    record = content.pop("schedlens-0.1.0.dist-info/RECORD")
    assert content == {
        "schedlens/__init__.py": "code",
        "schedlens/_decoders.pyd": "PE extension",
        "schedlens-0.1.0.data/scripts/schedlens-workloads.exe": "PE program",
        "schedlens-0.1.0.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-abi3-win_amd64\n"
        ),
    }
    assert program.external_attr >> 16 == 0o100755
    # printf code | sha256sum, as base64 for URLs.
    code = "VpTQii5T_8rgwxA-Wtb2B2q9lg6x-KVldwQLwQKPcCs"
    lines = record.splitlines()
    assert lines[0] == f"schedlens/__init__.py,sha256={code},4"
    assert lines[-1] == "schedlens-0.1.0.dist-info/RECORD,,"
    assert sorted(line.partition(",")[0] for line in lines[:-1]) == sorted(content)


def test_compiler_libraries_are_foreign_and_windows_libraries_are_not(
    wheels: ModuleType,
) -> None:
    own = ["KERNEL32.dll", "api-ms-win-core-synch-l1-2-0.dll", "python3.dll", "msvcrt.dll"]
    others = ["libgcc_s_seh-1.dll", "libwinpthread-1.dll", "python311.dll"]
    assert wheels.foreign(own) == []
    assert wheels.foreign([*own, *others]) == others
