"""`schedlens watch`: the machine in a terminal, and without one; nothing is left behind."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import hitch_program
import pytest
from collect_command import processes
from conftest import needs_tracing

pytestmark = [pytest.mark.alone, pytest.mark.slow]

_WATCH = [str(Path(sys.executable).parent / "schedlens"), "watch"]


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Temporary files are in a folder of the test, and neither they nor a recorder survive."""
    needs_tracing()
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    yield
    assert list(place.iterdir()) == []
    assert not [line for line in processes() if str(place) in line]


def test_one_picture_names_the_thread_that_delays_another(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("real-time priorities require root")
    program = hitch_program.built(tmp_path)
    # A hitch of 0.25 s each 0.65 s: any second of a recording holds a whole one.
    running = subprocess.Popen([str(program), "0.4", "0.25"], stdout=subprocess.DEVNULL)
    try:
        done = subprocess.run(
            [*_WATCH, "--once", "--json", "--interval", "3"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        running.kill()
        running.wait()
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    now = json.loads(line)
    assert now["seconds"] > 1.5
    assert len([cpu for cpu in now["cpus"] if not cpu["state"]]) == len(os.sched_getaffinity(0))
    for cpu in now["cpus"]:
        assert 0 <= cpu["busy_pct"] <= 100
        assert cpu["queue"] >= 0
    # The end of the recording may cut a wait: then the CPU on which it would end is unknown.
    delayed = [w for w in now["waits"] if w["tid"] == running.pid and w["cpu"] is not None]
    assert delayed, now
    assert (delayed[0]["thread"], delayed[0]["instead"]) == ("render", "indexer"), now
    # `render` is woken some time after the hitch of 250 ms begins.
    assert 150 < delayed[0]["ready_ms"] < 400
    # `indexer` runs for two fifths of the time.
    share = [thread["run_pct"] for thread in now["threads"] if thread["thread"] == "indexer"]
    assert share, now["threads"]
    assert 20 < share[0] < 60
    assert now["cost"]["own_pct"] > 0


def test_ctrl_c_restores_the_terminal() -> None:
    leader, follower = pty.openpty()
    running = subprocess.Popen(
        [*_WATCH, "--interval", "1"], stdin=follower, stdout=follower, stderr=follower,
        start_new_session=True, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120",
                                     "LINES": "40"},
    )  # fmt: skip
    os.close(follower)
    shown = b""
    deadline = time.monotonic() + 120
    pictures = 0
    while pictures < 2 and time.monotonic() < deadline:
        shown += _read(leader)
        pictures = shown.count(b"busiest threads by core type")
    assert pictures >= 2, shown[-2000:]
    running.send_signal(signal.SIGINT)
    while running.poll() is None and time.monotonic() < deadline:
        shown += _read(leader)
    assert running.returncode == 0
    while more := _read(leader):
        shown += more
    os.close(leader)
    # The alternate screen was opened and left, and the cursor is shown again.
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
    assert b"Traceback" not in shown


def _read(leader: int) -> bytes:
    """What the terminal shows within 0.2 s; the kernel reports an error after its last process."""
    ready, _, _ = select.select([leader], [], [], 0.2)
    try:
        return os.read(leader, 65536) if ready else b""
    except OSError:
        return b""


def test_without_a_terminal_pictures_are_plain_lines() -> None:
    done = subprocess.run(
        [*_WATCH, "--once", "--interval", "0.5"], capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    first, head, *_ = done.stdout.decode().splitlines()
    assert re.match(r"last \d+\.\d s, every 0\.5 s, cost \d+ % of a CPU and \d+ % for perf", first)
    assert head.split()[:4] == ["CPU", "core", "type", "sibling"]
