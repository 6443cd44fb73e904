"""The best recording that this machine permits, found by making one of 10 ms."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlens.errors import NoSpaceError, RecorderError
from schedlens.output.leftover import TemporaryFolder
from schedlens.record.changes import TRACEFS, tracefs_mount

from . import perf_file, perf_package
from .perf_command import (
    ESSENTIAL,
    EVENTS,
    SMALLEST_BUFFER,
    Capture,
    record,
    size_text,
)
from .perf_command import (
    buffer_bytes as default_buffer_bytes,
)

RUNGS = ("full", "switch_events_system", "switch_events_own", "none")

NO_WAKINGS = (
    "when a thread became ready, its priority and why it left: without wakings, waiting and ready "
    "cannot be told apart after a voluntary switch"
)
NO_POWER = "idle states, frequencies, softirqs, migrations"
NO_OTHERS = "all other programs: who ran instead, and whether siblings were busy"
NOTHING = "every scheduling event: only stamps, CPU times and snapshots of the system remain"
NO_PERF = "perf is not installed"

MISSING = {
    "full": (),
    "switch_events_system": (NO_WAKINGS, NO_POWER),
    "switch_events_own": (NO_WAKINGS, NO_POWER, NO_OTHERS),
    "none": (NOTHING,),
}

PROBE = ("sleep", "0.01")
# Stands for the file of a probe in a command that is made before its folder.
PLACE = Path("probe.data")
PROBE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Attempt:
    """One recording of 10 ms: what it gave, or perf's own words."""

    ok: bool
    said: str
    found: perf_file.PerfFile


def version(perf: str) -> str | None:
    """Version of perf; None if it is not there or is a wrapper without the real one."""
    try:
        done = run([perf, "version"])
    except OSError:
        return None
    words = done.stdout.split()
    told = done.returncode == 0 and words[:2] == ["perf", "version"] and len(words) > 2
    return words[2] if told else None


def program() -> str | None:
    """The perf to use: what SCHEDLENS_PERF names, else the one on the path."""
    return os.environ.get("SCHEDLENS_PERF") or shutil.which("perf")


def climb(
    *,
    light: bool = False,
    cpus: int,
    memory_bytes: int,
    buffer_bytes: int | None = None,
) -> Capture:
    """The capture of the highest rung whose 10 ms recording holds events.

    `light` leaves the switch records out where tracepoints can be had. `buffer_bytes` is the
    buffer of each CPU, a power of two; None: as much as the memory allows. Raises `RecorderError`
    where the kernel refuses buffers of that size.
    """
    perf = program()
    told = version(perf) if perf else None
    if perf is None or told is None:
        return Capture(
            perf or "perf",
            "none",
            missing=(NO_PERF, NOTHING),
            allow=perf_package.install_command(),
        )
    largest = buffer_bytes or default_buffer_bytes(memory_bytes, cpus)
    present, absent = _events()
    said: list[str] = []
    for rung in RUNGS[:-1]:
        if rung == "full" and not set(ESSENTIAL) <= set(present):
            continue
        capture = Capture(
            perf,
            rung,
            events=present if rung == "full" else (),
            switch_events=not (light and rung == "full"),
            buffer_bytes=largest,
            version=told,
        )
        while True:
            got = attempt(capture)
            # A smaller buffer mends only the refusal to lock so much memory.
            if got.ok or "mapping pages" not in got.said:
                break
            if buffer_bytes is not None:
                raise RecorderError(
                    f"--buffer-size: the kernel refuses {size_text(buffer_bytes)} for each CPU "
                    f"({got.said}): give less, or raise kernel.perf_event_mlock_kb"
                )
            if capture.buffer_bytes <= SMALLEST_BUFFER:
                break
            capture = replace(capture, buffer_bytes=capture.buffer_bytes // 2)
        if got.ok:
            lacking = tuple(f"{event}: this kernel does not have it" for event in absent)
            return replace(
                capture,
                missing=MISSING[rung] + (lacking if rung == "full" else ()),
                allow=None if rung == "full" else allow_command(),
            )
        if "No space left" in got.said:
            place = tempfile.gettempdir()
            raise NoSpaceError(
                f"no space left on the disk of {place}: free some, or set TMPDIR to another folder"
            )
        said.append(got.said)
    return Capture(
        perf,
        "none",
        version=told,
        missing=(NOTHING, *(f"perf says: {line}" for line in said[-1:])),
        allow=allow_command(),
    )


def attempt(capture: Capture, command: Sequence[str] | None = None) -> Attempt:
    """Records 10 ms as `capture` says; good if perf is content and events are in the file."""
    with TemporaryFolder() as folder:
        output = folder / "probe.data"
        line = list(command or record(capture, output, until=PROBE))
        if command:
            line[line.index("-o") + 1] = str(output)
        try:
            done = run(line, cwd=str(folder))
        except (OSError, subprocess.TimeoutExpired) as error:
            return Attempt(False, str(error), perf_file.PerfFile())
        found = perf_file.read(output)
    events = found.samples if capture.rung == "full" else found.switches
    ok = done.returncode == 0 and found.whole and events > 0
    return Attempt(ok, reason(done.stderr), found)


def reason(stderr: str) -> str:
    """The line of perf's message that says why; an empty text if it says nothing."""
    lines = [line.strip() for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("[ perf", "Usage", "Error:"))]
    told = [line for line in lines if "No permission" in line or "Permission error" in line]
    told += [line for line in lines if line.startswith(("Access to", "event syntax"))]
    return (told or lines or [""])[0]


def allow_command() -> str | None:
    """The command that would allow the full set to this user; None if no command is known."""
    if os.geteuid() == 0:
        return None
    options = f"mode=755,gid={os.getegid()}"
    if tracefs_mount() is not None:
        mount = f"sudo mount -o remount,{options} {TRACEFS}"
    else:
        mount = f"sudo mount -t tracefs -o {options} nodev {TRACEFS}"
    return f"sudo sysctl kernel.perf_event_paranoid=-1 && {mount}"


def _events() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The events that this kernel has, and those it has not; all of them where it will not say."""
    mount = tracefs_mount()
    folder = mount / "events" if mount else None
    if folder is None or not os.access(folder, os.R_OK | os.X_OK):
        return EVENTS, ()
    there = tuple(event for event in EVENTS if (folder / event.replace(":", "/")).is_dir())
    return there, tuple(event for event in EVENTS if event not in there)


def run(command: Sequence[str], cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs perf with plain English messages and without reading this user's configuration."""
    return subprocess.run(
        list(command),
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PROBE_LIMIT_S,
        # Ctrl-C is for this program: a probe that it ended would look like a refusal.
        start_new_session=True,
        check=False,
    )


def environment() -> dict[str, str]:
    """The environment for perf: its messages are read, so they must not be translated."""
    return {**os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull, "PAGER": "cat"}
