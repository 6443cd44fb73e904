"""Requests to end (Ctrl-C, SIGTERM, a closed terminal), taken only where they do no harm.

A process that was started and is not yet held by anybody would never be ended; so a request waits
for the next place that waits, or that asks. A second request is taken at once.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

# Windows has no terminal that hangs up; its Ctrl-Break comes as a signal of its own.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)


class _State:
    waiting = False
    pending = False


def _handle(_number: int, _frame: FrameType | None) -> None:
    if _State.waiting or _State.pending:
        _State.pending = False
        raise KeyboardInterrupt
    _State.pending = True


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Inside, the signals are requests to end; what they were before is put back."""
    before = {sign: signal.signal(sign, _handle) for sign in SIGNALS}
    _State.pending = False
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def check() -> None:
    """Raises KeyboardInterrupt if there was a request."""
    if _State.pending:
        _State.pending = False
        raise KeyboardInterrupt


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Inside, a request raises KeyboardInterrupt at once."""
    _State.waiting = True
    try:
        check()
        yield
    finally:
        _State.waiting = False
