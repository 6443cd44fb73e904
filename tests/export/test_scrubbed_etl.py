"""Scrubbed .etl files: the records of the original, without its names.

The generated log has every kind of text that a recording of the profile contains; the corpus has
those that real systems write. An independent reader must read what is written.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import etl_files
import pyarrow as pa
import pytest
import shared_files
from recording_writer import write

from schedlens import _decoders
from schedlens.errors import SessionError
from schedlens.export import scrubbed_etl

ORACLE = "tools/etl_oracle/etlwalk.py"
SALT = b"for tests only"
# Fields that name the machine, a user, a program, or a file.
NAMES = {
    "ImageFileName", "CommandLine", "PackageFullName", "ApplicationId", "ThreadName", "FileName",
    "ComputerName", "DomainName", "UserSID", "LoggerName", "SessionName", "LogFileName",
    "DeviceDescription", "FriendlyName", "DeviceID", "NICDescription", "IpAddresses",
    "PdbFileName", "PdbName", "OriginalFileName", "ServiceName", "DisplayName", "ProcessorName",
    "SystemProductName", "BuildLab", "ProductName", "ImageName",
}  # fmt: skip
# Kept: processes that every Windows has, and words in the names of Windows's own providers.
KNOWN = {"idle", "system", "registry", "microsoft", "windows", "kernel", "power", "process"}
# These take minutes, and contain nothing that the others do not.
LARGE = {"pv_net452_x64.etl", "airbus_ShutdownPerfDiagLogger.etl"}


def scrubbed(trace: Path, folder: Path) -> tuple[Path, str]:
    """The log in the archive, unpacked, and the line that describes it."""
    path = folder / "scrubbed.etl.zip"
    said = scrubbed_etl.write(trace, path, SALT)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == [scrubbed_etl.MEMBER]
        log = Path(archive.extract(scrubbed_etl.MEMBER, folder))
    assert not list(folder.glob(f"{path.name}.*"))
    return log, said


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a log in file order."""
    rows: list[dict[str, Any]] = _decoders.etl_records(str(path), by_time=False).to_pylist()
    return rows


def fields(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and fields of every event."""
    for batch in _decoders.events([str(path)], style="json"):
        assert isinstance(batch, str)
        for line in batch.splitlines():
            row = json.loads(line)
            yield row["name"], row["fields"] or {}


def texts(value: object, name: str = "") -> Iterator[str]:
    """Texts of the fields in `NAMES`."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from texts(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part, name)
    elif isinstance(value, str) and name in NAMES:
        yield value


def names_of(path: Path) -> set[str]:
    """What must not occur in the scrubbed log: the texts, and the files in paths and commands."""
    found = {text for _, row in fields(path) for text in texts(row)}
    files = {part for text in found for part in re.split(r'[\\\\" ]', text) if "." in part}
    return {text for text in found | files if len(text) >= 5 and text.lower() not in KNOWN}


def occurring(names: set[str], data: bytes) -> set[str]:
    """Those that occur in the bytes as ANSI, UTF-8 or UTF-16, in any case."""
    folded = data.lower()
    return {
        name
        for name in names
        for code in ("utf-8", "cp1252", "utf-16-le")
        if name.lower().encode(code, "ignore") in folded and name.encode(code, "ignore")
    }


@cache
def oracle() -> ModuleType:
    """The independent reader."""
    path = shared_files.need(ORACLE) / ORACLE
    spec = importlib.util.spec_from_file_location("etlwalk", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def walked(data: bytes) -> list[tuple[int, str, int, int | None, int | None]]:
    """CPU, kind, size, time and thread of each record, as the independent reader has them."""
    damage: list[Any] = []
    found = [
        (record.cpu, record.kind, record.size, record.ts, record.tid)
        for buffer in oracle().iter_buffers(data)
        for record in oracle().iter_records(buffer, damage)
    ]
    assert damage == []
    return found


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    """A log with named processes, threads and images."""
    path = tmp_path / "generated.etl"
    image = "\\Device\\HarddiskVolume3\\Games\\secret-engine.dll"
    # Version 3 of a 64-bit system: the name comes after 72 bytes.
    payload = bytes(16) + (70).to_bytes(4, "little") + bytes(36) + image.encode("utf-16-le")
    head = {
        "machine": {"cpus": [{"cpu": cpu, "core": cpu} for cpu in range(2)]},
        "etl": {"clock": "qpc", "clock_hz": 10_000_000, "merged": True, "compression": "xpress"},
    }
    first: list[dict[str, Any]] = [
        {"ts": 0, "cpu": 0, "event": "process", "phase": "rundown_start", "pid": 70,
         "name": "unreleased-game.exe"},
        *(
            {"ts": 0, "cpu": 0, "event": "thread", "phase": "rundown_start", "pid": 70,
             "tid": tid, "name": f"RenderSecret {tid}"}
            for tid in (71, 72)
        ),
        {"ts": 0, "cpu": 0, "event": "counters", "names": ["InstructionRetired", "HiddenPmc"]},
        {"ts": 0, "cpu": 0, "event": "raw", "hook": 0x1403, "version": 3, "header": "system",
         "payload": payload.hex() + "0000"},
        {"ts": 0, "cpu": 0, "event": "raw", "hook": 0x0B0D, "version": 2, "header": "system",
         "payload": (bytes(20) + "SecretNic".encode("utf-16-le")).hex()},
        {"ts": 900, "cpu": 0, "event": "manifest",
         "provider": "331c3b3a-2005-44c2-ac5e-77220c37d6b4", "id": 1,
         "payload": "SecretDevice".encode("utf-16-le").hex()},
        {"ts": 900, "cpu": 0, "event": "manifest",
         "provider": "11111111-2222-3333-4444-555555555555", "id": 1, "payload": "ab"},
    ]  # fmt: skip
    switches: list[dict[str, Any]] = []
    for number in range(200):
        cpu, at = number % 2, 10_000 * (number + 1)
        old, new = (0, 71 + cpu) if number % 4 < 2 else (71 + cpu, 0)
        if new:
            switches.append({"ts": at - 500, "cpu": cpu, "event": "ready", "tid": new})
        switches.append({"ts": at, "cpu": cpu, "event": "switch", "old": old, "new": new,
                         "counters": [number, number]})  # fmt: skip
    write(head, [*first, *switches], etl=path)
    return path


def test_scrubbed_log_has_the_schedule_and_no_name(generated: Path, tmp_path: Path) -> None:
    log, said = scrubbed(generated, tmp_path)
    old, new = records(generated), records(log)
    # The event of an unknown provider is left out; the network card and the device have no payload.
    assert said == f"{len(new)} records, 2 of them without payload; {len(old) - len(new)} left out"
    left = [row for row in old if "11111111-" not in row["event"]]
    keys = ("kind", "pointer", "cpu", "ns", "ts", "pid", "tid", "event", "version", "counters")
    classes = Counter(row["event"] for row in left) - Counter(row["event"] for row in new)
    assert set(classes) <= {row["event"] for row in old if row["kind"] == "full"}
    kept = [row for row in left if row["event"] not in classes]
    assert [[row[key] for key in keys] for row in kept] == [
        [row[key] for key in keys] for row in new
    ]
    switches = [(row["ns"], row["payload"]) for row in new if row["event"] == "Thread/CSwitch"]
    assert len(switches) == 200
    assert switches == [
        (row["ns"], row["payload"]) for row in old if row["event"] == "Thread/CSwitch"
    ]
    names = names_of(generated) | {"SecretNic", "SecretDevice", "secret-engine", "HiddenPmc"}
    assert {"unreleased-game.exe", "RenderSecret 71"} <= names
    assert occurring(names, generated.read_bytes()) | occurring(names, log.read_bytes()) != set()
    assert occurring(names, log.read_bytes()) == set()
    # One name for the two threads, with their numbers; the counter of any processor is kept.
    threads = {row["ThreadName"] for _, row in fields(log) if row.get("ThreadName")}
    assert len({name.rpartition(" ")[0] for name in threads}) == 1
    assert {name.rpartition(" ")[2] for name in threads} == {"71", "72"}
    counters = [row["CounterName"] for _, row in fields(log) if "CounterName" in row]
    assert counters[0][0] == "InstructionRetired"
    header = json.loads(_decoders.inspect(str(log)))
    assert "by hand" not in json.dumps(header)


def test_salt_decides_names(generated: Path, tmp_path: Path) -> None:
    scrubbed_etl.write(generated, tmp_path / "one.etl.zip", SALT)
    scrubbed_etl.write(generated, tmp_path / "two.etl.zip", SALT)
    scrubbed_etl.write(generated, tmp_path / "three.etl.zip")
    one, two, three = (tmp_path / f"{name}.etl.zip" for name in ("one", "two", "three"))
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes() != three.read_bytes()


@shared_files.needs(ORACLE)
def test_independent_reader_reads_a_scrubbed_log(generated: Path, tmp_path: Path) -> None:
    log, _ = scrubbed(generated, tmp_path)
    own = [(row["kind"], row["size"], row["ts"], row["tid"]) for row in records(log)]
    other = [(kind.rstrip("0123456789"), size, ts, tid) for _, kind, size, ts, tid in
             walked(log.read_bytes())]  # fmt: skip
    assert len(own) > 300
    assert own == other


@etl_files.needs("corpus")
@shared_files.needs(ORACLE)
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*etl_files.names("corpus")} - LARGE))
def test_scrubbed_corpus_file_has_no_name_of_the_original(name: str, tmp_path: Path) -> None:
    path = etl_files.written(name, tmp_path)
    if json.loads(_decoders.inspect(str(path)))["clock"] == "systemtime":
        with pytest.raises(SessionError, match="the log's times are those of the wall clock"):
            scrubbed(path, tmp_path)
        return
    log, _ = scrubbed(path, tmp_path)
    data = log.read_bytes()
    assert occurring(names_of(path), data) == set()
    old, new = records(path), records(log)

    def hooks(rows: list[dict[str, Any]]) -> Counter[str]:
        return Counter(row["event"] for row in rows if row["kind"] in ("system", "perfinfo"))

    assert hooks(old) == hooks(new)
    assert len(walked(data)) == len(new)
    json.loads(_decoders.inspect(str(log)))


def test_log_of_wall_clock_times_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "system.etl"
    head = {
        "machine": {"cpus": [{"cpu": 0, "core": 0}]},
        "etl": {"clock": "system_time", "clock_hz": 10_000_000, "merged": True},
    }
    write(head, [{"ts": 100, "cpu": 0, "event": "switch", "old": 0, "new": 4}], etl=path)
    with pytest.raises(SessionError, match=r"cannot scrub .*wall clock: record with WPR") as error:
        scrubbed_etl.write(path, tmp_path / "out.etl.zip")
    assert "\n" not in str(error.value)
    assert [file.name for file in tmp_path.iterdir()] == ["system.etl"]


def test_scrubbed_archive_is_analyzed_like_any_recording(generated: Path, tmp_path: Path) -> None:
    path = tmp_path / "scrubbed.etl.zip"
    scrubbed_etl.write(generated, path, SALT)
    rows = _decoders.etl_records(str(path), by_time=True)
    assert isinstance(rows, pa.RecordBatch)
    assert zipfile.is_zipfile(io.BytesIO(path.read_bytes()))
