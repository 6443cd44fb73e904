"""`analyze` and `inspect` on Windows recordings, end to end."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import duckdb
import etl_bytes
import pytest
import shared_files
from conftest import command
from etl_truth import corpus_file

from schedlens import _decoders
from schedlens.load import etl_parts, recording, recording_rows

pytestmark = pytest.mark.slow


def _analyze(*arguments: str) -> dict[str, Any]:
    done = command("analyze", *arguments, "--json", check=False)
    assert done.returncode in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


def _rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "analysis.duckdb"), read_only=True) as con:
        return con.execute(sql).fetchall()


def test_drawn_recording_gets_a_report(tmp_path: Path) -> None:
    trace = corpus_file("synth_qpc64", tmp_path)
    facts = _analyze(str(trace), "-o", str(tmp_path / "out"))
    assert facts["not_loaded"] == []
    assert (tmp_path / "out" / "report.html").stat().st_size > 100_000
    assert _rows(tmp_path / "out", "SELECT source, clock_name, clock_hz FROM trace") == [
        ("etw", "qpc", 10_000_000)
    ]
    # Each slice end of the game's two threads has its own record.
    ends = _rows(
        tmp_path / "out",
        "SELECT tid, end_reason, count(*) FROM sched_slice JOIN thread USING (utid) "
        "WHERE tid = 1001 GROUP BY ALL ORDER BY ALL",
    )
    assert ends == [
        (1001, "blocked", 4),
        (1001, "preempted", 1),
        (1001, "quantum_end", 1),
    ]


def _judged(facts: dict[str, Any]) -> set[str]:
    """The analyzers that had what they need."""
    return {row["analyzer"] for row in facts["outcomes"] if row["outcome"] != "not_recorded"}


# Presents without the names of processes.
def test_stutters_without_switches_have_no_cause(tmp_path: Path) -> None:
    packed = "etw/more/gpuvis_wintracecmd.etl.xz"
    trace = tmp_path / "presents.etl"
    trace.write_bytes(lzma.decompress((shared_files.need(packed) / packed).read_bytes()))
    facts = _analyze(str(trace), "-o", str(tmp_path / "out"), "--no-report")
    assert _judged(facts) == {"trace_quality", "frame_time"}
    stutters = [row for row in facts["findings"] if row["kind"] == "stutter"]
    assert len(stutters) == 2
    for row in stutters:
        assert row["advice"] == "Record context switches too, to see where the time went."
        assert "state" not in row["detail"]
    (loss,) = [row for row in facts["findings"] if row["kind"] == "loss"]
    assert "unknown" not in loss["title"] + loss["detail"]
    assert "chain" not in loss["detail"]


def test_recording_without_switches_names_capture_command(tmp_path: Path) -> None:
    trace = corpus_file("pv_diaghub_kernel", tmp_path)
    facts = _analyze(str(trace), "-o", str(tmp_path / "out"), "--no-report")
    answers = {
        question: (answer, record_with)
        for question, answer, record_with in _rows(
            tmp_path / "out", "SELECT question, answer, record_with FROM answerable"
        )
    }
    assert answers["concurrency"] == ("no", "CSwitch")
    assert answers["worst_waits"] == ("no", "CSwitch+ReadyThread")
    # No analyzer without data reports that there are no problems.
    judged = _judged(facts)
    assert judged >= {"trace_quality"}
    assert [name for name in judged if answers.get(name, ("yes",))[0] == "no"] == []
    assert _rows(tmp_path / "out", "SELECT count(*) FROM process WHERE start_ns IS NOT NULL") == [
        (18,)
    ]


def test_topology_option_is_applied(tmp_path: Path) -> None:
    trace = corpus_file("synth_qpc64", tmp_path)
    machine = tmp_path / "machine.json"
    cpus = [
        {"cpu": cpu, "core": cpu & ~1, "smt_index": cpu & 1, "core_type": "U"} for cpu in range(4)
    ]
    machine.write_text(json.dumps({"cpus": cpus}), encoding="utf-8")
    arguments = (str(trace), "-o", str(tmp_path / "out"), "--no-report")
    _analyze(*arguments, "--topology", str(machine))
    assert _rows(tmp_path / "out", "SELECT cpu, core, smt_index FROM cpu ORDER BY cpu") == [
        (0, 0, 0),
        (1, 0, 1),
        (2, 2, 0),
        (3, 2, 1),
    ]
    assert _rows(tmp_path / "out", "SELECT count(*) FROM problem WHERE place = 'clock'") == [(0,)]
    broken = tmp_path / "broken.json"
    broken.write_text("{}", encoding="utf-8")
    done = command("analyze", *arguments, "--topology", str(broken), check=False)
    assert done.returncode == 2
    assert "neither cpus nor slpi" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def _moved(trace: Path, to: Path, by_100ns: int) -> Path:
    """A copy whose header states a later start and end."""
    data = bytearray(trace.read_bytes())
    payload = 0x48 + 32
    pointer = struct.unpack_from("<I", data, payload + 44)[0]
    start = payload + (264 if pointer == 8 else 256)
    for at in (payload + 16, start):
        (value,) = struct.unpack_from("<q", data, at)
        struct.pack_into("<q", data, at, value + by_100ns)
    to.write_bytes(data)
    return to


def test_files_of_one_recording_load_together(tmp_path: Path) -> None:
    kernel = corpus_file("synth_qpc64", tmp_path)
    user = tmp_path / "user.etl"
    shutil.copy(kernel, user)
    later = _moved(kernel, tmp_path / "later.etl", 36_000_000_000)
    assert etl_parts.together([kernel, later, user]) == [[kernel, user], [later]]
    assert [known.files for known in recording.gather([kernel, user])] == [[str(kernel), str(user)]]
    missing = tmp_path / "none.etl"
    assert etl_parts.together([kernel, missing]) == [[kernel], [missing]]


def test_inspect_lists_processes_and_threads(tmp_path: Path) -> None:
    trace = corpus_file("synth_qpc64", tmp_path)
    facts = json.loads(_decoders.inspect(str(trace)))
    assert [(p["pid"], p["name"]) for p in facts["processes"]] == [
        (4, "System"),
        (1000, "game.exe"),
    ]
    assert [(t["tid"], t["pid"], t["name"]) for t in facts["threads"]] == [
        (8, 4, None),
        (1001, 1000, "Main Thread"),
        (1002, 1000, "Render"),
    ]


@pytest.mark.parametrize("only", ["0532", "ReadyThread"])
def test_events_filter_by_id_or_name(tmp_path: Path, only: str) -> None:
    trace = corpus_file("synth_qpc64", tmp_path)
    lines = [
        json.loads(line)
        for batch in _decoders.events([str(trace)], names=[only])
        for line in batch.splitlines()
    ]
    assert len(lines) == 7
    assert {line["name"] for line in lines} == {"Thread/ReadyThread"}


def test_unreadable_file_is_reported_once(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no trace\n", encoding="utf-8")
    done = command("analyze", str(text), "-o", str(tmp_path / "out"), check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f'analyze: {text}: begins with "no trace", not with PERFILE2')
    assert done.stderr.count("notes.txt") == 1
    # The recording of a step has another name than the step.
    assert recording_rows.Failure("step-1", "/s/step-1/trace.etl: why").line == (
        "step-1: /s/step-1/trace.etl: why"
    )


def test_recording_of_driver_messages_answers_nothing(tmp_path: Path) -> None:
    messages = [etl_bytes.message(etl_bytes.START + n, 10, b"\1\0\0\0") for n in range(20)]
    trace = tmp_path / "driver.etl"
    trace.write_bytes(etl_bytes.Log([etl_bytes.Buffer(messages)]).encoded())
    done = command("analyze", str(trace), "-o", str(tmp_path / "out"), "--no-report")
    assert "In driver.etl, no context switches are" in done.stdout
    # No analyzer without data reports that there are no problems.
    assert "no problems found" not in done.stdout
    unanswered = {
        question
        for (question,) in _rows(
            tmp_path / "out", "SELECT question FROM answerable WHERE answer = 'no'"
        )
    }
    assert {"concurrency", "oversubscription", "priority_order", "worst_waits"} <= unanswered


def test_killed_session_without_wall_time_is_analyzed(tmp_path: Path) -> None:
    # CPU 0: idle | 10 thread 8 | 60 idle, every 100 us; no record after 160.
    start = etl_bytes.START
    switches = [
        etl_bytes.switch(start + 10 * us, old, new, state=5 if old else 2)
        for us, old, new in ((10, 0, 8), (60, 8, 0), (110, 0, 8), (160, 8, 0))
    ]
    life = [etl_bytes.process(start, 100, b"drawn.exe"), etl_bytes.thread(start, 100, 8)]
    log = etl_bytes.Log(
        [etl_bytes.Buffer([*life, *switches])], end_time=0, start_time=0, buffers_written=0
    )
    trace = tmp_path / "killed.etl"
    trace.write_bytes(log.encoded() + bytes(1 << 16))
    facts = _analyze(str(trace), "-o", str(tmp_path / "out"))
    assert facts["not_loaded"] == []
    out = tmp_path / "out"
    assert _rows(out, "SELECT events_lost, buffers_lost, start_time_utc FROM trace") == [
        (None, None, None)
    ]
    assert _rows(out, "SELECT cpu, start_ns, end_ns, signalled_by FROM loss") == [
        (0, 160_000, None, "not_closed")
    ]
    assert _rows(out, "SELECT tid, sum(dur) FROM sched_slice JOIN thread USING (utid) "
                      "WHERE NOT thread.is_idle GROUP BY ALL") == [(8, 100_000)]  # fmt: skip
    assert (out / "report.html").stat().st_size > 100_000


def test_compact_switches_are_refused_in_one_line(tmp_path: Path) -> None:
    trace = corpus_file("synth_qpc64", tmp_path)
    # Hook 0524, CSwitch, in a header of type 17 becomes 0525, CompactCSwitch.
    switch = re.compile(rb"(..\x11\xc0..)\x24\x05", re.DOTALL)
    whole, changed = switch.subn(rb"\1" + b"\x25\x05", trace.read_bytes())
    assert changed == 28
    trace.write_bytes(whole)
    done = command("analyze", str(trace), "-o", str(tmp_path / "out"), "--no-report", check=False)
    assert done.returncode == 1, done.stderr
    line = "record again with CSwitch in place of CompactCSwitch"
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.endswith(f"{line}\n"), done.stderr
    assert _rows(tmp_path / "out", "SELECT count(*) FROM context_switch") == [(0,)]
    problems = "SELECT count FROM problem WHERE place = 'CompactCSwitch'"
    assert _rows(tmp_path / "out", problems) == [(changed,)]
