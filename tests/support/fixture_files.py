"""Unpacks the recordings in fixtures/ for tests, each once per run."""

from __future__ import annotations

import lzma
import shutil
import tarfile
from functools import cache
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def fixture(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked recording `fixtures/perf/NAME.perf.data.xz`, or the folder `NAME.tar.xz`.

    All tests of the run share it: copy it before changing it.
    """
    return _unpacked(name, _home(tmp_path_factory))


def qemu_session(tmp: pytest.TempPathFactory) -> Path:
    """The recorded session of 10 cores with 20 logical CPUs, as `collect` would leave it.

    All tests of the run share it: write results to another folder, or take a copy.
    """
    return _session(_home(tmp))


def qemu_root(tmp: pytest.TempPathFactory) -> Path:
    """The root folder with that machine's sysfs, to inject into topology and settings."""
    return _root(_home(tmp))


def copied_session(tmp: pytest.TempPathFactory) -> Path:
    """A separate copy of the session, to analyze in place."""
    folder = tmp.mktemp("qemu-copy") / "session"
    shutil.copytree(qemu_session(tmp), folder)
    return folder


def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.getbasetemp() / "fixtures"
    home.mkdir(exist_ok=True)
    return home


@cache
def _unpacked(name: str, home: Path) -> Path:
    archive = FIXTURES / "perf" / f"{name}.tar.xz"
    if archive.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(home, filter="data")
        return home / name
    target = home / f"{name}.perf.data"
    target.write_bytes(lzma.decompress((FIXTURES / "perf" / f"{name}.perf.data.xz").read_bytes()))
    return target


@cache
def _session(home: Path) -> Path:
    source, target = FIXTURES / "qemu", home / "qemu"
    for path in sorted(source.rglob("*")):
        to = target / path.relative_to(source)
        if path.is_dir() or path.name == "sysfs.tar.xz":
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            to.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        else:
            shutil.copyfile(path, to)
    return target


@cache
def _root(home: Path) -> Path:
    target = home / "root"
    with tarfile.open(FIXTURES / "qemu" / "sysfs.tar.xz") as tar:
        tar.extractall(target, filter="data")
    return target
