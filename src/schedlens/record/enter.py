"""Waits for the Enter key in the background."""

from __future__ import annotations

import sys
import threading


class Enter:
    """Set once a line arrives; `alone`: also if standard input is closed."""

    def __init__(self, *, alone: bool) -> None:
        self.pressed = threading.Event()
        self._alone = alone
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            line = sys.stdin.readline()
        except (OSError, ValueError):
            line = ""
        if line or self._alone:
            self.pressed.set()
