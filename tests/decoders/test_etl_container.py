"""Real .etl files: header, counts, times, and every record, against an independent reader."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import etl_files
import pytest
from conftest import command

from schedlens import _decoders

CORPUS = etl_files.names("corpus")
SYNTHETIC = etl_files.names("synthetic")
TYPES = {
    ("system", 4): 1, ("system", 8): 2, ("compact", 4): 3, ("compact", 8): 4, ("full", 4): 10,
    ("instance", 4): 11, ("perfinfo", 4): 16, ("perfinfo", 8): 17, ("event", 4): 18,
    ("event", 8): 19, ("full", 8): 20, ("instance", 8): 21,
}  # fmt: skip


def inspected(*paths: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(_decoders.inspect(*map(str, paths)))
    return facts


def key(event: dict[str, Any]) -> str:
    """An event as the truth files name it."""
    kind, version = event["kind"], event["version"]
    if "hook" in event:
        return f"{kind} hook={event['hook']} v{version}"
    if "id" in event:
        return f"{kind} {event['provider']} id={event['id']} v{version}"
    return f"{kind} {event['class']} op={event['opcode']} v{version}"


@etl_files.needs("corpus")
@pytest.mark.parametrize("name", CORPUS)
def test_header_and_counts_match_reference(name: str, tmp_path: Path) -> None:
    truth = etl_files.truth(name)
    facts = inspected(etl_files.written(name, tmp_path))
    header = truth["header"]
    assert facts["os_build"] == header["os_build"]
    assert facts["num_processors"] == header["num_processors"]
    assert facts["perf_freq"] == header["perf_freq"]
    # The truth has microseconds, the file 100 ns.
    assert facts["start"][:26] == header["start_time_utc"].rstrip("Z").ljust(26, "0")[:26]
    assert (facts["end"] or "")[:19] == (header["end_time_utc"] or "")[:19]
    ours = facts["header"]
    for ours_name, theirs in {
        "buffer_size": "buffer_size", "buffers_written": "buffers_written",
        "log_file_mode": "log_file_mode", "pointer_size": "pointer_size",
        "events_lost": "events_lost", "buffers_lost": "buffers_lost", "cpu_mhz": "cpu_mhz",
        "timer_resolution_100ns": "timer_resolution", "max_file_size": "max_file_size",
        "session_name": "session_name", "log_file_name": "log_file_name",
        "utc_bias_minutes": "tz_bias_minutes", "start_filetime": "start_time",
        "boot_filetime": "boot_time", "clock_type": "clock_type",
        "header_record_clock": "header_record_ts",
    }.items():  # fmt: skip
        assert ours[ours_name] == header[theirs], ours_name
    assert ours["end_filetime"] == (header["end_time"] or None)
    assert ours["layout"] == f"{header['etl_major']}.{header['etl_minor']}"
    assert ours["os_version"].startswith(f"{header['os_major']}.{header['os_minor']}.")
    buffers, records = truth["buffers"], truth["records"]
    assert facts["buffers"]["count"] == buffers["count"]
    assert facts["buffers"]["compressed"] == buffers["compressed"]
    by_cpu = {str(row["cpu"]): row["buffers"] for row in facts["buffers"]["by_cpu"]}
    assert by_cpu == buffers["per_cpu"]
    by_cpu = {str(row["cpu"]): row["records"] for row in facts["buffers"]["by_cpu"]}
    assert {cpu: n for cpu, n in by_cpu.items() if n} == records["per_cpu"]
    assert facts["records"] == records["count"]
    assert facts["records_by_kind"] == records["by_kind"]
    # The reference does not separate TraceLogging events, which all have the number 0.
    by_key: Counter[str] = Counter()
    for event in facts["events"]:
        by_key[key(event)] += event["count"]
    assert by_key == records["by_key"]
    assert sum(facts["records_by_event"].values()) == records["count"]
    assert facts["first_ns"] == records["first_ns"]
    assert facts["last_ns"] == records["last_ns"]
    assert facts["problems"] == []
    assert facts["loss"]["events"] == header["events_lost"]
    # No corpus file has a buffer that reports loss, or a hole in its numbers.
    gaps = [(gap["signalled_by"], gap["events"]) for gap in facts["loss"]["gaps"]]
    expected = [("header", header["events_lost"])] if header["events_lost"] else []
    # If events were lost, the last ones of each CPU may be among them.
    assert [gap for gap in gaps if gap[0] != "stream_end"] == expected
    assert bool(expected) == (("stream_end", None) in gaps)


@etl_files.needs("corpus")
@pytest.mark.parametrize("name", CORPUS)
def test_every_record_matches_reference(name: str, tmp_path: Path) -> None:
    truth = etl_files.truth(name)["records"]
    path = etl_files.written(name, tmp_path)
    listing = _decoders.etl_records(str(path), by_time=False).to_pydict()
    kinds = zip(listing["kind"], listing["pointer"], strict=True)
    stream = hashlib.sha256()
    for buffer, at, kind, size, ts, payload in zip(
        listing["buffer"], listing["at"], kinds, listing["size"], listing["ts"],
        listing["payload"], strict=True,
    ):  # fmt: skip
        head = (buffer, at - 0x48, TYPES[kind], size, ts, zlib.crc32(payload))
        stream.update(struct.pack("<IIHHqI", *head))
    assert stream.hexdigest() == truth["stream_sha256"]
    assert sum(listing["items"]) == sum(truth["ext_items"].values())


@etl_files.needs("corpus")
@pytest.mark.parametrize("name", CORPUS)
def test_time_order_has_the_same_records(name: str, tmp_path: Path) -> None:
    path = str(etl_files.written(name, tmp_path))
    in_file = _decoders.etl_records(path, by_time=False).to_pydict()
    in_time = _decoders.etl_records(path, by_time=True).to_pydict()
    order = list(zip(in_time["buffer"], in_time["at"], strict=True))
    assert sorted(order) == list(zip(in_file["buffer"], in_file["at"], strict=True))
    place = {at: n for n, at in enumerate(zip(in_file["buffer"], in_file["at"], strict=True))}
    moved = [place[at] for at in order]
    for column in ("ts", "cpu", "payload"):
        assert [in_file[column][n] for n in moved] == in_time[column]
    # Every buffer of the corpus is ordered, and no two of a CPU overlap.
    ranks = [
        (ts, -1 if cpu is None else cpu, buffer, at)
        for ts, cpu, (buffer, at) in zip(in_time["ts"], in_time["cpu"], order, strict=True)
    ]
    assert [rank[:2] for rank in ranks] == sorted(rank[:2] for rank in ranks)


@etl_files.needs("synthetic")
@pytest.mark.parametrize("name", SYNTHETIC)
def test_generated_files_read_back_unchanged(name: str, tmp_path: Path) -> None:
    truth = etl_files.truth(name)
    path = etl_files.written(name, tmp_path)
    facts = inspected(path)
    assert facts["problems"] == []
    assert facts["records"] == truth["records_without_header"] + 1
    assert facts["header"]["clock_type"] == truth["clock"]
    packing = {0: None, 2: "LZNT1", 3: "XPRESS", 4: "XPRESS_HUFF"}[truth["compression"]]
    assert facts["buffers"]["compression"] == packing
    rows = _decoders.etl_records(str(path), by_time=True).to_pylist()
    header, rows = rows[0], rows[1:]
    assert header["event"] == "EventTrace/Header"

    def made(event: dict[str, Any]) -> tuple[Any, ...]:
        counters = tuple(event.get("pmc") or ())
        ids = (event.get("pid"), event.get("tid"))
        if event["kind"] == "event":
            ids = (4, 8)
        facts = (event["ts"], event["cpu"], event["ns"], event["kind"], event["version"])
        return (*facts, counters, *ids)

    def read(row: dict[str, Any]) -> tuple[Any, ...]:
        size = len(row["counters"]) // 8
        counters = struct.unpack(f"<{size}Q", row["counters"])
        facts = (row["ts"], row["cpu"], row["ns"], row["kind"], row["version"])
        return (*facts, counters, row["pid"], row["tid"])

    expected = Counter(made(event) for event in truth["events_sorted_by_ns"])
    assert Counter(read(row) for row in rows) == expected
    order = [(row["ts"], row["cpu"], row["buffer"], row["at"]) for row in rows]
    assert order == sorted(order)
    # The buffer of CPU 1 reports lost events before its first record.
    first = min(e["ns"] for e in truth["events_sorted_by_ns"] if e["cpu"] == 1)
    gaps = facts["loss"]["gaps"]
    assert [gap for gap in gaps if gap["signalled_by"] != "stream_end"] == [
        {"cpu": 1, "start_ns": None, "end_ns": first, "events": None,
         "signalled_by": "events_lost"}
    ]  # fmt: skip
    documented = {
        "synth_systime64.etl": "clock system_time", "synth_cycle64.etl": "clock cpu_cycles",
        "synth_lznt1.etl": "LZNT1 buffers", "synth_xpresshuff.etl": "XPRESS_HUFF buffers",
    }.get(name)  # fmt: skip
    assert documented is None or documented in facts["documentation_only"]
    assert "Thread/ReadyThread" in facts["documentation_only"]


@etl_files.needs("corpus")
def test_table_of_files_matches_their_content(tmp_path: Path) -> None:
    page = (etl_files.ROOT / "docs" / "windows-traces.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ") and ".etl |" in line
    ]
    assert [row[0] for row in rows] == etl_files.public("corpus")
    for name, build, cpus, buffers, compressed, records, *_ in rows:
        facts = inspected(etl_files.written(name, tmp_path))
        assert build == facts["header"]["os_version"], name
        found = (facts["buffers"]["count"], facts["buffers"]["compressed"], facts["records"])
        assert (int(buffers), int(compressed), int(records)) == found, name
        assert int(cpus) == facts["num_processors"], name


@etl_files.needs("corpus")
def test_inspect_shows_an_etl_file(tmp_path: Path) -> None:
    path = etl_files.written("airbus_AMSITrace.etl", tmp_path)
    done = command("schedlens", "inspect", str(path))
    assert "18362" in done.stdout
    assert "2020-02-17T12:48:30.4203138Z" in done.stdout
    assert "some CPU: not known to not known (header)" in done.stdout


@etl_files.needs("synthetic")
def test_inspect_shows_loss_and_untested_features(tmp_path: Path) -> None:
    path = etl_files.written("synth_lznt1.etl", tmp_path)
    done = command("schedlens", "inspect", str(path))
    assert "CPU 1: not known to 0.000007 s (events_lost)" in done.stdout
    assert "read by documentation alone: LZNT1 buffers" in done.stdout
