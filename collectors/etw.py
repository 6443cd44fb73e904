"""The recorder on Windows: Windows Performance Recorder with the shipped profile, or xperf."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlens.errors import RecorderError
from schedlens.load.step_file import Check
from schedlens.output import system_text

from . import etw_file, etw_refusal
from .etw_command import (
    INSTANCE,
    MAIN_FILE,
    MOST_COUNTERS,
    NEWER_FLAGS,
    PROFILE_FILE,
    Capture,
    Kind,
    begin,
    cancel,
    end,
    kernel_flags,
    shown,
    sources,
    without_newer_options,
)
from .etw_profile import NEWER_KEYWORDS, render

__all__ = [
    "INSTANCE",
    "MAIN_FILE",
    "PROFILE_FILE",
    "Capture",
    "Kind",
    "Recorder",
    "begin",
    "cancel",
    "check",
    "checked_counters",
    "end",
    "fewer_flags",
    "find",
    "shown",
    "sources",
    "without_newer_options",
    "write_profile",
]

# Merging a long recording takes minutes.
LIMIT_S = 1800.0
KINDS: tuple[Kind, ...] = ("wpr", "xperf")


def find(kind: Kind | None = None) -> tuple[Kind, str]:
    """Path of the requested recorder, or of WPR, else xperf. Raises `RecorderError`."""
    for name in (kind,) if kind else KINDS:
        path = shutil.which(name)
        if path is not None:
            return name, path
    if kind == "xperf":
        raise RecorderError(
            "xperf is not on the path. Install the Windows Performance Toolkit from the "
            "Windows ADK, or use wpr, which is part of Windows"
        )
    raise RecorderError(
        "wpr is not on the path. It is part of Windows 10 and later (C:\\Windows\\System32) and "
        "of the Windows Performance Toolkit in the Windows ADK"
    )


def checked_counters(capture: Capture, names: Sequence[str]) -> Capture:
    """The capture with these counters. Raises `RecorderError` if the machine cannot count them."""
    if not names:
        return capture
    few_enough(names)
    command = sources(capture.program)
    code, said = _run(command)
    if code != 0:
        raise etw_refusal.error(capture, command, code, said)
    known = etw_refusal.offered(said)
    if {name for name in known if not name.startswith("Timer")} == set():
        raise RecorderError(etw_refusal.HIDDEN)
    strange = [name for name in names if name not in known]
    if strange:
        raise RecorderError(
            f"--counters: this machine has no counter '{strange[0]}'. `wpr -pmcsources` lists "
            f"{', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"
        )
    return replace(capture, counters=tuple(names))


def few_enough(names: Sequence[str]) -> None:
    """Raises `RecorderError` for more counters than a core can count at once."""
    if len(names) > MOST_COUNTERS:
        raise RecorderError(
            f"--counters: {len(names)} counters requested, but a core can count only "
            f"{MOST_COUNTERS} at once in addition to those Windows uses"
        )


def fewer_flags(capture: Capture, listing: str | None = None) -> Capture:
    """The capture for xperf without the kernel flags that the `-providers KF` listing lacks.

    None: asks this machine's xperf. If nothing can be read from it, only the flags that every
    version has are used. Other recorders are returned as they are.
    """
    if capture.kind != "xperf":
        return capture
    said = _run(kernel_flags(capture.program))[1] if listing is None else listing
    known = etw_refusal.flags(said)
    without = tuple(key for key, flag in NEWER_FLAGS.items() if flag not in known)
    unknown = tuple(flag for flag in capture.common_flags if known and flag not in known)
    return replace(capture, without=without, unknown_flags=unknown)


def write_profile(capture: Capture, path: Path) -> None:
    """Writes the WPR profile for a capture."""
    text = render(
        capture.counters,
        capture.kernel_buffers,
        capture.buffer_kb,
        event_buffers=capture.event_buffers,
        without=capture.without,
        stacks=capture.stacks,
        samples=capture.samples_hz is not None,
        waits=capture.waits,
    )
    path.write_text(text, encoding="utf-8", newline="\r\n")


class Recorder:
    """The recording of one step: call `begin`, then `stop` or `cancel`."""

    def __init__(self, capture: Capture, folder: Path, profile: Path) -> None:
        self._capture = capture
        self._folder = folder
        self._profile = profile
        self._on = False
        self.commands: list[list[str]] = []

    @property
    def capture(self) -> Capture:
        """What is recorded; after `begin`, without the keywords that this recorder refused."""
        return self._capture

    def begin(self) -> None:
        """Starts the recording; once again with an older profile if WPR refuses this one.

        Raises `RecorderError`.
        """
        try:
            self._start()
        except etw_refusal.ProfileError:
            newer = tuple(NEWER_KEYWORDS)
            if self._capture.kind != "wpr" or self._capture.without == newer:
                raise
            self._capture = replace(self._capture, without=newer)
            write_profile(self._capture, self._profile)
            self._start()

    def _start(self) -> None:
        commands = begin(self._capture, self._folder, self._profile)
        for at, command in enumerate(commands):
            try:
                self._must(command)
            except Exception:
                # xperf needs several commands; the first may already be recording.
                self._on = at > 0
                self.cancel()
                raise
        self._on = True

    def stop(self) -> None:
        """Stops the recording and writes its file. Raises `RecorderError` or `NoSpaceError`.

        WPR before 10.0.18955 does not know an option that saves time; it then refuses the whole
        command, and the recording goes on.
        """
        for command in end(self._capture, self._folder):
            older = without_newer_options(command)
            self.commands.append(command)
            code, said = _run(command)
            if code != 0 and older != command and not etw_refusal.is_known(code, said):
                self._must(older)
            elif code != 0:
                raise etw_refusal.error(self._capture, command, code, said)
        self._on = False
        for part in ("kernel.etl", "events.etl"):
            (self._folder / part).unlink(missing_ok=True)

    def cancel(self) -> None:
        """Stops a running recording and discards it."""
        if self._on:
            self._on = False
            for command in cancel(self._capture):
                _run(command)

    def _must(self, command: list[str]) -> None:
        self.commands.append(command)
        code, said = _run(command)
        if code != 0:
            raise etw_refusal.error(self._capture, command, code, said)


def check(path: Path, begin_ns: int, counters: Sequence[str] = ()) -> list[Check]:
    """Rows of `checks` for a finished recording; `begin_ns` is when its step began.

    `counters`: those that were requested. WPR reports no error if it does not get them.

    Raises `RecorderError` if the file is not a recording.
    """
    header = etw_file.read(path)
    if header is None:
        raise RecorderError(f"{path.name} contains no recording: record the step again")
    lost = header.events_lost or header.buffers_lost
    starts = header.begin_ns
    covered = starts is not None and starts <= begin_ns
    return [
        _row(
            "lost_events",
            not lost,
            f"{header.events_lost} events and {header.buffers_lost} buffers were lost",
            "increase the buffers (--buffer-size 1Mx2048), stop other recordings, or write "
            "to a faster disk",
        ),
        _row(
            "clock",
            starts is not None,
            f"the recording's clock is {header.clock or 'unknown'}",
            "the workload's batches cannot be joined to a trace without performance counter times",
        ),
        _row(
            "covers_begin",
            covered or starts is None,
            "the recording starts before the step" if covered else "the step starts first",
            "the start of the step is not recorded",
        ),
        *_counters(path, counters),
    ]


def _counters(path: Path, names: Sequence[str]) -> list[Check]:
    seen, counted = etw_file.counters_at_switches(path) if names else (0, 0)
    if not seen:
        return []
    return [
        _row(
            "counters",
            counted > 0,
            "context switches have counters"
            if counted
            else f"no counter was recorded, although {', '.join(names)} were requested",
            "another program or a hypervisor uses the processor's counters. Stop other profilers, "
            "turn off 'Virtual Machine Platform' and memory integrity, and record again",
        )
    ]


def _row(name: str, ok: bool, detail: str, advice: str) -> Check:
    return Check(name, ok, detail, None if ok else advice)


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a recorder. Raises `RecorderError` if it cannot run."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            # Ctrl-C must reach only schedlens, which then stops the recording cleanly.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except OSError as error:
        raise RecorderError(f"cannot run {command[0]}: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise RecorderError(f"{command[0]} {command[1]} did not end within {LIMIT_S:g} s") from None
    said = [system_text.decoded(data) for data in (done.stdout, done.stderr)]
    return done.returncode, "\n".join(said)
