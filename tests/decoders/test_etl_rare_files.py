"""Rare file forms byte by byte: what is read, and what is reported."""

from __future__ import annotations

import struct
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import etl_bytes
import etl_packed
import pytest
from etl_bytes import Buffer, Log, perfinfo, process, switch, thread
from etl_drawn import TWO_CPUS, Read, at, life, read, slices, two_cpus, written

from schedlens.errors import DamagedTraceError, NotATraceError, UnsupportedTraceError
from schedlens.load import recording

RELOG, MIXED = 1 << 16, 1 << 28


def test_ordinary_file_has_no_problems(tmp_path: Path) -> None:
    found = read(tmp_path, Log(two_cpus()))
    assert (found.ran(), found.problems(), found.gaps()) == (TWO_CPUS, [], [])
    (trace,) = found.of("trace")
    assert (trace["events_lost"], trace["buffers_lost"]) == (0, 0)


NEWER = "buffers with flags or of a type that is not described"


@pytest.mark.parametrize("what", [{"flags": etl_bytes.WIDE_INDEX | 0x100}, {"kind": 9}])
def test_buffer_of_later_windows_is_read_and_reported(what: dict[str, Any], tmp_path: Path) -> None:
    found = read(tmp_path, Log(two_cpus(**what)))
    assert (found.ran(), found.gaps()) == (TWO_CPUS, [])
    assert found.problems() == [("from 0x1000 on", NEWER, 1)]


@pytest.mark.parametrize(
    ("layout", "count"), [((1, 4), 0), ((1, 5), 0), ((2, 0), 0), ((1, 3), 1), ((3, 0), 1)]
)
def test_unknown_layout_is_reported(layout: tuple[int, int], count: int, tmp_path: Path) -> None:
    found = read(tmp_path, Log(two_cpus(), layout=layout))
    assert found.ran() == TWO_CPUS
    assert [place for place, _, _ in found.problems()] == count * [
        f"header, layout {layout[0]}.{layout[1]}"
    ]


def test_continuation_file_lost_nothing(tmp_path: Path) -> None:
    buffers = two_cpus(sequence=1001)
    buffers[1].sequence = 1002
    # Earlier records of the session are in the other file; the header counts both, or this one.
    for count in (1003, 3):
        log = Log(buffers, mode=etl_bytes.NEW_FILE, buffers_written=count)
        found = read(tmp_path, log)
        assert (found.ran(), found.gaps()) == (TWO_CPUS, [])
    assert found.facts["header"]["modes"] == ["new_file"]
    # The first file has the session's first buffers, here without the third.
    log = Log(two_cpus(), mode=etl_bytes.NEW_FILE, buffers_written=4)
    signals = {(cpu, word) for cpu, _, _, word in read(tmp_path, log).gaps()}
    # CPUs 2 and 3 have no buffer: the missing one may be theirs.
    assert signals == {
        (0, "truncated"), (1, "truncated"), (2, "missing_buffer"), (3, "missing_buffer"),
    }  # fmt: skip


def test_circular_file_that_wrapped_several_times_is_read(tmp_path: Path) -> None:
    # 6 places; the session is in its third round: 13, 14, then the rest of the second.
    order = (13, 14, 9, 10, 11, 12)
    buffers = [Buffer(slices(8, 100 * number, 1), sequence=number) for number in order]
    log = Log(buffers, mode=etl_bytes.CIRCULAR, buffers_written=15)
    found = read(tmp_path, log)
    assert found.ran() == [(0, 8, (100 * n + 10) * 1000, 50_000) for n in sorted(order)]
    # What the ring overwrote is unknown up to the first remaining record.
    assert (found.problems(), found.gaps()) == ([], [(0, None, 910_000, "overwritten")])


@pytest.mark.parametrize("packing", [None, *etl_packed.PACKINGS])
def test_unclosed_session_reports_no_loss_count(packing: int | None, tmp_path: Path) -> None:
    buffers = two_cpus()
    for buffer in buffers if packing else []:
        buffer.packed = etl_packed.PACKINGS[packing or 0](buffer.content())
    log = Log(buffers, end_time=0, buffers_written=0, state=packing or 3)
    # Followed by space that was allocated and never used.
    found = read(tmp_path, log.encoded() + bytes(3 * 4096))
    truth = [(cpu, 260_000 + 5_000 * cpu, None, "not_closed") for cpu in (0, 1)]
    assert (found.ran(), found.problems(), found.gaps()) == (TWO_CPUS, [], truth)
    (trace,) = found.of("trace")
    assert (trace["events_lost"], trace["buffers_lost"]) == (None, None)
    assert (found.facts["loss"]["events"], found.facts["loss"]["buffers"]) == (None, None)
    log.events_lost = 3
    (trace,) = read(tmp_path, log).of("trace")
    assert (trace["events_lost"], trace["buffers_lost"]) == (3, None)


CLOCK_BACK = "a buffer that begins before the one before it on its CPU ended"


def test_neither_side_of_ambiguous_clock_step_is_read(
    tmp_path: Path,
) -> None:
    # us     0    300         20000 20300
    # CPU 0  2nd, 3rd         1st              resumed with another counter
    buffers = [
        Buffer(life() + slices(8, 20_000), sequence=1),
        Buffer(slices(8, 0, 1), sequence=2),
        Buffer(slices(8, 200, 1), sequence=3),
        Buffer(slices(9, 5), cpu=1, sequence=4),
    ]
    found = read(tmp_path, Log(buffers))
    assert found.problems() == [
        ("buffer 1 at 0x1000, offset 0x48", CLOCK_BACK, 9),
        ("buffer 2 at 0x2000, offset 0x48", CLOCK_BACK, 2),
        ("buffer 3 at 0x3000, offset 0x48", CLOCK_BACK, 2),
    ]
    assert {
        (row["cpu"], row["start_ns"], row["end_ns"])
        for row in found.of("loss")
        if row["signalled_by"] == "damaged"
    } == {(0, None, None)}
    assert {cpu for cpu, *_ in found.ran()} == {1}
    # A merge puts sessions together whose buffers overlap.
    assert read(tmp_path, Log(buffers, mode=RELOG)).problems() == []
    # A record may be written a little after its time.
    buffers = [Buffer(slices(8, 0, 1)), Buffer(slices(8, 55, 1), sequence=2)]
    assert read(tmp_path, Log(buffers)).problems() == []


def test_records_before_the_header_have_negative_times(tmp_path: Path) -> None:
    early = [process(at(-500), 100, b"a.exe"), thread(at(-500), 100, 8)]
    found = read(tmp_path, Log([Buffer(early + slices(8, -400, 2))]))
    assert found.ran() == [(0, 8, -390_000, 50_000), (0, 8, -290_000, 50_000)]
    (trace,) = found.of("trace")
    # The header's record is the last.
    assert (trace["first_ns"], trace["duration_ns"]) == (-500_000, 0)


# Clocks of PCs, virtual machines, ARM64, old chipsets, and the cycle counter.
FREQUENCIES = [10_000_000, 3_579_545, 2_208_984, 24_000_000, 19_200_000, 1_000_000_000,
               2_592_003_481, 14_318_180]  # fmt: skip


@pytest.mark.parametrize("hz", FREQUENCIES)
def test_every_frequency_gives_exact_times(hz: int, tmp_path: Path) -> None:
    # Ticks from the start: the first ones, and others 11 days later.
    ticks = [1, 7, 1_000_003, 10**6 * hz + 1, 10**6 * hz + hz // 3]
    records = [
        switch(etl_bytes.START + tick, 8 * (number % 2), 8 - 8 * (number % 2), state=2)
        for number, tick in enumerate(ticks)
    ]
    found = read(tmp_path, Log([Buffer(records)], hz=hz))
    assert [row["ts"] for row in found.of("context_switch")] == [
        int(Fraction(tick * 10**9, hz)) for tick in ticks
    ]
    (trace,) = found.of("trace")
    assert trace["clock_hz"] == hz


@pytest.mark.parametrize(("clock", "ns"), [(0, 100), (1, 100), (2, 100), (3, Fraction(1000, 3141))])
def test_every_clock_counts_its_own_unit(clock: int, ns: int | Fraction, tmp_path: Path) -> None:
    # The frequency in the header belongs to the performance counter, whatever the clock is.
    hz = 10_000_000 if clock < 2 else 24_000_000
    start = etl_bytes.START_TIME if clock == 2 else etl_bytes.START
    records = [switch(start + 1_000_001, 0, 8, state=2)]
    log = Log([Buffer(records)], clock=clock, hz=hz, mhz=3141, start=start)
    found = read(tmp_path, log)
    assert [row["ts"] for row in found.of("context_switch")] == [int(1_000_001 * ns)]
    exact = {
        2: "the clock is the system time, which goes on in steps of up to 15625 us",
        3: "the clock counts cycles, at 3141 million a second by the rounded value of the header",
    }.get(clock)
    notes = [row["what"] for row in found.of("problem") if row["place"] == "clock"]
    assert [what.partition(":")[0] for what in notes] == ([exact] if exact else [])


def test_impossible_clocks_are_refused_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, Log(two_cpus(), clock=7))
    with pytest.raises(DamagedTraceError, match=r"not known \(type 7\): record with the perf"):
        Read(path)
    for log in (Log(two_cpus(), hz=0), Log(two_cpus(), clock=3, mhz=0)):
        with pytest.raises(DamagedTraceError, match="gives no frequency"):
            Read(written(tmp_path, log))


def test_missing_wall_time_is_unknown(tmp_path: Path) -> None:
    # A real-time clock reset by an empty battery.
    found = read(tmp_path, Log(two_cpus(), start_time=0, boot_time=0, end_time=1))
    (trace,) = found.of("trace")
    assert (found.ran(), trace["start_time_utc"]) == (TWO_CPUS, None)
    assert (found.facts["start"], found.facts["start_time_utc_ns"]) == (None, None)


@pytest.mark.parametrize("megabytes", [2, 16])
def test_buffers_of_many_megabytes_are_read(megabytes: int, tmp_path: Path) -> None:
    # Two switches each, separated by records that fill all but the last bytes.
    size = megabytes << 20
    filler = perfinfo(0x0F99, 1, at(100), bytes(60_000))
    count = (size - 2048) // (len(filler) + 8)
    first, last = slices(8, 0, 1), slices(8, 200, 1)
    log = Log([Buffer(life() + first + count * [filler] + last)], buffer_size=size)
    found = read(tmp_path, log)
    assert found.ran() == [(0, 8, 10_000, 50_000), (0, 8, 210_000, 50_000)]
    assert found.facts["records"] == 1 + 3 + 4 + count
    assert found.problems() == []


def packed_log(packing: int, state: int) -> Log:
    """Three buffers of one CPU; the second is longer than a block of any compression."""
    filler = perfinfo(0x0F99, 1, at(180), bytes(range(256)) * 200)
    buffers = [
        Buffer(life() + slices(8, 0, 1)),
        Buffer(slices(8, 100, 1) + 3 * [filler] + slices(8, 200, 1), sequence=2),
        Buffer(slices(8, 300, 1), sequence=3),
    ]
    for buffer in buffers:
        buffer.packed = etl_packed.PACKINGS[packing](buffer.content())
    return Log(buffers, buffer_size=1 << 18, layout=(2, 0), mode=1 << 26, state=state)


@pytest.mark.parametrize("packing", etl_packed.PACKINGS)
def test_compressed_buffers_are_read_whole_or_truncated(packing: int, tmp_path: Path) -> None:
    content = packed_log(packing, packing).encoded()
    found = read(tmp_path, content)
    truth = [(0, 8, (us + 10) * 1000, 50_000) for us in (0, 100, 200, 300)]
    assert (found.ran(), found.problems(), found.gaps()) == (truth, [], [])
    # Parts of the last buffer are missing, then everything after its header.
    last = len(list(packed_log(packing, packing).buffers)[2].packed or b"")
    for missing in (40, last // 2, last):
        cut = read(tmp_path, content[:-missing])
        assert cut.ran()[:3] == truth[:3]
        (place, what, _), *rest = cut.problems()
        assert what == "a packed buffer that does not unpack to its size"
        assert place.startswith("buffer 3 at ")
        assert {what for _, what, _ in rest} <= {"a record whose size cannot be"}
        assert "truncated" in {gap[3] for gap in cut.gaps()}


@pytest.mark.parametrize(("packing", "state"), [(2, 3), (3, 4), (4, 3), (2, 0), (4, 5)])
def test_undeclared_compression_is_detected(packing: int, state: int, tmp_path: Path) -> None:
    found = read(tmp_path, packed_log(packing, state))
    assert found.ran() == [(0, 8, (us + 10) * 1000, 50_000) for us in (0, 100, 200, 300)]
    name = {2: "LZNT1", 3: "XPRESS", 4: "XPRESS_HUFF"}[packing]
    ((place, what, _),) = found.problems()
    assert (place, found.facts["buffers"]["compression"]) == (f"packed with {name}", name)
    assert what == "the first buffer does not tell how the others are packed"


def test_buffers_without_cpu_are_reported(tmp_path: Path) -> None:
    found = read(tmp_path, Log(two_cpus(), mode=MIXED))
    assert found.ran() == []
    ((place, what, count),) = [tuple(row.values())[-3:] for row in found.of("problem")]
    assert (place, count) == ("buffers", 12)
    assert what.endswith("record without EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING")


def test_modes_are_named(tmp_path: Path) -> None:
    bits = (0, 6, 11, 13, 17, 22, 23, 27, 29, 31)
    found = read(tmp_path, Log(two_cpus(), mode=sum(1 << bit for bit in bits)))
    assert found.facts["header"]["modes"] == [
        "sequential",
        "nonstoppable",
        "private",
        "use_kbytes_for_size",
        "private_in_proc",
        "stop_on_hybrid_shutdown",
        "persist_on_hybrid_shutdown",
        "independent_session",
        "blocking",
        "addto_triage_dump",
    ]
    assert found.ran() == TWO_CPUS


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "made.etl.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_archive_of_several_files_is_one_recording(tmp_path: Path) -> None:
    buffers = two_cpus()
    user, kernel = Log(buffers[1:]).encoded(), Log(buffers[:1]).encoded()
    members = {"data.etl": user, "data.kernel.etl": kernel, "data.clrRundown.etl": b""}
    found = Read(archive(tmp_path, members))
    assert found.ran() == TWO_CPUS
    names = [file["name"] for file in found.facts["files"]]
    assert names == ["made.etl.zip/data.etl", "made.etl.zip/data.kernel.etl"]
    empty = "a log in the archive without a byte"
    assert found.problems()[-1] == ("made.etl.zip/data.clrRundown.etl", empty, 1)


def test_archives_in_a_folder_are_found(tmp_path: Path) -> None:
    log = Log(two_cpus()).encoded()
    path = archive(tmp_path, {"a.etl": log})
    (tmp_path / "symbols.zip").write_bytes(b"")
    other = written(tmp_path, Log(two_cpus(), boot_time=etl_bytes.START_TIME - 10**9))
    found = [known.files for known in recording.gather([tmp_path])]
    assert found == [[str(other)], [str(path)]]


def test_unreadable_file_in_archive_is_named(tmp_path: Path) -> None:
    good = Log(two_cpus()).encoded()
    with pytest.raises(NotATraceError, match=r"zip: b\.etl in the archive: begins with"):
        Read(archive(tmp_path, {"a.etl": good, "b.etl": b"no log"}))
    with pytest.raises(NotATraceError, match=r"zip: a\.etl in the archive: the file is empty"):
        Read(archive(tmp_path, {"a.etl": b""}))
    other = Log(two_cpus(), hz=3_000_000).encoded()
    with pytest.raises(UnsupportedTraceError, match=r"b\.etl is not of the same recording"):
        Read(archive(tmp_path, {"a.etl": good, "b.etl": other}))


def test_boot_recording_takes_cpus_from_records(tmp_path: Path) -> None:
    # The header was written before the other CPUs ran, and the wall clock was wrong.
    found = read(tmp_path, Log(two_cpus(), cpus=1, end_time=etl_bytes.START_TIME - 10**12))
    assert (found.ran(), found.problems(), found.gaps()) == (TWO_CPUS, [], [])
    assert [row["cpu"] for row in found.of("cpu")] == [0, 1]


@pytest.mark.parametrize("size", [0, 0x47])
def test_buffer_without_size_loses_only_itself(size: int, tmp_path: Path) -> None:
    content = bytearray(Log([*two_cpus(), Buffer(slices(8, 300, 1), sequence=3)]).encoded())
    struct.pack_into("<I", content, 2 * 4096, size)
    found = read(tmp_path, bytes(content))
    assert found.ran() == [*TWO_CPUS[:3], (0, 8, 310_000, 50_000)]
    assert found.problems() == [
        ("bytes 0x2000 to 0x3000, before buffer 2", "bytes that are no buffer", 1)
    ]
    assert (0, 260_000, 310_000, "missing_buffer") in found.gaps()


def test_missing_buffer_size_is_taken_from_buffers(tmp_path: Path) -> None:
    content = bytearray(Log(two_cpus()).encoded())
    struct.pack_into("<I", content, 0x48 + 32, 0)
    found = read(tmp_path, bytes(content))
    assert (found.ran(), found.problems()) == (TWO_CPUS, [])
