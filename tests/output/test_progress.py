"""The progress of a sweep: lines where nobody watches, a bar with the remaining time elsewhere."""

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


def test_a_line_per_step_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with progress.Sweep([1.0, 1.0], Console(file=out, width=40)) as bar:
        bar.begin("a")
        bar.end("a: [red]names[/red] are text, and a long line stays one line")
        bar.begin("b")
        bar.end("b: failed")
    assert out.getvalue().splitlines() == [
        "[1/2] a: [red]names[/red] are text, and a long line stays one line",
        "[2/2] b: failed",
    ]


def test_a_bar_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with progress.Sweep([60.0, 60.0], console) as bar:
        bar.begin("sha256-default-t01-r1")
        time.sleep(0.6)
    assert "sha256-default-t01-r1" in out.getvalue()
    assert "0/2" in out.getvalue()
    assert "2:00 left" in out.getvalue() or "1:59 left" in out.getvalue()


def test_the_remaining_time_follows_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_the_clock(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text


def test_a_request_to_end_waits_for_a_place_that_waits() -> None:
    with stop_signals.handled():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), stop_signals.waiting():
            pytest.fail("the request was taken too late")
        # It is taken once.
        stop_signals.check()
        with pytest.raises(KeyboardInterrupt), stop_signals.waiting():
            signal.raise_signal(signal.SIGINT)


def test_a_second_request_is_taken_at_once() -> None:
    with stop_signals.handled():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_of_before_are_put_back() -> None:
    before = [signal.getsignal(sign) for sign in stop_signals.SIGNALS]
    with stop_signals.handled():
        assert [signal.getsignal(sign) for sign in stop_signals.SIGNALS] != before
    assert [signal.getsignal(sign) for sign in stop_signals.SIGNALS] == before
