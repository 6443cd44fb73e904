"""`collect --process` with a group of processes: a service, a container, a pod, or a cgroup."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from collect_command import collect, read
from conftest import command, needs_tracing

from schedlens.machine import cgroups, process_groups
from schedlens.machine.process_groups import Group
from schedlens.record.linux.followed import Followed

pytestmark = pytest.mark.records


def proc(folder: Path, cgroups_of: dict[int, str], zombies: tuple[int, ...] = ()) -> Path:
    """A /proc with these processes."""
    for pid, cgroup in cgroups_of.items():
        place = folder / str(pid)
        place.mkdir(parents=True)
        (place / "cgroup").write_text(f"4:memory:/other\n0::{cgroup}\n")
        state = "Z" if pid in zombies else "S"
        (place / "stat").write_text(f"{pid} (a (b) c) {state} 1 1\n")
    (folder / "self").mkdir(parents=True, exist_ok=True)
    return folder


def test_members_are_the_running_processes_of_the_group(tmp_path: Path) -> None:
    units = {5: "/system.slice/nginx.service", 6: "/system.slice/nginx.service/workers",
             7: "/system.slice/cron.service", 8: "/system.slice/nginx.service", 9: "/"}  # fmt: skip
    folder = proc(tmp_path, units, zombies=(8,))
    assert process_groups.members(Group("service", "nginx"), folder) == [5, 6]
    assert process_groups.members(Group("cgroup", "/system.slice"), folder) == [5, 6, 7]
    assert process_groups.members(Group("container", "3f3f"), folder) == []
    assert process_groups.known("service", folder) == [
        "service:cron.service", "service:nginx.service",
    ]  # fmt: skip


@pytest.fixture
def service() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A running service: a cgroup called like a unit, with a shell and its child."""
    needs_tracing()
    mounts = cgroups.mounts(Path("/proc/self/mountinfo").read_text())
    wanted = [mount for mount in mounts if "cpu" in mount.controllers]
    wanted += [mount for mount in mounts if mount.unified]
    if not wanted:
        pytest.skip("this machine mounts no cgroup hierarchy that schedules")
    name = f"schedlens-test-{os.getpid()}.service"
    folder = wanted[0].folder / name
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    program = subprocess.Popen(
        ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; while :; do sleep 0.01; done', str(folder)]
    )
    try:
        while not process_groups.members(Group("service", name)):
            assert program.poll() is None
        yield name, program
    finally:
        program.kill()
        program.wait()
        # The shell's child ends within 10 ms.
        for _ in range(500):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.01)


def test_service_is_recorded_and_analyzed_by_its_name(
    service: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    group = f"service:{service[0]}"
    session = tmp_path / "session"
    done = collect("--process", group, "--seconds", "0.5", "-o", str(session))
    assert done.returncode == 0, done.stderr
    assert read(session / "session.json")["request"]["process"] == group
    short = group.removesuffix(".service")
    done = command("analyze", str(session), "--process", short, "--no-report")
    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
        ran = con.execute(
            "SELECT DISTINCT thread FROM thread_summary(p_process := $1) ORDER BY 1", [short]
        ).fetchall()
    assert ("sh",) in ran


def test_recording_ends_with_the_last_process_of_the_group(
    service: tuple[str, subprocess.Popen[bytes]],
) -> None:
    name, program = service
    followed = Followed(None, Group("service", name))
    assert program.pid in followed.pids
    # The shell's children come and go; others than those that were found first count, too.
    followed.pids = [1 << 22]
    assert followed.running()
    assert program.pid in followed.pids
    program.kill()
    program.wait()
    while process_groups.members(Group("service", name)):
        pass
    assert not followed.running()
    assert str(followed) == f"all processes of service:{name}"


def test_group_without_a_process_is_refused_with_those_that_have_one(
    service: tuple[str, subprocess.Popen[bytes]],
) -> None:
    wrong = f"service:{service[0].replace('schedlens', 'shedlens')}"
    done = collect("--process", wrong, "--dry-run")
    assert done.returncode == 2
    assert done.stderr == (
        f"collect: --process: no running process is in '{wrong}'; there are service:{service[0]}\n"
    )
