"""The end of a process is waited for in the system, not asked for again and again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from schedlens.record import workload_program
from schedlens.record.windows import processes


def soon(ended: Callable[[], bool], limit_s: float = 20.0) -> bool:
    """Whether the process has ended within the limit."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if ended():
            return True
        time.sleep(0.01)
    return False


def test_end_of_a_process_is_noticed_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(processes, "running", asked.append)
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        processes.awaited(process.pid) as ended,
    ):
        assert not any(ended() for _ in range(50))
        process.kill()
        assert soon(ended)
    assert asked == []


@pytest.mark.parametrize("is_running", [True, False])
def test_process_that_may_not_be_waited_for_is_asked_about(
    is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "running", lambda pid: is_running)
    # No process has this number: Linux ends at 2^22.
    with processes.awaited(1 << 23) as ended:
        assert soon(ended, 20.0 if not is_running else 2.0) != is_running


def test_waiting_ends_with_the_program_that_asked() -> None:
    command = [workload_program.program(), "await", str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdin is not None
        assert waiting.stdout.readline() == b"ready\n"
        assert waiting.poll() is None
        waiting.stdin.close()
        assert waiting.wait(20) == 130


@pytest.mark.parametrize("words", [[], ["no-number"], ["1", "2"], ["-1"], [str(1 << 23)]])
def test_mistake_is_one_line(words: list[str]) -> None:
    command = [workload_program.program(), "await", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("schedlens-workloads: ")
