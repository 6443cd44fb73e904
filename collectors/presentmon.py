"""Runs PresentMon alongside a recording, saves its output and watches for long frames."""

from __future__ import annotations

import codecs
import csv
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path, PurePath

from schedlens.errors import RecorderError
from schedlens.output import byte_order_mark
from schedlens.record.windows import conversation

FILE = "presentmon.csv"
SESSION = "schedlens-presentmon"
# The time between frames: its column in 1.x and since 2.3, and in 2.0 to 2.2.
FRAME_COLUMNS = ("msbetweenpresents", "frametime")
# PresentMon exits at once if an option is wrong or rights are missing.
EARLY_S = 1.0


def command(
    program: str,
    pid: int | None = None,
    process: str | None = None,
    *,
    file: PurePath | None = None,
) -> list[str]:
    """The command line; raw performance counter times allow joining frames to the trace.

    Options start with one dash, which versions 1.x and 2.x both accept. `file`: PresentMon writes
    it itself, because PowerShell's `>` changes the encoding.
    """
    output = ["-output_stdout"] if file is None else ["-output_file", str(file)]
    words = [program, *output, "-qpc_time", "-session_name", SESSION]
    words.append("-stop_existing_session")
    if pid is not None:
        return [*words, "-process_id", str(pid)]
    return [*words, "-process_name", process] if process else words


class FrameWatch:
    """Finds frames longer than `limit_ms` in PresentMon's CSV; finds columns by name."""

    def __init__(self, limit_ms: float | None) -> None:
        self.limit_ms = limit_ms
        self.slow = threading.Event()
        self.frame_ms: float | None = None
        self.frames = 0
        self._column: int | None = None
        self._seen_head = False

    def line(self, text: str) -> None:
        """Examines the next line of the CSV text."""
        row = next(iter(csv.reader([text])), [])
        if not self._seen_head:
            names = [name.strip().lower() for name in row]
            if "processid" not in names:
                return
            self._seen_head = True
            known = [name for name in FRAME_COLUMNS if name in names]
            self._column = names.index(known[0]) if known else None
            return
        self.frames += 1
        if self._column is None or self.limit_ms is None or len(row) <= self._column:
            return
        try:
            frame_ms = float(row[self._column])
        except ValueError:
            return
        if frame_ms > self.limit_ms and not self.slow.is_set():
            self.frame_ms = frame_ms
            self.slow.set()

    @property
    def blind(self) -> bool:
        """Whether the output has no column of frame times."""
        return self._seen_head and self._column is None


class PresentMon:
    """A running PresentMon; end it with `stop`."""

    def __init__(self, words: Sequence[str], folder: Path, limit_ms: float | None) -> None:
        self.command = list(words)
        self.watch = FrameWatch(limit_ms)
        self._path = folder / FILE
        self._errors = (folder / "presentmon.log").open("wb")
        self._process = conversation.start(words, error=self._errors.fileno())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._process.wait(EARLY_S)
        except subprocess.TimeoutExpired:
            return
        raise RecorderError(self._refused())

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._path.open("wb") as out:
            decoder, rest = None, ""
            while data := os.read(self._process.stdout.fileno(), 65_536):
                out.write(data)
                if decoder is None:
                    name = byte_order_mark.encoding(data)
                    decoder = codecs.getincrementaldecoder(name)("replace")
                *lines, rest = (rest + decoder.decode(data)).split("\n")
                for line in lines:
                    self.watch.line(line.rstrip("\r"))

    def stop(self) -> None:
        """Ends PresentMon; the file is then complete."""
        if self._process.poll() is None:
            conversation.ask_to_end(self._process)
            try:
                self._process.wait(conversation.END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reader.join(conversation.END_S)
        self.kill()

    def kill(self) -> None:
        """Ends PresentMon in any state."""
        conversation.end(self._process)
        self._errors.close()

    def _refused(self) -> str:
        self._reader.join(conversation.END_S)
        self._errors.flush()
        # Version 2.x writes UTF-16 to a file.
        said = byte_order_mark.decoded((self._path.parent / "presentmon.log").read_bytes()).strip()
        if "access denied" in said.lower():
            return (
                "PresentMon is not permitted to trace. Use an elevated prompt, or add the user to "
                "the group 'Performance Log Users'"
            )
        last = said.splitlines()[-1] if said else f"code {self._process.returncode}"
        return f"{self.command[0]} exited at once: {last}"
