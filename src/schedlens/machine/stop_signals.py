"""Handles requests to stop (Ctrl-C, SIGTERM, a closed terminal) only where that is safe.

An interrupt right after starting a process would leave it running with no owner. A request is
therefore handled at the next wait or check; a second request is handled at once.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

# Windows has no hang-up signal; Ctrl-Break has its own.
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
    """Inside, signals are requests to stop; on exit, the previous handlers are restored."""
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
