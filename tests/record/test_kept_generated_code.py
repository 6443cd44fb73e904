"""Dumps of just-in-time compilers that processes of a recording mapped are kept in its session."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import jit_bytes
import pytest

if TYPE_CHECKING:
    from collectors import perf, perf_generated
else:
    from schedlens.collectors import perf, perf_generated

MMAP, MMAP2, SAMPLE = 1, 10, 9


def mapping(pid: int, name: str, kind: int = MMAP2) -> bytes:
    head = struct.pack("<iIQQQ", pid, pid, 0x1000, 0x1000, 0)
    head += bytes(32) if kind == MMAP2 else b""
    body = head + name.encode() + b"\0"
    body = body.ljust(-(-len(body) // 8) * 8, b"\0")
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


def recording(folder: Path, *records: bytes) -> Path:
    """A perf.data with only these records."""
    data = b"".join(records)
    head = b"PERFILE2" + struct.pack("<8Q", 104, 0, 104, 0, 104, len(data), 0, 0)
    path = folder / "perf.data"
    path.write_bytes(head.ljust(104, b"\0") + data)
    return path


def kept(step: Path) -> dict[str, bytes]:
    """Content of the dumps by their place in the folder for maps."""
    folder = step / perf.PERF_MAPS
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*.dump")
        if path.is_file()
    }


@pytest.fixture
def step(tmp_path: Path) -> Path:
    (tmp_path / "step").mkdir()
    return tmp_path / "step"


def keep(step: Path, trace: Path) -> list[str]:
    # Maps of other processes of this machine are not meant: none changes in the future.
    lines = perf.keep_generated_code(step, trace, begin_s=2**40)
    return [line for line in lines if ".dump" in line]


def test_dumps_are_copied_by_the_process_that_mapped_them(tmp_path: Path, step: Path) -> None:
    # Process 7 has its own dump, 8 that of its parent, and 9 that of a container's process 1.
    one, nine = jit_bytes.dump(), jit_bytes.dump() + jit_bytes.load(10, 0x9000, b"code", "nine")
    own, inner = tmp_path / "jit-7.dump", tmp_path / "inner" / "jit-1.dump"
    inner.parent.mkdir()
    own.write_bytes(one)
    inner.write_bytes(nine)
    trace = recording(
        tmp_path,
        mapping(7, str(own)),
        mapping(7, "/usr/lib/libc.so.6"),
        mapping(8, str(own), MMAP),
        mapping(9, str(inner)),
        mapping(9, str(inner)),
        mapping(9, str(tmp_path / "jit-x.dump")),
    )
    assert keep(step, trace) == []
    assert kept(step) == {"jit-7.dump": one, "8/jit-7.dump": one, "9/jit-1.dump": nine}
    maps = step / perf.PERF_MAPS
    assert (maps / "jit-7.dump").samefile(maps / "8" / "jit-7.dump")


def test_what_cannot_be_kept_is_one_line(
    tmp_path: Path, step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_generated, "_MOST_DUMP_BYTES", 1 << 20)
    secret, link = tmp_path / "secret", tmp_path / "jit-2.dump"
    secret.write_bytes(jit_bytes.dump())
    link.symlink_to(secret)
    os.mkfifo(tmp_path / "jit-3.dump")
    (tmp_path / "jit-4.dump").write_text("no dump")
    (tmp_path / "jit-5.dump").write_bytes(jit_bytes.dump() + bytes(1 << 20))
    (tmp_path / "jit-6.dump").mkdir()
    small = jit_bytes.dump()
    (tmp_path / "jit-7.dump").write_bytes(small)
    names = [str(tmp_path / f"jit-{pid}.dump") for pid in range(1, 8)]
    why = [
        "No such file or directory",
        "Too many levels of symbolic links",
        "not a file",
        "not a jitdump file",
        "1.0 MB, and 1 MB of dumps are kept for a step",
        "not a file",
    ]
    for pid, (name, reason) in enumerate(zip(names, why, strict=False), 1):
        (line,) = keep(step, recording(tmp_path, mapping(pid, name)))
        assert line == (
            f"not kept in the session: {name} ({reason}). Code that its compiler generated has no "
            f"names on other machines unless you copy the file to {step / perf.PERF_MAPS}"
        )
    every = [mapping(pid, name) for pid, name in enumerate(names, 1)]
    (line,) = keep(step, recording(tmp_path, *every))
    assert f"{names[0]} (No such file or directory) and 5 more." in line
    assert kept(step) == {"jit-7.dump": small}
    assert not list((step / perf.PERF_MAPS).rglob(".*"))


@pytest.mark.parametrize("size", [0, 8, 60, 104, 150, 200])
def test_a_recording_that_is_cut_off_has_the_dumps_before(tmp_path: Path, size: int) -> None:
    trace = recording(tmp_path, mapping(7, "/jit-7.dump"), mapping(8, "/jit-8.dump"))
    assert perf_generated.mapped_dumps(trace) == [(7, "/jit-7.dump"), (8, "/jit-8.dump")]
    trace.write_bytes(trace.read_bytes()[:size])
    found = perf_generated.mapped_dumps(trace)
    assert found == [(7, "/jit-7.dump")][: size // 200]


def test_a_record_without_a_length_ends_the_list(tmp_path: Path) -> None:
    endless = struct.pack("<IHH", SAMPLE, 0, 0)
    trace = recording(tmp_path, mapping(7, "/jit-7.dump"), endless, mapping(8, "/jit-8.dump"))
    assert perf_generated.mapped_dumps(trace) == [(7, "/jit-7.dump")]
