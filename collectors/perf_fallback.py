"""Finds the best recording mode that this machine permits by making 10 ms recordings."""

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
    AFFINITY_CALLS,
    ESSENTIAL,
    EVENTS,
    ON_ISOLATED,
    SMALLEST_BUFFER,
    WAITS,
    Capture,
    record,
    size_text,
)
from .perf_command import (
    buffer_bytes as default_buffer_bytes,
)

ISOLATED = Path("/sys/devices/system/cpu/isolated")

MODES = ("full", "switch_events_system", "switch_events_own", "none")

NO_WAKEUPS = (
    "ready times, priorities, and why threads left their CPU: without wakeups, waiting and ready "
    "time cannot be distinguished after a voluntary switch"
)
NO_POWER = "idle states, frequencies, softirqs, migrations"
NO_OTHERS = "all other programs: which threads ran instead, and whether siblings were busy"
NOTHING = "all scheduling events: only workload times, CPU times, and system snapshots remain"
NO_PERF = "perf is not installed"

MISSING = {
    "full": (),
    "switch_events_system": (NO_WAKEUPS, NO_POWER),
    "switch_events_own": (NO_WAKEUPS, NO_POWER, NO_OTHERS),
    "none": (NOTHING,),
}

PROBE = ("sleep", "0.01")
# A placeholder for the output file of a probe whose folder does not exist yet.
PLACE = Path("probe.data")
PROBE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Attempt:
    """One 10 ms recording: what it recorded, or perf's error message."""

    ok: bool
    said: str
    found: perf_file.PerfFile


def version(perf: str) -> str | None:
    """Version of perf; None if it is missing or is a wrapper without the real program."""
    try:
        done = run([perf, "version"])
    except OSError:
        return None
    words = done.stdout.split()
    known = done.returncode == 0 and words[:2] == ["perf", "version"] and len(words) > 2
    return words[2] if known else None


def program() -> str | None:
    """The perf to use: the one in SCHEDLENS_PERF, else the one on the path."""
    return os.environ.get("SCHEDLENS_PERF") or shutil.which("perf")


def best_capture(
    *,
    light: bool = False,
    waits: bool = False,
    affinity_calls: bool = False,
    cpus: int,
    memory_bytes: int,
    buffer_bytes: int | None = None,
) -> Capture:
    """The capture of the best mode whose 10 ms recording contains events.

    `light` omits the switch records where tracepoints are permitted. `waits` adds page faults and
    disk requests, and `affinity_calls` who sets affinities. `buffer_bytes` is the buffer size for
    each CPU, a power of two; None: as much as the memory allows. Raises `RecorderError` if the
    kernel refuses buffers of that size.
    """
    perf = program()
    known = version(perf) if perf else None
    if perf is None or known is None:
        return Capture(
            perf or "perf",
            "none",
            missing=(NO_PERF, NOTHING),
            allow=perf_package.install_command(),
        )
    largest = buffer_bytes or default_buffer_bytes(memory_bytes, cpus)
    present, absent = _events(
        (*(WAITS if waits else ()), *(AFFINITY_CALLS if affinity_calls else ()))
    )
    said: list[str] = []
    for mode in MODES[:-1]:
        if mode == "full" and not set(ESSENTIAL) <= set(present):
            continue
        capture = Capture(
            perf,
            mode,
            events=present if mode == "full" else (),
            switch_events=not (light and mode == "full"),
            buffer_bytes=largest,
            version=known,
        )
        while True:
            got = attempt(capture)
            # A smaller buffer helps only if the kernel refused to lock that much memory.
            if got.ok or "mapping pages" not in got.said:
                break
            if buffer_bytes is not None:
                raise RecorderError(
                    f"--buffer-size: the kernel refuses {size_text(buffer_bytes)} for each CPU "
                    f"({got.said}). Use less, or raise kernel.perf_event_mlock_kb"
                )
            if capture.buffer_bytes <= SMALLEST_BUFFER:
                break
            capture = replace(capture, buffer_bytes=capture.buffer_bytes // 2)
        if got.ok:
            lacking = tuple(f"{event}: this kernel does not have it" for event in absent)
            return replace(
                capture,
                missing=MISSING[mode] + (lacking if mode == "full" else ()),
                allow=None if mode == "full" else allow_command(),
            )
        if "No space left" in got.said:
            place = tempfile.gettempdir()
            raise NoSpaceError(
                f"no space left on the disk of {place}. Free some, or set TMPDIR to another folder"
            )
        said.append(got.said)
    return Capture(
        perf,
        "none",
        version=known,
        missing=(NOTHING, *(f"perf says: {line}" for line in said[-1:])),
        allow=allow_command(),
    )


def attempt(capture: Capture, command: Sequence[str] | None = None) -> Attempt:
    """Records 10 ms as `capture` says; ok if perf succeeds and the file contains events."""
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
    events = found.samples if capture.mode == "full" else found.switches
    ok = done.returncode == 0 and found.whole and events > 0
    return Attempt(ok, reason(done.stderr), found)


def reason(stderr: str) -> str:
    """The line of perf's output that says why it failed; empty if there is none."""
    lines = [line.strip() for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("[ perf", "Usage", "Error:"))]
    known = [line for line in lines if "No permission" in line or "Permission error" in line]
    known += [line for line in lines if line.startswith(("Access to", "event syntax"))]
    return (known or lines or [""])[0]


def allow_command() -> str | None:
    """The command that would allow full recordings to this user; None if none is known."""
    if os.geteuid() == 0:
        return None
    options = f"mode=755,gid={os.getegid()}"
    if tracefs_mount() is not None:
        mount = f"sudo mount -o remount,{options} {TRACEFS}"
    else:
        mount = f"sudo mount -t tracefs -o {options} nodev {TRACEFS}"
    return f"sudo sysctl kernel.perf_event_paranoid=-1 && {mount}"


def _events(also: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The events that this kernel has and those it lacks; all of them if it does not say."""
    due = (*EVENTS, *also)
    mount = tracefs_mount()
    folder = mount / "events" if mount else None
    if folder is None or not os.access(folder, os.R_OK | os.X_OK):
        return due, ()
    wanted = (*due, *(ON_ISOLATED if isolates_cpus() else ()))
    there = tuple(event for event in wanted if (folder / event.replace(":", "/")).is_dir())
    return there, tuple(event for event in due if event not in there)


def isolates_cpus(path: Path = ISOLATED) -> bool:
    """Whether the kernel keeps other work off some CPUs (isolcpus)."""
    try:
        return path.read_text(encoding="ascii").strip() not in ("", "(null)")
    except (OSError, UnicodeDecodeError):
        return False


def run(command: Sequence[str], cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs perf with untranslated messages and without the user's configuration."""
    return subprocess.run(
        list(command),
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PROBE_LIMIT_S,
        # Ctrl-C must reach only schedlens: an interrupted probe would look like a refusal.
        start_new_session=True,
        check=False,
    )


def environment() -> dict[str, str]:
    """The environment for perf; its messages are parsed, so they must not be translated."""
    return {**os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull, "PAGER": "cat"}
