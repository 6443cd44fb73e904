"""Damaged and foreign files give rows or one clear line, never a crash, a hang, or a traceback."""

from __future__ import annotations

import os
import random
import shutil
import struct
import time
from pathlib import Path

import perf_versions
import pyarrow as pa
import pytest
from conftest import command
from decoded import decoded
from fixture_files import fixture

from schedlens.errors import SchedlensError

pytestmark = pytest.mark.slow

# `SCHEDLENS_FUZZ_ROUNDS=20000` is the long version.
ROUNDS = int(os.environ.get("SCHEDLENS_FUZZ_ROUNDS", "150"))
CUTS = 200
SEED = 20261121
# Processor time, because the machine may be busy: a whole file of this size takes milliseconds.
LIMIT_S = 20.0
SMALL = ("host_plain", "switch_only", "counters", "zstd", "pipe")


def read_or_refused(trace: Path, note: str) -> bool:
    """Whether rows were returned; otherwise one line refused the file. Anything else fails."""
    begin = time.process_time()
    try:
        tables = decoded(trace)
    except SchedlensError as error:
        line = str(error)
        assert line.startswith(f"{trace}: "), note
        assert "\n" not in line, note
        assert "did not expect" not in line, (note, line)
        return False
    finally:
        assert time.process_time() - begin < LIMIT_S, note
    assert tables["trace"].num_rows == 1, note
    return True


@pytest.mark.parametrize("name", SMALL)
def test_truncation_anywhere_gives_rows_or_one_line(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = fixture(name, tmp_path_factory).read_bytes()
    trace = tmp_path / "cut.perf.data"
    read = 0
    for cut in range(CUTS):
        trace.write_bytes(whole[: len(whole) * cut // CUTS])
        read += read_or_refused(trace, f"{name} cut at {len(whole) * cut // CUTS}")
    # Header and descriptions come first: most cuts are after them.
    assert read >= CUTS // 2


@pytest.mark.parametrize("name", SMALL)
def test_random_bytes_give_rows_or_one_line(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = fixture(name, tmp_path_factory).read_bytes()
    trace = tmp_path / "changed.perf.data"
    dice = random.Random(f"{SEED} {name}")
    for number in range(ROUNDS):
        damaged = bytearray(whole)
        # Half of the rounds hit the header and the event descriptions.
        reach = len(whole) if number % 2 else 4096
        for _ in range(dice.randint(1, 32)):
            damaged[dice.randrange(reach)] = dice.choice(
                (0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256))
            )
        trace.write_bytes(damaged)
        read_or_refused(trace, f"{name}, round {number}")


def test_damage_between_records_is_a_problem_and_a_loss(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(fixture("plain", tmp_path_factory).read_bytes())
    begin = int.from_bytes(whole[40:48], "little")
    middle = begin + int.from_bytes(whole[48:56], "little") // 2
    whole[middle : middle + 256] = b"\xff" * 256
    trace = tmp_path / "hole.perf.data"
    trace.write_bytes(whole)
    tables = decoded(trace)
    assert "damaged" in tables["loss"]["signalled_by"].to_pylist()
    problems = [row for row in tables["problem"].to_pylist() if row["place"] != "states"]
    assert [row["what"] for row in problems if row["place"].startswith("data, bytes ")] == [
        "bytes that are no record"
    ]
    # 256 bytes and at most one record on each side of 285 switches are gone.
    switches = [s for s in tables["context_switch"]["source"].to_pylist() if s == "switch"]
    assert 275 <= len(switches) <= 285


def foreign(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Files that are not recordings, each with part of its error line."""
    (tmp_path / "text").write_text("perf script output, not a recording\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    shutil.copyfile("/bin/sh", tmp_path / "elf")
    (tmp_path / "old").write_bytes(b"PERFFILE" + bytes(200))
    (tmp_path / "big_endian").write_bytes(b"2ELIFREP" + bytes(200))
    return {
        "text": (tmp_path / "text", "not with PERFILE2"),
        "empty": (tmp_path / "empty", "the file is empty"),
        "folder": (tmp_path / "folder", "no perf.data directory"),
        "elf": (tmp_path / "elf", "not with PERFILE2"),
        "old": (tmp_path / "old", "first version of perf.data"),
        "big_endian": (tmp_path / "big_endian", "big-endian"),
        "nothing": (Path("/dev/null"), "the file is empty"),
        "missing": (tmp_path / "missing", "does not exist"),
    }


NAMES = ("text", "empty", "folder", "elf", "old", "big_endian", "nothing", "missing")


@pytest.mark.parametrize("name", NAMES)
def test_inspect_refuses_a_foreign_file_in_one_line(name: str, tmp_path: Path) -> None:
    path, part = foreign(tmp_path)[name]
    done = command("schedlens", "inspect", str(path), check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_analyze_refuses_a_foreign_file_without_a_traceback(name: str, tmp_path: Path) -> None:
    path, _ = foreign(tmp_path)[name]
    done = command("analyze", str(path), "-o", str(tmp_path / "out"), check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert str(path) in done.stderr
    assert done.stderr.strip().count("\n") == 0


def test_a_bomb_in_compressed_records_does_not_fill_the_disk(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = fixture("zstd", tmp_path_factory).read_bytes()
    trace = tmp_path / "bomb.perf.data"
    # 512 MiB of zeros in 16 KB: as much as a temporary file must never take.
    packed = bytes(pa.Codec("zstd").compress(bytes(1 << 29), asbytes=True))
    record = struct.pack("<IHH", perf_versions.COMPRESSED, 0, 8 + len(packed)) + packed
    trace.write_bytes(perf_versions.with_records(whole, [record]))
    begin = time.process_time()
    problems = decoded(trace)["problem"].to_pylist()
    assert time.process_time() - begin < LIMIT_S
    (place,) = [
        row["place"] for row in problems
        if row["what"] == "compressed records cannot be read: they unpack to more than 256 times "
        "their size"
    ]  # fmt: skip
    unpacked = int(place.removeprefix("data, unpacked byte "))
    assert unpacked <= 256 * len(packed) + (1 << 20) + (1 << 18)
