"""`collect` killed, interrupted, resumed, on a full disk, with a step that fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from collect_command import Json, collect, processes, read
from conftest import BIN, needs_tracing
from conftest import command as conftest_command

pytestmark = pytest.mark.records


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A sweep of a few seconds that is running and has finished its first step."""
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


def test_killed_sweep_keeps_its_steps_and_resumes(workload: str, tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    running = begun(folder, *SWEEP)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = {path.parent.name: path.read_bytes() for path in folder.glob("*/step.json")}
    halves = [path for path in folder.iterdir() if path.is_dir() and path.name not in kept]
    assert 1 <= len(kept) < 6
    # Files of another kind in the unfinished step must not survive either.
    for half in halves:
        (half / "perf.data").write_bytes(b"half")
    # The killed run's recorder and workload end by themselves.
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
def test_interrupted_sweep_keeps_its_steps(
    sign: signal.Signals, workload: str, tmp_path: Path
) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    running = begun(folder, *SWEEP)
    running.send_signal(sign)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    whole = len(list(folder.glob("*/step.json")))
    assert f"interrupted; {whole} of 6 steps are complete" in errors
    assert f"to continue: collect --resume {folder}" in errors
    assert "Traceback" not in errors
    # Only finished steps remain, and nothing that it started still runs.
    assert len([path for path in folder.iterdir() if path.is_dir()]) == whole
    assert not [line for line in processes() if str(folder) in line]
    states = [step["state"] for step in read(folder / "session.json")["steps"]]
    assert states.count("done") == whole


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", [["--", sys.executable, "-c", "while True: pass"], []])
def test_interrupted_recording_is_kept(
    command: list[str], sign: signal.Signals, tmp_path: Path
) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    running = subprocess.Popen(
        [str(BIN / "collect"), "--seconds", "60", "--repeat", "2", "-o", str(folder), *command],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(folder.glob("*/perf.data")):
        time.sleep(0.05)
    # perf exists, is usually enabled within a second, and then records.
    time.sleep(3)
    sent_ns = time.monotonic_ns()
    running.send_signal(sign)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted; 1 of 2 steps are complete" in errors
    assert "interrupted: the recording ends early" in errors
    (step,) = folder.glob("*/step.json")
    recorded = read(step)
    assert recorded["interrupted"] is True
    # The signal ended it, however late perf began.
    assert sent_ns < recorded["end_mono_ns"] < recorded["begin_mono_ns"] + 60_000_000_000
    states = [row["state"] for row in read(folder / "session.json")["steps"]]
    assert states == ["done", "planned"]
    analyzed = conftest_command("analyze", str(folder), "--no-report", "--json", check=False)
    assert analyzed.returncode in (0, 1), analyzed.stderr
    (trace,) = json.loads(analyzed.stdout)["traces"]
    lasted_ns = recorded["end_mono_ns"] - recorded["begin_mono_ns"]
    assert lasted_ns <= trace["duration_ns"] < 60_000_000_000
    # Other programs' command lines may contain the text of the loop as well.
    started = " ".join(command[1:])
    assert not [
        line for line in processes() if str(folder) in line or (command and line == started)
    ]


def test_full_disk_keeps_complete_steps(workload: str, tmp_path: Path) -> None:
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
        assert "to continue: collect --resume" in done.stderr
        assert [step["state"] for step in steps].count("done") == len(kept) < 80
        for path in kept:
            read(path)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


STEP: Json = {
    "name": "a-r1", "workload": "sha256", "placements": [], "placement": None, "threads": 1,
    "repeat": 1, "oversubscribed": False, "planned_cpus": None,
}  # fmt: skip
REQUEST: Json = {
    "workload": None, "variant": None, "threads": None, "placements": ["default"], "cpus": None,
    "seconds": 1.0, "repeats": 1, "pid": None, "process": None, "light": False, "counters": [],
    "command": [],
}  # fmt: skip


def saved(**more: object) -> str:
    """A session.json with all keys that a reader needs, and `more`."""
    value: Json = {
        "schema": 1, "tool_version": "0", "created_utc": "", "host": "", "command": [],
        "topology": {"source": "sysfs", "cpus": [], "allowed": []}, "os": "", "kernel": "",
        "settings": {}, "capture": {"mode": "full"}, "changed": [], "steps": [],
    }  # fmt: skip
    return json.dumps(value | more)


def test_invalid_session_is_not_resumed(tmp_path: Path) -> None:
    for text, message in (
        (None, "contains no session.json"),
        ("{", "cannot read"),
        ("[]", "does not contain a JSON object"),
        ("[" * 100_000, "cannot read"),
        ('{"schema": 7}', "session.json: written by a newer schedlens; its schema is 7"),
        ('{"schema": "1"}', 'session.json: schema is "1", not a whole number'),
        ('{"schema": 1}', "session.json: tool_version is missing"),
        (saved(steps=[{"x": 1}]), "session.json: steps[0].name is missing"),
        (saved(steps=[STEP | {"threads": None}]), "steps[0].threads is null, although it has a"),
        (saved(), "session.json contains no request"),
        (saved(request=REQUEST | {"repeats": "6"}), 'request.repeats is "6", not a whole number'),
        (saved(request=REQUEST | {"seconds": 1e300}), "request.seconds is 1e+300, not between"),
    ):
        if text is not None:
            (tmp_path / "session.json").write_text(text)
        done = collect("--resume", str(tmp_path))
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_step_path_cannot_leave_its_session(tmp_path: Path) -> None:
    inside, outside = tmp_path / "s", tmp_path / "precious"
    inside.mkdir()
    outside.mkdir()
    (inside / "session.json").write_text(saved(steps=[STEP | {"name": "../precious"}]))
    done = collect("--resume", str(inside))
    assert done.returncode == 2
    assert "is not a folder name" in done.stderr
    assert outside.is_dir()


def test_changed_machine_refuses_to_resume(workload: str, tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "s"
    assert collect("--seconds", "0.1", "-o", str(folder)).returncode == 0
    session = read(folder / "session.json")
    shutil.rmtree(folder / "machine-r1")
    session["topology"]["cpus"][0]["core"] = 77
    (folder / "session.json").write_text(json.dumps(session))
    done = collect("--resume", str(folder))
    assert done.returncode == 2
    assert "was recorded on other CPUs than this machine has now" in done.stderr


def test_failed_workload_proof_fails_its_step(tmp_path: Path) -> None:
    needs_tracing()
    # Replaces a program whose kernel computed a wrong value at two threads.
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
