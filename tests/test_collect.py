"""`collect` as a user runs it: sweeps, programs, the machine; killed, interrupted, resumed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, command, needs_tracing

from schedlens import batches, topology, workload_program
from schedlens.errors import WorkloadError

Json = dict[str, Any]
TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def workload() -> str:
    """The path of the workload program."""
    try:
        return workload_program.program()
    except WorkloadError as error:
        pytest.skip(str(error))


def collect(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return command("collect", *arguments, check=False, **more)


def read(path: Path) -> Json:
    value: Json = json.loads(path.read_text(encoding="utf-8"))
    return value


@pytest.fixture(scope="module")
def sweep(workload: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real sweep of sha256 at 1 to 3 threads."""
    needs_tracing()
    folder = tmp_path_factory.mktemp("collect") / "session"
    done = collect(
        "--workload", "sha256", "--threads", "1..3", "--seconds", "0.2", "-o", str(folder)
    )
    assert done.returncode == 0, done.stderr
    assert f"now type: analyze {folder}" in done.stdout
    return folder


def test_every_step_is_whole(sweep: Path) -> None:
    session = read(sweep / "session.json")
    assert session["schema"] == 1
    assert session["capture"]["rung"] == "full"
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


def test_workers_ran_where_and_when_they_should(sweep: Path) -> None:
    for row in read(sweep / "session.json")["steps"]:
        folder = sweep / row["name"]
        step, result = read(folder / "step.json"), read(folder / "workload.json")
        assert result["status"] == "ok"
        assert len(result["workers"]) == row["threads"]
        assert [worker["cpu"] for worker in result["workers"]] == (
            row["planned_cpus"] or [None] * row["threads"]
        )
        for worker in result["workers"]:
            # Between the snapshots, which lie inside the recording.
            assert step["begin_mono_ns"] <= worker["start_mono_ns"]
            assert worker["end_mono_ns"] <= step["end_mono_ns"]
            length = worker["end_mono_ns"] - worker["start_mono_ns"]
            # A worker that gets its CPU late begins late; all end together, not before the time.
            assert length >= 0.1e9
            assert worker["cpu_time_ns"] <= length + 1_000_000


def test_the_recording_holds_the_workers_interval(sweep: Path) -> None:
    for row in read(sweep / "session.json")["steps"]:
        step = read(sweep / row["name"] / "step.json")
        lines = subprocess.run(
            ["perf", "script", "-i", str(sweep / row["name"] / "perf.data"), "-F", "time"],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        times = [float(line.rstrip(":")) for line in lines]
        # Something is always switched within 50 ms: the recorder itself, if nothing else.
        assert min(times) - step["begin_mono_ns"] / 1e9 < 0.05
        assert step["end_mono_ns"] / 1e9 - max(times) < 0.05


def test_the_workers_are_in_both_snapshots_and_as_busy_as_they_say(sweep: Path) -> None:
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
            # idle_ns may step back on some kernels; the counters of work do not.
            assert min(grown["user_ns"], grown["system_ns"]) >= 0


def test_the_recorders_cost_is_that_of_the_batches(sweep: Path) -> None:
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


def test_plans_that_are_equal_run_once(sweep: Path) -> None:
    if topology.read().has_smt:
        pytest.skip("siblings make the two pinned plans differ here")
    rows = read(sweep / "session.json")["steps"]
    assert [row["placements"] for row in rows] == [["default"], ["physical", "siblings"]] * 3


def test_nothing_stays_changed_on_the_machine(sweep: Path) -> None:
    assert all(row["restored"] for row in read(sweep / "session.json")["changed"])


def test_a_session_is_not_overwritten(sweep: Path) -> None:
    done = collect("--workload", "sha256", "-o", str(sweep))
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"collect: {sweep} is not empty: give another folder, or `collect --resume {sweep}`"
    )


def test_a_finished_session_has_nothing_to_resume(sweep: Path) -> None:
    before = (sweep / "session.json").read_bytes()
    done = collect("--resume", str(sweep))
    assert done.returncode == 0
    assert "all" in done.stdout
    assert f"now type: analyze {sweep}" in done.stdout
    assert (sweep / "session.json").read_bytes() == before


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A sweep of some seconds, running, with its first step finished."""
    running = subprocess.Popen(
        [str(BIN / "collect"), *arguments, "-o", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None:
        if list(folder.glob("*/step.json")) and len(list(folder.glob("*/"))) > 1:
            return running
        time.sleep(0.02)
    running.kill()
    raise AssertionError(running.communicate())


SWEEP = ("--workload", "sha256", "--threads", "1,2", "--placement", "physical", "--repeat", "3",
         "--seconds", "0.3")  # fmt: skip


def test_a_killed_sweep_keeps_its_steps_and_goes_on(workload: str, tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    running = begun(folder, *SWEEP)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = {path.parent.name: path.read_bytes() for path in folder.glob("*/step.json")}
    halves = [path for path in folder.iterdir() if path.is_dir() and path.name not in kept]
    assert 1 <= len(kept) < 6
    # Something of another kind in the unfinished step must not survive either.
    for half in halves:
        (half / "perf.data").write_bytes(b"half")
    # What the killed run started ends by itself: its recorder and its workload.
    time.sleep(1.5)
    done = collect("--resume", str(folder))
    assert done.returncode == 0, done.stderr
    session = read(folder / "session.json")
    assert [step["state"] for step in session["steps"]] == ["done"] * 6
    for name, step in kept.items():
        assert (folder / name / "step.json").read_bytes() == step
    for step in session["steps"]:
        checks = read(folder / step["name"] / "step.json")["checks"]
        assert next(check for check in checks if check["check"] == "whole")["ok"]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_keeps_its_steps(
    sign: signal.Signals, workload: str, tmp_path: Path
) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    running = begun(folder, *SWEEP)
    running.send_signal(sign)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    whole = len(list(folder.glob("*/step.json")))
    assert f"interrupted; {whole} of 6 steps are whole" in errors
    assert f"to go on: collect --resume {folder}" in errors
    assert "Traceback" not in errors
    # Only finished steps are left, and nothing that it started still runs.
    assert len([path for path in folder.iterdir() if path.is_dir()]) == whole
    assert not [line for line in processes() if str(folder) in line]
    states = [step["state"] for step in read(folder / "session.json")["steps"]]
    assert states.count("done") == whole


def processes() -> list[str]:
    """Command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found


def test_a_full_disk_keeps_what_is_whole(workload: str, tmp_path: Path) -> None:
    needs_tracing()
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "schedlens-test", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        done = collect(*SWEEP, "--repeat", "40", "-o", str(disk / "session"))
        steps = read(disk / "session/session.json")["steps"]
        kept = list((disk / "session").glob("*/step.json"))
        assert done.returncode == 1, done.stderr
        assert "no space left on the disk" in done.stderr
        assert "Traceback" not in done.stderr
        assert "to go on: collect --resume" in done.stderr
        assert [step["state"] for step in steps].count("done") == len(kept) < 80
        for path in kept:
            read(path)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_program_is_recorded_from_its_first_instruction(tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "s"
    done = collect("-o", str(folder), "--", "sh", "-c", "sleep 0.05; echo out; exit 3")
    assert done.returncode == 0, done.stderr
    assert "out\n" in done.stdout
    assert "warning: the command ended with code 3" in done.stderr
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


def test_a_program_is_ended_after_the_time_asked_for(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--seconds", "0.3", "-o", str(tmp_path / "s"), "--", "sleep", "54.321")
    assert done.returncode == 0, done.stderr
    assert "the command was ended after the time asked for" in done.stderr
    step = read(tmp_path / "s/sleep-r1/step.json")
    assert step["end_mono_ns"] - step["begin_mono_ns"] == pytest.approx(0.3e9, abs=0.2e9)
    assert not [line for line in processes() if "54.321" in line]


def test_a_process_by_id_and_by_name(tmp_path: Path) -> None:
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


def test_the_machine_as_it_is(tmp_path: Path) -> None:
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


def test_a_dry_run_prints_the_plan_and_writes_nothing(workload: str, tmp_path: Path) -> None:
    done = collect("--workload", "imul1", "--threads", "1,2", "--dry-run", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("imul1-default-t01-r1 ") for line in lines)
    assert any(
        re.match(r"workload: .* run imul1 --threads 1 --seconds 1 --gate", line) for line in lines
    )
    if os.geteuid() == 0 and shutil.which("perf"):
        assert any(re.match(r"recorder: .*perf record .* -- cat$", line) for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_named_after_what_is_recorded(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--seconds", "0.1", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert re.fullmatch(r"schedlens-machine-\d{8}T\d{6}Z", folder.name)


def test_pairs_of_workers_need_even_numbers(workload: str, tmp_path: Path) -> None:
    done = collect("--workload", "spin_handoff", "--threads", "3", "-o", str(tmp_path / "s"))
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "collect: --threads: spin_handoff runs 2 workers together, so 3 is no number for it; "
        "give a multiple of 2",
    )


FOOLISH = [
    (["--workload", "sha265"], "no workload named 'sha265': did you mean sha256"),
    (["--workload", "sha256", "--variant", "gpu"], "--variant: sha256 has "),
    (["--workload", "sha256", "--threads", "0"], "'0' leaves the range 1 to 4096"),
    (["--workload", "sha256", "--threads", "two"], "'two' is no number of threads"),
    (["--workload", "sha256", "--cpus", "0,9999"], "CPU 9999 is not online and allowed"),
    (["--workload", "sha256", "--cpus", "x"], "'x' is no CPU or range"),
    (["--workload", "sha256", "--cpus", "0", "--placement", "default"], "exclude each other"),
    (["--workload", "sha256", "--seconds", "-1"], "--seconds: -1 is not between"),
    (["--workload", "sha256", "--seconds", "inf"], "--seconds: inf is not between"),
    (["--workload", "sha256", "--repeat", "0"], "--repeat: 0 is no number of repeats"),
    (["--workload", "sha256", "--pid", "1"], "--workload and --pid exclude each other"),
    (["--workload", "sha256", "--depth", "3"], "--depth is for queue, not for sha256"),
    (["--workload", "queue", "--depth", "65"], "65 is not in the range 1<=x<=64"),
    (["--threads", "1..3"], "--threads needs --workload"),
    (["--pid", "4194305"], "no process 4194305 runs"),
    (["--process", "no such process"], "no process named 'no such process' runs"),
    (["--", "no-such-program"], "no program named 'no-such-program' is found"),
    (["imul1", "--workload", "imul1"], "--workload and a command exclude each other"),
    (["--resume", "/nonexistent"], "does not exist"),
    (["--resume", "/tmp", "--seconds", "3"], "--resume takes the plan from the session"),
    (["--counters", "no-such-event", "--seconds", "0.1"], "--counters: "),
    (["-o", "/proc/nowhere", "--seconds", "0.1"], "/proc/nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), FOOLISH)
def test_foolish_requests_get_one_line(
    arguments: list[str], message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "--workload" in arguments:
        request.getfixturevalue("workload")
    done = collect(*arguments, cwd=str(tmp_path))
    assert done.returncode == 2, done.stderr
    lines = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("not rec", "to rec", "recording kind"))
    ]
    assert len(lines) == 1, lines
    assert message in lines[0]
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_kernels_name_alone_is_met_with_the_option(workload: str, tmp_path: Path) -> None:
    done = collect("spin_handoff", cwd=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        2,
        "collect: no program named 'spin_handoff' is found on the path: did you mean "
        "--workload spin_handoff?\n",
    )


def test_a_session_that_is_none_is_not_resumed(tmp_path: Path) -> None:
    for text, message in (
        (None, "holds no session.json"),
        ("{", "cannot be read"),
        ("[]", "holds no JSON object"),
        ('{"schema": 7}', "was written by a version with schema 7"),
        ('{"schema": 1, "steps": [{"x": 1}]}', "no step that this version knows"),
        ('{"schema": 1, "steps": []}', "no request to go on with"),
    ):
        if text is not None:
            (tmp_path / "session.json").write_text(text)
        done = collect("--resume", str(tmp_path))
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_step_cannot_lead_out_of_its_session(tmp_path: Path) -> None:
    inside, outside = tmp_path / "s", tmp_path / "precious"
    inside.mkdir()
    outside.mkdir()
    step: Json = {"name": "../precious", "workload": None, "placements": [], "placement": None,
            "threads": None, "repeat": 1, "oversubscribed": False,
            "planned_cpus": None}  # fmt: skip
    (inside / "session.json").write_text(json.dumps({"schema": 1, "steps": [step]}))
    done = collect("--resume", str(inside))
    assert done.returncode == 2
    assert "no name of a folder" in done.stderr
    assert outside.is_dir()


def test_a_changed_machine_is_no_place_to_resume(workload: str, tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "s"
    assert collect("--seconds", "0.1", "-o", str(folder)).returncode == 0
    session = read(folder / "session.json")
    shutil.rmtree(folder / "machine-r1")
    session["topology"]["cpus"][0]["core"] = 77
    (folder / "session.json").write_text(json.dumps(session))
    done = collect("--resume", str(folder))
    assert done.returncode == 2
    assert "was recorded on other CPUs than this machine offers now" in done.stderr


def test_a_workload_whose_proof_fails_fails_its_step(tmp_path: Path) -> None:
    needs_tracing()
    # Stands in for a program whose kernel computed a wrong value at two threads.
    program = tmp_path / "workloads"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    done = collect(
        "--workload", "wrong", "--threads", "1,2", "--placement", "default", "--seconds", "0.05",
        "-o", str(tmp_path / "s"), env={**os.environ, "SCHEDLENS_WORKLOADS": str(program)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "1 of 2 steps failed" in done.stderr
    steps = read(tmp_path / "s/session.json")["steps"]
    assert [(step["state"], step.get("why")) for step in steps] == [
        ("done", None),
        ("failed", "the workload is failed: digest"),
    ]
    assert not (tmp_path / "s/wrong-default-t02-r1").exists()


STAND_IN = f"""#!{sys.executable}
import json, os, struct, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "list":
    print(json.dumps({{"kernels": [{{"kernel": "wrong", "parties": 1, "default_variant": "a",
        "variants": [{{"variant": "a", "supported": True, "why": None}}]}}]}}))
    sys.exit(0)
threads, out = int(words[words.index("--threads") + 1]), Path(words[words.index("--out") + 1])
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic_ns()
time.sleep(0.05)
end = time.monotonic_ns()
print("done", flush=True)
worker = dict(worker=0, pid=os.getpid(), tid=os.getpid(), name="w", cpu=None, start_mono_ns=start,
    end_mono_ns=end, cpu_time_ns=1, iterations=5, bytes=0, batches=1)
wrong = threads == 2
batch = struct.pack("<IHHIIqqQQ", 0, 0, 0, 0, 0, start, end, 5, 0)
(out / "samples.bin").write_bytes(b"SLSAMP1\\0" + batch)
(out / "workload.json").write_text(json.dumps(dict(status="failed" if wrong else "ok",
    workers=[worker], proofs=[dict(proof="digest", ok=not wrong)])))
sys.exit(1 if wrong else 0)
"""


def test_batches_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    one = struct.pack("<IHHIIqqQQ", 0, 0, 0, 0, 0, 0, 1_000_000, 10, 64)
    path.write_bytes(b"SLSAMP1\0" + one * 3)
    assert batches.throughput(path, "bytes") == 64_000.0
    assert batches.throughput(path, "iterations") == 10_000.0
    path.write_bytes(b"SLSAMP1\0" + one * 3 + b"x")
    with pytest.raises(WorkloadError, match="is no file of batches"):
        batches.throughput(path, "bytes")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may write to."""
    folder = Path(tempfile.mkdtemp(prefix="schedlens-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def as_nobody(
    folder: Path, *arguments: str, workloads: str = "", perf: str = ""
) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return subprocess.run(
        [sys.executable, str(TESTS / "unprivileged.py"), *arguments],
        cwd=folder,
        env={**os.environ, "SCHEDLENS_WORKLOADS": workloads, "SCHEDLENS_PERF": perf},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def paranoid() -> int:
    return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())


def tracefs_is_closed() -> bool:
    folder = Path("/sys/kernel/tracing")
    return not folder.stat().st_mode & 0o005


def test_an_ordinary_user_records_programs_of_his_own(open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("this machine permits more, or less, to an ordinary user")
    done = as_nobody(open_folder, "collect", "-o", "s", "--", "sh", "-c", "sleep 0.05; sleep 0.05")
    assert done.returncode == 0, done.stderr
    capture = read(open_folder / "s/session.json")["capture"]
    assert capture["rung"] == "switch_events_own"
    assert capture["allow"].startswith("sudo sysctl kernel.perf_event_paranoid=-1 && sudo mount ")
    assert f"to record all of it: {capture['allow']}" in done.stderr
    assert "recording kind: switch_events_own" in done.stderr
    text = subprocess.run(
        ["perf", "script", "-f", "--show-switch-events", "-i",
         str(open_folder / "s/sh-r1/perf.data")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    # The shell and the two programs it ran, nothing else.
    assert {line.split()[0] for line in text.splitlines()} == {"sh", "sleep"}


def test_an_ordinary_user_may_not_record_the_machine(open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("this machine permits more, or less, to an ordinary user")
    done = as_nobody(open_folder, "collect", "-o", "s", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr
    session = read(open_folder / "s/session.json")
    assert session["capture"]["rung"] == "none"
    assert "the whole machine" in session["capture"]["missing"][0]
    step = read(open_folder / "s/machine-r1/step.json")
    assert (step["recorded"], step["perf_command"], step["checks"]) == (False, None, [])
    assert not (open_folder / "s/machine-r1/perf.data").exists()


@pytest.mark.parametrize(
    ("capabilities", "rung"),
    [
        ("cap_perfmon,cap_ipc_lock=ep", "switch_events_system"),
        ("cap_perfmon,cap_ipc_lock,cap_sys_ptrace,cap_syslog,cap_dac_read_search=ep", "full"),
    ],
)
def test_an_ordinary_user_with_a_perf_that_may_more(
    capabilities: str, rung: str, open_folder: Path
) -> None:
    needs_tracing()
    setcap = shutil.which("setcap", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if setcap is None or paranoid() < 0 or not tracefs_is_closed():
        pytest.skip("no setcap here, or this machine permits everything")
    program = shutil.copy(shutil.which("perf") or "", open_folder / "perf")
    if subprocess.run([setcap, capabilities, str(program)], check=False).returncode != 0:
        pytest.skip("this disk holds no capabilities")
    done = as_nobody(open_folder, "collect", "-o", "s", "--seconds", "0.2", perf=str(program))
    assert done.returncode == 0, done.stderr
    session = read(open_folder / "s/session.json")
    assert session["capture"]["rung"] == rung
    step = read(open_folder / "s/machine-r1/step.json")
    assert next(check for check in step["checks"] if check["check"] == "samples")["ok"]
    assert "-a" in step["perf_command"]


def test_an_ordinary_users_workload_is_recorded(workload: str, open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("this machine permits more, or less, to an ordinary user")
    program = Path(shutil.copy(workload, open_folder / "workloads"))
    program.chmod(0o755)
    done = as_nobody(
        open_folder, "collect", "--workload", "sha256", "--threads", "2", "--placement", "default",
        "--seconds", "0.2", "-o", "s", workloads=str(program),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    step = read(open_folder / "s/sha256-default-t02-r1/step.json")
    assert step["recorded"] is True
    assert next(check for check in step["checks"] if check["check"] == "samples")["ok"]


def test_without_perf_the_workload_still_runs(workload: str, tmp_path: Path) -> None:
    done = collect(
        "--workload", "imul1", "--threads", "1", "--placement", "default", "--seconds", "0.1",
        "-o", str(tmp_path / "s"), env={**os.environ, "SCHEDLENS_PERF": "/nonexistent/perf"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not recorded: perf is not installed" in done.stderr
    folder = tmp_path / "s/imul1-default-t01-r1"
    assert read(folder / "step.json")["recorded"] is False
    assert read(folder / "workload.json")["status"] == "ok"
    assert not (folder / "baseline").exists()
