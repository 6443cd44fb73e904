"""`collect` as users run it: a sweep, a program, a process, the machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import struct
import subprocess
from pathlib import Path

import pytest
from collect_command import collect, processes, read
from conftest import needs_tracing

from schedlens.errors import WorkloadError
from schedlens.machine import topology
from schedlens.record import batches

pytestmark = pytest.mark.records


@pytest.fixture(scope="module")
def sweep(workload: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real sweep of sha256 at 1 to 3 threads."""
    needs_tracing()
    folder = tmp_path_factory.mktemp("collect") / "session"
    done = collect(
        "--workload", "sha256", "--threads", "1..3", "--seconds", "0.2", "-o", str(folder)
    )
    assert done.returncode == 0, done.stderr
    assert f"Next: analyze {folder}" in done.stdout
    return folder


def test_every_step_is_complete(sweep: Path) -> None:
    session = read(sweep / "session.json")
    assert session["schema"] == 1
    assert session["capture"]["mode"] == "full"
    assert session["topology"] == json.loads(json.dumps(topology.read().as_json()))
    names = [step["name"] for step in session["steps"]]
    assert sorted(names) == sorted(path.name for path in sweep.iterdir() if path.is_dir())
    assert {step["threads"] for step in session["steps"]} == {1, 2, 3}
    for row in session["steps"]:
        assert row["state"] == "done"
        step = read(sweep / row["name"] / "step.json")
        assert step["recorded"] is True
        assert {check["check"]: check["ok"] for check in step["checks"]}["whole"] is True
        for key in ("name", "workload", "placement", "placements", "threads", "repeat",
                    "oversubscribed", "planned_cpus"):  # fmt: skip
            assert step[key] == row[key]
        left = {path.name for path in (sweep / row["name"]).iterdir()}
        assert {"perf.data", "workload.json", "samples.bin", "begin.json", "end.json"} <= left
        assert not [name for name in left if name.endswith(".part")]


def test_workers_ran_on_their_cpus_in_the_interval(sweep: Path) -> None:
    for row in read(sweep / "session.json")["steps"]:
        folder = sweep / row["name"]
        step, result = read(folder / "step.json"), read(folder / "workload.json")
        assert result["status"] == "ok"
        assert len(result["workers"]) == row["threads"]
        assert [worker["cpu"] for worker in result["workers"]] == (
            row["planned_cpus"] or [None] * row["threads"]
        )
        for worker in result["workers"]:
            # Between the snapshots, which are inside the recording.
            assert step["begin_mono_ns"] <= worker["start_mono_ns"]
            assert worker["end_mono_ns"] <= step["end_mono_ns"]
            length = worker["end_mono_ns"] - worker["start_mono_ns"]
            # A worker that gets its CPU late starts late; all end together, not early.
            assert worker["end_mono_ns"] - step["begin_mono_ns"] >= 0.2e9
            assert 0 < worker["cpu_time_ns"] <= length + 1_000_000


def test_recording_contains_the_worker_interval(sweep: Path) -> None:
    for row in read(sweep / "session.json")["steps"]:
        step = read(sweep / row["name"] / "step.json")
        lines = subprocess.run(
            ["perf", "script", "-i", str(sweep / row["name"] / "perf.data"), "-F", "time"],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        times = [float(line.rstrip(":")) for line in lines]
        # Something switches within 50 ms: the recorder itself, if nothing else.
        assert min(times) - step["begin_mono_ns"] / 1e9 < 0.05
        assert step["end_mono_ns"] / 1e9 - max(times) < 0.05


def test_workers_are_in_both_snapshots_with_matching_cpu_time(sweep: Path) -> None:
    for row in read(sweep / "session.json")["steps"]:
        folder = sweep / row["name"]
        begin, end = read(folder / "begin.json"), read(folder / "end.json")
        shown = {thread["tid"] for thread in begin["threads"]}
        assert {worker["tid"] for worker in read(folder / "workload.json")["workers"]} <= shown
        pinned = {thread["tid"]: thread["cpus_allowed"] for thread in begin["threads"]}
        for worker in read(folder / "workload.json")["workers"]:
            if worker["cpu"] is not None:
                assert pinned[worker["tid"]] == [worker["cpu"]]
            else:
                assert pinned[worker["tid"]] == sorted(os.sched_getaffinity(0))
        for before, after in zip(begin["cpus"], end["cpus"], strict=True):
            grown = {key: after[key] - before[key] for key in after if key != "cpu"}
            # idle_ns may step back on some kernels; busy counters do not.
            assert min(grown["user_ns"], grown["system_ns"]) >= 0


def test_recorder_overhead_matches_batches(sweep: Path) -> None:
    step = next(row for row in read(sweep / "session.json")["steps"] if row["threads"] == 2)["name"]
    cost = read(sweep / step / "step.json")["overhead"]
    assert cost["unit"] == "bytes"
    for key, folder in (("baseline_per_s", "baseline"), ("recorded_per_s", ".")):
        data = (sweep / step / folder / "samples.bin").read_bytes()[8:]
        rates: dict[int, list[float]] = {}
        for at in range(0, len(data), 48):
            worker = struct.unpack_from("<I", data, at)[0]
            start, end, _, size = struct.unpack_from("<qqQQ", data, at + 16)
            rates.setdefault(worker, []).append(size / ((end - start) / 1e9))
        assert cost[key] == pytest.approx(sum(map(statistics.median, rates.values())))


def test_equal_plans_run_once(sweep: Path) -> None:
    if topology.read().has_smt:
        pytest.skip("with SMT the two pinned plans differ")
    rows = read(sweep / "session.json")["steps"]
    assert [row["placements"] for row in rows] == [["default"], ["physical", "siblings"]] * 3


def test_machine_is_restored_after_recording(sweep: Path) -> None:
    assert all(row["restored"] for row in read(sweep / "session.json")["changed"])


def test_session_is_not_overwritten(sweep: Path) -> None:
    done = collect("--workload", "sha256", "-o", str(sweep))
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"collect: {sweep} is not empty: choose another folder, or `collect --resume {sweep}`"
    )


def test_finished_session_cannot_be_resumed(sweep: Path) -> None:
    before = (sweep / "session.json").read_bytes()
    done = collect("--resume", str(sweep))
    assert done.returncode == 0
    assert "all" in done.stdout
    assert f"Next: analyze {sweep}" in done.stdout
    assert (sweep / "session.json").read_bytes() == before


def test_program_is_recorded_from_its_first_instruction(tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "s"
    done = collect("-o", str(folder), "--", "sh", "-c", "sleep 0.05; echo out; exit 3")
    assert done.returncode == 0, done.stderr
    assert "out\n" in done.stdout
    assert "warning: the command exited with code 3" in done.stderr
    step = read(folder / "sh-r1/step.json")
    assert step["command"] == ["sh", "-c", "sleep 0.05; echo out; exit 3"]
    assert step["workload"] is None
    text = subprocess.run(
        ["perf", "script", "-i", str(folder / "sh-r1/perf.data")],
        capture_output=True, text=True, errors="replace", check=True,
    ).stdout  # fmt: skip
    # The exec of the command itself, and the program that it starts.
    program = re.escape(os.path.realpath(shutil.which("sh") or ""))
    assert re.search(
        rf"sched_process_exec: filename=\S*{Path(program).name}|filename=\S*/sh ", text
    )
    assert re.search(r"sched_process_exec: filename=\S*/sleep ", text)


def test_program_is_ended_after_the_given_duration(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--seconds", "0.3", "-o", str(tmp_path / "s"), "--", "sleep", "54.321")
    assert done.returncode == 0, done.stderr
    assert "the command was stopped after the requested time" in done.stderr
    step = read(tmp_path / "s/sleep-r1/step.json")
    # Ending a program takes time on a busy machine; this one would have slept for 54 s.
    assert 0.29e9 <= step["end_mono_ns"] - step["begin_mono_ns"] < 10e9
    assert not [line for line in processes() if "54.321" in line]


def test_process_is_recorded_by_id_and_by_name(tmp_path: Path) -> None:
    needs_tracing()
    program = tmp_path / "sl-named"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    with subprocess.Popen([str(program), "30"]) as other:
        for way in (["--pid", str(other.pid)], ["--process", "sl-named"]):
            folder = tmp_path / way[0].strip("-")
            done = collect(*way, "--seconds", "0.2", "-o", str(folder))
            assert done.returncode == 0, done.stderr
            assert read(folder / "session.json")["request"]["pid"] == other.pid
        other.kill()


def test_whole_machine_is_recorded(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--seconds", "0.2", "-o", str(tmp_path / "s"))
    assert done.returncode == 0, done.stderr
    step = read(tmp_path / "s/machine-r1/step.json")
    assert (step["workload"], step["command"], step["placement"]) == (None, None, None)


def test_counters_reach_the_step(tmp_path: Path) -> None:
    needs_tracing()
    if not Path("/sys/bus/event_source/devices/msr/events/tsc").exists():
        pytest.skip("no msr/tsc/ on this machine")
    done = collect("--counters", "msr/tsc/", "--seconds", "0.2", "-o", str(tmp_path / "s"))
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "s/session.json")["capture"]["counters"][-1] == "msr/tsc/"
    line = " ".join(read(tmp_path / "s/machine-r1/step.json")["perf_command"])
    assert "{sched:sched_switch,msr/tsc/}:SGHD" in line or "msr/tsc/}:S" in line


def test_folder_is_named_after_the_target(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--seconds", "0.1", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert re.fullmatch(r"schedlens-machine-\d{8}T\d{6}Z", folder.name)


def test_truncated_batches_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    one = struct.pack("<IHHIIqqQQ", 0, 0, 0, 0, 0, 0, 1_000_000, 10, 64)
    path.write_bytes(b"SLSAMP1\0" + one * 3)
    assert batches.throughput(path, "bytes") == 64_000.0
    assert batches.throughput(path, "iterations") == 10_000.0
    path.write_bytes(b"SLSAMP1\0" + one * 3 + b"x")
    with pytest.raises(WorkloadError, match="is not a file of batches"):
        batches.throughput(path, "bytes")
