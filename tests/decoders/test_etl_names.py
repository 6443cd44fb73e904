"""Names: events by the file's own descriptions, processes with creator and command line."""

from __future__ import annotations

import json
import lzma
import struct
import uuid
from pathlib import Path
from typing import Any

import duckdb
import etl_bytes
import pytest
from conftest import command
from decoded import decoded
from etl_files import folder, needs

from schedlens import _decoders

pytestmark = pytest.mark.slow

KERNEL_PROCESS = uuid.UUID("22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716").bytes_le
DXGKRNL = uuid.UUID("802ec45a-1e99-4b83-9920-87c98277ba9d").bytes_le
OWN = uuid.UUID("12345678-0000-4000-8000-000000000001").bytes_le
METADATA = uuid.UUID("bbccf6c1-6cd1-48c4-80ff-839482e37671").bytes_le
# 10 MHz.
MS = 10_000
START = etl_bytes.START


def _written(records: list[bytes], path: Path, **header: Any) -> Path:
    buffers = [
        etl_bytes.Buffer(records[at : at + 20], sequence=1 + at // 20)
        for at in range(0, len(records), 20)
    ]
    path.write_bytes(etl_bytes.Log(buffers, **header).encoded())
    return path


def _utf16(text: str) -> bytes:
    return (text + "\0").encode("utf-16-le")


def _schema(provider: bytes, number: int, task: str) -> bytes:
    """`TRACE_EVENT_INFO` of an event without fields: names of its provider and task."""
    names = _utf16("Made-Provider") + _utf16(task)
    head = bytearray(112)
    head[0:16] = provider
    struct.pack_into("<HB", head, 32, number, 0)
    struct.pack_into("<I", head, 52, 112)
    struct.pack_into("<I", head, 68, 112 + len(_utf16("Made-Provider")))
    return bytes(head) + names


def _trace_logging(name: str, ts: int, provider: str) -> bytes:
    """A TraceLogging event without fields, with its schema and its provider's name."""
    schema = struct.pack("<HB", 3 + len(name) + 1, 0) + name.encode() + b"\0"
    traits = struct.pack("<H", 2 + len(provider) + 1) + provider.encode() + b"\0"
    items = b""
    for kind, more, data in ((11, 1, schema), (12, 0, traits)):
        size = 8 + len(data) + -len(data) % 8
        items += struct.pack("<HHHH", size, kind, more, len(data)) + data + bytes(-len(data) % 8)
    record = bytearray(etl_bytes.event(OWN, 0, 0, ts, items))
    struct.pack_into("<H", record, 4, 1)
    return bytes(record)


def test_events_use_names_from_the_file(tmp_path: Path) -> None:
    records = [
        etl_bytes.event(OWN, 7, 0, START + MS, b""),
        etl_bytes.event(OWN, 8, 0, START + MS + 1, b""),
        _trace_logging("Reported", START + MS + 2, "Traced-Provider"),
        _trace_logging("Reported", START + MS + 3, "Traced-Provider"),
        _trace_logging("Other", START + MS + 4, "Traced-Provider"),
        etl_bytes.system(0x060F, 2, START + MS + 5, bytes(60)),
        etl_bytes.classic(METADATA, 32, 0, START + MS + 6, _schema(OWN, 7, "Painted")),
    ]
    trace = _written(records, tmp_path / "named.etl")
    facts = json.loads(_decoders.inspect(str(trace)))
    counts = facts["records_by_event"]
    assert counts == {
        "EventTrace/Header": 1,
        "Made-Provider/Painted": 1,
        "Made-Provider/8": 1,
        "Traced-Provider/Reported": 2,
        "Traced-Provider/Other": 1,
        "TcpIp/Accept": 1,
        "EventMetadata/32": 1,
    }
    shown = {row["record"]: row["count"] for row in decoded(trace)["record_count"].to_pylist()}
    assert shown == counts
    assert "Made-Provider/Painted" in command("schedlens", "inspect", str(trace)).stdout


# Disconnect, accept, disconnect, accept and copy of IPv6.
@pytest.mark.parametrize("hook", [0x060D, 0x060F, 0x061D, 0x061F, 0x0622])
def test_tcp_events_are_decoded(hook: int, tmp_path: Path) -> None:
    six = hook & 0xFF >= 0x1A
    address = bytes(range(1, 17)) if six else bytes([10, 0, 0, 1])
    payload = struct.pack("<II", 4711, 1460) + 2 * address + struct.pack(">HH", 443, 50_000)
    accepts = hook & 0xF == 0xF
    if accepts:
        payload += struct.pack("<HHHHIhh", 1440, 1, 0, 8, 65_535, 7, -1)
    payload += struct.pack("<IQ", 99, 0xABCD)
    trace = _written([etl_bytes.system(hook, 2, START + MS, payload)], tmp_path / "tcp.etl")
    lines = [
        json.loads(line) for batch in _decoders.events([str(trace)]) for line in batch.splitlines()
    ]
    [fields] = [line["fields"] for line in lines if line["id"] == f"{hook:04x}"]
    shown = "102:304:506:708:90a:b0c:d0e:f10" if six else "10.0.0.1"
    expected = {"PID": 4711, "size": 1460, "daddr": shown, "saddr": shown, "dport": 443,
                "sport": 50_000, "seqnum": 99, "connid": 0xABCD}  # fmt: skip
    if accepts:
        expected |= {"mss": 1440, "sackopt": 1, "tsopt": 0, "wsopt": 8, "rcvwin": 65_535,
                     "rcvwinscale": 7, "sndwinscale": -1}  # fmt: skip
    assert fields == expected


def test_thread_end_keeps_base_priority(tmp_path: Path) -> None:
    def thread(ts: int, tid: int, opcode: int, priority: int) -> bytes:
        payload = struct.pack("<II7QIBBBB", 80, tid, *[0] * 7, 0, priority, 5, 2, 0)
        return etl_bytes.system(0x0500 | opcode, 3, ts, payload)

    records = [thread(START + 1, 81, 3, 9), thread(START + MS, 81, 2, 15),
               thread(START + MS + 1, 82, 2, 15)]  # fmt: skip
    rows = decoded(_written(records, tmp_path / "ended.etl"))["thread"].to_pylist()
    assert {r["tid"]: r["base_priority"] for r in rows if r["tid"]} == {81: 9, 82: None}


def test_processes_have_creator_session_and_command_line(tmp_path: Path) -> None:
    records = [
        etl_bytes.process(START + 1, 80, b"a.exe"),
        etl_bytes.process(START + MS, 80, b"a.exe", opcode=2),
    ]
    rows = decoded(_written(records, tmp_path / "process.etl"))["process"].to_pylist()
    [row] = [row for row in rows if row["pid"] == 80]
    assert (row["parent_pid"], row["session_id"], row["command_line"]) == (4, 1, "cmd")
    assert row["end_ns"] == 100 * MS


def _kernel_process(ts: int, number: int, version: int, payload: bytes) -> bytes:
    return etl_bytes.event(KERNEL_PROCESS, number, version, ts, payload)


def test_kernel_process_provider_replaces_missing_kernel_logger_events(tmp_path: Path) -> None:
    image = _utf16("\\Device\\HarddiskVolume1\\Games\\game.exe")
    start = struct.pack("<IQIII", 77, 0, 12, 3, 0) + image
    stop = struct.pack("<IQQIIIQQ", 77, 0, 0, 0, 0, 0, 0, 0)
    records = [
        _kernel_process(START + MS, 1, 1, start),
        _kernel_process(START + 3 * MS, 2, 0, stop),
    ]
    rows = decoded(_written(records, tmp_path / "user.etl"))["process"].to_pylist()
    assert [row for row in rows if row["pid"]] == [
        {"trace_id": 1, "upid": rows[-1]["upid"], "pid": 77, "name": "game.exe",
         "start_ns": 100 * MS, "end_ns": 300 * MS, "parent_pid": 12, "session_id": 3,
         "command_line": None}
    ]  # fmt: skip
    # The kernel logger's own records come first.
    both = [etl_bytes.process(START + 1, 80, b"a.exe"), *records]
    rows = decoded(_written(both, tmp_path / "both.etl"))["process"].to_pylist()
    assert {row["pid"] for row in rows if row["pid"]} == {80}


@pytest.mark.parametrize(("build", "name"), [(22_000, "Windows 11"), (19_045, "Windows")])
def test_builds_from_22000_are_windows_11(build: int, name: str, tmp_path: Path) -> None:
    log = _written([etl_bytes.switch(START + MS, 0, 8)], tmp_path / "b.etl", os=(10, 0, build))
    assert decoded(log)["trace"]["os"][0].as_py() == f"{name}, build {build}"


def test_frames_of_unnamed_process_use_its_id(tmp_path: Path) -> None:
    # A present every 10 ms by process 77, with one pause of 60 ms.
    records, ts = [], START
    for number in range(60):
        ts += 60 * MS if number == 40 else 10 * MS
        payload = struct.pack("<IQIIIIQQ", 1, 5, 0, 0, 0, 0, 0, 0)
        records.append(etl_bytes.event(DXGKRNL, 184, 1, ts, payload, ids=(77, 78)))
    end = etl_bytes.START_TIME + ts - START + MS
    trace = _written(records, tmp_path / "frames.etl", end_time=end)
    done = command("analyze", str(trace), "-o", str(tmp_path / "out"), "--no-report", check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    with duckdb.connect(str(tmp_path / "out" / "analysis.duckdb"), read_only=True) as con:
        found = con.execute("SELECT process, frames, stutters FROM frame_summary").fetchall()
        assert found == [("pid 77", 59, 1)]
        asked = con.execute("SELECT frames FROM frame_summary(p_process := 'pid 77')").fetchall()
        assert asked == [(59,)]
        [(detail,)] = con.execute(
            "SELECT detail FROM finding WHERE analyzer = 'frame_time'"
        ).fetchall()
    assert "pid 77" in detail


@needs("more")
def test_real_file_with_presents_but_no_names_is_analyzed(tmp_path: Path) -> None:
    for packed in (folder() / "more").glob("*.etl.xz"):
        trace = tmp_path / packed.name.removesuffix(".xz")
        trace.write_bytes(lzma.decompress(packed.read_bytes()))
        out = str(tmp_path / "out")
        done = command("analyze", str(trace), "-o", out, "--no-report", check=False)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
