"""Damaged .etl files give rows or one clear line, never a crash, a hang, or unbounded memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import etl_files
import pytest
from decoded import decoded

from schedlens import _decoders
from schedlens.errors import SchedlensError

pytestmark = pytest.mark.slow

# `make fuzz-bytes` is the long version: every file, all cuts, all changes.
ALL = "SCHEDLENS_FUZZ_ETL" in os.environ
FILES = etl_files.names("corpus") + etl_files.names("synthetic")
CUTS = 200 if ALL else 12
CHANGED_BYTES = 2000 if ALL else 120
BYTES_A_ROUND = 8
SEED = 20261121
# Processor time, because the machine may be busy: the largest file takes a tenth of a second.
LIMIT_S = 30.0
# The largest file with all its records, plus the machine's noise.
LIMIT_MIB = 700
# Above these sizes a sample of a file's rounds is enough if time is short.
LARGE = 2 << 20


def memory_mib(kind: str) -> float:
    """A figure of this process: VmRSS, memory in use, or VmHWM, its peak."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if kind in line) / 1024


def read_or_refused(path: Path, note: str) -> dict[str, Any] | None:
    """The result; None if the file was refused in one line. Anything else fails the test."""
    begin = time.process_time()
    before_mib = memory_mib("VmRSS")
    # The peak begins again here: other tests of this process may have had a higher one.
    Path("/proc/self/clear_refs").write_text("5")
    try:
        facts: dict[str, Any] = json.loads(_decoders.inspect(str(path)))
        _decoders.etl_records(str(path), by_time=True)
        tables = decoded(path)
    except SchedlensError as error:
        line = str(error)
        assert line.startswith(f"{path}: "), note
        assert "\n" not in line, note
        assert "did not expect" not in line, (note, line)
        return None
    assert time.process_time() - begin < LIMIT_S, note
    assert tables["trace"].num_rows == 1, note
    grown_mib = memory_mib("VmHWM") - before_mib
    assert grown_mib < LIMIT_MIB, (note, grown_mib)
    return facts


def share(whole: bytes, rounds: int) -> int:
    """Fewer rounds for large files if time is short."""
    return rounds if ALL or len(whole) < LARGE else max(1, rounds // 6)


@etl_files.needs("corpus")
@pytest.mark.parametrize("name", FILES)
def test_truncation_anywhere_gives_rows_or_one_line(name: str, tmp_path: Path) -> None:
    whole = etl_files.content(name)
    path = tmp_path / "cut.etl"
    cuts = share(whole, CUTS)
    refused = 0
    for cut in range(cuts):
        size = len(whole) * cut // cuts
        path.write_bytes(whole[:size])
        facts = read_or_refused(path, f"{name} cut at {size}")
        if facts is None:
            refused += 1
            continue
        # Missing data is reported: by a truncated buffer, or by each CPU's stream that ends early.
        signals = [gap["signalled_by"] for gap in facts["loss"]["gaps"]]
        # The expected number of buffers of a circular file is unknown.
        circular = "circular" in facts["header"]["modes"]
        assert facts["problems"] or circular or "truncated" in signals or "not_closed" in signals
    # The first buffer contains what is needed to read the rest.
    first = json.loads(_decoders.inspect(str(etl_files.written(name, tmp_path))))
    share_of_first = first["header"]["buffer_size"] / len(whole)
    assert refused <= 1 + cuts * min(1.0, share_of_first)


@etl_files.needs("corpus")
@pytest.mark.parametrize("name", FILES)
def test_random_bytes_give_rows_or_one_line(name: str, tmp_path: Path) -> None:
    whole = etl_files.content(name)
    path = tmp_path / "changed.etl"
    dice = random.Random(f"{SEED} {name}")
    for number in range(share(whole, CHANGED_BYTES) // BYTES_A_ROUND):
        damaged = bytearray(whole)
        # A quarter of the rounds hit buffer headers, where one byte matters most.
        for _ in range(BYTES_A_ROUND):
            at = dice.randrange(len(whole))
            if number % 4 == 0:
                at = min(at - at % 8192 + dice.randrange(0x60), len(whole) - 1)
            damaged[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        path.write_bytes(damaged)
        read_or_refused(path, f"{name}, round {number}")


@etl_files.needs("corpus")
def test_hole_in_the_middle_loses_only_its_records(tmp_path: Path) -> None:
    name = "pv_diaghub_kernel.etl"
    whole = bytearray(etl_files.content(name))
    truth = etl_files.truth(name)
    whole[10 * 65536 : 11 * 65536] = b"\xff" * 65536
    path = tmp_path / "hole.etl"
    path.write_bytes(whole)
    facts = read_or_refused(path, "a hole")
    assert facts is not None
    assert facts["buffers"]["count"] == truth["buffers"]["count"] - 1
    rows = _decoders.etl_records(str(path), by_time=False).to_pydict()
    intact = _decoders.etl_records(str(etl_files.written(name, tmp_path)), by_time=False)
    in_hole = sum(buffer == 10 for buffer in intact.to_pydict()["buffer"])
    assert len(rows["ts"]) == truth["records"]["count"] - in_hole
    assert [problem["what"] for problem in facts["problems"]] == ["bytes that are no buffer"]
    signals = {gap["signalled_by"] for gap in facts["loss"]["gaps"]}
    assert signals == {"missing_buffer", "truncated"}


def zipped(folder: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "recording.etl.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@etl_files.needs("corpus")
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_zip_archive_is_read_directly(method: int, tmp_path: Path) -> None:
    name = "pyetwkit_sample.etl"
    content = etl_files.content(name)
    path = zipped(tmp_path, {"symbols/a.pdb": b"x" * 1000, f"folder/{name}": content}, method)
    inside = json.loads(_decoders.inspect(str(path)))
    outside = json.loads(_decoders.inspect(str(etl_files.written(name, tmp_path))))
    assert inside.pop("files")[0]["name"] == f"recording.etl.zip/folder/{name}"
    outside.pop("files")
    assert inside == outside


@etl_files.needs("corpus")
def test_damaged_and_foreign_archives_are_refused_in_one_line(tmp_path: Path) -> None:
    content = etl_files.content("pyetwkit_sample.etl")
    path = zipped(tmp_path, {"a.txt": b"text"})
    with pytest.raises(SchedlensError, match=r"zip archive without an \.etl"):
        _decoders.inspect(str(path))
    path = zipped(tmp_path, {"a.etl": b"text, not a log"})
    with pytest.raises(SchedlensError, match="begins with"):
        _decoders.inspect(str(path))
    whole = zipped(tmp_path, {"a.etl": content}).read_bytes()
    dice = random.Random(SEED)
    for cut in range(20):
        path.write_bytes(whole[: len(whole) * cut // 20])
        assert read_or_refused(path, f"zip cut {cut}") is None
    refused = 0
    for number in range(60):
        damaged = bytearray(whole)
        for _ in range(4):
            damaged[dice.randrange(len(whole))] = dice.randrange(256)
        path.write_bytes(damaged)
        refused += read_or_refused(path, f"zip round {number}") is None
    # A checksum guards the content: only bytes outside it may change unnoticed.
    assert refused >= 50


PEAK = """
import resource, sys
from schedlens import _decoders
_decoders.inspect(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@etl_files.needs("corpus")
def test_memory_does_not_grow_with_file_size(tmp_path: Path) -> None:
    small = etl_files.written("pv_diaghub_user_paged.etl", tmp_path)
    whole = small.read_bytes()
    # The header's buffer once, the others twelve times: 110 MB.
    large = tmp_path / "large.etl"
    large.write_bytes(whole[:65536] + whole[65536:] * 12)
    peaks_mib = []
    for path in (small, large):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True
        )
        peaks_mib.append(int(done.stdout) / 1024)
    assert large.stat().st_size > 100 << 20
    # A few ranges of 8 MiB are mapped at a time.
    assert peaks_mib[1] - peaks_mib[0] < 32


@etl_files.needs("corpus")
def test_files_of_one_recording_are_merged(tmp_path: Path) -> None:
    names = ("pv_diaghub_user_paged.etl", "pv_diaghub_kernel.etl")
    paths = [etl_files.written(name, tmp_path) for name in names]
    truths = [etl_files.truth(name) for name in names]
    facts = json.loads(_decoders.inspect(*map(str, paths)))
    assert facts["records"] == sum(truth["records"]["count"] for truth in truths)
    # ns 0 is the start of the kernel's session, which started first.
    starts = [truth["header"]["header_record_ts"] for truth in truths]
    assert facts["start_clock"] == min(starts) == starts[1]
    later_ns = (starts[0] - starts[1]) * 100
    last = [truth["records"]["last_ns"] for truth in truths]
    assert facts["last_ns"] == max(last[0] + later_ns, last[1])
    rows = _decoders.etl_records(*map(str, paths), by_time=True).to_pydict()
    order = list(zip(rows["ts"], [-1 if cpu is None else cpu for cpu in rows["cpu"]], strict=True))
    assert order == sorted(order)
    for number, truth in enumerate(truths):
        assert rows["file"].count(number) == truth["records"]["count"]


@etl_files.needs("corpus")
def test_files_of_two_recordings_are_refused(tmp_path: Path) -> None:
    names = ("pv_diaghub_kernel.etl", "airbus_AMSITrace.etl", "tx_HTTP_Server.etl")
    paths = [str(etl_files.written(name, tmp_path)) for name in names]
    for other in paths[1:]:
        with pytest.raises(SchedlensError, match="not of the same recording"):
            _decoders.inspect(paths[0], other)
    perf = tmp_path / "perf.data"
    perf.write_bytes(b"PERFILE2" + bytes(200))
    with pytest.raises(SchedlensError, match=r"only \.etl files"):
        _decoders.inspect(paths[0], str(perf))
