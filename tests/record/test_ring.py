"""`collect --ring`: the last seconds are kept, saved when something happens, and explained."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import hitch_program
import pytest
from collect_command import collect, processes, read
from conftest import command, needs_tracing

pytestmark = [pytest.mark.alone, pytest.mark.slow]

HITCH_S = 0.08
PERIOD_S = 1.5
_COLLECT = [str(Path(sys.executable).parent / "collect")]


@pytest.fixture
def hitch(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The running program and the file with its hitches."""
    needs_tracing()
    if os.geteuid() != 0:
        pytest.skip("real-time priorities require root")
    program = hitch_program.built(tmp_path)
    log = tmp_path / "hitches.txt"
    with log.open("w") as out:
        running = subprocess.Popen(
            [str(program), str(PERIOD_S), str(HITCH_S)], stdout=out, text=True
        )
    try:
        yield running, log
    finally:
        running.kill()
        running.wait()


def facts(session: Path) -> dict[str, Any]:
    done = command("analyze", str(session), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_planted_hitch_is_caught_and_its_code_named(
    hitch: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    running, log = hitch
    done = _three_incidents(running.pid, tmp_path)
    # Another one may come before the interrupt. The last two are kept.
    numbers = [int(number) for number in re.findall(r"incident (\d+): thread", done)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert len(numbers) >= 3
    kept = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert kept == [f"incident-{number:03d}" for number in numbers[-2:]]
    hitches = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    for name in kept:
        session = tmp_path / "out" / name
        step = read(next(session.glob("*/step.json")))
        incident = step["incident"]
        assert incident["kind"] == "ready"
        assert incident["tid"] == running.pid
        assert incident["limit"] == 50
        # One hitch overlaps the moment, and it is in the recording.
        (caused,) = (
            (begin, end)
            for begin, end in hitches
            if begin < incident["end_mono_ns"] and end > incident["begin_mono_ns"]
        )
        assert step["begin_mono_ns"] < caused[0] < caused[1] < step["end_mono_ns"]
        if name != kept[-1]:
            continue
        first = facts(session)["findings"][0]
        assert first["kind"] == "incident", first
        assert first["title"].startswith("indexer kept render from its CPU for ")
        assert "in `rebuild_index`" in first["title"]
        with duckdb.connect(str(session / "analysis.duckdb"), read_only=True) as con:
            row = con.execute(
                "SELECT thread, by_thread, by_frame, cpu, dur_ns, by_run_ns, "
                "t.start_clock + start_ns FROM incident JOIN trace AS t USING (trace_id)"
            ).fetchone()
            assert row is not None
            assert row[:4] == ("render", "indexer", "rebuild_index", 0)
            assert 0 < row[5] <= row[4]
            lost = con.execute(
                "SELECT loss.cpu FROM loss JOIN incident AS i "
                "ON coalesce(loss.start_ns, 0) < i.to_ns "
                "AND coalesce(loss.end_ns, i.to_ns) > i.from_ns"
            ).fetchall()
            # What the trigger measured is a lower bound. Lost records hide a part of the hitch.
            if not lost:
                assert incident["measured"] * 1e6 - 1e6 <= row[4]
                assert row[5] > 0.8 * HITCH_S * 1e9
            # It woke up at most 1 ms after the hitch began, unless it was already ready.
            assert caused[0] - 50e6 < row[6] < caused[0] + 2e6
            (mark,) = con.execute("SELECT name FROM mark WHERE kind = 'incident'").fetchall()
            assert mark == ("incident: ready",)
    assert not [line for line in processes() if "--overwrite" in line]


def _three_incidents(pid: int, folder: Path) -> str:
    """Runs the recorder until it has saved three incidents, and interrupts it."""
    with (folder / "said.txt").open("w") as said:
        running = subprocess.Popen(
            [*_COLLECT, "--ring", "3", "--stop-on-ready", "50", "--pid", str(pid), "--stacks",
             "--incidents", "2", "-o", "out"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip
    deadline = time.monotonic() + 120
    try:
        while "incident 3:" not in (folder / "said.txt").read_text():
            assert running.poll() is None, (folder / "said.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    finally:
        running.kill()
        running.wait()
    return (folder / "said.txt").read_text()


def test_what_the_buffers_did_not_hold_is_a_loss(tmp_path: Path) -> None:
    needs_tracing()
    noise = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(1e-5)"])
    try:
        with (tmp_path / "said.txt").open("w") as said:
            running = subprocess.Popen(
                [*_COLLECT, "--ring", "10", "-m", "64K", "-o", "out"],
                cwd=tmp_path, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
        time.sleep(6)
        running.send_signal(signal.SIGUSR1)
        assert running.wait(60) == 0, (tmp_path / "said.txt").read_text()
    finally:
        noise.kill()
        noise.wait()
    text = (tmp_path / "said.txt").read_text()
    assert "incident 1: SIGUSR1" in text
    held = re.search(r"warning: the buffers held the last (\d+\.\d) s of every CPU", text)
    assert held, text
    assert float(held[1]) < 5
    assert "Use larger ones (-m 128K)" in text
    facts(tmp_path / "out")
    with duckdb.connect(str(tmp_path / "out/analysis.duckdb"), read_only=True) as con:
        lost = con.execute(
            "SELECT max(l.end_ns - w.start_ns) FROM loss AS l "
            "JOIN analysis_span AS w USING (trace_id) WHERE signalled_by = 'overwritten'"
        ).fetchone()
    assert lost is not None
    assert lost[0] is not None


def test_enter_saves_the_ring(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--ring", "2", "-m", "1M", "-o", "out", cwd=tmp_path, input="\n")
    assert done.returncode == 0, done.stderr
    assert "keeping the last 2 s in" in done.stderr
    assert "incident 1: Enter" in done.stderr
    assert read(next((tmp_path / "out").glob("*/step.json")))["incident"]["kind"] == "enter"
    assert read(tmp_path / "out/session.json")["capture"]["ring_s"] == 2


def test_a_command_ends_the_ring(tmp_path: Path) -> None:
    needs_tracing()
    done = collect(
        "--ring", "2", "-m", "1M", "--stop-on-command", "test -e now || ! touch now", "-o", "out",
        cwd=tmp_path, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "incident 1: the command exited with 0" in done.stderr
