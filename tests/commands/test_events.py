"""`schedlens events` and `schedlens.events()` against `perf script` and record counts."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import command
from etl_bytes import START, Buffer, Log, switch
from fixture_files import fixture

import schedlens
from schedlens import _decoders

MS = 1_000_000
SCRIPT = re.compile(r"\s*(-?\d+) \[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\w+):(\w+): (.*)")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture("counters", tmp_path_factory)


def etl(folder: Path) -> Path:
    """An .etl file with three context switches on CPU 0, 0.1 s apart."""
    records = [
        switch(START + at * MS, old, new, state=5)
        for at, (old, new) in enumerate([(0, 8), (8, 9), (9, 0)], start=1)
    ]
    path = folder / "drawn.etl"
    path.write_bytes(Log([Buffer(records)]).encoded())
    return path


def test_tracepoints_match_perf_script(trace: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed: `make setup-test` installs it")
    shown = subprocess.run(
        ["perf", "script", "-i", str(trace), "--ns", "-F", "tid,cpu,time,event,trace"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    expected: Counter[tuple[object, ...]] = Counter()
    for line in shown.splitlines():
        if found := SCRIPT.match(line):
            tid, cpu, seconds, ns, system, name, text = found.groups()
            pids = tuple(int(pid) for pid in re.findall(r"\b(?:prev_|next_)?pid=(\d+)", text))
            clock = int(seconds) * 1_000_000_000 + int(ns)
            expected[clock, int(cpu), int(tid), system, name, pids] += 1
    assert len(expected) > 100
    printed: Counter[tuple[object, ...]] = Counter()
    for line in command("schedlens", "events", str(trace), "--json").stdout.splitlines():
        event = json.loads(line)
        if event["provider"] == "perf":
            continue
        fields = event["fields"]
        names = ("prev_pid", "next_pid") if "prev_pid" in fields else ("pid",)
        pids = tuple(fields[name] for name in names if name in fields)
        key = (event["clock"], event["cpu"], event["tid"], event["provider"], event["name"], pids)
        printed[key] += 1
    assert printed == expected


def test_every_record_is_printed_once(tmp_path: Path) -> None:
    path = etl(tmp_path)
    counts = json.loads(_decoders.inspect(str(path)))["records_by_event"]
    rows = schedlens.events(path).read_all().to_pylist()
    assert Counter(row["name"] for row in rows) == counts
    assert [row["ts_ns"] for row in rows] == sorted(row["ts_ns"] for row in rows)


def test_all_formats_contain_the_same_events(tmp_path: Path, trace: Path) -> None:
    words = ("schedlens", "events", str(trace), "--name", "sched_*")
    objects = [json.loads(line) for line in command(*words, "--json").stdout.splitlines()]
    table = list(csv.DictReader(io.StringIO(command(*words, "--csv").stdout)))
    out = tmp_path / "events.arrows"
    command(*words, "--arrow", "-o", str(out))
    with pa.ipc.open_stream(out) as stream:
        rows = stream.read_all().to_pylist()
    lines = command(*words).stdout.splitlines()
    assert len(objects) == len(table) == len(rows) == len(lines) > 100
    for event, cells, row, line in zip(objects, table, rows, lines, strict=True):
        assert event["fields"] == json.loads(cells["fields"]) == json.loads(row["fields"])
        assert event["ts_ns"] == int(cells["ts_ns"]) == row["ts_ns"]
        assert f" {event['provider']} {event['name']} " in line
    assert list(rows[0]) == _decoders.EVENT_CSV_HEADER.split(",")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 4),
        (("--name", "CSwitch"), 3),
        (("--name", "thread/cswitch"), 3),
        (("--name", "0524"), 3),
        (("--name", "Thread"), 0),
        (("--provider", "windows*"), 4),
        (("--provider", "sched"), 0),
        (("--name", "CSwitch", "--from", "0.2"), 2),
        (("--name", "CSwitch", "--to", "0.2"), 1),
    ],
)
def test_events_filter_by_provider_name_and_time(
    words: tuple[str, ...], count: int, tmp_path: Path
) -> None:
    done = command("schedlens", "events", str(etl(tmp_path)), "--json", *words)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == count


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    from etl_bytes import process

    path = tmp_path / "evil.etl"
    path.write_bytes(Log([Buffer([process(START + MS, 80, b"a\x1b[31mb\x07.exe")])]).encoded())
    done = command("schedlens", "events", str(path))
    assert "a\\u001b[31mb" in done.stdout
    assert not {"\x1b", "\x07"} & set(done.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.etl",), "none.etl does not exist"),
        (("text.etl",), 'begins with "no trace"'),
        (("drawn.etl", "--from", "2", "--to", "1"), "--from 2 is not before --to 1"),
        (("drawn.etl", "--from", "nan"), "is not a time in a trace"),
        (("drawn.etl", "-o", "drawn.etl"), "drawn.etl is the recording itself"),
        (("drawn.etl", "-o", "none/x.json"), "cannot write none/x.json"),
    ],
)
def test_wrong_arguments_print_one_line_and_leave_no_file(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "text.etl").write_text("no trace\n", encoding="utf-8")
    before = etl(tmp_path).read_bytes()
    done = command("schedlens", "events", *words, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "drawn.etl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn.etl", "text.etl"]
