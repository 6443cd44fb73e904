"""Processor time of programs and of parts of this one, and the rows of a table of them."""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A program of others that takes longer than this has failed.
PATIENCE_S = 300


@dataclass(frozen=True)
class Row:
    """One program at one job: processor s (user and system) of each round, and what it read.

    `missing` says why there are no times.
    """

    job: str
    program: str
    seconds: tuple[float, ...] = ()
    note: str = ""
    missing: str = ""

    @property
    def median(self) -> float:
        """Median of the rounds in s."""
        return statistics.median(self.seconds)


def one_core() -> None:
    """Pins the process to the last core that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def program_s(
    command: Sequence[str | Path], output: Path | None = None, timeout: float | None = None
) -> float:
    """Processor s of a program and its children; its output goes to a file, or is dropped."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (output or Path(os.devnull)).open("wb") as out:
        subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
            timeout=timeout,
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def other_s(command: Sequence[str | Path], output: Path | None = None) -> float | str:
    """Processor s of a program of others, or why it failed: some crash now and then."""
    try:
        return program_s(command, output, PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"did not end within {PATIENCE_S} s"
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:
            return f"ended with {signal.Signals(-error.returncode).name}"
        return f"ended with status {error.returncode}"


def row_of_other(job: str, program: str, found: Sequence[float | str], note: str) -> Row:
    """The row of a program of others: of the rounds in which it did not fail."""
    seconds = tuple(each for each in found if isinstance(each, float))
    reasons = [each for each in found if isinstance(each, str)]
    if not seconds:
        return Row(job, program, missing=reasons[-1] if reasons else "no round")
    if reasons:
        note += f"; {reasons[-1]} in {len(reasons)} of {len(found)} rounds"
    return Row(job, program, seconds, note)


def code(source: str, *arguments: str, python: str = sys.executable, pinned: bool = False) -> Any:
    """What Python code prints last, as JSON, from a process of its own."""
    done = subprocess.run(
        [python, "-c", source, *arguments], check=True, capture_output=True, text=True,
        preexec_fn=one_core if pinned else None,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def in_page_cache(path: Path) -> None:
    """Reads a file, so that no measurement waits for the disk."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def table(rows: Sequence[Row], ours: str) -> str:
    """Markdown: each program with median, spread, and how many times as long as ours it took."""
    own = {row.job: row.median for row in rows if row.program == ours and row.seconds}
    lines = [
        "| job | program | median, CPU s | least to most | times as long as schedlens | read |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        if not row.seconds:
            lines.append(f"| {row.job} | {row.program} | not measured | | | {row.missing} |")
            continue
        compared = own.get(row.job)
        ratio = f"{row.median / compared:.2f}" if compared and row.program != ours else ""
        spread = f"{min(row.seconds):.3f} to {max(row.seconds):.3f}"
        lines.append(
            f"| {row.job} | {row.program} | {row.median:.3f} | {spread} | {ratio} | {row.note} |"
        )
    return "\n".join(lines)


def machine() -> list[tuple[str, str]]:
    """What the figures depend on: CPU, system, commit, time, and how busy the machine is."""
    model = "unknown"
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    root = Path(__file__).resolve().parents[1]
    described = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(described, cwd=root, capture_output=True, text=True, check=False)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return [
        ("CPU", f"{os.cpu_count()} logical CPUs, {model}"),
        ("memory", f"{memory:.0f} GiB"),
        ("system", " ".join((os.uname().sysname, os.uname().release))),
        ("commit", commit.stdout.strip() or "unknown"),
        ("date", time.strftime("%Y-%m-%d", time.gmtime())),
        ("load before", f"{os.getloadavg()[0]:.1f} programs on average that wanted a CPU"),
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
