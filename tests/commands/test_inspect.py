"""`schedlens inspect`: header, clock, CPUs, counts, and answerable questions, against perf."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import command
from fixture_files import FIXTURES, fixture, qemu_session

from schedlens import _decoders

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None, reason="perf is not installed, and it is the oracle"
)

RUNS = "which thread ran where, and who shared a core with whom"
WHY = "why a thread left its CPU (state, priority)"
WAITS = "how long threads waited for a CPU, and who woke them"
MOVES = "migrations and where a woken thread was sent"
INTERRUPTS = "interrupt work on CPUs that look idle"
IDLE = "idle states"
FREQUENCY = "frequencies"
COUNTERS = "cycles and instructions of each slice"
YIELDS = "whether a thread yielded"
WALL = "wall time of the recording"

ALL_EVENTS = {RUNS, WHY, WAITS, MOVES, INTERRUPTS, IDLE, FREQUENCY, WALL}
ANSWERS = {
    "plain": ALL_EVENTS,
    "loss": ALL_EVENTS,
    "sched_yield": ALL_EVENTS | {YIELDS},
    "switch_only": {RUNS, WALL},
    "no_sched": {WALL},
    "killed": {RUNS},
}


def inspected(name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Output of `inspect --json` for a recording in fixtures/perf."""
    facts: dict[str, Any] = json.loads(_decoders.inspect(str(fixture(name, tmp_path_factory))))
    return facts


@pytest.mark.parametrize("name", ANSWERS)
def test_inspect_lists_answerable_questions(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    answers = inspected(name, tmp_path_factory)["can_answer"]
    assert {answer["question"] for answer in answers if answer["answerable"]} == ANSWERS[name]
    for answer in answers:
        if answer["answerable"]:
            assert (answer["why"], answer["record_with"]) == (None, None)
        else:
            assert answer["why"]
            assert answer["record_with"].startswith("perf record -")


@needs_perf
@pytest.mark.parametrize("name", ["plain", "zstd", "counters", "host_plain", "own_tree"])
def test_header_matches_perf(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = subprocess.run(
        ["perf", "report", "--header-only", "-i", str(fixture(name, tmp_path_factory))],
        check=True, capture_output=True, text=True, timeout=120,
    ).stdout  # fmt: skip
    printed = dict(re.findall(r"^# ([\w ]+?)\s*: (.*?)\s*$", text, re.MULTILINE))
    facts = inspected(name, tmp_path_factory)
    header = facts["header"]
    assert {
        "hostname": header["host"],
        "os release": header["os_release"],
        "perf version": header["perf_version"],
        "arch": header["arch"],
        "nrcpus online": header["cpus_online"],
        "nrcpus avail": header["cpus_available"],
        "cpudesc": header["cpu_model"],
        "cpuid": header["cpu_id"],
        "cmdline": header["command"],
    } == {
        key: printed[key]
        for key in (
            "hostname", "os release", "perf version", "arch", "nrcpus online", "nrcpus avail",
            "cpudesc", "cpuid", "cmdline",
        )
    }  # fmt: skip
    assert printed["clockid"] == f"{facts['clock']} (1)"
    events = re.findall(r"^# event : name = (\S+?), .*?\bid = \{ ([\d, ]+) \}", text, re.MULTILINE)
    assert [(e["name"], e["ids"]) for e in facts["events"]] == [
        (event, [int(number) for number in ids.split(",")]) for event, ids in events
    ]


def test_counts_and_cpus_match_in_each_format(tmp_path_factory: pytest.TempPathFactory) -> None:
    manifest: dict[str, Any] = json.loads((FIXTURES / "MANIFEST.json").read_text())
    forms = {"plain": "plain.perf.data.xz", "zstd": "zstd.perf.data.xz",
             "pipe": "pipe.perf.data.xz", "threads": "threads.tar.xz"}  # fmt: skip
    for name, file in forms.items():
        facts = inspected(name, tmp_path_factory)
        counts = facts["records_by_event"]
        events = {e: n for e, n in counts.items() if n and not e.startswith("PERF_RECORD_")}
        assert events == manifest[f"perf/{file}"]["samples"], name
        assert facts["records"] == sum(counts.values()), name
        assert facts["cpus"] == [0, 1, 2, 3], name
        assert facts["end_clock"] - facts["start_clock"] == facts["duration_ns"], name


def test_loss_is_reported(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert inspected("plain", tmp_path_factory)["loss"]["events"] == 0
    text = inspected("loss", tmp_path_factory)
    assert text["records_by_event"]["PERF_RECORD_LOST"] == 189


@pytest.mark.parametrize(("name", "code"), [("plain", 0), ("threads", 0), ("truncated", 1)])
def test_exit_codes(name: str, code: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = fixture(name, tmp_path_factory)
    done = command("schedlens", "inspect", str(path), check=False)
    assert done.returncode == code
    assert str(path.name) in done.stdout.replace("\n", "")
    as_json = command("schedlens", "inspect", str(path), "--json", check=False)
    assert as_json.returncode == code
    assert bool(json.loads(as_json.stdout)["problems"]) == (code == 1)


def test_file_without_scheduler_events_names_capture_command(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = fixture("no_sched", tmp_path_factory)
    said = command("schedlens", "inspect", str(path)).stdout.replace("\n", "")
    assert "neither sched:sched_switch nor --switch-events was recorded" in said
    assert "perf record -a -k CLOCK_MONOTONIC --switch-events -e sched:sched_switch" in said


def test_named_pipe_can_be_read(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    import os
    import threading

    source, fifo = fixture("pipe", tmp_path_factory), tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(source.read_bytes()))
    writer.start()
    facts = json.loads(_decoders.inspect(str(fifo)))
    writer.join()
    assert facts["records_by_event"] == inspected("pipe", tmp_path_factory)["records_by_event"]


def test_session_folder_names_a_recording_in_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    session = qemu_session(tmp_path_factory)
    done = command("schedlens", "inspect", str(session), check=False)
    assert done.returncode == 2
    start = f"schedlens: {session} is a session folder: name a recording in it, such as "
    assert done.stderr.startswith(start)
    named = Path(done.stderr.removeprefix(start).strip())
    assert command("schedlens", "inspect", str(named)).returncode == 0
