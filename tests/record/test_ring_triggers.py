"""What ends a ring: thresholds read from copies of /proc, and from a file of frames."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from collect_command import collect

from schedlens.record.linux import triggers

MS = 1_000_000


class Thread:
    """A thread in a folder like /proc, whose ready time the test sets."""

    def __init__(self, proc: Path, pid: int, tid: int) -> None:
        self._path = proc / str(pid) / "task" / str(tid) / "schedstat"
        self._path.parent.mkdir(parents=True)
        self.set(0, 0)

    def set(self, delay_ns: int, runs: int) -> None:
        self._path.write_text(f"12345 {delay_ns} {runs}\n")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "INTERVAL_S", 0.0)
    monkeypatch.setattr(triggers, "COST", 0)


def test_one_long_wait_is_reported_with_its_thread(tmp_path: Path) -> None:
    thread, other = Thread(tmp_path, 10, 11), Thread(tmp_path, 20, 20)
    ready = triggers.Ready(30, None, (), str(tmp_path))
    assert ready.poll() is None
    other.set(29 * MS, 1)
    assert ready.poll() is None
    thread.set(31 * MS, 1)
    before = time.monotonic_ns()
    found = ready.poll()
    assert found is not None
    assert (found.kind, found.tid, found.measured, found.limit) == ("ready", 11, 31.0, 30.0)
    assert found.begin_mono_ns < before - 31 * MS
    assert found.end_mono_ns >= before
    assert ready.poll() is None


def test_many_short_waits_are_no_long_one(tmp_path: Path) -> None:
    """Of three waits that began in 40 ms, none can have lasted longer than that."""
    thread = Thread(tmp_path, 10, 11)
    ready = triggers.Ready(30, None, (), str(tmp_path))
    ready.poll()
    time.sleep(0.04)
    thread.set(39 * MS, 3)
    assert ready.poll() is None
    # 200 ms in an interval of few ms: at least one wait began long before it.
    thread.set(239 * MS, 6)
    found = ready.poll()
    assert found is not None
    assert 30 < (found.measured or 0) <= 200


def test_only_the_process_is_watched_and_ignored_ones_are_not(tmp_path: Path) -> None:
    one, two = Thread(tmp_path, 10, 10), Thread(tmp_path, 20, 20)
    own = triggers.Ready(30, 10, (), str(tmp_path))
    rest = triggers.Ready(30, None, (20,), str(tmp_path))
    for each in (own, rest):
        each.poll()
    two.set(90 * MS, 1)
    assert [own.poll(), rest.poll()] == [None, None]
    one.set(90 * MS, 1)
    assert [found.tid for found in (own.poll(), rest.poll()) if found] == [10, 10]


def test_a_slow_frame_is_read_from_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "frames.csv"
    path.write_text("pid,tid,start_mono_ns,end_mono_ns\n7,8,0,900000000\n")
    frame = triggers.Frame(50, path)
    # The slow frame before the recorder began is no incident.
    assert frame.poll() is None
    with path.open("a") as file:
        # The first frame ends with the second; the third is 60 ms long; the last line is not whole.
        file.write("7,8,1000000000,\n7,8,1016000000,\n7,8,1032000000,1092000000\n7,8,110")
        file.flush()
        found = frame.poll()
        assert found is not None
        assert (found.begin_mono_ns, found.end_mono_ns, found.tid) == (1032 * MS, 1092 * MS, 8)
        assert (found.measured, found.limit) == (60.0, 50.0)
        file.write("0000000,1200000000\nbad line\n")
        file.flush()
        found = frame.poll()
        assert found is not None
        assert found.measured == 100.0
    assert frame.poll() is None


def test_cpu_time_above_the_limit_is_one_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triggers, "CPU_INTERVAL_S", 0.05)
    stat = tmp_path / "7" / "stat"
    stat.parent.mkdir()

    def used(ticks: int) -> None:
        stat.write_text("7 (a b) c) S " + "0 " * 10 + f"{ticks} 0 0 0\n")

    used(100)
    share = triggers.CpuShare(50, 7, tmp_path)
    assert share.poll() is None
    found = []
    for ticks in (101, 200, 300, 300, 400):
        time.sleep(0.06)
        used(ticks)
        found.append(share.poll())
    # Above, still above, below, above again.
    assert [incident is not None for incident in found] == [False, True, False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stop-on-ready", "5"], "--stop-on-ready works only with --ring"),
        (["--incidents", "3"], "--incidents works only with --ring"),
        (["--ring", "0.5"], "--ring: 0.5 is not between 1 and 600 seconds"),
        (["--ring", "5", "--stop-on-ready", "0"], "--stop-on-ready: 0 is not above 0"),
        (["--ring", "5", "--seconds", "3"], "--seconds has no effect with it"),
        (["--ring", "5", "--stop-on-frame", "30"], "--stop-on-frame and --frames FILE"),
        (["--ring", "5", "--stop-on-cpu", "90"], "--stop-on-cpu requires --process or --pid"),
        (["--ring", "5", "--", "true"], "start the program yourself"),
        (["--ring", "5", "--counters", "cycles"], "--ring does not record --counters"),
    ],
)
def test_contradictions_are_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    done = collect(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
