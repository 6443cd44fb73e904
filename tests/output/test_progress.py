"""Progress of a sweep: lines without a terminal, a bar with the remaining time on one."""

from __future__ import annotations

import io
import os
import signal
import time

import pytest
from rich.console import Console

from schedlens.machine import stop_signals
from schedlens.output import progress

pytestmark = pytest.mark.alone


def test_without_terminal_each_step_prints_a_line() -> None:
    out = io.StringIO()
    with progress.Sweep([1.0, 1.0], Console(file=out, width=40)) as bar:
        bar.begin("a")
        bar.end("a: [red]names[/red] are text, and a long line is one line")
        bar.begin("b")
        bar.end("b: failed")
    assert out.getvalue().splitlines() == [
        "[1/2] a: [red]names[/red] are text, and a long line is one line",
        "[2/2] b: failed",
    ]


def test_terminal_shows_a_progress_bar() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with progress.Sweep([60.0, 60.0], console) as bar:
        bar.begin("sha256-default-t01-r1")
        time.sleep(0.6)
    assert "sha256-default-t01-r1" in out.getvalue()
    assert "0/2" in out.getvalue()
    assert "2:00 left" in out.getvalue() or "1:59 left" in out.getvalue()


def test_remaining_time_follows_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    bar = progress.Sweep([1.0, 2.0, 3.0], Console(file=io.StringIO()))
    assert bar.left_s == 6.0
    bar.begin("a")
    # Expected 1 s, took 4: the other 5 s will take 20.
    now = 104.0
    bar.end("a")
    assert bar.left_s == 20.0
    bar.begin("b")
    now = 107.0
    assert bar.left_s == 17.0
    now = 1000.0
    assert bar.left_s == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (125, "2:05"), (3725, "1:02:05")]
)
def test_duration_is_printed_as_a_clock(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text


def test_interrupt_is_deferred_to_a_safe_point() -> None:
    with stop_signals.handled():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), stop_signals.waiting():
            pytest.fail("the request was taken too late")
        # It takes effect once.
        stop_signals.check()
        with pytest.raises(KeyboardInterrupt), stop_signals.waiting():
            signal.raise_signal(signal.SIGINT)


def test_second_interrupt_takes_effect_at_once() -> None:
    with stop_signals.handled():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_previous_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(sign) for sign in stop_signals.SIGNALS]
    with stop_signals.handled():
        assert [signal.getsignal(sign) for sign in stop_signals.SIGNALS] != before
    assert [signal.getsignal(sign) for sign in stop_signals.SIGNALS] == before
