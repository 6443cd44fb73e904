"""`collect` for users who may not record everything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from collect_command import collect, read
from conftest import needs_tracing

pytestmark = pytest.mark.records

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may write to."""
    folder = Path(tempfile.mkdtemp(prefix="schedlens-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def as_user(
    folder: Path, *arguments: str, workloads: str = "", perf: str = ""
) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return subprocess.run(
        [sys.executable, str(SUPPORT / "unprivileged.py"), *arguments],
        cwd=folder,
        env={**os.environ, "SCHEDLENS_WORKLOADS": workloads, "SCHEDLENS_PERF": perf},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def paranoid() -> int:
    return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())


def tracefs_is_closed() -> bool:
    folder = Path("/sys/kernel/tracing")
    return not folder.stat().st_mode & 0o005


def test_ordinary_user_records_own_programs(open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("ordinary users have other rights on this machine")
    done = as_user(open_folder, "collect", "-o", "s", "--", "sh", "-c", "sleep 0.05; sleep 0.05")
    assert done.returncode == 0, done.stderr
    capture = read(open_folder / "s/session.json")["capture"]
    assert capture["mode"] == "switch_events_own"
    assert capture["allow"].startswith("sudo sysctl kernel.perf_event_paranoid=-1 && sudo mount ")
    assert f"to record everything: {capture['allow']}" in done.stderr
    assert "recording mode: switch_events_own" in done.stderr
    text = subprocess.run(
        ["perf", "script", "-f", "--show-switch-events", "-i",
         str(open_folder / "s/sh-r1/perf.data")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    # The shell and the two programs it ran, nothing else.
    assert {line.split()[0] for line in text.splitlines()} == {"sh", "sleep"}


def test_ordinary_user_may_not_record_the_machine(open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("ordinary users have other rights on this machine")
    done = as_user(open_folder, "collect", "-o", "s", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr
    session = read(open_folder / "s/session.json")
    assert session["capture"]["mode"] == "none"
    assert "the whole machine" in session["capture"]["missing"][0]
    step = read(open_folder / "s/machine-r1/step.json")
    assert (step["recorded"], step["perf_command"], step["checks"]) == (False, None, [])
    assert not (open_folder / "s/machine-r1/perf.data").exists()


@pytest.mark.parametrize(
    ("capabilities", "mode"),
    [
        ("cap_perfmon,cap_ipc_lock=ep", "switch_events_system"),
        ("cap_perfmon,cap_ipc_lock,cap_sys_ptrace,cap_syslog,cap_dac_read_search=ep", "full"),
    ],
)
def test_ordinary_user_with_privileged_perf_records_the_machine(
    capabilities: str, mode: str, open_folder: Path
) -> None:
    needs_tracing()
    setcap = shutil.which("setcap", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if setcap is None or paranoid() < 0 or not tracefs_is_closed():
        pytest.skip("setcap is missing, or this machine permits everything")
    program = shutil.copy(shutil.which("perf") or "", open_folder / "perf")
    if subprocess.run([setcap, capabilities, str(program)], check=False).returncode != 0:
        pytest.skip("this disk stores no file capabilities")
    done = as_user(open_folder, "collect", "-o", "s", "--seconds", "0.2", perf=str(program))
    assert done.returncode == 0, done.stderr
    session = read(open_folder / "s/session.json")
    assert session["capture"]["mode"] == mode
    step = read(open_folder / "s/machine-r1/step.json")
    assert next(check for check in step["checks"] if check["check"] == "samples")["ok"]
    assert "-a" in step["perf_command"]


def test_workload_of_ordinary_user_is_recorded(workload: str, open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("ordinary users have other rights on this machine")
    program = Path(shutil.copy(workload, open_folder / "workloads"))
    program.chmod(0o755)
    done = as_user(
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
