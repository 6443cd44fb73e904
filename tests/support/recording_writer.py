"""Writes recordings for tests with the Rust program in `tests/writer`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

Line = Mapping[str, Any]


@cache
def program() -> Path:
    """The program, built as `cargo test` builds it; a second call costs nothing."""
    done = subprocess.run(
        ["cargo", "build", "--locked", "--package", "schedlens-test-writer", "-j2",
         "--message-format", "json"],
        cwd=ROOT, check=True, capture_output=True, text=True,
        env=os.environ | {"CARGO_TERM_COLOR": "never"},
    )  # fmt: skip
    messages = (json.loads(line) for line in done.stdout.splitlines())
    paths = [message["executable"] for message in messages if message.get("executable")]
    return Path(paths[-1])


def write(
    head: Line, lines: Iterable[Line], etl: Path | None = None, perf: Path | None = None
) -> None:
    """Writes an .etl, a perf.data or both.

    `head` is the first line of the script (machine and layouts), `lines` are its events by time;
    tests/writer/README.md has them all.
    """
    script = "\n".join(json.dumps(line) for line in [head, *lines])
    options = [["--etl", str(etl)] if etl else [], ["--perf", str(perf)] if perf else []]
    command = [str(program()), "write", *options[0], *options[1]]
    done = subprocess.run(command, input=script, text=True, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip())


def flood(megabytes: int, target: Path, compression: str = "none") -> int:
    """Writes context switches of about that size; returns the number of records."""
    command = [str(program()), "flood", str(megabytes), str(target), compression]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)
