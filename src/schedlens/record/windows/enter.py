"""The Enter key, waited for while something else goes on."""

from __future__ import annotations

import sys
import threading


class Enter:
    """Set once a line comes; `alone`: also where there is nobody to type one."""

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
