"""Hard faults and requests to disks in Windows recordings: drawn ones, and a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import etl_bytes
import etl_files
import etl_truth
import pytest
from etl_bytes import (
    FLUSH,
    WRITE,
    Buffer,
    Log,
    disk_done,
    disk_init,
    file_name,
    hard_fault,
    ready,
    switch,
)
from etl_drawn import at, life, read, written
from loaded_recording import loaded

US = 1_000
# KWAIT_REASON
EXECUTIVE, PAGE_IN = 0, 2
# Objects of files and IRPs are addresses in the kernel.
PAGES, DATA, LATE = 0xFFFF_A000_0000_1000, 0xFFFF_A000_0000_2000, 0xFFFF_A000_0000_3000
IRP, OTHER_IRP, THIRD_IRP = (0xFFFF_B000_0000_0000 + 0x1000 * n for n in (1, 2, 3))


def signed(address: int) -> int:
    return address - (1 << 64 if address >> 63 else 0)


# us       10   20      30     100    101      110        150    160      250   251  255  260
# thread 8 | runs | fault | out | read | ready | runs      | read | out    | done| rdy | runs| out
#          300   340       350        390     400    440     450
#          ready | write    | (no wait) | fault | out  | ready | has it
FIRST = [
    *life(),
    file_name(at(5), DATA, r"\Device\HarddiskVolume3\data.bin", opcode=32),
    switch(at(10), 0, 8, state=2, reason=0),
    disk_init(at(25), IRP, 8),
    switch(at(30), 8, 0, state=5, reason=PAGE_IN),
    switch(at(105), 0, 8, state=2, reason=0),
    hard_fault(at(110), at(20), 8, 0x7FF6_1234_5678, file=PAGES, size=8192),
    # The same IRP for another request.
    disk_init(at(150), IRP, 8),
    switch(at(160), 8, 0, state=5, reason=EXECUTIVE),
    switch(at(255), 0, 8, state=2, reason=0),
    # A wait for thread 9, while the disk answers a request of its own.
    disk_init(at(257), THIRD_IRP, 8),
    switch(at(260), 8, 0, state=5, reason=EXECUTIVE),
    switch(at(305), 0, 8, state=2, reason=0),
    disk_init(at(340), OTHER_IRP, 8, opcode=WRITE),
    # The fault locks something that another fault of the same page has.
    switch(at(400), 8, 0, state=5, reason=EXECUTIVE),
    switch(at(445), 0, 8, state=2, reason=0),
    hard_fault(at(450), at(390), 8, 0xFFFF_C000_0000_0010, file=LATE),
    switch(at(460), 8, 0, state=5, reason=6),
    file_name(at(500), PAGES, r"\Device\HarddiskVolume3\app.dll"),
]
SECOND = [
    switch(at(15), 0, 9, state=2, reason=0),
    disk_done(at(100), IRP, 8, 750, offset=4096, size=8192, file=PAGES),
    ready(at(101), 8, in_dpc=True),
    disk_done(at(250), IRP, 8, 999, disk=1, offset=1 << 40, file=DATA),
    ready(at(251), 8, in_dpc=True),
    disk_done(at(290), THIRD_IRP, 8, 330, size=1024, offset=2048),
    ready(at(300), 8),
    disk_done(at(350), OTHER_IRP, 8, 100, opcode=WRITE, size=512, offset=512),
    ready(at(440), 8),
    switch(at(520), 9, 0),
]
BUFFERS = [Buffer(FIRST, cpu=0, sequence=1), Buffer(SECOND, cpu=1, sequence=2)]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("waits")
    path = written(folder, Log(BUFFERS))
    with loaded(path, folder) as database:
        yield database


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


def test_hard_faults_have_their_thread_length_address_and_file(
    con: duckdb.DuckDBPyConnection,
) -> None:
    found = rows(
        con,
        "SELECT ts, cpu, tid, dur, address, bytes, file FROM wait_event JOIN thread USING (utid) "
        "WHERE kind = 'hard_fault' ORDER BY ts",
    )
    assert found == [
        (110 * US, 0, 8, 90 * US, 0x7FF6_1234_5678, 8192, r"\Device\HarddiskVolume3\app.dll"),
        # Nothing names the second file.
        (450 * US, 0, 8, 60 * US, signed(0xFFFF_C000_0000_0010), 4096, None),
    ]


def test_requests_are_paired_by_their_irp(con: duckdb.DuckDBPyConnection) -> None:
    found = rows(
        con,
        "SELECT tid, operation, disk, sector, bytes, file, issue_ns, done_ns, dur_ns "
        "FROM disk_request",
    )
    app, data = (rf"\Device\HarddiskVolume3\{name}" for name in ("app.dll", "data.bin"))
    assert found == [
        (8, "read", "0", 8, 8192, app, 25 * US, 100 * US, 75 * US),
        # Windows counts the time of a request itself.
        (8, "read", "1", 1 << 31, 4096, data, 150 * US, 250 * US, 99_900),
        (8, "read", "0", 4, 1024, None, 257 * US, 290 * US, 33 * US),
        (8, "write", "0", 1, 512, None, 340 * US, 350 * US, 10 * US),
    ]


def test_waits_name_faults_and_requests(con: duckdb.DuckDBPyConnection) -> None:
    found = rows(
        con, "SELECT cause, waits, wait_ns FROM wait_cause WHERE tid = 8 AND cause <> 'unknown'"
    )
    assert sorted(found) == [
        ("disk", 1, 91 * US),
        # The wait for thread 9 at 260, and the one at the end.
        ("object", 2, 100 * US),
        ("page_fault", 2, 111 * US),
    ]


def test_recorded_kinds_say_so(con: duckdb.DuckDBPyConnection) -> None:
    found = rows(
        con,
        "SELECT kind, recorded, record_with FROM recorded_kind "
        "WHERE kind IN ('disk_requests', 'page_faults') ORDER BY kind",
    )
    assert found == [
        ("disk_requests", True, "DiskIO+DiskIOInit"),
        ("page_faults", True, "CSwitch"),
    ]


def test_end_of_a_request_alone_is_enough(tmp_path: Path) -> None:
    # Without the keyword DiskIOInit; the thread of an older version is not known.
    records = [
        *life(),
        disk_done(at(100), IRP, 8, 750),
        disk_done(at(200), OTHER_IRP, 0, 50, version=2, size=512),
        switch(at(300), 0, 8, state=2, reason=0),
    ]
    path = written(tmp_path, Log([Buffer(records)]))
    with loaded(path, tmp_path) as con:
        found = rows(con, "SELECT tid, bytes, issue_ns, done_ns, dur_ns FROM disk_request")
    assert found == [
        (8, 4096, 25 * US, 100 * US, 75 * US),
        (None, 512, 195 * US, 200 * US, 5 * US),
    ]


@pytest.mark.parametrize("pointer", [4, 8])
def test_older_versions_and_flushes_are_read(pointer: int, tmp_path: Path) -> None:
    irp = 0x8765_0000
    old = {"version": 2, "pointer": pointer}
    records = [
        disk_init(at(10), irp, 8, **old),
        disk_done(at(20), irp, 0, 90, offset=1024, **old),
        disk_init(at(30), irp, 9, opcode=FLUSH, pointer=pointer),
        disk_done(at(50), irp, 9, 190, opcode=FLUSH, disk=2, pointer=pointer),
        hard_fault(at(60), at(55), 8, 0x1000, pointer=pointer),
    ]
    found = read(tmp_path, Log([Buffer([*life(), *records])]))
    tids = {row["utid"]: row["tid"] for row in found.of("thread")}
    columns = ("kind", "operation", "request", "device", "sector", "bytes", "dur")
    assert [
        (tids[row["utid"]], *(row[name] for name in columns)) for row in found.of("wait_event")
    ] == [
        (8, "disk_issue", "read", irp, None, None, None, None),
        (8, "disk_done", "read", irp, 0, 2, 4096, 9_000),
        (9, "disk_issue", "flush", irp, None, None, None, None),
        (9, "disk_done", "flush", irp, 2, None, None, 19_000),
        (8, "hard_fault", None, None, None, None, 4096, 5_000),
    ]


def test_impossible_lengths_are_unknown_and_reported(tmp_path: Path) -> None:
    records = [
        hard_fault(at(20), at(30), 8, 0x1000),
        hard_fault(at(21), -(1 << 62), 8, 0x1000),
        disk_done(at(40), IRP, 8, (1 << 64) - 1, offset=(1 << 64) - 1, size=(1 << 32) - 1),
        disk_init(at(50), (1 << 64) - 1, 0),
        etl_bytes.perfinfo(0x010A, 3, at(60), b"\1\2\3"),
        etl_bytes.perfinfo(0x0220, 2, at(60), b"\1\2\3"),
    ]
    found = read(tmp_path, Log([Buffer([*life(), *records])]))
    assert [(row["kind"], row["dur"]) for row in found.of("wait_event")] == [
        ("hard_fault", None),
        ("hard_fault", None),
        ("disk_done", None),
        ("disk_issue", None),
    ]
    assert [row["sector"] for row in found.of("wait_event")] == [None, None, (1 << 55) - 1, None]
    assert {(row["place"], row["count"]) for row in found.of("problem")} >= {
        ("hard faults", 2), ("disk requests", 1), ("payloads", 2),
    }  # fmt: skip


REAL = "pv_net452_x64.etl"
# Columns of wait_event by property of the other decoder, and what it has for a row of ours.
FAULT = {
    "ByteCount": "bytes",
    "VirtualAddress": "address",
    "@tid": "tid",
    # Its clock has 10 MHz.
    "InitialTime": "(ts - dur) // 100 + (SELECT start_clock FROM trace)",
}
REQUEST = {
    "TransferSize": "bytes",
    "HighResResponseTime": "dur // 100",
    "Irp": "request",
    "@tid": "tid",
}
# It reads the thread of a flush from another field.
FLUSHED = {"HighResResponseTime": "dur // 100", "Irp": "request"}
ISSUED = {"Irp": "request"}
EVENTS = {
    "0220 v2": ("kind = 'hard_fault'", FAULT),
    "010a v3": ("kind = 'disk_done' AND operation = 'read'", REQUEST),
    "010b v3": ("kind = 'disk_done' AND operation = 'write'", REQUEST),
    "010e v3": ("kind = 'disk_done' AND operation = 'flush'", FLUSHED),
    "010c v3": ("kind = 'disk_issue' AND operation = 'read'", ISSUED),
    "010d v3": ("kind = 'disk_issue' AND operation = 'write'", ISSUED),
    "010f v3": ("kind = 'disk_issue' AND operation = 'flush'", ISSUED),
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("real")
    with loaded(etl_files.written(REAL, folder), folder) as con:
        yield con


def _theirs(event: str) -> dict[str, Any]:
    """Count and sums of an event, as the other decoder read them."""
    files = etl_truth.load("traceevent/corpus.json")["files"]
    found: dict[str, Any] = files[REAL.removesuffix(".etl")]["classes"][event]
    return found


def _sums(values: list[int]) -> list[int]:
    """The lower and the upper half of all values, each added up; without an upper half of 0."""
    halves = [sum(value % (1 << 32) for value in values), sum(value >> 32 for value in values)]
    return halves if halves[1] else halves[:1]


@pytest.mark.parametrize("event", EVENTS)
def test_real_recording_has_what_another_decoder_read(
    real: duckdb.DuckDBPyConnection, event: str
) -> None:
    theirs = _theirs(event)
    where, columns = EVENTS[event]
    picked = ", ".join(columns.values())
    found = rows(
        real, f"SELECT {picked} FROM wait_event LEFT JOIN thread USING (utid) WHERE {where}"
    )
    assert len(found) == theirs["count"]
    for name, column in zip(columns, zip(*found, strict=True), strict=True):
        unsigned = [value % (1 << 64) for value in column]
        assert _sums(unsigned) == theirs["sums"][name], name


@pytest.mark.parametrize(("operation", "end"), [("read", "010a v3"), ("write", "010b v3")])
def test_real_requests_begin_in_the_thread_that_their_end_names(
    real: duckdb.DuckDBPyConnection, operation: str, end: str
) -> None:
    # The header of the start names another thread for some writes.
    found = rows(
        real,
        "SELECT tid FROM wait_event JOIN thread USING (utid) "
        f"WHERE kind = 'disk_issue' AND operation = '{operation}'",
    )
    assert _sums([tid for (tid,) in found]) == _theirs(end)["sums"]["@tid"]


def test_real_requests_are_paired(real: duckdb.DuckDBPyConnection) -> None:
    found = rows(
        real,
        "SELECT operation, count(*), count(done_ns), count(file), "
        "max(abs(dur_ns - (done_ns - issue_ns))) FROM disk_request GROUP BY operation ORDER BY ALL",
    )
    # Windows takes its own time a few us before or after the records.
    assert found == [
        ("flush", 2, 2, 0, 300),
        ("read", 1208, 1208, 1207, 14_200),
        ("write", 21, 21, 21, 1_900),
    ]


def test_real_faults_have_files_with_drive_letters(real: duckdb.DuckDBPyConnection) -> None:
    found = rows(
        real,
        r"SELECT count(*), count(file), count(*) FILTER (file LIKE '_:\%') "
        "FROM wait_event WHERE kind = 'hard_fault'",
    )
    # One file has no name, and three are of other machines.
    assert found == [(153, 152, 149)]
