"""Damaged trace.dat files give rows or one clear line, never a crash, a hang, or a full memory."""

from __future__ import annotations

import os
import random
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import dat_bytes
import pyarrow as pa
import pytest
from dat_bytes import Buffer, idle, page, pages, switch, waking
from decoded import decoded

from schedlens.errors import SchedlensError

pytestmark = pytest.mark.slow

# `SCHEDLENS_FUZZ_ROUNDS=20000` is the long version.
ROUNDS = int(os.environ.get("SCHEDLENS_FUZZ_ROUNDS", "150"))
SEED = 20261123
# Processor time, because the machine may be busy: a whole file of this size takes milliseconds.
LIMIT_S = 20.0
# What a load of a small file takes, with much room.
MEMORY = 1 << 30

_EVENTS = [
    [switch(10, 0, 5), waking(20, 5, 6, 1), switch(900, 5, 0), idle(950, 0, 1), idle(2000, 0)],
    [switch(30, 0, 6), switch(700, 6, 0), switch(1500, 0, 6), switch(1600, 6, 0)],
]
_BUFFERS = [
    Buffer({0: page(_EVENTS[0][:2]) + page(_EVENTS[0][2:], lost=3), 1: pages(_EVENTS[1])}),
    Buffer({1: page([idle(1650, 1, 2)], lost=True)}, name="other"),
]
_OPTIONS = (
    dat_bytes.stats(0, overrun=3, dropped_events=0)
    + dat_bytes.guest("vm", 77, [5, 6])
    + dat_bytes.time_shift(9, [(0, 100, 1, 0), (1000, 200, 3 << 40, 41)], 2, flags=1)
)
_NAMES = {5: "five", 6: "six"}


def whole(form: str) -> bytes:
    """A small file in each form."""
    if form == "6":
        return dat_bytes.version_6(_BUFFERS, _OPTIONS, _NAMES)
    return dat_bytes.version_7(_BUFFERS, _OPTIONS, _NAMES, form.split()[1])


FORMS = ("6", "7 none", "7 zstd", "7 zlib")


def read_or_refused(trace: Path, note: str) -> dict[str, pa.Table] | None:
    """The rows, or None if one line refused the file. Anything else fails."""
    begin = time.process_time()
    try:
        tables = decoded(trace)
    except SchedlensError as error:
        line = str(error)
        assert line.startswith(f"{trace}: "), note
        assert "\n" not in line, note
        assert "did not expect" not in line, (note, line)
        return None
    finally:
        assert time.process_time() - begin < LIMIT_S, note
    assert tables["trace"].num_rows == 1, note
    return tables


def cuts(data: bytes) -> list[int]:
    """Lengths at which a file is cut; decoders/trace_dat/tests/hostile.rs cuts at every one."""
    dice = random.Random(SEED)
    return sorted({*dice.sample(range(len(data)), 2 * ROUNDS), len(data) - 1, 0, 10, 11})


@pytest.mark.parametrize("form", FORMS)
def test_truncation_anywhere_gives_rows_or_one_line(form: str, tmp_path: Path) -> None:
    data = whole(form)
    trace = tmp_path / "cut.dat"
    read = 0
    for cut in cuts(data):
        trace.write_bytes(data[:cut])
        tables = read_or_refused(trace, f"cut at {cut}")
        if tables is not None:
            read += 1
            signals = tables["loss"].column("signalled_by").to_pylist()
            assert "truncated" in signals or not any(data[cut:]), cut
    # In version 6 the description comes first; in version 7 the last list of options ends the file.
    assert read >= (20 if form == "6" else 0)


@pytest.mark.parametrize("form", FORMS)
def test_each_changed_byte_gives_rows_or_one_line(form: str, tmp_path: Path) -> None:
    data = whole(form)
    trace = tmp_path / "changed.dat"
    places = [n for n in range(len(data)) if data[n] or n % 97 == 0]
    dice = random.Random(f"{SEED} {form}")
    for place in dice.sample(places, min(len(places), 10 * ROUNDS)):
        changed = bytearray(data)
        changed[place] ^= 1 << dice.randrange(8) if dice.random() < 0.5 else 0xFF
        trace.write_bytes(changed)
        read_or_refused(trace, f"{form}, byte {place} is {changed[place]}")


@pytest.mark.parametrize("form", FORMS)
def test_random_bytes_give_rows_or_one_line(form: str, tmp_path: Path) -> None:
    data = whole(form)
    trace = tmp_path / "changed.dat"
    dice = random.Random(f"{SEED} {form}")
    for number in range(ROUNDS):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 32)):
            place = dice.randrange(len(data))
            changed[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        trace.write_bytes(changed)
        read_or_refused(trace, f"{form}, round {number}")


def test_a_page_with_an_impossible_time_is_a_loss_of_its_cpu(tmp_path: Path) -> None:
    data = bytearray(
        page([switch(10, 0, 5), switch(20, 5, 6)])
        + page([switch(30, 6, 7), switch(40, 7, 8)])
        + page([switch(50, 8, 9)])
    )
    data[4096 + 5] = 1
    trace = dat_bytes.write(tmp_path / "odd.dat", dat_bytes.version_6([Buffer({0: bytes(data)})]))
    tables = decoded(trace)
    assert tables["context_switch"].num_rows == 3
    (gap,) = tables["loss"].to_pylist()
    assert (gap["cpu"], gap["start_ns"], gap["end_ns"], gap["signalled_by"]) == (
        0, 10, 40, "damaged",
    )  # fmt: skip
    (problem,) = (row for row in tables["problem"].to_pylist() if row["place"] == "CPU 0")
    assert problem["what"] == "a page whose time does not fit those around it: left out"


def test_a_damaged_record_is_a_loss_up_to_the_next_page(tmp_path: Path) -> None:
    first = bytearray(page([switch(10, 0, 5), switch(20, 5, 6), switch(25, 6, 5)]))
    # The length of the second record: more than its page has.
    struct.pack_into("<I", first, 16 + 68, 0)
    struct.pack_into("<I", first, 16 + 72, 5000)
    data = bytes(first) + page([switch(50, 5, 9)])
    tables = decoded(
        dat_bytes.write(tmp_path / "odd.dat", dat_bytes.version_6([Buffer({0: data})]))
    )
    assert tables["context_switch"].num_rows == 2
    (gap,) = tables["loss"].to_pylist()
    assert (gap["start_ns"], gap["end_ns"], gap["signalled_by"]) == (0, 40, "damaged")


def _peak_bytes(trace: Path) -> int:
    """Peak memory of a process that reads a file or refuses it."""
    program = (
        "import sys, resource; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from decoded import decoded\nfrom schedlens.errors import SchedlensError\n"
        "try: decoded(Path(sys.argv[1]))\nexcept SchedlensError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    support = Path(dat_bytes.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", program, str(trace), str(support)],
        check=True, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
    )  # fmt: skip
    return int(done.stdout.split()[-1])


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path) -> None:
    # 100 CPUs of 1 GB zeros each, in a few kilobytes each: no page has a record.
    one = bytes(1 << 30)
    chunk = dat_bytes.packed("zstd", one)
    del one
    head = struct.pack("<III", 1, len(chunk), 1 << 30)
    cpus = dict.fromkeys(range(100), head + chunk)
    data = dat_bytes.version_7([Buffer(cpus)], compression="zstd", raw_pages=True)
    assert _peak_bytes(dat_bytes.write(tmp_path / "bomb.dat", data)) < MEMORY


def test_a_bomb_in_a_section_is_refused(tmp_path: Path) -> None:
    data = bytearray(
        dat_bytes.version_7([Buffer({0: page([switch(1, 0, 5)])})], compression="zstd")
    )
    # The unpacked size of the first section.
    place = data.index(struct.pack("<HH", 16, 1)) + 20
    struct.pack_into("<I", data, place, 0xFFFFFFF0)
    trace = dat_bytes.write(tmp_path / "bomb.dat", bytes(data))
    with pytest.raises(SchedlensError, match="has size 4294967280, 0 to 67108864 expected"):
        decoded(trace)


def test_data_that_many_cpus_share_is_read_once(tmp_path: Path) -> None:
    events = [switch(n * 10, n % 5 + 1, (n + 1) % 5 + 1) for n in range(20_000)]
    data = dat_bytes.version_7([Buffer({0: pages(events)} | dict.fromkeys(range(1, 4000), b""))])
    shared = bytearray(data)
    table = shared.index(struct.pack("<IQ", 0, 8192)) if struct.pack("<IQ", 0, 8192) in data else -1
    assert table > 0
    entry = shared[table : table + 20]
    for cpu in range(1, 4000):
        shared[table + 20 * cpu + 4 : table + 20 * cpu + 20] = entry[4:]
    trace = dat_bytes.write(tmp_path / "shared.dat", bytes(shared))
    begin = time.process_time()
    tables = decoded(trace)
    assert time.process_time() - begin < LIMIT_S
    assert tables["context_switch"].num_rows == 20_000
    assert any("overlaps" in row["what"] for row in tables["problem"].to_pylist())
