"""`collect` that is killed at any moment, whose perf dies, or whose output cannot be written.

FAULTS=50 sets the number of moments; the default keeps the test short.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import machine_settings
import pytest
from collect_command import collect, processes, read
from conftest import BIN, command, needs_tracing

from schedlens.machine import topology
from schedlens.record import changes

pytestmark = pytest.mark.records

MOMENTS = int(os.environ.get("FAULTS", "2"))
# perf ends by SIGINT as by SIGTERM, and by SIGSEGV as by SIGKILL.
ENDS = [signal.SIGKILL, signal.SIGTERM]
if "FAULTS" in os.environ:
    ENDS += [signal.SIGINT, signal.SIGSEGV]
TRACEFS = f"{changes.TRACEFS} tracefs"
# Several steps, so that a kill meets finished, unfinished, and planned ones.
SWEEP = ("--workload", "sha256", "--threads", "1..3", "--placement", "default", "--seconds", "0.1")
STEPS = 3
# A temporary folder younger than this may belong to a run that has not locked it yet.
YOUNG_S = 5.0


def named(sign: signal.Signals) -> str:
    """SIGKILL rather than 9 in the name of a test."""
    return sign.name


class Host:
    """A mount namespace without tracefs, as after a restart; other programs keep theirs."""

    def __init__(self, folder: Path) -> None:
        needs_tracing()
        if shutil.which("nsenter") is None or not changes.TRACEFS.is_dir():
            pytest.skip("no namespaces or no tracefs here")
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.state = folder / "state"
        self._environment = {
            **os.environ,
            "SCHEDLENS_STATE_DIR": str(self.state),
            "TMPDIR": str(self.temporary),
        }
        script = f"while umount {changes.TRACEFS} 2>/dev/null; do :; done; echo; exec sleep 7200"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        if not self._holder.stdout.readline():
            pytest.skip("no mount namespace can be made here")
        self.pids = (1, os.getpid(), os.getppid(), self._holder.pid)
        self.before = machine_settings.settings(self.pids)
        self.mounts_before = self.mounts()
        assert TRACEFS not in self.mounts_before

    def started(self, *words: str) -> subprocess.Popen[str]:
        """A command in the namespace: its process id is that of the command itself."""
        inside = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", f"--wd={Path.cwd()}"]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*inside, str(BIN / words[0]), *words[1:]],
            stdout=pipe, stderr=pipe, text=True, env=self._environment, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.started(*words)
        output, error = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, output, error)

    def mounts(self) -> list[str]:
        return machine_settings.mounts(self._holder.pid)

    def check_unchanged(self) -> None:
        """All settings are as before; a mount may remain only if the journal lists it."""
        assert machine_settings.settings(self.pids) == self.before
        left = [mount for mount in self.mounts() if mount not in self.mounts_before]
        listed = [change.what for change in changes.left_behind(self.state)]
        if left:
            assert (left, listed) == ([TRACEFS], [f"mount {changes.TRACEFS}"])

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.close()


def digests(folder: Path) -> dict[str, str]:
    """The content of each file below a folder."""
    # pytest's comparison of long, unequal bytes takes hours.
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def finished(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/step.json"))


def wait_for_end(folder: Path) -> None:
    """Waits until nothing that `collect` started for this folder runs any more."""
    deadline = time.monotonic() + 60
    while running := [line for line in processes() if str(folder) in line]:
        assert time.monotonic() < deadline, running
        time.sleep(0.05)


def wait_for_folder(folder: Path, process: subprocess.Popen[str]) -> None:
    """Waits until the command has begun its session, of which no step can be finished then."""
    while not folder.exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.01)


def check_steps(folder: Path, names: list[str]) -> None:
    """Each of these steps has a whole recording of a workload that succeeded."""
    for name in names:
        step = read(folder / name / "step.json")
        checks = {check["check"]: check["ok"] for check in step["checks"]}
        assert checks["whole"] is True
        assert read(folder / name / "workload.json")["status"] == "ok"
        assert not list((folder / name).glob("*.part"))


def check_is_complete(folder: Path, names: list[str]) -> None:
    """`analyze` accepts exactly these steps, each of them with a whole recording."""
    check_steps(folder, names)
    output = folder.with_name(f"{folder.name}-analysis")
    done = command("analyze", str(folder), "-o", str(output), "--no-report", "--json", check=False)
    if not names:
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert not (output / "analysis.duckdb").exists()
        return
    assert done.returncode == 0, done.stderr
    assert sorted(trace["label"] for trace in json.loads(done.stdout)["traces"]) == names


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=named)
def test_sweep_stopped_at_any_moment_keeps_finished_steps_and_the_machine(
    sign: signal.Signals, workload: str, host: Host, tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier"
    begin = time.monotonic()
    done = host.run("collect", *SWEEP, "-o", str(earlier))
    seconds = time.monotonic() - begin
    assert done.returncode == 0, done.stderr
    host.check_unchanged()
    assert host.mounts() == host.mounts_before
    known = digests(earlier)
    drawn = random.Random(int(sign))
    stopped = 0
    for number in range(MOMENTS):
        folder = tmp_path / f"session-{number}"
        process = host.started("collect", *SWEEP, "-o", str(folder))
        if number == 0:
            # A later run may be faster than the first, so that drawn moments come after its end.
            wait_for_folder(folder, process)
        else:
            time.sleep(drawn.uniform(0.0, 1.0) * seconds)
        process.send_signal(sign)
        _, error = process.communicate(timeout=120)
        assert "Traceback" not in error
        stopped += process.returncode != 0
        wait_for_end(folder)
        host.check_unchanged()
        if sign != signal.SIGKILL and process.returncode == 130:
            assert host.mounts() == host.mounts_before
        names = finished(folder)
        if (folder / "session.json").exists():
            check_is_complete(folder, names)
            kept = {name: digests(folder / name) for name in names}
            done = host.run("collect", "--resume", str(folder))
        else:
            assert names == []
            kept = {}
            done = host.run("collect", *SWEEP, "-o", str(folder))
        assert done.returncode == 0, done.stderr
        assert {name: digests(folder / name) for name in names} == kept
        states = [step["state"] for step in read(folder / "session.json")["steps"]]
        assert states == ["done"] * STEPS
        check_steps(folder, [step["name"] for step in read(folder / "session.json")["steps"]])
        # The next run has also undone what the killed one left.
        host.check_unchanged()
        assert host.mounts() == host.mounts_before
        assert digests(earlier) == known
        shutil.rmtree(folder)
    assert stopped
    if sign == signal.SIGKILL:
        # The temporary folders of the killed runs disappear with a later run.
        time.sleep(YOUNG_S)
        host.run("collect", "--seconds", "0.05", "-o", str(tmp_path / "last"))
    assert list(host.temporary.iterdir()) == []
    assert not (host.state / "changes.json").exists()


def perf_of(folder: Path) -> int | None:
    """The process that records into this folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"record" in words and any(os.fsencode(folder) in word for word in words):
            return int(path.parent.name)
    return None


def records_into(folder: Path) -> int:
    """Waits until perf records into a step of this folder; returns its process id."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = perf_of(folder)
        if found is not None and any(path.stat().st_size for path in folder.glob("*/perf.data")):
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing records into {folder}")


@pytest.mark.parametrize("sign", ENDS, ids=named)
def test_step_fails_if_perf_dies_midway_and_the_next_steps_are_recorded(
    sign: signal.Signals, workload: str, host: Host, tmp_path: Path
) -> None:
    folder = tmp_path / "session"
    process = host.started("collect", *SWEEP, "--seconds", "1.5", "-o", str(folder))
    os.kill(records_into(folder), sign)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1, error
    steps = read(folder / "session.json")["steps"]
    assert [step["state"] for step in steps] == ["failed", "done", "done"]
    assert steps[0]["why"].startswith("perf ended with code ")
    lines = [line for line in error.splitlines() if "failed" in line]
    assert lines[-1] == f"1 of {STEPS} steps failed"
    assert f"{steps[0]['name']}: failed: {steps[0]['why']}" in lines[0]
    assert not (folder / steps[0]["name"]).exists()
    check_is_complete(folder, [step["name"] for step in steps[1:]])
    wait_for_end(folder)
    host.check_unchanged()
    assert host.mounts() == host.mounts_before
    done = host.run("collect", "--resume", str(folder))
    assert done.returncode == 0, done.stderr
    assert len(finished(folder)) == STEPS


@pytest.mark.parametrize("target", ["command", "machine"])
def test_single_recording_whose_perf_dies_is_no_recording(
    target: str, host: Host, tmp_path: Path
) -> None:
    folder = tmp_path / "session"
    words = ["--", "sleep", "1.5"] if target == "command" else ["--seconds", "1.5"]
    process = host.started("collect", "-o", str(folder), *words)
    os.kill(records_into(folder), signal.SIGKILL)
    output, error = process.communicate(timeout=120)
    assert (process.returncode, output) == (2, "")
    assert "failed: perf ended with code -9" in error
    assert "Traceback" not in error
    assert finished(folder) == []
    check_is_complete(folder, [])
    host.check_unchanged()
    assert host.mounts() == host.mounts_before


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "schedlens-test", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_read_only_output_is_refused_in_one_line(disk: Path) -> None:
    needs_tracing()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    folder = disk / "session"
    done = collect("--seconds", "0.1", "-o", str(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"collect: cannot write {folder}: Read-only file system. Choose a writable place\n"
    )
    assert list(disk.iterdir()) == []


def test_session_that_became_read_only_is_not_resumed(workload: str, disk: Path) -> None:
    needs_tracing()
    folder = disk / "session"
    assert collect(*SWEEP, "-o", str(folder)).returncode == 0
    session = read(folder / "session.json")
    step = session["steps"][1]["name"]
    shutil.rmtree(folder / step)
    known = digests(disk)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = collect("--resume", str(folder))
    assert done.returncode == 2
    assert "Read-only file system. Choose a writable place" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert digests(disk) == known


@pytest.mark.parametrize("free", [0, 1, 3])
def test_full_disk_records_nothing_and_keeps_the_earlier_session(
    free: int, workload: str, disk: Path
) -> None:
    needs_tracing()
    earlier = disk / "earlier"
    assert collect("--seconds", "0.1", "-o", str(earlier)).returncode == 0
    known = digests(earlier)
    usage = os.statvfs(disk)
    with (disk / "filler").open("wb") as out:
        out.write(bytes(usage.f_bavail * usage.f_frsize - (free << 20)))
    done = collect(*SWEEP, "-o", str(disk / "session"))
    assert done.returncode == 2, done.stderr
    assert "no space left on the disk of" in done.stderr
    assert "Traceback" not in done.stderr
    assert finished(disk / "session") == []
    assert digests(earlier) == known
    # With space again, the same command or `--resume` records what is missing.
    (disk / "filler").unlink()
    begun = (disk / "session/session.json").exists()
    again = ["--resume", str(disk / "session")] if begun else [*SWEEP, "-o", str(disk / "session")]
    done = collect(*again)
    assert done.returncode == 0, done.stderr
    assert len(finished(disk / "session")) == STEPS


@pytest.mark.parametrize("name", ["-dash", "gr\u00fc\u00dfe \u65e5\u672c\nnew line, quote'\""])
def test_unusual_paths_are_recorded_resumed_and_analyzed(
    name: str, workload: str, tmp_path: Path
) -> None:
    needs_tracing()
    folder = tmp_path / name
    done = collect(*SWEEP, "--threads", "1,2", "-o", str(folder))
    assert done.returncode == 0, done.stderr
    names = finished(folder)
    assert len(names) == 2
    shutil.rmtree(folder / names[1])
    done = collect("--resume", str(folder))
    assert done.returncode == 0, done.stderr
    assert finished(folder) == names
    check_is_complete(folder, names)
    # A command of an unusual name is recorded as well.
    program = tmp_path / f"run {name}"
    program.write_text("#!/bin/sh\nexec sleep 0.1\n", encoding="utf-8")
    program.chmod(0o755)
    done = collect("-o", f"{folder}-2", "--", str(program))
    assert done.returncode == 0, done.stderr
    done = command("analyze", f"{folder}-2", check=False)
    assert done.returncode == 0, done.stderr


def test_folder_of_a_run_killed_before_its_first_file_is_used_again(tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "session.json.12345.part").write_text('{"schema"')
    done = collect("--seconds", "0.1", "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["machine-r1", "session.json"]


@pytest.mark.alone
def test_system_clock_set_while_recording_does_not_change_times(tmp_path: Path) -> None:
    needs_tracing()
    folder = tmp_path / "session"
    program = tmp_path / "set_clock.py"
    program.write_text(SET_CLOCK)
    begin = time.monotonic_ns()
    done = collect("-o", str(folder), "--", "python3", str(program))
    took = time.monotonic_ns() - begin
    assert done.returncode == 0, done.stderr
    if "not permitted" in done.stdout + done.stderr:
        pytest.skip("the clock of this machine cannot be set")
    assert "exited with code" not in done.stderr
    (path,) = folder.glob("*/step.json")
    step = read(path)
    # The program takes 0.6 s by the monotonic clock; the system clock steps by 2 s and -2 s.
    assert 600_000_000 <= step["end_mono_ns"] - step["begin_mono_ns"] < took
    done = command("analyze", str(folder), "--no-report", "--json", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (trace,) = json.loads(done.stdout)["traces"]
    assert 600_000_000 <= trace["duration_ns"] < took
    asked = "FROM problem WHERE what LIKE '%time does not fit%'"
    assert command("schedlens", "sql", str(folder), asked, "--json").stdout == ""
    asked = "FROM loss WHERE signalled_by = 'damaged'"
    assert command("schedlens", "sql", str(folder), asked, "--json").stdout == ""


# Sets the system clock, waits, and sets it back by what the monotonic clock says.
SET_CLOCK = """
import sys, time
clock = time.CLOCK_REALTIME
offset = time.clock_gettime_ns(clock) - time.monotonic_ns()
def set_to(step_ns):
    time.clock_settime_ns(clock, time.monotonic_ns() + offset + step_ns)
try:
    for step_ns in (2_000_000_000, -2_000_000_000):
        try:
            set_to(step_ns)
        except OSError:
            print("not permitted")
            sys.exit(0)
        time.sleep(0.3)
finally:
    set_to(0)
"""


def test_settings_of_this_machine_can_be_read() -> None:
    found = machine_settings.settings([os.getpid()])
    online = [cpu.cpu for cpu in topology.read().cpus if cpu.online]
    assert found[f"affinity of {os.getpid()}"] == str(sorted(os.sched_getaffinity(0)))
    assert found["/proc/sys/kernel/perf_event_paranoid"].lstrip("-").isdigit()
    assert str(max(online)) in found["/sys/devices/system/cpu/online"]
