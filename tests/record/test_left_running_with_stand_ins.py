"""A recording on Windows does not outlive `collect`: the guard ends it, and doctor finds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from record.test_windows_collect_with_stand_ins import EDGES_NS, stand_ins
from record.test_windows_settings import ANSWERS
from windows_stand_ins import StandIns, header_only_etl

from schedlens.commands import cli
from schedlens.record.boost_guard import Guard

pytestmark = pytest.mark.slow

# As `logman query -ets` lists sessions, in German.
SESSIONS = """\

Datensammlersatz                        Typ                             Status
-------------------------------------------------------------------------------
EventLog-Application                    Ablaufverfolgung                Wird ausgeführt
WPR_initiated_schedlens_WPR System Collector Ablaufverfolgung          Wird ausgeführt
WPR_initiated_other_WPR Event Collector Ablaufverfolgung                Wird ausgeführt
schedlens-presentmon                    Ablaufverfolgung                Wird ausgeführt

Der Befehl wurde erfolgreich ausgeführt.
"""
OURS = ["WPR_initiated_schedlens_WPR System Collector", "schedlens-presentmon"]
COLLECT = """
import sys
from schedlens.commands import cli
from schedlens.machine import operating_system
operating_system.name = lambda: "windows"
cli.run(cli.group, ["collect", "--seconds", "600", "-o", "session"], name="schedlens")
"""


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """A machine that reports itself as Windows."""
    return stand_ins(tmp_path, monkeypatch, header_only_etl(), EDGES_NS)


def within(condition: Callable[[], bool], limit_s: float = 60.0) -> bool:
    """Whether it becomes true within the limit."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_recording_ends_when_collect_is_killed(windows: StandIns) -> None:
    running = windows.home / "wpr.running"
    with subprocess.Popen([sys.executable, "-c", COLLECT], env=os.environ) as collect:
        try:
            assert within(running.exists)
            time.sleep(0.5)
            assert running.exists()
        finally:
            collect.send_signal(signal.SIGKILL)
    assert within(lambda: not running.exists())
    assert windows.calls_of("wpr")[-1] == ["-cancel", "-instancename", "schedlens"]


def test_recording_that_ended_is_not_cancelled(
    windows: StandIns, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(cli.group, ["collect", "--seconds", "0.1", "-o", "s"], name="schedlens") == 0
    words = [call[0] for call in windows.calls_of("wpr")]
    assert (words.count("-start"), words.count("-stop"), words.count("-cancel")) == (1, 1, 0)


def test_guard_is_ready_with_the_line_ends_of_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf 'ready\\r\\n'\ncat >/dev/null\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert Guard(()).close()


@pytest.mark.parametrize("is_killed", [True, False])
def test_guard_runs_its_commands_only_without_an_orderly_end(
    is_killed: bool, tmp_path: Path
) -> None:
    commands = [["no-such-program"], [sys.executable, "-c", "open('ended', 'w')"]]
    if is_killed:
        program = (
            "import os, signal; from schedlens.record.boost_guard import Guard; "
            f"Guard((), commands={commands!r}); os.kill(os.getpid(), signal.SIGKILL)"
        )
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
        assert within((tmp_path / "ended").exists)
    else:
        before = Path.cwd()
        os.chdir(tmp_path)
        try:
            assert Guard((), commands=commands).close()
        finally:
            os.chdir(before)
        assert list(tmp_path.iterdir()) == []


def test_doctor_finds_and_stops_sessions_left_running(
    windows: StandIns, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = [(list(words), text) for words, text in ANSWERS.items()]
    listed = (["logman", "query", "-ets"], SESSIONS)
    windows.texts([*texts, listed, *((["logman", "stop", name, "-ets"], "") for name in OURS)])
    assert cli.run(cli.group, ["doctor"], name="schedlens") == 1
    said = capfd.readouterr().out
    assert ", ".join(OURS) in said
    assert "EventLog" not in said
    assert "other" not in said
    assert "Ablauf" not in said
    assert "`schedlens doctor --restore` ends it" in said
    (windows.home / "wpr.running").touch()
    assert cli.run(cli.group, ["doctor", "--restore"], name="schedlens") == 0
    assert capfd.readouterr().out.splitlines() == [
        "undone: a recording by wpr: none again",
        *(f"undone: the session {name}: none again" for name in OURS),
    ]
    # A session that cannot be stopped is not reported as stopped.
    windows.texts([*texts, listed])
    assert cli.run(cli.group, ["doctor", "--restore"], name="schedlens") == 1
    shown = capfd.readouterr()
    assert "session" not in shown.out
    assert all(f"not undone: the session {name}:" in shown.err for name in OURS)
    stopped = [call[1] for call in windows.calls_of("logman") if call[0] == "stop"]
    assert stopped == OURS * 2
    windows.texts(texts)
    assert cli.run(cli.group, ["doctor"], name="schedlens") == 0
