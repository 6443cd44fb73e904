"""Files as real machines write them now and then, byte by byte: what is read, and what is told."""

from __future__ import annotations

import json
import struct
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import etl_bytes
import etl_packed
import pytest
from decoded import decoded
from etl_bytes import Buffer, Log, perfinfo, process, switch, system, thread

from schedlens import _decoders, recording
from schedlens.errors import DamagedTraceError, NotATraceError, UnsupportedTraceError

US = 10  # ticks of the usual clock
RELOG, MIXED = 1 << 16, 1 << 28


def at(us: int) -> int:
    """Raw time so many us after the header's record."""
    return etl_bytes.START + US * us


def life() -> list[bytes]:
    """A process of two threads, as the rundown at the begin has them."""
    return [process(at(0), 100, b"drawn.exe"), thread(at(0), 100, 8), thread(at(0), 100, 9)]


def stays(tid: int, from_us: int, count: int = 3) -> list[bytes]:
    """A thread runs 50 us of every 100: in at 10, out at 60."""
    return [
        record
        for begin in range(from_us, from_us + 100 * count, 100)
        for record in (
            switch(at(begin + 10), 0, tid, state=2, reason=0),
            switch(at(begin + 60), tid, 0),
        )
    ]


def two_cpus(**first: Any) -> list[Buffer]:
    """Thread 8 on CPU 0 and thread 9, 5 us later, on CPU 1."""
    return [
        Buffer(life() + stays(8, 0), **({"cpu": 0, "sequence": 1} | first)),
        Buffer(stays(9, 5), cpu=1, sequence=2),
    ]


# CPU, thread, begin and length in ns.
Rows = list[tuple[int, int, int, int]]
TWO_CPUS: Rows = [
    *((0, 8, us * 1000, 50_000) for us in (10, 110, 210)),
    *((1, 9, us * 1000, 50_000) for us in (15, 115, 215)),
]


def written(folder: Path, content: bytes | Log, name: str = "made.etl") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encoded())
    return path


class Read:
    """A file through `inspect` and through the decoder."""

    def __init__(self, path: Path) -> None:
        self.facts: dict[str, Any] = json.loads(_decoders.inspect(str(path)))
        self.tables: dict[str, list[dict[str, Any]]] = {
            table: rows.to_pylist() for table, rows in decoded(path).items()
        }

    def of(self, table: str) -> list[dict[str, Any]]:
        return self.tables.get(table, [])

    def ran(self) -> Rows:
        """Stays of threads by CPU and time."""
        tids = {row["utid"]: row["tid"] for row in self.of("thread")}
        found = [
            (row["cpu"], tids[row["utid"]], row["ts"], row["dur"])
            for row in self.of("sched_slice")
            if not row["is_idle"]
        ]
        return sorted(found)

    def problems(self) -> list[tuple[str, str, int]]:
        """What `inspect` tells: place, the text up to its first colon, how often."""
        return [
            (problem["place"], problem["what"].partition(":")[0], problem["count"])
            for problem in self.facts["problems"]
        ]

    def gaps(self) -> list[tuple[int | None, int | None, int | None, str]]:
        return [
            (gap["cpu"], gap["start_ns"], gap["end_ns"], gap["signalled_by"])
            for gap in self.facts["loss"]["gaps"]
        ]


def read(folder: Path, content: bytes | Log) -> Read:
    return Read(written(folder, content))


def test_a_usual_file_is_read_without_a_word(tmp_path: Path) -> None:
    found = read(tmp_path, Log(two_cpus()))
    assert (found.ran(), found.problems(), found.gaps()) == (TWO_CPUS, [], [])
    (trace,) = found.of("trace")
    assert (trace["events_lost"], trace["buffers_lost"]) == (0, 0)


NEWER = "buffers with flags or of a type that is not described"


@pytest.mark.parametrize("what", [{"flags": etl_bytes.WIDE_INDEX | 0x100}, {"kind": 9}])
def test_a_buffer_of_a_later_system_is_read_and_told(what: dict[str, Any], tmp_path: Path) -> None:
    found = read(tmp_path, Log(two_cpus(**what)))
    assert (found.ran(), found.gaps()) == (TWO_CPUS, [])
    assert found.problems() == [("from 0x1000 on", NEWER, 1)]


@pytest.mark.parametrize(
    ("layout", "told"), [((1, 4), 0), ((1, 5), 0), ((2, 0), 0), ((1, 3), 1), ((3, 0), 1)]
)
def test_a_layout_that_is_not_described_is_told(
    layout: tuple[int, int], told: int, tmp_path: Path
) -> None:
    found = read(tmp_path, Log(two_cpus(), layout=layout))
    assert found.ran() == TWO_CPUS
    assert [place for place, _, _ in found.problems()] == told * [
        f"header, layout {layout[0]}.{layout[1]}"
    ]


def test_a_file_that_goes_on_where_another_was_full_lost_nothing(tmp_path: Path) -> None:
    buffers = two_cpus(sequence=1001)
    buffers[1].sequence = 1002
    # What the session wrote before lies in the other file; the header counts both, or this one.
    for count in (1003, 3):
        log = Log(buffers, mode=etl_bytes.NEW_FILE, buffers_written=count)
        found = read(tmp_path, log)
        assert (found.ran(), found.gaps()) == (TWO_CPUS, [])
    assert found.facts["header"]["modes"] == ["new_file"]
    # The first file holds the session's first buffers, here without the third of them.
    log = Log(two_cpus(), mode=etl_bytes.NEW_FILE, buffers_written=4)
    told = {(cpu, word) for cpu, _, _, word in read(tmp_path, log).gaps()}
    assert told == {(0, "truncated"), (1, "truncated")}


def test_a_circular_file_that_went_round_several_times(tmp_path: Path) -> None:
    # 6 places; the session is in its third round: 13, 14, then what is left of the second.
    order = (13, 14, 9, 10, 11, 12)
    buffers = [Buffer(stays(8, 100 * number, 1), sequence=number) for number in order]
    log = Log(buffers, mode=etl_bytes.CIRCULAR, buffers_written=15)
    found = read(tmp_path, log)
    assert found.ran() == [(0, 8, (100 * n + 10) * 1000, 50_000) for n in sorted(order)]
    assert (found.problems(), found.gaps()) == ([], [])


@pytest.mark.parametrize("packing", [None, *etl_packed.PACKINGS])
def test_a_session_that_was_never_closed_counted_no_loss(
    packing: int | None, tmp_path: Path
) -> None:
    buffers = two_cpus()
    for buffer in buffers if packing else []:
        buffer.packed = etl_packed.PACKINGS[packing or 0](buffer.content())
    log = Log(buffers, end_time=0, buffers_written=0, state=packing or 3)
    # Room that was set aside and never used follows.
    found = read(tmp_path, log.encoded() + bytes(3 * 4096))
    truth = [(cpu, 260_000 + 5_000 * cpu, None, "not_closed") for cpu in (0, 1)]
    assert (found.ran(), found.problems(), found.gaps()) == (TWO_CPUS, [], truth)
    (trace,) = found.of("trace")
    assert (trace["events_lost"], trace["buffers_lost"]) == (None, None)
    assert (found.facts["loss"]["events"], found.facts["loss"]["buffers"]) == (None, None)
    log.events_lost = 3
    (trace,) = read(tmp_path, log).of("trace")
    assert (trace["events_lost"], trace["buffers_lost"]) == (3, None)


CLOCK_BACK = "buffers that begin before the one before them on their CPU ended"


def test_a_clock_that_went_back_between_buffers_is_told(tmp_path: Path) -> None:
    # us     0    300         20000 20300
    # CPU 0  2nd, 3rd         1st              resumed with another counter
    buffers = [
        Buffer(life() + stays(8, 20_000), sequence=1),
        Buffer(stays(8, 0, 1), sequence=2),
        Buffer(stays(8, 200, 1), sequence=3),
        Buffer(stays(9, 5), cpu=1, sequence=4),
    ]
    found = read(tmp_path, Log(buffers))
    assert found.problems() == [("CPU 0, from the buffer at 0x2000 on", CLOCK_BACK, 1)]
    # A merge puts sessions together whose buffers overlap.
    assert read(tmp_path, Log(buffers, mode=RELOG)).problems() == []
    # A record may be put down a little later than its time.
    buffers = [Buffer(stays(8, 0, 1)), Buffer(stays(8, 55, 1), sequence=2)]
    assert read(tmp_path, Log(buffers)).problems() == []


def test_records_before_the_headers_are_at_negative_times(tmp_path: Path) -> None:
    early = [process(at(-500), 100, b"a.exe"), thread(at(-500), 100, 8)]
    found = read(tmp_path, Log([Buffer(early + stays(8, -400, 2))]))
    assert found.ran() == [(0, 8, -390_000, 50_000), (0, 8, -290_000, 50_000)]
    (trace,) = found.of("trace")
    # The header's record is the last.
    assert (trace["first_ns"], trace["duration_ns"]) == (-500_000, 0)


def test_thread_ids_may_have_all_their_bits(tmp_path: Path) -> None:
    tids = (1 << 22, 0x8000_0004, 0xFFFF_FFFC)
    records = [process(at(0), 100, b"a.exe"), *(thread(at(0), 100, tid) for tid in tids)]
    for number, tid in enumerate(tids):
        records += stays(tid, 100 * number, 1)
    found = read(tmp_path, Log([Buffer(records)]))
    truth = [(0, tid, (100 * n + 10) * 1000, 50_000) for n, tid in enumerate(tids)]
    assert found.ran() == truth


@pytest.mark.parametrize("coding", ["utf-8", "cp1252"])
def test_names_and_versions_of_later_systems(coding: str, tmp_path: Path) -> None:
    # Version 9 of everything, each with more behind the fields that are known.
    records = [
        process(at(0), 100, "Jörg.exe".encode(coding), version=9, tail=b"\1" * 40),
        thread(at(0), 100, 8, version=9),
        switch(at(10), 0, 8, state=2, version=9, tail=bytes(20)),
        switch(at(60), 8, 0, version=9, tail=bytes(20)),
    ]
    found = read(tmp_path, Log([Buffer(records)]))
    assert found.ran() == [(0, 8, 10_000, 50_000)]
    assert {(row["pid"], row["name"]) for row in found.of("process")} == {
        (0, "Idle"),
        (100, "Jörg.exe"),
    }


def test_events_that_are_too_short_are_told(tmp_path: Path) -> None:
    hooks = (0x0524, 0x0532, 0x0F44, 0x1239, 0x053D)
    short = [perfinfo(hook, 9, at(0), b"\1\2\3") for hook in hooks]
    short.append(system(0x0303, 9, at(0), b"\1\2\3"))
    found = read(tmp_path, Log([Buffer(life() + short + stays(8, 0)), two_cpus()[1]]))
    assert found.ran() == TWO_CPUS
    told = {row["what"]: row["count"] for row in found.of("problem")}
    assert told["events shorter than any version of their layout"] == len(short)


# Of PCs, of virtual machines, of ARM64, of old chipsets, of the cycle counter.
FREQUENCIES = [10_000_000, 3_579_545, 2_208_984, 24_000_000, 19_200_000, 1_000_000_000,
               2_592_003_481, 14_318_180]  # fmt: skip


@pytest.mark.parametrize("hz", FREQUENCIES)
def test_every_frequency_gives_exact_times(hz: int, tmp_path: Path) -> None:
    # Ticks from the begin: the first ones, and others 11 days later.
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
    # The frequency in the header is that of the performance counter, whatever the clock is.
    hz = 10_000_000 if clock < 2 else 24_000_000
    start = etl_bytes.START_TIME if clock == 2 else etl_bytes.START
    records = [switch(start + 1_000_001, 0, 8, state=2)]
    log = Log([Buffer(records)], clock=clock, hz=hz, mhz=3141, start=start)
    found = read(tmp_path, log)
    assert [row["ts"] for row in found.of("context_switch")] == [int(1_000_001 * ns)]
    exact = {
        2: "the clock is the system time, which goes on in steps of up to 15625 us",
        3: "the clock counts cycles, of which the header tells 3141 million a second, rounded",
    }.get(clock)
    told = [row["what"] for row in found.of("problem") if row["place"] == "clock"]
    assert [what.partition(":")[0] for what in told] == ([exact] if exact else [])


def test_clocks_that_cannot_be_are_refused_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, Log(two_cpus(), clock=7))
    with pytest.raises(DamagedTraceError, match=r"not known \(type 7\): record with the perf"):
        Read(path)
    for log in (Log(two_cpus(), hz=0), Log(two_cpus(), clock=3, mhz=0)):
        with pytest.raises(DamagedTraceError, match="gives no frequency"):
            Read(written(tmp_path, log))


def test_a_log_whose_wall_time_is_not_told(tmp_path: Path) -> None:
    # A clock that the battery has left alone.
    found = read(tmp_path, Log(two_cpus(), start_time=0, boot_time=0, end_time=1))
    (trace,) = found.of("trace")
    assert (found.ran(), trace["start_time_utc"]) == (TWO_CPUS, None)
    assert (found.facts["start"], found.facts["start_time_utc_ns"]) == (None, None)


@pytest.mark.parametrize("megabytes", [2, 16])
def test_buffers_of_many_megabytes(megabytes: int, tmp_path: Path) -> None:
    # Between two switches each, records that fill all but the last bytes.
    size = megabytes << 20
    filler = perfinfo(0x0F99, 1, at(100), bytes(60_000))
    count = (size - 2048) // (len(filler) + 8)
    first, last = stays(8, 0, 1), stays(8, 200, 1)
    log = Log([Buffer(life() + first + count * [filler] + last)], buffer_size=size)
    found = read(tmp_path, log)
    assert found.ran() == [(0, 8, 10_000, 50_000), (0, 8, 210_000, 50_000)]
    assert found.facts["records"] == 1 + 3 + 4 + count
    assert found.problems() == []


def packed_log(packing: int, state: int) -> Log:
    """Three buffers of one CPU; the second is longer than a block of any packing."""
    filler = perfinfo(0x0F99, 1, at(180), bytes(range(256)) * 200)
    buffers = [
        Buffer(life() + stays(8, 0, 1)),
        Buffer(stays(8, 100, 1) + 3 * [filler] + stays(8, 200, 1), sequence=2),
        Buffer(stays(8, 300, 1), sequence=3),
    ]
    for buffer in buffers:
        buffer.packed = etl_packed.PACKINGS[packing](buffer.content())
    return Log(buffers, buffer_size=1 << 18, layout=(2, 0), mode=1 << 26, state=state)


@pytest.mark.parametrize("packing", etl_packed.PACKINGS)
def test_packed_buffers_whole_and_cut(packing: int, tmp_path: Path) -> None:
    content = packed_log(packing, packing).encoded()
    found = read(tmp_path, content)
    truth = [(0, 8, (us + 10) * 1000, 50_000) for us in (0, 100, 200, 300)]
    assert (found.ran(), found.problems(), found.gaps()) == (truth, [], [])
    # Parts of the last buffer are missing, then all that lies behind its header.
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
def test_a_packing_that_is_not_told_is_found(packing: int, state: int, tmp_path: Path) -> None:
    found = read(tmp_path, packed_log(packing, state))
    assert found.ran() == [(0, 8, (us + 10) * 1000, 50_000) for us in (0, 100, 200, 300)]
    name = {2: "LZNT1", 3: "XPRESS", 4: "XPRESS_HUFF"}[packing]
    ((place, what, _),) = found.problems()
    assert (place, found.facts["buffers"]["compression"]) == (f"packed with {name}", name)
    assert what == "the first buffer does not tell how the others are packed"


def test_messages_alone_answer_nothing_but_are_counted(tmp_path: Path) -> None:
    messages = [etl_bytes.message(at(us), 10 + us % 3, b"\1\0\0\0") for us in range(30)]
    found = read(tmp_path, Log([Buffer(messages)]))
    counts = {f"WPP message {number}": 10 for number in (10, 11, 12)}
    assert found.facts["records_by_event"] == {"EventTrace/Header": 1} | counts
    assert found.facts["documentation_only"] == ["WPP messages"]
    assert (found.of("context_switch"), found.of("problem")) == ([], [])
    (trace,) = found.of("trace")
    assert trace["duration_ns"] == 29_000


def test_buffers_without_processors_are_told(tmp_path: Path) -> None:
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


def test_more_cpus_than_a_byte_counts(tmp_path: Path) -> None:
    # 300 CPUs in five groups of 60; thread 8 is confined to two of the fourth.
    masks = struct.pack("<I5Q", 5, *[(1 << 60) - 1] * 5)
    confined = perfinfo(0x0535, 2, at(5), struct.pack("<QIHH", 0b11, 8, 3, 0))
    buffers = [
        Buffer([system(0x0B1A, 2, at(0), masks), *life(), confined], sequence=1),
        Buffer(stays(8, 0), cpu=181, sequence=2),
        Buffer(stays(9, 5), cpu=299, sequence=3),
    ]
    found = read(tmp_path, Log(buffers, cpus=300))
    assert found.ran() == [
        (cpu, tid, ts, dur) for old, tid, ts, dur in TWO_CPUS for cpu in ((181, 299)[old],)
    ]
    places = {row["cpu"]: (row["group_no"], row["number_in_group"]) for row in found.of("cpu")}
    assert (len(places), places[181], places[299]) == (300, (3, 1), (4, 59))
    assert [row["cpus"] for row in found.of("affinity_change")] == [[180, 181]]


def test_a_cpu_that_is_not_told_of_is_there(tmp_path: Path) -> None:
    # Group and number of CPUs 0 and 1; records of CPU 3.
    told = system(0x0B1B, 2, at(0), struct.pack("<IHBBHBB", 2, 0, 0, 0, 0, 1, 0))
    buffers = [Buffer([told, *life(), *stays(8, 0)]), Buffer(stays(9, 5), cpu=3, sequence=2)]
    found = read(tmp_path, Log(buffers))
    places = [(row["cpu"], row["number_in_group"]) for row in found.of("cpu")]
    assert places == [(0, 0), (1, 1), (2, None), (3, None)]


def test_counters_that_something_else_used_are_left_out(tmp_path: Path) -> None:
    names = struct.pack("<I", 1) + "TotalCycles\0".encode("utf-16-le")
    # From 100 us on the counter of CPU 0 is no longer good; that of CPU 1 is.
    spoiled = perfinfo(0x0F31, 2, at(400), struct.pack("<IIIq", 0, 1, 19, at(100)))
    sound = perfinfo(0x0F31, 2, at(400), struct.pack("<II", 1, 0))
    body = struct.pack("<IIbbbbbbbbII", 8, 0, 8, 8, 0, 0, 0, 0, 2, 0, 0, 0)

    def counted(us: int) -> bytes:
        value = struct.pack("<Q", 1000 * us)
        return perfinfo(0x0524, 4 | 1 << 8, at(us), body, words=value)

    buffers = [
        Buffer([perfinfo(0x0F30, 2, at(0), names), *map(counted, (50, 100, 101, 300)), spoiled]),
        Buffer([*map(counted, (50, 300)), sound], cpu=1, sequence=2),
    ]
    found = read(tmp_path, Log(buffers))
    samples = [(row["cpu"], row["ts"], row["value"]) for row in found.of("counter_sample")]
    assert sorted(samples) == [
        (0, 50_000, 50_000),
        (0, 100_000, 100_000),
        (1, 50_000, 50_000),
        (1, 300_000, 300_000),
    ]
    told = [row["place"] for row in found.of("problem") if "counters of this CPU" in row["what"]]
    assert told == ["cpu 0"]


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "made.etl.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_an_archive_of_several_logs_is_one_recording(tmp_path: Path) -> None:
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


def test_a_log_in_an_archive_is_named_where_it_cannot_be_read(tmp_path: Path) -> None:
    good = Log(two_cpus()).encoded()
    with pytest.raises(NotATraceError, match=r"zip: b\.etl in the archive: begins with"):
        Read(archive(tmp_path, {"a.etl": good, "b.etl": b"no log"}))
    with pytest.raises(NotATraceError, match=r"zip: a\.etl in the archive: the file is empty"):
        Read(archive(tmp_path, {"a.etl": b""}))
    other = Log(two_cpus(), hz=3_000_000).encoded()
    with pytest.raises(UnsupportedTraceError, match=r"b\.etl is not of the same recording"):
        Read(archive(tmp_path, {"a.etl": good, "b.etl": other}))


# The kernel's class Thread, its class PerfInfo, and KernelTraceControl's ImageID.
THREAD_CLASS = UUID("3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c").bytes_le
PERF_INFO = UUID("ce1dbfb4-137e-4da6-87b0-3f59aa102cbc").bytes_le
IMAGE_ID = UUID("b3e675d7-2554-4f18-830b-2762732560de").bytes_le


def body(old: int, new: int) -> bytes:
    """The payload of a CSwitch."""
    return switch(0, old, new, state=5 if old else 2)[16:]


@pytest.mark.parametrize(
    "switched",
    [
        lambda ts, old, new: system(0x0524, 4, ts, body(old, new), ids=(0, 77)),
        lambda ts, old, new: etl_bytes.classic(THREAD_CLASS, 36, 4, ts, body(old, new)),
        lambda ts, old, new: perfinfo(0x0524, 4, ts, body(old, new), pointer=4),
        lambda ts, old, new: perfinfo(0x0524, 0x8004, ts, body(old, new), words=bytes(8)),
    ],
    ids=["system header", "classic header", "32 bit", "PEBS index"],
)
def test_a_switch_is_one_under_any_header(switched: Any, tmp_path: Path) -> None:
    records = [switched(at(us), old, 8 - old) for us, old in ((10, 0), (60, 8), (110, 0))]
    found = read(tmp_path, Log([Buffer(life() + records)]))
    assert [(row["ts"], row["prev_state"]) for row in found.of("context_switch")] == [
        (10_000, 2),
        (60_000, 5),
        (110_000, 2),
    ]
    assert found.ran()[0] == (0, 8, 10_000, 50_000)


def test_marks_come_with_two_headers(tmp_path: Path) -> None:
    marks = [
        perfinfo(0x0F22, 0, at(5), b"first"),
        etl_bytes.classic(PERF_INFO, 34, 0, at(7), b"second\0"),
    ]
    found = read(tmp_path, Log([Buffer(marks)]))
    assert [(row["ts"], row["name"]) for row in found.of("mark")] == [
        (5_000, "first"),
        (7_000, "second"),
    ]


def test_what_merging_adds_of_images_tells_nothing_of_threads(tmp_path: Path) -> None:
    # It bears the thread that loaded the image and another process.
    image = struct.pack("<QQII", 0x7FF0_0000, 0x1000, 500, 0) + "a.dll\0".encode("utf-16-le")
    switches = [switch(at(10), 0, 8, state=2), switch(at(60), 8, 0)]
    added = etl_bytes.classic(IMAGE_ID, 0, 2, at(20), image, ids=(500, 8))
    found = read(tmp_path, Log([Buffer([*switches, added])]))
    assert found.ran() == [(0, 8, 10_000, 50_000)]
    assert [(row["tid"], row["upid"]) for row in found.of("thread") if row["tid"]] == [(8, None)]
    assert [row["pid"] for row in found.of("process")] == [0]


def test_a_log_of_windows_7_of_32_bits(tmp_path: Path) -> None:
    # Process v3 with a user: TOKEN_USER of two pointers, then S-1-5-18.
    sid = struct.pack("<IIBB6sI", 0x8000_1000, 0, 1, 1, b"\0\0\0\0\0\5", 18)
    game = struct.pack("<IIIIiI", 0x8512_3456, 100, 4, 1, 259, 0x7F00_0000) + sid
    game += b"game.exe\0" + "game.exe -x\0".encode("utf-16-le")
    worker = struct.pack("<II7IIBBBB", 100, 8, *[0] * 4, 0b11, 0, 0, 0, 8, 5, 2, 0)
    records = [
        system(0x0303, 3, at(0), game, pointer=4),
        system(0x0503, 3, at(0), worker, pointer=4),
        switch(at(10), 0, 8, state=2, version=2, pointer=4),
        switch(at(60), 8, 0, version=2, pointer=4),
    ]
    log = Log([Buffer(records, flags=0, cpu=1 | 8 << 8)], os=(6, 1, 7601), pointer=4, hz=2_208_984)
    found = read(tmp_path, log)
    assert found.facts["header"]["os_version"] == "6.1.7601"
    assert [(p["pid"], p["name"]) for p in found.facts["processes"]] == [(100, "game.exe")]
    begin, end = (int(Fraction(us * US * 10**9, 2_208_984)) for us in (10, 60))
    assert found.ran() == [(1, 8, begin, end - begin)]
    assert [row["cpus"] for row in found.of("affinity")] == [[0, 1]]
    assert [row["base_priority"] for row in found.of("thread") if row["tid"]] == [8]


def test_a_log_of_a_boot_knows_its_cpus_by_their_records(tmp_path: Path) -> None:
    # The header was written before the other CPUs ran, and the wall clock was wrong.
    found = read(tmp_path, Log(two_cpus(), cpus=1, end_time=etl_bytes.START_TIME - 10**12))
    assert (found.ran(), found.problems(), found.gaps()) == (TWO_CPUS, [], [])
    assert [row["cpu"] for row in found.of("cpu")] == [0, 1]


@pytest.mark.parametrize("size", [0, 0x47])
def test_a_buffer_without_a_size_costs_only_itself(size: int, tmp_path: Path) -> None:
    content = bytearray(Log([*two_cpus(), Buffer(stays(8, 300, 1), sequence=3)]).encoded())
    struct.pack_into("<I", content, 2 * 4096, size)
    found = read(tmp_path, bytes(content))
    assert found.ran() == [*TWO_CPUS[:3], (0, 8, 310_000, 50_000)]
    assert found.problems() == [
        ("bytes 0x2000 to 0x3000, before buffer 2", "bytes that are no buffer", 1)
    ]
    assert (0, 260_000, 310_000, "missing_buffer") in found.gaps()


def test_a_header_that_tells_no_buffer_size_is_read_by_the_buffers(tmp_path: Path) -> None:
    content = bytearray(Log(two_cpus()).encoded())
    struct.pack_into("<I", content, 0x48 + 32, 0)
    found = read(tmp_path, bytes(content))
    assert (found.ran(), found.problems()) == (TWO_CPUS, [])
